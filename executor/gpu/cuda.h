/* Matrix products of the CUDA module. */
#ifndef CLEAVE_EXECUTOR_GPU_CUDA_H
#define CLEAVE_EXECUTOR_GPU_CUDA_H
#include "executor/gpu/gpu.h"

/* A handle of cuBLASLt, what was set up for each shape, and a workspace per stream. For one device. */
struct cuda_matmuls;
bool cuda_matmuls_new(struct cuda_matmuls **out, struct error *err);
void cuda_matmuls_free(struct cuda_matmuls *matmuls); /* accepts NULL */
/* Queues a product on a cudaStream_t. Descriptors and the algorithm are made at the first call of a shape. fp32 is
 * computed as fp32, bf16 with sums in fp32. */
bool cuda_matmul_run(struct cuda_matmuls *matmuls, void *stream, const struct gpu_matmul *matmul, struct error *err);
#endif
