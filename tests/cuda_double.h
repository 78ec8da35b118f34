/* A double of CUDA's runtime, of the kernels and of cuBLASLt, under the host code of the CUDA module: it keeps account
 * of what it is asked for, computes nothing, and its time passes by what products take. Memory is the host's. */
#ifndef CLEAVE_TESTS_CUDA_DOUBLE_H
#define CLEAVE_TESTS_CUDA_DOUBLE_H
#include "executor/gpu/work.h"
#include <cublasLt.h>
#include <cuda_runtime_api.h>
#include <stdbool.h>
#include <stddef.h>

enum {
    DOUBLE_MOST_RUNS = 256,
    DOUBLE_CACHE_BYTES = 50 << 20,
    DOUBLE_GREATEST_PRIORITY = -5,
    DOUBLE_MULTIPROCESSORS = 132
};
struct cuda_double {
    int device_count;
    size_t free_bytes; /* what cudaMalloc may still give */
    size_t allocated, most_allocated;
    int frees;                     /* of memory of the device */
    size_t asked;                  /* of the latest cudaMalloc */
    bool busy;                     /* no event has been reached */
    bool capturing;                /* all streams */
    cudaError_t last;              /* the thread's last error */
    int launches;                  /* of kernels */
    double kernel_ms, epilogue_ms; /* that each takes, and what follows a product in it */
    int cache_bytes;               /* of the device */
    size_t filled;                 /* bytes, by all fills */
    int products;                  /* since the reset */
    int64_t bias_next;             /* that a product was last described with */
    int holds;                     /* of streams */
    int priority;                  /* of the latest stream */
    unsigned event_flags;          /* of the latest event */
    int32_t aimed;                 /* multiprocessors that the latest product is laid out for; 0: all */
    double now_ms;                 /* of the device */
    int algorithms;                /* that the ranking has */
    double algorithm_ms[16];
    cublasStatus_t layout_status, product_status; /* what describing a matrix and a product come to */
    uint32_t alignment, schemes; /* of operands, and of reductions: what the ranking was last told of */
    struct double_run {
        int algorithm;
        float beta;
        const void *out;
    } run[DOUBLE_MOST_RUNS]; /* products */
    int run_count;
};
extern struct cuda_double cuda_double;
/* One device more, each of 1 GiB, on which nothing has happened; what was allocated is forgotten. */
void cuda_double_reset(void);
#endif
