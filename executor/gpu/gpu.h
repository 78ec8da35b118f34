/* A GPU as the executor needs it: memory, streams, events, launches of the kernels in kernels.def, matrix products. One
 * implementation is CUDA's, in a module (cuda.c); another runs the same kernels on the processor, for tests
 * (tests/emulated). All calls are safe from any thread, several at once on different streams. */
#ifndef CLEAVE_EXECUTOR_GPU_GPU_H
#define CLEAVE_EXECUTOR_GPU_GPU_H
#include "base/error.h"
#include "executor/gpu/work.h"
#include "planner/facts/gpu_choice.h"
#include <stddef.h>

/* What a library does with a product before it is written; each but PLAIN wants c by lines, no accumulation
 * but that of BIAS_GRADIENT, and the library's consent (gpu.fuses). */
enum gpu_epilogue {
    GPU_PLAIN,
    GPU_BIAS,         /* c = ab + bias */
    GPU_GELU,         /* aux = ab, c = gelu(aux), the form with tanh */
    GPU_GELU_BIAS,    /* aux = ab + bias, c = gelu(aux) */
    GPU_GELU_SLOPE,   /* c = ab gelu'(aux) */
    GPU_BIAS_GRADIENT /* bias = sum over k of b, beside c */
};

/* c(m,n) = alpha * sum over k of a(m,k) b(k,n), plus c where accumulate. Of each matrix's two strides one is 1 and the
 * other at least the extent that it jumps over, if the extent is larger than 1. Several such products whose matrices
 * lie at even distances, as of experts, are one: no element of c is in two of them. */
struct gpu_matmul {
    int64_t m, n, k;
    int64_t count;                  /* of products, at least 1; with an epilogue that has aux 1 */
    int64_t a_next, b_next, c_next; /* elements from one to the next; where count is 1 nothing */
    const void *a, *b;
    void *c;
    int64_t a_m, a_k, b_k, b_n, c_m, c_n;
    int a_type, b_type, c_type; /* enum gpu_type */
    double alpha;
    bool accumulate;
    bool deterministic; /* the same bits in every run: how it is computed must not follow from how long it takes */
    enum gpu_epilogue epilogue;
    void *bias; /* (n) contiguous, of type bias_type */
    void *aux;  /* (m,n), as c but for its own distance between lines, of c's type */
    int64_t aux_m;
    int bias_type;
    int64_t bias_next; /* elements from one product's bias to the next one's; where count is 1 nothing */
    /* Queues on the same stream what would be done without the epilogue, or product by product, with c's elements going
     * to `c`: where the device times products this is timed, too, and where it is faster the product is not taken. It
     * may be queued any number of times. NULL: there is nothing to compare with. */
    bool (*apart)(void *context, void *c, struct error *err);
    void *apart_context;
};

/* Softmax attention as the kernels ATTENTION and ATTENTION_..._GRADIENT take it (kinds.h): in bf16 with heads of whole
 * 16 bytes, all keys that a query may see, the same number of queries for each key head, results overwritten. Forward
 * writes OUT and LSE; backward all three gradients. */
struct gpu_attention {
    const struct gpu_work *work;
    bool backward;
    bool deterministic; /* the same bits every time, also where that is slower */
};

struct rank_activity;
typedef _Atomic int32_t gpu_gate;
enum { GPU_LIBRARIES_BYTES = 200 };
struct gpu {
    const char *name;                    /* "cuda" */
    char description[128];               /* "NVIDIA H200, 139.8 GiB, compute capability 9.0" */
    char libraries[GPU_LIBRARIES_BYTES]; /* "attention by cuDNN 9.19.0", or by what else and why */
    void *self;
    int64_t memory_bytes;
    int64_t cache_bytes; /* between that memory and all multiprocessors; 0: unknown */
    int team_count;      /* teams of most threads that are worth launching at most */
    /* Teams of each kernel that run at once: more would begin when others have ended, and leave most of the device
     * idle. 0: as many as team_count */
    int live[GPU_KERNEL_COUNT];

    /* Device memory, and memory of the host that copies read and write without waiting. NULL: err says why. */
    void *(*allocate)(void *self, size_t bytes, struct error *err);
    void (*release)(void *self, void *memory);
    void *(*allocate_host)(void *self, size_t bytes, struct error *err);
    void (*release_host)(void *self, void *memory);
    /* Bytes of the device that are in use now, by whomever. NULL: it does not say. */
    bool (*memory_used)(void *self, int64_t *bytes, struct error *err);

    /* Device memory that libraries work in, by what they do. NULL: none. */
    void (*workspaces)(void *self, int64_t *products_bytes, int64_t *attention_bytes);

    /* urgent: its kernels go first where there is no room for all. timed: for elapsed(), which costs the device more.
     */
    void *(*open_stream)(void *self, bool urgent, struct error *err);
    void (*close_stream)(void *self, void *stream); /* accepts NULL */
    void *(*open_event)(void *self, bool timed, struct error *err);
    void (*close_event)(void *self, void *event); /* accepts NULL */

    /* All of these are queued on the stream and return; it takes them in order. */
    bool (*copy)(void *self, void *stream, void *to, const void *from, size_t bytes, struct error *err);
    bool (*fill)(void *self, void *stream, void *to, int byte, size_t bytes, struct error *err);
    bool (*launch)(void *self, void *stream, enum gpu_kernel kernel, int64_t teams, const struct gpu_work *work,
                   struct error *err);
    /* A product by a library; NULL: the device has none. *taken false: it has none for this shape, or none that is
     * worth while, the result is not there, and declined says why. A plain one that is not taken is left to the kernel
     * PRODUCT. */
    bool (*matmul)(void *self, void *stream, const struct gpu_matmul *matmul, bool *taken, struct error *declined,
                   struct error *err);
    /* Tells whether it takes this product with its epilogue, or these several as one. NULL: none but single PLAIN ones.
     */
    bool (*fuses)(void *self, const struct gpu_matmul *matmul);
    /* What earlier runs found, to be used where it still holds; and all that is known now, at most `most`, returning
     * how many. NULL: the device times nothing. */
    bool (*learn)(void *self, const struct gpu_choice *choices, int count, struct error *err);
    int (*learned)(void *self, struct gpu_choice *out, int most);
    /* Lays out products for so many multiprocessors fewer, which others are to have beside them, for all ranks of the
     * process from here on; what is learned is then neither told nor used. NULL: nothing is laid out. */
    bool (*spare)(void *self, int multiprocessors, struct error *err);
    /* Attention by a library; NULL: there is none, and libraries says why. *taken false: it has none for this shape,
     * nothing was queued, and declined says why. */
    bool (*attend)(void *self, void *stream, const struct gpu_attention *attention, bool *taken, struct error *declined,
                   struct error *err);
    bool (*record)(void *self, void *stream, void *event, struct error *err);
    bool (*wait)(void *self, void *stream, void *event, struct error *err); /* for its last record */

    /* What is queued on the stream from here on waits until *gate, which allocate_host() gave and the host sets, is at
     * least `number`, but for most_ns at most. NULL: the device cannot. */
    bool (*hold)(void *self, void *stream, const gpu_gate *gate, int32_t number, int64_t most_ns, struct error *err);

    /* A graph: what is queued on the stream from begin to end, and on streams that wait for its events meanwhile, is
     * kept and not run; their last work is to be waited for by the stream before the end. replay queues all of it on
     * the stream again, with the same addresses. NULL: the device has no graphs. */
    bool (*begin_capture)(void *self, void *stream, struct error *err);
    bool (*end_capture)(void *self, void *stream, void **graph, struct error *err);
    bool (*replay)(void *self, void *stream, void *graph, struct error *err);
    void (*close_graph)(void *self, void *graph);

    /* A named range for tools that watch, opened and closed by one thread. NULL: nobody could watch. */
    void (*mark)(const char *name);
    void (*unmark)(void);

    /* What really runs, from begin to end: kernels, copies and fills, by the device's own records. ready: whether there
     * are records here, which costs nothing yet; err says why not. begin: streams (LANE_COUNT) by lane, NULL: not in
     * use; now_ns: the clock to tell times by. end: all that was queued on the streams has ended; out->list is the
     * caller's, by start and without instructions, its clock error that of the records alone; out NULL: forgets. Ranks
     * of a process that watch at once wait here for each other. All NULL: the device keeps no records. */
    bool (*watch_ready)(void *self, struct error *err);
    void *(*watch_begin)(void *self, void *const *streams, int64_t (*now_ns)(void), struct error *err);
    bool (*watch_end)(void *self, void *watch, struct rank_activity *out, struct error *err);

    /* Waits until all that was queued has ended; a failure of any of it is reported here at the latest. */
    bool (*finish)(void *self, void *stream, struct error *err);
    /* Time from one recorded event to another, both timed and done. */
    bool (*elapsed)(void *self, void *from, void *to, int64_t *ns, struct error *err);
    void (*close)(void *self);

    /* Tells whether the event's last record has been reached, or there was none; waits for nothing. */
    bool (*reached)(void *self, void *event);
    int device, device_count; /* of this machine: which it is, and how many there are */
};

/* What a module exports under GPU_MODULE_SYMBOL. version: GPU_MODULE_VERSION of the caller, which must be the module's.
 * place: of the rank among those of this host; of n devices the (place modulo n)-th is opened. */
#define GPU_MODULE_FILE "cleave-cuda.so"
#define GPU_MODULE_SYMBOL "cleave_gpu_open"
#define GPU_MODULE_VERSION CLEAVE_VERSION " 12"
typedef bool gpu_module_open(struct gpu *out, const char *version, int place, struct error *err);
/* Under this one stands what serves beside it, with or without a GPU: the text of gpu.libraries. */
#define GPU_LIBRARIES_SYMBOL "cleave_gpu_libraries"
typedef void gpu_module_libraries(char out[GPU_LIBRARIES_BYTES]);
/* Under this one stands what keeps records of what ran, likewise: "CUPTI 13.0.1". False: nothing does, err says why. */
#define GPU_RECORDS_SYMBOL "cleave_gpu_records"
typedef bool gpu_module_records(char out[GPU_LIBRARIES_BYTES], struct error *err);
#endif
