/* The module of `--backend cuda`: memory, streams and events of the CUDA runtime, kernels from cuda_kernels.cu, matrix
 * products by cuBLASLt (cuda_matmul.c). Host code is C; CUDA's current device belongs to a thread, so every call sets
 * it. */
#include "executor/gpu/cuda.h"
#include "executor/gpu/cuda_kernels.h"
#include "executor/gpu/cuda_libraries.h"
#include "executor/gpu/gpu.h"
#include <cuda_runtime_api.h>
#include <nvtx3/nvToolsExt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TEAMS_PER_MULTIPROCESSOR = 8 }; /* of 256 threads: more run at once on no device; of many kernels fewer do */

struct cuda {
    int device;
    const struct cuda_libraries *libraries;
    struct cuda_workspaces products, attention;
};

static bool check(cudaError_t result, const char *what, struct error *err)
{
    return result == cudaSuccess || fail_kind(err, ERROR_ENVIRONMENT, "CUDA: %s: %s (%s)", what,
                                              cudaGetErrorString(result), cudaGetErrorName(result));
}

static bool enter(const struct cuda *cuda, struct error *err)
{
    return check(cudaSetDevice(cuda->device), "choosing the device", err);
}

/* ---- memory ---- */
static void *allocate(void *self, size_t bytes, struct error *err)
{
    void *memory = NULL;
    size_t available = 0, total = 0;
    if (!enter(self, err))
        return NULL;
    cudaError_t result = cudaMalloc(&memory, bytes > 0 ? bytes : 1);
    if (result == cudaSuccess)
        return memory;
    cudaGetLastError(); /* an allocation that failed leaves the device usable */
    if (cudaMemGetInfo(&available, &total) == cudaSuccess)
        fail_kind(err, ERROR_ENVIRONMENT, "CUDA: no %zu bytes of memory on device %d: %zu of %zu are free", bytes,
                  ((struct cuda *)self)->device, available, total);
    check(result, "allocating memory", err);
    return NULL;
}

static void release(void *self, void *memory)
{
    if (memory && enter(self, NULL))
        cudaFree(memory);
}

static void *allocate_host(void *self, size_t bytes, struct error *err)
{
    void *memory = NULL;
    bool ok = enter(self, err) && check(cudaHostAlloc(&memory, bytes > 0 ? bytes : 1, cudaHostAllocDefault),
                                        "allocating pinned memory", err);
    return ok ? memory : NULL;
}

static void release_host(void *self, void *memory)
{
    if (memory && enter(self, NULL))
        cudaFreeHost(memory);
}

/* Counts the whole device: the context, what libraries keep, and other programs are in it. */
static bool memory_used(void *self, int64_t *bytes, struct error *err)
{
    size_t available = 0, total = 0;
    if (!enter(self, err) || !check(cudaMemGetInfo(&available, &total), "asking for the memory in use", err))
        return false;
    *bytes = (int64_t)(total - available);
    return true;
}

static void workspaces(void *self, int64_t *products_bytes, int64_t *attention_bytes)
{
    struct cuda *cuda = self;
    *products_bytes = cuda_workspaces_bytes(&cuda->products);
    *attention_bytes = cuda_workspaces_bytes(&cuda->attention);
}

/* ---- streams and events ---- */
static void *open_stream(void *self, bool urgent, struct error *err)
{
    int least = 0, greatest = 0;
    cudaStream_t stream = NULL;
    bool ok = enter(self, err) &&
              check(cudaDeviceGetStreamPriorityRange(&least, &greatest), "asking for the streams' priorities", err) &&
              check(cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking, urgent ? greatest : least),
                    "creating a stream", err);
    return ok ? stream : NULL;
}

static void close_stream(void *self, void *stream)
{
    struct cuda *cuda = self;
    if (!stream || !enter(cuda, NULL))
        return;
    cudaStreamSynchronize(stream); /* another stream gets its workspaces */
    cudaStreamDestroy(stream);
    cuda_workspace_leave(&cuda->products, stream);
    cuda_workspace_leave(&cuda->attention, stream);
}

static void *open_event(void *self, bool timed, struct error *err)
{
    cudaEvent_t event = NULL;
    bool ok =
        enter(self, err) && check(cudaEventCreateWithFlags(&event, timed ? cudaEventDefault : cudaEventDisableTiming),
                                  "creating an event", err);
    return ok ? event : NULL;
}

static void close_event(void *self, void *event)
{
    if (event && enter(self, NULL))
        cudaEventDestroy(event);
}

static bool copy(void *self, void *stream, void *to, const void *from, size_t bytes, struct error *err)
{
    return bytes == 0 ||
           (enter(self, err) && check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, stream), "copying", err));
}

static bool fill(void *self, void *stream, void *to, int byte, size_t bytes, struct error *err)
{
    return bytes == 0 || (enter(self, err) && check(cudaMemsetAsync(to, byte, bytes, stream), "filling memory", err));
}

static bool launch(void *self, void *stream, enum gpu_kernel kernel, int64_t teams, const struct gpu_work *work,
                   struct error *err)
{
    static const char *const names[] = {
#define GPU_KERNEL(id, function, threads) #id,
#include "executor/gpu/kernels.def"
    };
    return enter(self, err) && check((cudaError_t)cuda_launch(kernel, teams, work, stream), names[kernel], err);
}

static bool matmul(void *self, void *stream, const struct gpu_matmul *m, bool *taken, struct error *declined,
                   struct error *err)
{
    struct cuda *cuda = self;
    return enter(cuda, err) &&
           cuda_matmul_run(cuda->libraries->matmuls, &cuda->products, stream, m, taken, declined, err);
}

static bool fuses(void *self, const struct gpu_matmul *m)
{
    const struct cuda *cuda = self;
    return enter(cuda, NULL) && cuda_matmul_fuses(cuda->libraries->matmuls, m);
}

static bool learn(void *self, const struct gpu_choice *choices, int count, struct error *err)
{
    const struct cuda *cuda = self;
    return cuda_matmul_learn(cuda->libraries->matmuls, choices, count, err);
}

static int learned(void *self, struct gpu_choice *out, int most)
{
    const struct cuda *cuda = self;
    return cuda_matmul_learned(cuda->libraries->matmuls, out, most);
}

static bool spare(void *self, int multiprocessors, struct error *err)
{
    const struct cuda *cuda = self;
    int all = 0;
    if (!enter(cuda, err) || !check(cudaDeviceGetAttribute(&all, cudaDevAttrMultiProcessorCount, cuda->device),
                                    "counting multiprocessors", err))
        return false;
    cuda_matmul_aim(cuda->libraries->matmuls, all > multiprocessors ? all - multiprocessors : 1);
    return true;
}

static bool attend(void *self, void *stream, const struct gpu_attention *a, bool *taken, struct error *declined,
                   struct error *err)
{
    struct cuda *cuda = self;
    return enter(cuda, err) &&
           cuda_attention_run(cuda->libraries->attention, &cuda->attention, stream, a, taken, declined, err);
}

static bool record(void *self, void *stream, void *event, struct error *err)
{
    return enter(self, err) && check(cudaEventRecord(event, stream), "recording an event", err);
}

static bool await(void *self, void *stream, void *event, struct error *err)
{
    return enter(self, err) && check(cudaStreamWaitEvent(stream, event, 0), "waiting for an event", err);
}

static bool hold(void *self, void *stream, const gpu_gate *gate, int32_t number, int64_t most_ns, struct error *err)
{
    return enter(self, err) &&
           check((cudaError_t)cuda_hold((const int32_t *)gate, number, most_ns, stream), "holding a stream", err);
}

/* ---- graphs and marks ---- */
/* Lanes queue from threads of their own: none of them calls what a capture forbids. */
static bool begin_capture(void *self, void *stream, struct error *err)
{
    return enter(self, err) &&
           check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed), "keeping a step", err);
}

static bool end_capture(void *self, void *stream, void **out, struct error *err)
{
    cudaGraph_t graph = NULL;
    cudaGraphExec_t ready = NULL;
    bool ok = enter(self, err) && check(cudaStreamEndCapture(stream, &graph), "keeping a step", err) &&
              check(cudaGraphInstantiate(&ready, graph, 0), "preparing a kept step", err);
    if (graph)
        cudaGraphDestroy(graph);
    *out = ready;
    return ok;
}

static bool replay(void *self, void *stream, void *graph, struct error *err)
{
    return enter(self, err) && check(cudaGraphLaunch(graph, stream), "repeating a step", err);
}

static void close_graph(void *self, void *graph)
{
    if (graph && enter(self, NULL))
        cudaGraphExecDestroy(graph);
}

static void mark(const char *name)
{
    nvtxRangePushA(name);
}

static void unmark(void)
{
    nvtxRangePop();
}

/* ---- records ---- */
static bool watch_ready(void *self, struct error *err)
{
    return enter(self, err) && cuda_watch_ready(err);
}

static void *watch_begin(void *self, void *const *streams, int64_t (*now_ns)(void), struct error *err)
{
    return enter(self, err) ? cuda_watch_begin(streams, now_ns, err) : NULL;
}

/* Whatever the device says, the watch ends. */
static bool watch_end(void *self, void *watch, struct rank_activity *out, struct error *err)
{
    enter(self, NULL);
    return cuda_watch_end(watch, out, err);
}

static bool reached(void *self, void *event)
{
    if (!enter(self, NULL))
        return false;
    bool done = cudaEventQuery(event) == cudaSuccess;
    if (!done)
        cudaGetLastError(); /* that it is not ready must not be what the thread's next launch finds */
    return done;
}

static bool finish(void *self, void *stream, struct error *err)
{
    return enter(self, err) && check(cudaStreamSynchronize(stream), "running what was queued", err);
}

static bool elapsed(void *self, void *from, void *to, int64_t *ns, struct error *err)
{
    float ms = 0;
    if (!enter(self, err) || !check(cudaEventElapsedTime(&ms, from, to), "reading the time between events", err))
        return false;
    *ns = (int64_t)((double)ms * 1e6);
    return true;
}

/* ---- life ---- */
static void close_gpu(void *self)
{
    struct cuda *cuda = self;
    enter(cuda, NULL);
    cuda_workspaces_close(&cuda->products);
    cuda_workspaces_close(&cuda->attention);
    free(cuda);
}

static bool describe(struct gpu *out, int device, struct error *err)
{
    struct cudaDeviceProp p;
    if (!check(cudaGetDeviceProperties(&p, device), "asking for the device's properties", err))
        return false;
    snprintf(out->description, sizeof out->description, "%.80s, %.1f GiB, compute capability %d.%d", p.name,
             (double)p.totalGlobalMem / (1024.0 * 1024 * 1024), p.major, p.minor);
    out->memory_bytes = (int64_t)p.totalGlobalMem;
    out->cache_bytes = p.l2CacheSize;
    out->team_count = p.multiProcessorCount * TEAMS_PER_MULTIPROCESSOR;
    return true;
}

static bool choose(int place, int *device, int *device_count, struct error *err)
{
    int count = 0;
    cudaError_t result = cudaGetDeviceCount(&count);
    *device_count = count;
    if (result != cudaSuccess || count < 1)
        return fail_kind(err, ERROR_ENVIRONMENT, "no usable NVIDIA GPU on this machine: %s",
                         result != cudaSuccess ? cudaGetErrorString(result) : "none was found");
    *device = place % count;
    return true;
}

/* Later, loading one may wait for all that runs on the device, as for a transfer that waits for that kernel. */
static bool load_kernels(struct gpu *gpu, struct error *err)
{
    const int multiprocessors = gpu->team_count / TEAMS_PER_MULTIPROCESSOR;
    int live[GPU_KERNEL_COUNT] = { 0 };
    if (!check((cudaError_t)cuda_load_kernels(live), "loading the kernels", err))
        return error_within(err, "%s (was meson's gpu_arch set for it?)", gpu->description);
    for (int kernel = 0; kernel < GPU_KERNEL_COUNT; kernel++)
        gpu->live[kernel] = multiprocessors * (live[kernel] > 0 ? live[kernel] : 1);
    return true;
}

__attribute__((visibility("default"))) gpu_module_open cleave_gpu_open;
__attribute__((visibility("default"))) gpu_module_libraries cleave_gpu_libraries;
__attribute__((visibility("default"))) gpu_module_records cleave_gpu_records;

void cleave_gpu_libraries(char out[GPU_LIBRARIES_BYTES])
{
    cuda_attention_describe(out, GPU_LIBRARIES_BYTES);
}

bool cleave_gpu_records(char out[GPU_LIBRARIES_BYTES], struct error *err)
{
    return cuda_watch_describe(out, GPU_LIBRARIES_BYTES, err);
}

bool cleave_gpu_open(struct gpu *out, const char *version, int place, struct error *err)
{
    struct cuda cuda = { 0 };
    struct gpu gpu = { .name = "cuda" };
    if (strcmp(version, GPU_MODULE_VERSION) != 0)
        return fail_kind(err, ERROR_ENVIRONMENT,
                         "the CUDA module is of another build (%s, the program is %s): install both together",
                         GPU_MODULE_VERSION, version);
    if (!choose(place, &cuda.device, &gpu.device_count, err) || !enter(&cuda, err) ||
        !describe(&gpu, cuda.device, err) || !load_kernels(&gpu, err) ||
        !(cuda.libraries = cuda_libraries_of(cuda.device, err)))
        return false;
    struct cuda *self = malloc(sizeof *self);
    if (!self)
        return fail_kind(err, ERROR_ENVIRONMENT, "no memory for the CUDA device");
    *self = cuda;
    cuda_workspaces_open(&self->products);
    cuda_workspaces_open(&self->attention);
    gpu.self = self;
    gpu.allocate = allocate, gpu.release = release;
    gpu.allocate_host = allocate_host, gpu.release_host = release_host, gpu.memory_used = memory_used;
    gpu.workspaces = workspaces;
    gpu.open_stream = open_stream, gpu.close_stream = close_stream;
    gpu.open_event = open_event, gpu.close_event = close_event;
    gpu.copy = copy, gpu.fill = fill, gpu.launch = launch, gpu.matmul = matmul, gpu.fuses = fuses;
    gpu.spare = spare;
    gpu.learn = learn, gpu.learned = learned;
    gpu.attend = cuda.libraries->attention ? attend : NULL;
    cleave_gpu_libraries(gpu.libraries);
    if (!cuda.libraries->attention) /* it may be there and not work */
        snprintf(gpu.libraries, sizeof gpu.libraries, GPU_OWN_ATTENTION "%.150s", cuda.libraries->no_attention.message);
    gpu.record = record, gpu.wait = await, gpu.finish = finish, gpu.elapsed = elapsed;
    gpu.hold = hold;
    gpu.begin_capture = begin_capture, gpu.end_capture = end_capture;
    gpu.replay = replay, gpu.close_graph = close_graph;
    gpu.mark = mark, gpu.unmark = unmark;
    gpu.watch_ready = watch_ready, gpu.watch_begin = watch_begin, gpu.watch_end = watch_end;
    gpu.close = close_gpu, gpu.reached = reached;
    gpu.device = cuda.device;
    *out = gpu;
    return true;
}
