/* The CUDA module with a GPU in its place that computes nothing, for tests of what is queued at real sizes. Memory of
 * the device is addresses alone: the host that reads or writes there crashes, as with a real one. What a copy brings to
 * the host is zeros, but for tables of the host's own. Each launch, product, attention, copy and fill is a line of JSON
 * in the file that CLEAVE_TRACE names, with the mark of the instruction it is of; a step that is kept is written once.
 */
#define _DEFAULT_SOURCE
#include "executor/gpu/gpu.h"
#include "executor/gpu/kinds.h"
#include "executor/gpu/update.h"
#include "host/clock.h"
#include "tests/emulated/emulated_watch.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { MULTIPROCESSORS = 132, TEAMS_PER_MULTIPROCESSOR = 8, THREADS_PER_MULTIPROCESSOR = 1024, MARK_BYTES = 96 };
static const size_t space_bytes = (size_t)1 << 40, alignment = 256, table_bytes = (size_t)1 << 20;

struct traced {
    FILE *file; /* NULL: nobody asked */
    struct emulated_watch watch;
};
struct event {
    int64_t time_ns;
};

/* Of the process: ranks that are threads write one file, and move data between their devices. */
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER; /* of these four */
static unsigned char *space;                              /* of device memory, which nobody reads or writes */
static unsigned char *shadow;                             /* as large: what small copies brought there */
static size_t space_used;
static int64_t bytes_used;
static _Thread_local char of[MARK_BYTES];

/* ---- memory ---- */
static bool reserve(struct error *err)
{
    const int how = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
    pthread_mutex_lock(&mutex);
    if (!space) {
        void *addresses = mmap(NULL, space_bytes, PROT_NONE, how, -1, 0);
        void *small = mmap(NULL, space_bytes, PROT_READ | PROT_WRITE, how, -1, 0);
        if (addresses != MAP_FAILED && small != MAP_FAILED)
            space = addresses, shadow = small;
    }
    pthread_mutex_unlock(&mutex);
    return space || fail_kind(err, ERROR_ENVIRONMENT, "no addresses for a device's memory");
}

static bool on_device(const void *memory)
{
    return (uintptr_t)memory - (uintptr_t)space < space_bytes;
}

static void *shadow_of(const void *memory)
{
    return on_device(memory) ? shadow + ((uintptr_t)memory - (uintptr_t)space) : (void *)(uintptr_t)memory;
}

/* Addresses are used once; how many bytes there are stands in the shadow before them. */
static void *allocate(void *self, size_t bytes, struct error *err)
{
    const size_t whole = (bytes + alignment - 1) / alignment * alignment + alignment;
    unsigned char *memory = NULL;
    (void)self;
    pthread_mutex_lock(&mutex);
    if (whole <= space_bytes - space_used) {
        memory = space + space_used + alignment;
        space_used += whole, bytes_used += (int64_t)bytes;
        memcpy(shadow_of(memory - alignment), &bytes, sizeof bytes);
    }
    pthread_mutex_unlock(&mutex);
    if (!memory)
        fail_kind(err, ERROR_ENVIRONMENT, "no addresses for %zu bytes", bytes);
    return memory;
}

static void release(void *self, void *memory)
{
    size_t bytes;
    (void)self;
    if (!memory)
        return;
    memcpy(&bytes, shadow_of((unsigned char *)memory - alignment), sizeof bytes);
    pthread_mutex_lock(&mutex);
    bytes_used -= (int64_t)bytes;
    pthread_mutex_unlock(&mutex);
}

static void *allocate_host(void *self, size_t bytes, struct error *err)
{
    void *memory = calloc(bytes + 1, 1);
    (void)self;
    if (!memory)
        fail_kind(err, ERROR_ENVIRONMENT, "no memory for %zu bytes", bytes);
    return memory;
}

static void release_host(void *self, void *memory)
{
    (void)self;
    free(memory);
}

static bool memory_used(void *self, int64_t *bytes, struct error *err)
{
    (void)self, (void)err;
    pthread_mutex_lock(&mutex);
    *bytes = bytes_used;
    pthread_mutex_unlock(&mutex);
    return true;
}

/* ---- lines ---- */
static const char *type_name(int type)
{
    static const char *const names[] = { "fp32", "bf16", "index" };
    return names[type];
}

static int64_t type_bytes(int type)
{
    return type == GPU_BF16 ? 2 : 4;
}

static FILE *begin_line(struct traced *self, const char *what)
{
    if (!self->file)
        return NULL;
    pthread_mutex_lock(&mutex);
    fprintf(self->file, "{\"what\": \"%s\", \"of\": \"%s\"", what, of);
    return self->file;
}

static void end_line(FILE *file, int64_t bytes)
{
    fprintf(file, ", \"bytes\": %lld}\n", (long long)bytes);
    pthread_mutex_unlock(&mutex);
}

static void put_list(FILE *file, const char *name, const int64_t *numbers, int count)
{
    fprintf(file, ", \"%s\": [", name);
    for (int i = 0; i < count; i++)
        fprintf(file, "%s%lld", i ? ", " : "", (long long)numbers[i]);
    fputs("]", file);
}

static void note(struct traced *self, const void *stream, enum activity_kind kind, const char *name)
{
    emulated_watch_note(&self->watch, stream, kind, name, emulated_watch_time(&self->watch));
}

/* ---- bytes: of each operand once, however often it is read, and twice where a product adds to it ---- */
static int64_t spot_bytes(const struct gpu_work *work, const struct gpu_spot *spot)
{
    int64_t elements = 1;
    for (int l = 0; l < work->outer_loops + work->inner_loops; l++)
        elements *= spot->stride[l] != 0 ? work->extent[l] : 1;
    return elements * type_bytes(spot->type);
}

/* The weight, its gradient, two moments that are read and written, and the master. */
static int64_t update_bytes(const struct gpu_update *update, bool only_gradient)
{
    const int64_t weight = type_bytes(update->weight.type), number = sizeof(real);
    const int64_t read = type_bytes(update->gradient.type),
                  rest = 4 * number + (update->master.data ? 2 * number + weight : 2 * weight);
    return update->count * (read + (only_gradient ? 0 : rest));
}

static int64_t table_sum(const struct gpu_work *work, bool only_gradient)
{
    const struct gpu_update *updates = shadow_of(work->spot[UPDATE_TABLE].data);
    int64_t bytes = 0;
    for (int64_t u = 0; u < work->integer[UPDATE_WEIGHTS]; u++)
        bytes += update_bytes(&updates[u], only_gradient);
    return bytes;
}

/* Shares lie behind each other in one place, which tells nothing of their number. */
static int64_t finish_bytes(const struct gpu_work *work)
{
    const int64_t sums = work->integer[2] > 1 ? work->integer[2] : 1; /* that lie side by side */
    return sums * (spot_bytes(work, &work->spot[0]) + work->integer[0] * work->outer * (int64_t)sizeof(real));
}

static int64_t launch_bytes(enum gpu_kernel kernel, const struct gpu_work *work)
{
    int64_t bytes = 0;
    if (kernel == GPU_ADAMW || kernel == GPU_SQUARE_PARTS)
        return table_sum(work, kernel == GPU_SQUARE_PARTS);
    if (kernel == GPU_COLUMN_FINISH)
        return finish_bytes(work);
    for (int i = 0; i < GPU_SPOTS; i++)
        bytes += work->spot[i].data ? spot_bytes(work, &work->spot[i]) : 0;
    return bytes;
}

/* ---- what is queued ---- */
static bool launch(void *which, void *stream, enum gpu_kernel kernel, int64_t teams, const struct gpu_work *work,
                   struct error *err)
{
    static const char *const names[] = {
#define GPU_KERNEL(id, function, threads) #id,
#include "executor/gpu/kernels.def"
    };
    struct traced *self = which;
    FILE *file = begin_line(self, "kernel");
    (void)err;
    note(self, stream, ACTIVITY_KERNEL, names[kernel]);
    if (!file)
        return true;
    const int loops = work->outer_loops + work->inner_loops;
    fprintf(file, ", \"name\": \"%s\", \"teams\": %lld, \"inner_loops\": %d", names[kernel], (long long)teams,
            work->inner_loops);
    put_list(file, "extents", work->extent, loops);
    fputs(", \"operands\": [", file);
    for (int i = 0, count = 0; i < GPU_SPOTS; i++) {
        const struct gpu_spot *spot = &work->spot[i];
        if (!spot->data)
            continue;
        fprintf(file, "%s{\"place\": %d, \"type\": \"%s\", \"begin\": %s", count++ ? ", " : "", i,
                type_name(spot->type), spot->begin ? "true" : "false");
        put_list(file, "strides", spot->stride, loops);
        fputs("}", file);
    }
    fputs("]", file);
    end_line(file, launch_bytes(kernel, work));
    return true;
}

static int64_t product_bytes(const struct gpu_matmul *m)
{
    const int64_t c = m->m * m->n * type_bytes(m->c_type), count = m->count;
    return m->m * m->k * type_bytes(m->a_type) * (m->a_next ? count : 1) +
           m->k * m->n * type_bytes(m->b_type) * (m->b_next ? count : 1) +
           count * (c * (m->accumulate ? 2 : 1) + (m->aux ? c : 0) + (m->bias ? m->n * type_bytes(m->bias_type) : 0));
}

/* All that cuBLASLt offers is taken: which of it is faster no machine without a GPU knows. */
static bool matmul(void *which, void *stream, const struct gpu_matmul *m, bool *taken, struct error *declined,
                   struct error *err)
{
    static const char *const epilogues[] = { "none", "bias", "gelu", "gelu bias", "gelu slope", "bias gradient" };
    struct traced *self = which;
    FILE *file = begin_line(self, "product");
    (void)declined, (void)err;
    *taken = true;
    note(self, stream, ACTIVITY_KERNEL, "product");
    if (!file)
        return true;
    fprintf(file,
            ", \"m\": %lld, \"n\": %lld, \"k\": %lld, \"count\": %lld, \"types\": [\"%s\", \"%s\", \"%s\"], "
            "\"epilogue\": \"%s\", \"adds\": %s",
            (long long)m->m, (long long)m->n, (long long)m->k, (long long)m->count, type_name(m->a_type),
            type_name(m->b_type), type_name(m->c_type), epilogues[m->epilogue], m->accumulate ? "true" : "false");
    put_list(file, "strides", (int64_t[]){ m->a_m, m->a_k, m->b_k, m->b_n, m->c_m, m->c_n }, 6);
    put_list(file, "next", (int64_t[]){ m->a_next, m->b_next, m->c_next }, m->count > 1 ? 3 : 0);
    end_line(file, product_bytes(m));
    return true;
}

/* A bias follows the lines of c, and of its gradient those of b. */
static bool fuses(void *self, const struct gpu_matmul *m)
{
    (void)self;
    return m->epilogue == GPU_PLAIN || (m->c_n == 1 && (m->epilogue != GPU_BIAS_GRADIENT || m->b_n == 1));
}

static bool attend(void *which, void *stream, const struct gpu_attention *a, bool *taken, struct error *declined,
                   struct error *err)
{
    struct traced *self = which;
    const int64_t *n = a->work->integer;
    const int64_t heads = n[ATTENTION_HEADS], key_heads = heads * n[ATTENTION_KV_ALL] / n[ATTENTION_N_ALL];
    const int64_t rows = n[ATTENTION_BATCHES] * n[ATTENTION_ROWS] * heads * 2,
                  keys = n[ATTENTION_BATCHES] * n[ATTENTION_KEYS] * key_heads * 2;
    FILE *file = begin_line(self, "attention");
    (void)declined, (void)err;
    *taken = true;
    note(self, stream, ACTIVITY_KERNEL, a->backward ? "attention gradient" : "attention");
    if (!file)
        return true;
    fprintf(file, ", \"backward\": %s", a->backward ? "true" : "false");
    put_list(
        file, "sizes",
        (int64_t[]){ n[ATTENTION_BATCHES], n[ATTENTION_ROWS], n[ATTENTION_KEYS], heads, key_heads, n[ATTENTION_WIDTH] },
        6);
    const int64_t of_width = a->backward ? 4 * rows + 4 * keys : 2 * rows + 2 * keys;
    end_line(file, of_width * n[ATTENTION_WIDTH] + rows / 2 * (int64_t)sizeof(float));
    return true;
}

static bool copy(void *which, void *stream, void *to, const void *from, size_t bytes, struct error *err)
{
    struct traced *self = which;
    FILE *file = bytes > 0 ? begin_line(self, "copy") : NULL;
    (void)err;
    if (bytes == 0)
        return true;
    note(self, stream, ACTIVITY_COPY, "copy");
    if (file) {
        fprintf(file, ", \"from\": \"%s\", \"to\": \"%s\"", on_device(from) ? "device" : "host",
                on_device(to) ? "device" : "host");
        end_line(file, (int64_t)bytes);
    }
    if (bytes <= table_bytes)
        memcpy(shadow_of(to), shadow_of(from), bytes);
    else if (!on_device(to))
        memset(to, 0, bytes);
    return true;
}

static bool fill(void *which, void *stream, void *to, int byte, size_t bytes, struct error *err)
{
    struct traced *self = which;
    FILE *file = bytes > 0 ? begin_line(self, "fill") : NULL;
    (void)to, (void)byte, (void)err;
    if (bytes > 0)
        note(self, stream, ACTIVITY_FILL, "fill");
    if (file)
        end_line(file, (int64_t)bytes);
    return true;
}

/* ---- streams, events, graphs: all has ended when it is queued ---- */
static void *open_stream(void *self, bool urgent, struct error *err)
{
    (void)urgent;
    return allocate_host(self, 1, err);
}

static void *open_event(void *self, bool timed, struct error *err)
{
    (void)timed;
    return allocate_host(self, sizeof(struct event), err);
}

static bool record(void *self, void *stream, void *event, struct error *err)
{
    (void)self, (void)stream, (void)err;
    ((struct event *)event)->time_ns = clock_now_ns();
    return true;
}

static bool wait_for(void *self, void *stream, void *event, struct error *err)
{
    (void)self, (void)stream, (void)event, (void)err;
    return true;
}

static bool reached(void *self, void *event)
{
    (void)self, (void)event;
    return true;
}

static bool finish(void *self, void *stream, struct error *err)
{
    (void)self, (void)stream, (void)err;
    return true;
}

static bool elapsed(void *self, void *from, void *to, int64_t *ns, struct error *err)
{
    (void)self, (void)err;
    *ns = ((const struct event *)to)->time_ns - ((const struct event *)from)->time_ns;
    return true;
}

static bool begin_capture(void *self, void *stream, struct error *err)
{
    FILE *file = begin_line(self, "graph begins");
    (void)stream, (void)err;
    if (file)
        end_line(file, 0);
    return true;
}

static bool end_capture(void *self, void *stream, void **graph, struct error *err)
{
    FILE *file = begin_line(self, "graph ends");
    (void)stream;
    if (file)
        end_line(file, 0);
    return (*graph = allocate_host(self, 1, err)) != NULL;
}

static bool replay(void *self, void *stream, void *graph, struct error *err)
{
    (void)self, (void)stream, (void)graph, (void)err;
    return true;
}

static void mark(const char *name)
{
    snprintf(of, sizeof of, "%s", name);
}

static void unmark(void)
{
    of[0] = 0;
}

/* ---- records ---- */
static bool watch_ready(void *self, struct error *err)
{
    (void)self, (void)err;
    return true;
}

static void *watch_begin(void *self, void *const *streams, int64_t (*now_ns)(void), struct error *err)
{
    (void)err;
    return emulated_watch_begin(&((struct traced *)self)->watch, streams, now_ns);
}

static bool watch_end(void *self, void *watch, struct rank_activity *out, struct error *err)
{
    (void)self, (void)err;
    emulated_watch_end(watch, out);
    return true;
}

/* ---- life ---- */
static void close_gpu(void *which)
{
    struct traced *self = which;
    if (self->file)
        fclose(self->file);
    pthread_mutex_destroy(&self->watch.mutex);
    free(self);
}

__attribute__((visibility("default"))) gpu_module_open cleave_gpu_open;
__attribute__((visibility("default"))) gpu_module_libraries cleave_gpu_libraries;
__attribute__((visibility("default"))) gpu_module_records cleave_gpu_records;

void cleave_gpu_libraries(char out[GPU_LIBRARIES_BYTES])
{
    snprintf(out, GPU_LIBRARIES_BYTES, "attention by nobody: nothing is computed");
}

bool cleave_gpu_records(char out[GPU_LIBRARIES_BYTES], struct error *err)
{
    (void)err;
    snprintf(out, GPU_LIBRARIES_BYTES, "of what is queued");
    return true;
}

bool cleave_gpu_open(struct gpu *out, const char *version, int place, struct error *err)
{
    const char *path = getenv("CLEAVE_TRACE");
    struct traced *self = calloc(1, sizeof *self);
    (void)version, (void)place;
    if (!self || !reserve(err)) {
        free(self);
        return fail_kind(err, ERROR_ENVIRONMENT, "no memory for a device that computes nothing");
    }
    if (path && !(self->file = fopen(path, "a"))) {
        free(self);
        return fail_kind(err, ERROR_ENVIRONMENT, "%s cannot be written", path);
    }
    pthread_mutex_init(&self->watch.mutex, NULL);
    *out = (struct gpu){ .name = "cuda",
                         .description = "H100 that computes nothing, 80.0 GiB, compute capability 9.0",
                         .self = self,
                         .memory_bytes = (int64_t)80 << 30,
                         .cache_bytes = (int64_t)50 << 20,
                         .team_count = MULTIPROCESSORS * TEAMS_PER_MULTIPROCESSOR,
                         .allocate = allocate,
                         .release = release,
                         .allocate_host = allocate_host,
                         .release_host = release_host,
                         .memory_used = memory_used,
                         .open_stream = open_stream,
                         .close_stream = release_host,
                         .open_event = open_event,
                         .close_event = release_host,
                         .copy = copy,
                         .fill = fill,
                         .launch = launch,
                         .matmul = matmul,
                         .fuses = fuses,
                         .attend = attend,
                         .record = record,
                         .wait = wait_for,
                         .begin_capture = begin_capture,
                         .end_capture = end_capture,
                         .replay = replay,
                         .close_graph = release_host,
                         .mark = mark,
                         .unmark = unmark,
                         .watch_ready = watch_ready,
                         .watch_begin = watch_begin,
                         .watch_end = watch_end,
                         .finish = finish,
                         .elapsed = elapsed,
                         .close = close_gpu,
                         .reached = reached,
                         .device_count = 1 };
    cleave_gpu_libraries(out->libraries);
    static const int threads[] = {
#define GPU_KERNEL(id, function, thread_count) thread_count,
#include "executor/gpu/kernels.def"
    };
    for (int kernel = 0; kernel < GPU_KERNEL_COUNT; kernel++) /* half of what a multiprocessor holds, for registers */
        out->live[kernel] = MULTIPROCESSORS * THREADS_PER_MULTIPROCESSOR / threads[kernel];
    return true;
}
