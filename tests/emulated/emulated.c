#define _POSIX_C_SOURCE 200809L
#include "tests/emulated/emulated.h"
#include "host/clock.h"
#include "tests/emulated/emulated_library.h"
#include "tests/emulated/emulated_watch.h"
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

struct kept {
    struct kept *next;
};
/* What was allocated, beside it, so that sanitizers see both ends of the memory itself. */
struct block_in_use {
    struct block_in_use *next;
    void *memory;
    size_t bytes;
};
struct emulated {
    int threads;
    int most_waiting;      /* tasks of a stream; 0: any number */
    pthread_mutex_t mutex; /* of all below */
    struct kept *kept;
    struct block_in_use *blocks;
    int64_t used_bytes; /* blocks and kept */
    int64_t kept_bytes;
    void *capturing; /* the stream that keeps what is queued, NULL: none */
    struct task *first_captured, **end_captured;
    struct emulated_watch watch;
};

/* ---- events ---- */
struct event {
    bool timed;
    pthread_mutex_t mutex;
    pthread_cond_t done_changed;
    int64_t recorded, done; /* records queued, and reached */
    int64_t time_ns;        /* of the last one reached */
};

static void *open_event(void *self, bool timed, struct error *err)
{
    struct event *event = calloc(1, sizeof *event);
    (void)self;
    if (!event) {
        fail_kind(err, ERROR_ENVIRONMENT, "no memory for an event");
        return NULL;
    }
    event->timed = timed;
    pthread_mutex_init(&event->mutex, NULL);
    pthread_cond_init(&event->done_changed, NULL);
    return event;
}

static void close_event(void *self, void *which)
{
    struct event *event = which;
    (void)self;
    if (!event)
        return;
    pthread_mutex_destroy(&event->mutex);
    pthread_cond_destroy(&event->done_changed);
    free(event);
}

static void event_reach(struct event *event, int64_t number)
{
    pthread_mutex_lock(&event->mutex);
    event->done = number;
    event->time_ns = clock_now_ns();
    pthread_cond_broadcast(&event->done_changed);
    pthread_mutex_unlock(&event->mutex);
}

static void event_await(struct event *event, int64_t number)
{
    pthread_mutex_lock(&event->mutex);
    while (event->done < number)
        pthread_cond_wait(&event->done_changed, &event->mutex);
    pthread_mutex_unlock(&event->mutex);
}

/* ---- streams ---- */
enum task_kind { TASK_COPY, TASK_FILL, TASK_LAUNCH, TASK_RECORD, TASK_WAIT, TASK_CALL };
struct task {
    enum task_kind kind;
    struct task *next;
    void *to;
    const void *from;
    size_t bytes;
    int byte;
    enum gpu_kernel kernel;
    int64_t teams;
    struct gpu_work work;
    struct event *event;
    int64_t number;        /* which record of it */
    struct stream *stream; /* of a kept one: where it was queued */
    void (*function)(void *context);
    void *context;
};
struct stream {
    pthread_t thread;
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    struct task *first, **end;
    int waiting; /* tasks */
    bool busy, closing;
    struct emulated *gpu;
};

static void do_task(const struct stream *stream, const struct task *task)
{
    switch (task->kind) {
    case TASK_COPY:
        memcpy(task->to, task->from, task->bytes);
        break;
    case TASK_FILL:
        memset(task->to, task->byte, task->bytes);
        break;
    case TASK_LAUNCH:
        emulated_teams(task->kernel, stream->gpu->threads, task->teams, &task->work);
        break;
    case TASK_RECORD:
        event_reach(task->event, task->number);
        break;
    case TASK_WAIT:
        event_await(task->event, task->number);
        break;
    case TASK_CALL:
        task->function(task->context);
        break;
    }
}

static void run_task(const struct stream *stream, const struct task *task)
{
    struct emulated_watch *watch = &stream->gpu->watch;
    const int64_t start_ns = emulated_watch_time(watch);
    do_task(stream, task);
    switch (task->kind) {
    case TASK_COPY:
        emulated_watch_note(watch, stream, ACTIVITY_COPY, "copy", start_ns);
        break;
    case TASK_FILL:
        emulated_watch_note(watch, stream, ACTIVITY_FILL, "fill", start_ns);
        break;
    case TASK_LAUNCH:
        emulated_watch_note(watch, stream, ACTIVITY_KERNEL, "kernel", start_ns);
        break;
    case TASK_CALL:
        emulated_watch_note(watch, stream, ACTIVITY_KERNEL, "call", start_ns);
        break;
    case TASK_RECORD:
    case TASK_WAIT:
        break;
    }
}

static void *stream_main(void *argument)
{
    struct stream *stream = argument;
    pthread_mutex_lock(&stream->mutex);
    for (;;) {
        while (!stream->first && !stream->closing)
            pthread_cond_wait(&stream->changed, &stream->mutex);
        struct task *task = stream->first;
        if (!task)
            break;
        stream->first = task->next;
        stream->waiting--;
        if (!stream->first)
            stream->end = &stream->first;
        stream->busy = true;
        pthread_cond_broadcast(&stream->changed);
        pthread_mutex_unlock(&stream->mutex);
        run_task(stream, task);
        free(task);
        pthread_mutex_lock(&stream->mutex);
        stream->busy = false;
        pthread_cond_broadcast(&stream->changed);
    }
    pthread_mutex_unlock(&stream->mutex);
    return NULL;
}

static void *open_stream(void *self, bool urgent, struct error *err)
{
    (void)urgent;
    struct stream *stream = calloc(1, sizeof *stream);
    if (stream) {
        stream->end = &stream->first;
        stream->gpu = self;
        pthread_mutex_init(&stream->mutex, NULL);
        pthread_cond_init(&stream->changed, NULL);
    }
    if (!stream || pthread_create(&stream->thread, NULL, stream_main, stream) != 0) {
        free(stream);
        fail_kind(err, ERROR_ENVIRONMENT, "cannot start the thread of a stream");
        return NULL;
    }
    return stream;
}

static void close_stream(void *self, void *which)
{
    struct stream *stream = which;
    (void)self;
    if (!stream)
        return;
    pthread_mutex_lock(&stream->mutex);
    stream->closing = true;
    pthread_cond_broadcast(&stream->changed);
    pthread_mutex_unlock(&stream->mutex);
    pthread_join(stream->thread, NULL);
    pthread_mutex_destroy(&stream->mutex);
    pthread_cond_destroy(&stream->changed);
    free(stream);
}

/* True where the task was kept, for a graph. */
static bool capture(struct stream *stream, struct task *task)
{
    struct emulated *gpu = stream->gpu;
    pthread_mutex_lock(&gpu->mutex);
    bool kept = gpu->capturing != NULL;
    if (kept) {
        task->stream = stream;
        *gpu->end_captured = task;
        gpu->end_captured = &task->next;
    }
    pthread_mutex_unlock(&gpu->mutex);
    return kept;
}

static bool queue(void *which, const struct task *task, struct error *err)
{
    struct stream *stream = which;
    struct task *own = malloc(sizeof *own);
    if (!own)
        return fail_kind(err, ERROR_ENVIRONMENT, "no memory for a task");
    *own = *task;
    own->next = NULL;
    if (capture(stream, own))
        return true;
    pthread_mutex_lock(&stream->mutex);
    while (stream->gpu->most_waiting > 0 && stream->waiting >= stream->gpu->most_waiting && task->kind != TASK_CALL)
        pthread_cond_wait(&stream->changed, &stream->mutex);
    *stream->end = own;
    stream->end = &own->next;
    stream->waiting++;
    pthread_cond_broadcast(&stream->changed);
    pthread_mutex_unlock(&stream->mutex);
    return true;
}

static bool copy(void *self, void *stream, void *to, const void *from, size_t bytes, struct error *err)
{
    (void)self;
    return bytes == 0 ||
           queue(stream, &(struct task){ .kind = TASK_COPY, .to = to, .from = from, .bytes = bytes }, err);
}

static bool fill(void *self, void *stream, void *to, int byte, size_t bytes, struct error *err)
{
    (void)self;
    return bytes == 0 ||
           queue(stream, &(struct task){ .kind = TASK_FILL, .to = to, .byte = byte, .bytes = bytes }, err);
}

bool emulated_launch(void *self, void *stream, enum gpu_kernel kernel, int64_t teams, const struct gpu_work *work,
                     struct error *err)
{
    (void)self;
    return queue(stream, &(struct task){ .kind = TASK_LAUNCH, .kernel = kernel, .teams = teams, .work = *work }, err);
}

void *emulated_keep(void *which, size_t bytes)
{
    struct emulated *self = which;
    struct kept *kept = malloc(sizeof *kept + bytes);
    if (!kept)
        abort();
    pthread_mutex_lock(&self->mutex);
    kept->next = self->kept;
    self->kept = kept;
    self->used_bytes += (int64_t)bytes, self->kept_bytes += (int64_t)bytes;
    pthread_mutex_unlock(&self->mutex);
    return kept + 1;
}

/* Which record of an event a task means is known when it is queued; of a kept one, when it is queued again. */
static int64_t event_number(struct event *event, bool again)
{
    pthread_mutex_lock(&event->mutex);
    int64_t number = event->recorded += again;
    pthread_mutex_unlock(&event->mutex);
    return number;
}

static bool is_capturing(struct emulated *gpu)
{
    pthread_mutex_lock(&gpu->mutex);
    bool capturing = gpu->capturing != NULL;
    pthread_mutex_unlock(&gpu->mutex);
    return capturing;
}

static bool record(void *self, void *stream, void *event, struct error *err)
{
    struct task task = { .kind = TASK_RECORD, .event = event };
    if (!is_capturing(self))
        task.number = event_number(event, true);
    return queue(stream, &task, err);
}

static bool await(void *self, void *stream, void *event, struct error *err)
{
    struct task task = { .kind = TASK_WAIT, .event = event };
    if (!is_capturing(self))
        task.number = event_number(event, false);
    return queue(stream, &task, err);
}

/* ---- graphs ---- */
static bool begin_capture(void *which, void *stream, struct error *err)
{
    struct emulated *self = which;
    pthread_mutex_lock(&self->mutex);
    bool ok = self->capturing == NULL;
    self->capturing = stream;
    self->first_captured = NULL, self->end_captured = &self->first_captured;
    pthread_mutex_unlock(&self->mutex);
    return ok || fail_kind(err, ERROR_BUG, "a capture begins inside another");
}

/* The rules of CUDA: a wait is for an event of this capture, another stream begins by such a wait, and its last work is
 * a record that the capturing stream waits for. */
static const char *broken_rule(const struct task *first, const void *origin)
{
    for (const struct task *t = first; t; t = t->next) {
        bool begun = t->stream == origin, recorded = t->kind != TASK_WAIT, ends = true, joined = t->stream == origin;
        for (const struct task *s = first; s != t; s = s->next) {
            begun = begun || s->stream == t->stream;
            recorded = recorded || (s->kind == TASK_RECORD && s->event == t->event);
        }
        for (const struct task *s = t->next; s; s = s->next) {
            ends = ends && s->stream != t->stream;
            joined = joined ||
                     (s->stream == origin && s->kind == TASK_WAIT && t->kind == TASK_RECORD && s->event == t->event);
        }
        if (!recorded)
            return "a wait in a capture is for an event from before it";
        if (!begun && t->kind != TASK_WAIT)
            return "a stream joins a capture without waiting for it";
        if (ends && !joined)
            return "a stream ends in a capture and is not waited for";
    }
    return NULL;
}

static void close_graph(void *self, void *graph)
{
    (void)self;
    for (struct task *t = graph, *next; t; t = next) {
        next = t->next;
        free(t);
    }
}

static bool end_capture(void *which, void *stream, void **graph, struct error *err)
{
    struct emulated *self = which;
    pthread_mutex_lock(&self->mutex);
    struct task *first = self->capturing == stream ? self->first_captured : NULL;
    self->capturing = NULL;
    pthread_mutex_unlock(&self->mutex);
    const char *broken = first ? broken_rule(first, stream) : "nothing was captured";
    if (broken) {
        close_graph(self, first);
        return fail_kind(err, ERROR_BUG, "%s", broken);
    }
    *graph = first;
    return true;
}

/* In the order in which it was queued: what waits for an event finds it recorded. */
static bool replay(void *self, void *stream, void *graph, struct error *err)
{
    (void)self, (void)stream;
    for (const struct task *t = graph; t; t = t->next) {
        struct task task = *t;
        if (task.kind == TASK_RECORD || task.kind == TASK_WAIT)
            task.number = event_number(task.event, task.kind == TASK_RECORD);
        if (!queue(t->stream, &task, err))
            return false;
    }
    return true;
}

bool gpu_emulated_call(void *stream, void (*function)(void *context), void *context, struct error *err)
{
    return queue(stream, &(struct task){ .kind = TASK_CALL, .function = function, .context = context }, err);
}

static bool reached(void *self, void *which)
{
    struct event *event = which;
    (void)self;
    pthread_mutex_lock(&event->mutex);
    bool is = event->done == event->recorded;
    pthread_mutex_unlock(&event->mutex);
    return is;
}

static bool finish(void *self, void *which, struct error *err)
{
    struct stream *stream = which;
    (void)self, (void)err;
    pthread_mutex_lock(&stream->mutex);
    while (stream->first || stream->busy)
        pthread_cond_wait(&stream->changed, &stream->mutex);
    pthread_mutex_unlock(&stream->mutex);
    return true;
}

static bool elapsed(void *self, void *from, void *to, int64_t *ns, struct error *err)
{
    (void)self;
    if (!((struct event *)from)->timed || !((struct event *)to)->timed)
        return fail_kind(err, ERROR_BUG, "an event without a clock is asked for its time");
    *ns = ((struct event *)to)->time_ns - ((struct event *)from)->time_ns;
    return true;
}

/* ---- memory and life ---- */
static void *allocate_host(void *self, size_t bytes, struct error *err)
{
    void *memory = malloc(bytes + 1);
    (void)self;
    if (!memory) {
        fail_kind(err, ERROR_ENVIRONMENT, "no memory for %zu bytes", bytes);
        return NULL;
    }
    return memset(memory, 0xff, bytes + 1);
}

static void release_host(void *self, void *memory)
{
    (void)self;
    free(memory);
}

static void *allocate(void *which, size_t bytes, struct error *err)
{
    struct emulated *self = which;
    struct block_in_use *block = malloc(sizeof *block);
    void *memory = block ? allocate_host(self, bytes, err) : NULL;
    if (!memory) {
        free(block);
        fail_kind(err, ERROR_ENVIRONMENT, "no memory for %zu bytes", bytes);
        return NULL;
    }
    pthread_mutex_lock(&self->mutex);
    *block = (struct block_in_use){ .next = self->blocks, .memory = memory, .bytes = bytes };
    self->blocks = block;
    self->used_bytes += (int64_t)bytes;
    pthread_mutex_unlock(&self->mutex);
    return memory;
}

static void release(void *which, void *memory)
{
    struct emulated *self = which;
    struct block_in_use **link = &self->blocks, *found;
    pthread_mutex_lock(&self->mutex);
    while (*link && (*link)->memory != memory)
        link = &(*link)->next;
    if ((found = *link)) {
        *link = found->next;
        self->used_bytes -= (int64_t)found->bytes;
    }
    pthread_mutex_unlock(&self->mutex);
    free(found);
    free(memory);
}

static bool memory_used(void *which, int64_t *bytes, struct error *err)
{
    struct emulated *self = which;
    (void)err;
    pthread_mutex_lock(&self->mutex);
    *bytes = self->used_bytes;
    pthread_mutex_unlock(&self->mutex);
    return true;
}

static bool watch_ready(void *self, struct error *err)
{
    (void)self, (void)err;
    return true;
}

static void *watch_begin(void *which, void *const *streams, int64_t (*now_ns)(void), struct error *err)
{
    struct emulated *self = which;
    (void)err;
    return emulated_watch_begin(&self->watch, streams, now_ns);
}

static bool watch_end(void *self, void *watch, struct rank_activity *out, struct error *err)
{
    (void)self, (void)err;
    emulated_watch_end(watch, out);
    return true;
}

/* Attention alone keeps memory. */
static void workspaces(void *which, int64_t *products_bytes, int64_t *attention_bytes)
{
    struct emulated *self = which;
    pthread_mutex_lock(&self->mutex);
    *products_bytes = 0, *attention_bytes = self->kept_bytes;
    pthread_mutex_unlock(&self->mutex);
}

static void close_gpu(void *which)
{
    struct emulated *self = which;
    while (self->kept) {
        struct kept *next = self->kept->next;
        free(self->kept);
        self->kept = next;
    }
    while (self->blocks) { /* memory that nobody released is a leak, for sanitizers to tell */
        struct block_in_use *next = self->blocks->next;
        free(self->blocks);
        self->blocks = next;
    }
    pthread_mutex_destroy(&self->watch.mutex);
    pthread_mutex_destroy(&self->mutex);
    free(self);
}

void gpu_emulated_bound(const struct gpu *gpu, int tasks)
{
    struct emulated *self = gpu->self;
    self->most_waiting = tasks;
}

bool gpu_emulated_open(struct gpu *out, int threads, int teams, bool with_library, struct error *err)
{
    struct emulated *self = calloc(1, sizeof *self);
    if (!self)
        return fail_kind(err, ERROR_ENVIRONMENT, "no memory for an emulated GPU");
    self->threads = threads;
    pthread_mutex_init(&self->mutex, NULL);
    pthread_mutex_init(&self->watch.mutex, NULL);
    *out = (struct gpu){ .name = "emulated",
                         .description = "threads of this process",
                         .libraries = "attention by own kernels: the emulation was asked for none",
                         .self = self,
                         .memory_bytes = INT64_MAX,
                         .team_count = teams,
                         .allocate = allocate,
                         .release = release,
                         .allocate_host = allocate_host,
                         .release_host = release_host,
                         .memory_used = memory_used,
                         .workspaces = workspaces,
                         .open_stream = open_stream,
                         .close_stream = close_stream,
                         .open_event = open_event,
                         .close_event = close_event,
                         .copy = copy,
                         .fill = fill,
                         .launch = emulated_launch,
                         .matmul = with_library ? emulated_matmul : NULL,
                         .fuses = with_library ? emulated_fuses : NULL,
                         .attend = with_library ? emulated_attend : NULL,
                         .record = record,
                         .wait = await,
                         .hold = emulated_hold,
                         .begin_capture = begin_capture,
                         .end_capture = end_capture,
                         .replay = replay,
                         .close_graph = close_graph,
                         .watch_ready = watch_ready,
                         .watch_begin = watch_begin,
                         .watch_end = watch_end,
                         .finish = finish,
                         .elapsed = elapsed,
                         .close = close_gpu,
                         .reached = reached,
                         .device_count = 1 };
    return true;
}
