/* NVIDIA's NCCL behind struct nccl. The library is opened when it is asked for, so that one GPU works without it. All
 * communicators are non-blocking: no call waits for other ranks, so that a rank that does not come is met by a timeout
 * and not by silence; and only these may be aborted while something is under way. NCCL launches their kernels on a
 * thread of its own, also into a stream that is captured, which captures begun in relaxed mode take from any thread;
 * they are there when the communicator is ready. (NCCL_COMM_BLOCKING=1 makes all calls block.) */
#include "executor/gpu/nccl.h"
#include "executor/gpu/gpu.h"
#include <cuda_runtime_api.h>
#include <dlfcn.h>
#include <nccl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

_Static_assert(NCCL_UNIQUE_ID_BYTES == COMM_ID_BYTES, "an id of NCCL has 128 bytes");
_Static_assert(NCCL_SPLIT_NOCOLOR == COMM_NO_COLOUR, "the colour of those who take no part");

/* From 2.22 on communicators may be aborted as a group, and an abort returns when all of them are given back. */
enum { OLDEST_VERSION = 22200, MOST_CTAS = 32, LEAVE_NAP_NS = 1000000, LEAVE_NAPS = 10000 };
#define LIBRARY_FILE "libnccl.so.2"

#define FUNCTIONS(FUNCTION)                                                                                            \
    FUNCTION(ncclGetVersion)                                                                                           \
    FUNCTION(ncclGetUniqueId)                                                                                          \
    FUNCTION(ncclCommInitRankConfig)                                                                                   \
    FUNCTION(ncclCommSplit)                                                                                            \
    FUNCTION(ncclCommGetAsyncError)                                                                                    \
    FUNCTION(ncclCommFinalize)                                                                                         \
    FUNCTION(ncclCommDestroy)                                                                                          \
    FUNCTION(ncclCommAbort)                                                                                            \
    FUNCTION(ncclGetErrorString)                                                                                       \
    FUNCTION(ncclGetLastError)                                                                                         \
    FUNCTION(ncclGroupStart)                                                                                           \
    FUNCTION(ncclGroupEnd)                                                                                             \
    FUNCTION(ncclAllReduce)                                                                                            \
    FUNCTION(ncclAllGather)                                                                                            \
    FUNCTION(ncclReduceScatter)                                                                                        \
    FUNCTION(ncclReduce)                                                                                               \
    FUNCTION(ncclBroadcast)                                                                                            \
    FUNCTION(ncclMemAlloc)                                                                                             \
    FUNCTION(ncclMemFree)                                                                                              \
    FUNCTION(ncclCommRegister)                                                                                         \
    FUNCTION(ncclSend)                                                                                                 \
    FUNCTION(ncclRecv)

struct cuda_nccl {
    char name[32];
    void *library;
    int device, most_ctas; /* most_ctas: of one communicator; 0: as NCCL likes */
#define FUNCTION(symbol) __typeof__(symbol) *symbol;
    FUNCTIONS(FUNCTION)
#undef FUNCTION
};

static bool enter(const struct cuda_nccl *n, struct error *err)
{
    cudaError_t result = cudaSetDevice(n->device);
    return result == cudaSuccess ||
           fail_kind(err, ERROR_ENVIRONMENT, "CUDA: choosing device %d: %s", n->device, cudaGetErrorString(result));
}

static bool refuse(const struct cuda_nccl *n, ncclResult_t result, void *comm, const char *what, struct error *err)
{
    const char *more = n->ncclGetLastError(comm);
    return fail_kind(err, ERROR_ENVIRONMENT, "%s: %s: %s%s%s (NCCL_DEBUG=WARN says more)", n->name, what,
                     n->ncclGetErrorString(result), more && *more ? ": " : "", more ? more : "");
}

/* What goes on in the background is no failure: state() tells. */
static bool check(const struct cuda_nccl *n, ncclResult_t result, void *comm, const char *what, struct error *err)
{
    return result == ncclSuccess || result == ncclInProgress || refuse(n, result, comm, what, err);
}

/* ---- communicators ---- */
static bool make_id(void *self, unsigned char id[COMM_ID_BYTES], struct error *err)
{
    const struct cuda_nccl *n = self;
    ncclUniqueId own;
    if (!check(n, n->ncclGetUniqueId(&own), NULL, "making the job's id", err))
        return false;
    memcpy(id, own.internal, COMM_ID_BYTES);
    return true;
}

static ncclConfig_t config_of(const struct cuda_nccl *n)
{
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 0;
    if (n->most_ctas > 0)
        config.maxCTAs = n->most_ctas;
    return config;
}

static void *join(void *self, const unsigned char id[COMM_ID_BYTES], int rank, int count, struct error *err)
{
    const struct cuda_nccl *n = self;
    ncclConfig_t config = config_of(n);
    ncclUniqueId own;
    ncclComm_t comm = NULL;
    memcpy(own.internal, id, COMM_ID_BYTES);
    bool ok = enter(n, err) && check(n, n->ncclCommInitRankConfig(&comm, count, own, rank, &config), NULL,
                                     "joining the other ranks", err);
    return ok ? comm : NULL;
}

static bool split(void *self, void *comm, int colour, int key, void **out, struct error *err)
{
    const struct cuda_nccl *n = self;
    ncclConfig_t config = config_of(n);
    return enter(n, err) && check(n, n->ncclCommSplit(comm, colour, key, (ncclComm_t *)out, &config), comm,
                                  "splitting a communicator", err);
}

static enum comm_state state(void *self, void *comm, struct error *err)
{
    const struct cuda_nccl *n = self;
    ncclResult_t result = ncclSuccess, asked = n->ncclCommGetAsyncError(comm, &result);
    if (asked != ncclSuccess)
        result = asked;
    if (result == ncclSuccess || result == ncclInProgress)
        return result == ncclSuccess ? COMM_READY : COMM_BUSY;
    refuse(n, result, comm, "communication failed", err);
    return COMM_FAILED;
}

/* Ordinary memory where the device's cannot be shared. */
static void *allocate(void *self, size_t bytes, struct error *err)
{
    const struct cuda_nccl *n = self;
    void *memory = NULL;
    size_t available = 0, total = 0;
    if (!enter(n, err))
        return NULL;
    ncclResult_t result = n->ncclMemAlloc(&memory, bytes > 0 ? bytes : 1);
    if (result == ncclSuccess)
        return memory;
    cudaGetLastError(); /* an allocation that failed leaves the device usable */
    if (cudaMemGetInfo(&available, &total) == cudaSuccess)
        fail_kind(err, ERROR_ENVIRONMENT, "%s: no %zu bytes of memory on device %d: %zu of %zu are free", n->name,
                  bytes, n->device, available, total);
    check(n, result, NULL, "allocating memory", err);
    return NULL;
}

static void release(void *self, void *memory)
{
    const struct cuda_nccl *n = self;
    if (enter(n, NULL))
        n->ncclMemFree(memory);
}

/* NCCL refuses where it gains nothing, and goes on as without it. */
static void lend(void *self, void *comm, void *memory, size_t bytes)
{
    const struct cuda_nccl *n = self;
    void *handle;
    if (bytes > 0 && enter(n, NULL))
        n->ncclCommRegister(comm, memory, bytes, &handle);
}

/* A group tells all kernels to end before any communicator's memory is given back, which may wait for them, and does
 * wait until no graph holds a call. */
static void abort_comms(void *self, void *const *comms, int count, void (*let_go)(void *context), void *context)
{
    const struct cuda_nccl *n = self;
    if (!enter(n, NULL) || n->ncclGroupStart() != ncclSuccess)
        return;
    for (int i = 0; i < count; i++)
        n->ncclCommAbort(comms[i]);
    if (let_go)
        let_go(context);
    n->ncclGroupEnd();
}

/* Others may still fetch what this rank has sent: it waits for them, but not for ever. */
static void leave(void *self, void *comm)
{
    const struct cuda_nccl *n = self;
    const struct timespec nap = { 0, LEAVE_NAP_NS };
    ncclResult_t result = ncclInProgress;
    if (!enter(n, NULL))
        return;
    n->ncclCommFinalize(comm);
    for (int i = 0; i < LEAVE_NAPS && n->ncclCommGetAsyncError(comm, &result) == ncclSuccess; i++) {
        if (result != ncclInProgress)
            break;
        nanosleep(&nap, NULL);
    }
    if (result == ncclSuccess)
        n->ncclCommDestroy(comm);
    else
        n->ncclCommAbort(comm);
}

/* ---- calls ---- */
static bool begin(void *self, struct error *err)
{
    const struct cuda_nccl *n = self;
    return enter(n, err) && check(n, n->ncclGroupStart(), NULL, "beginning a group of calls", err);
}

static bool end(void *self, struct error *err)
{
    const struct cuda_nccl *n = self;
    return check(n, n->ncclGroupEnd(), NULL, "starting a group of calls", err);
}

static ncclDataType_t type_of(enum comm_type type)
{
    return type == COMM_BYTE ? ncclInt8 : type == COMM_BF16 ? ncclBfloat16 : ncclFloat32;
}

static ncclResult_t start(const struct cuda_nccl *n, ncclComm_t comm, cudaStream_t stream, const struct comm_call *c)
{
    ncclDataType_t type = type_of(c->type);
    ncclRedOp_t sum = c->sum == COMM_MAX ? ncclMax : ncclSum;
    switch (c->kind) {
    case COMM_ALL_REDUCE:
        return n->ncclAllReduce(c->from, c->to, c->count, type, sum, comm, stream);
    case COMM_ALL_GATHER:
        return n->ncclAllGather(c->from, c->to, c->count, type, comm, stream);
    case COMM_REDUCE_SCATTER:
        return n->ncclReduceScatter(c->from, c->to, c->count, type, sum, comm, stream);
    case COMM_REDUCE:
        return n->ncclReduce(c->from, c->to, c->count, type, sum, 0, comm, stream);
    case COMM_BROADCAST:
        return n->ncclBroadcast(c->from, c->to, c->count, type, 0, comm, stream);
    case COMM_SEND:
        return n->ncclSend(c->from, c->count, type, c->peer, comm, stream);
    case COMM_RECEIVE:
        return n->ncclRecv(c->to, c->count, type, c->peer, comm, stream);
    }
    return ncclInvalidArgument;
}

static bool call(void *self, void *comm, void *stream, const struct comm_call *c, struct error *err)
{
    const struct cuda_nccl *n = self;
    return check(n, start(n, comm, stream, c), comm, comm_kind_name(c->kind), err);
}

/* ---- life ---- */
static void close_nccl(void *self)
{
    free(self); /* the library stays open: its threads do not bear being unloaded */
}

static bool load(struct cuda_nccl *n, struct error *err)
{
    n->library = dlopen(LIBRARY_FILE, RTLD_NOW | RTLD_LOCAL);
    if (!n->library)
        return fail_kind(err, ERROR_ENVIRONMENT, "NCCL is absent: %s; one GPU works without it", dlerror());
#define FUNCTION(symbol)                                                                                               \
    {                                                                                                                  \
        void *found = dlsym(n->library, #symbol);                                                                      \
        if (!found)                                                                                                    \
            return fail_kind(err, ERROR_ENVIRONMENT, "NCCL's library has no %s: 2.22 or later is needed", #symbol);    \
        memcpy(&n->symbol, &found, sizeof found);                                                                      \
    }
    FUNCTIONS(FUNCTION)
#undef FUNCTION
    return true;
}

static bool check_version(struct cuda_nccl *n, struct error *err)
{
    int version = 0; /* 22809 is 2.28.9 */
    if (!check(n, n->ncclGetVersion(&version), NULL, "asking for its version", err))
        return false;
    snprintf(n->name, sizeof n->name, "NCCL %d.%d.%d", version / 10000, version / 100 % 100, version % 100);
    return version >= OLDEST_VERSION ||
           fail_kind(err, ERROR_ENVIRONMENT, "%s is too old: 2.22 or later is needed", n->name);
}

/* Kernels of all lanes must find room beside each other. */
static void limit_ctas(struct cuda_nccl *n, int lanes, int most)
{
    int multiprocessors = 0;
    n->most_ctas = most;
    if (cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, n->device) != cudaSuccess ||
        lanes < 1 || multiprocessors / lanes >= (most > 0 ? most : MOST_CTAS))
        return;
    n->most_ctas = multiprocessors / lanes > 0 ? multiprocessors / lanes : 1;
}

__attribute__((visibility("default"))) nccl_module_open cleave_nccl_open;

bool cleave_nccl_open(struct nccl *out, const struct gpu *gpu, int lanes, int multiprocessors, struct error *err)
{
    struct cuda_nccl *n = calloc(1, sizeof *n);
    if (!n)
        return fail_kind(err, ERROR_ENVIRONMENT, "no memory for NCCL");
    memcpy(n->name, "NCCL", sizeof "NCCL");
    if (!load(n, err) || !check_version(n, err)) {
        free(n);
        return false;
    }
    if (gpu) {
        n->device = gpu->device;
        limit_ctas(n, lanes, multiprocessors);
    }
    *out = (struct nccl){ .name = n->name,
                          .self = n,
                          .make_id = make_id,
                          .join = join,
                          .split = split,
                          .state = state,
                          .allocate = allocate,
                          .release = release,
                          .lend = lend,
                          .begin = begin,
                          .call = call,
                          .end = end,
                          .abort = abort_comms,
                          .leave = leave,
                          .close = close_nccl };
    return true;
}
