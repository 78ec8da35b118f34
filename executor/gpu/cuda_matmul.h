/* Inside the CUDA module: what is known of a shape of matrix products, and how its algorithm is chosen. */
#ifndef CLEAVE_EXECUTOR_GPU_CUDA_MATMUL_H
#define CLEAVE_EXECUTOR_GPU_CUDA_MATMUL_H
#include "executor/gpu/cuda.h"
#include <cublasLt.h>

enum { WORKSPACE_BYTES = 32 << 20 };

/* One matrix as cuBLASLt wants it: column-major (rows, columns) with a leading dimension, perhaps to be transposed. */
struct matrix {
    int64_t rows, columns, lead;
    int64_t next; /* elements to the next product's */
    cudaDataType_t type;
    int transposed; /* as wide as the type: keys are compared as bytes and have no padding */
};
struct key {
    int64_t m, n, k;
    int64_t count; /* of products */
    struct matrix left, right, out;
    int64_t alignment; /* of all matrices: a power of two up to 16 */
    int64_t epilogue, bias_type;
    int64_t beside; /* from line to line of aux; without it, from one product's bias to the next one's */
};
struct shape {
    struct key key;
    cublasLtMatmulDesc_t operation;
    cublasLtMatrixLayout_t left, right, out;
    /* The library's own first, which serves where bits are to be the same in every run; and the one that serves else.
     */
    cublasLtMatmulAlgo_t first, algorithm;
    bool refused;          /* the library does not take it */
    struct error declined; /* why */
    bool apart;            /* without its epilogue it was faster */
    bool tuned; /* the algorithm, or that it goes apart, is the fastest of several, timed here or on such a device
                   before */
    bool tried; /* to time some, which is done once */
    struct shape *next;
};
/* The operands of one call, for timing. */
struct operands {
    const void *left, *right;
    void *out, *workspace, *stream;
    bool accumulate; /* to what is there: a second run would have another result */
    bool (*apart)(void *context, void *c, struct error *err); /* as in struct gpu_matmul */
    void *apart_context;
};

/* The first algorithm of the library's own ranking; false: there is none, and err says so. */
bool cuda_tune_first(cublasLtHandle_t handle, struct shape *shape, struct error *err);
/* The fastest of the ranking's first few and of what may be queued instead, all run in turn on these operands and none
 * finding them in the cache; into memory that is given back where the product reads its result, else into that, which
 * the caller then computes. Waits for the stream. Where anything fails the algorithm stays, and the shape is tried but
 * not tuned. */
void cuda_tune(cublasLtHandle_t handle, struct shape *shape, const struct operands *operands);
/* Between a shape and what is kept of it over runs. A choice that the library does not take, or that adds parts in less
 * than fp32, is none. */
void cuda_tune_describe(const struct shape *shape, struct gpu_choice *out);
bool cuda_tune_take(cublasLtHandle_t handle, struct shape *shape, const struct gpu_choice *choice);
#endif
