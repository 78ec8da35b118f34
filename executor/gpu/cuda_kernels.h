/* Between the C of the CUDA module and what nvcc compiled. */
#ifndef CLEAVE_EXECUTOR_GPU_CUDA_KERNELS_H
#define CLEAVE_EXECUTOR_GPU_CUDA_KERNELS_H
#include "executor/gpu/work.h"

#ifdef __cplusplus
extern "C" {
#endif
/* Queues one launch on a cudaStream_t. Returns a cudaError_t. */
int cuda_launch(enum gpu_kernel kernel, int64_t teams, const struct gpu_work *work, void *stream);
/* Loads all kernels onto the current device, which CUDA else puts off to the first launch of each. live: teams of each
 * that run at once on one multiprocessor, where they share next to no memory. Returns a cudaError_t. */
int cuda_load_kernels(int live[GPU_KERNEL_COUNT]);
/* Queues a wait on a cudaStream_t, for *gate of the host's memory to be at least `number` or for most_ns to have gone
 * by. Returns a cudaError_t. */
int cuda_hold(const int32_t *gate, int32_t number, int64_t most_ns, void *stream);
#ifdef __cplusplus
}
#endif
#endif
