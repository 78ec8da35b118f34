/* What the CUDA module takes from libraries: matrix products, attention, records of what ran. */
#ifndef CLEAVE_EXECUTOR_GPU_CUDA_H
#define CLEAVE_EXECUTOR_GPU_CUDA_H
#include "executor/gpu/cuda_workspace.h"
#include "executor/gpu/gpu.h"

/* A handle of cuBLASLt and what was set up for each shape. For one device. */
struct cuda_matmuls;
bool cuda_matmuls_new(struct cuda_matmuls **out, struct error *err);
void cuda_matmuls_free(struct cuda_matmuls *matmuls); /* accepts NULL */
/* This is gpu.matmul, on a cudaStream_t, in memory of the rank's. Descriptors are made at the first call of a shape,
 * which also times some algorithms. fp32 is computed as fp32, bf16 with sums in fp32. */
bool cuda_matmul_run(struct cuda_matmuls *matmuls, struct cuda_workspaces *memory, void *stream,
                     const struct gpu_matmul *matmul, bool *taken, struct error *declined, struct error *err);
/* These three are gpu.fuses, gpu.learn and gpu.learned. */
bool cuda_matmul_fuses(struct cuda_matmuls *matmuls, const struct gpu_matmul *matmul);
bool cuda_matmul_learn(struct cuda_matmuls *matmuls, const struct gpu_choice *choices, int count, struct error *err);
/* Products are laid out for so many multiprocessors; 0: for all. */
void cuda_matmul_aim(struct cuda_matmuls *matmuls, int multiprocessors);
int cuda_matmul_learned(struct cuda_matmuls *matmuls, struct gpu_choice *out, int most);

/* cuDNN and plans by shape. For one device. */
struct cuda_attention;
#define GPU_OWN_ATTENTION "attention by own kernels, which are slow: " /* and why */
/* What attention is computed by: "cuDNN 9.19.0", or "own kernels" and why. Needs no GPU. */
void cuda_attention_describe(char *out, size_t bytes);
/* *out NULL: there is no cuDNN here, and absent says why. */
bool cuda_attention_new(struct cuda_attention **out, struct error *absent, struct error *err);
void cuda_attention_free(struct cuda_attention *attention); /* accepts NULL */
/* This is gpu.attend, in memory of the rank's. The plan of a shape, and workspace, are made at its first call: fp32 for
 * the statistics of each query (twice backward) and, unless deterministic, for all gradients of queries, and what the
 * engine asks for. */
bool cuda_attention_run(struct cuda_attention *attention, struct cuda_workspaces *memory, void *stream,
                        const struct gpu_attention *call, bool *taken, struct error *declined, struct error *err);

/* "CUPTI 13.0.1"; false: it is absent, err says why. Needs no GPU. */
bool cuda_watch_describe(char *out, size_t bytes, struct error *err);
/* These are gpu.watch_ready and its neighbours; the calling thread has chosen the device. */
bool cuda_watch_ready(struct error *err);
void *cuda_watch_begin(void *const *streams, int64_t (*now_ns)(void), struct error *err);
bool cuda_watch_end(void *watch, struct rank_activity *out, struct error *err);
#endif
