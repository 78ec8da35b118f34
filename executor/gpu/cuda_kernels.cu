/* The bodies of kernels.def as CUDA kernels: a team is a block. */
#include "executor/gpu/bodies/all.h"
#include "executor/gpu/cuda_kernels.h"
#include <cuda_runtime.h>

enum { MOST_THREADS = 256, PLAIN_SHARED_BYTES = 48 * 1024 - MOST_THREADS * 8 };

/* threads: a constant of the kernel. */
static __device__ inline struct team team_of_block(int threads, double *reduce, real *shared)
{
    struct team team;
    team.thread = (int)threadIdx.x;
    team.threads = threads;
    team.place = blockIdx.x;
    team.count = gridDim.x;
    team.reduce = reduce;
    team.shared = shared;
    team.barrier = 0;
    return team;
}

/* Teams of one warp keep much in registers; so many of them at once have enough loads under way. Of other kernels the
 * compiler decides (0): told of one team it would take more registers than two leave. */
enum { SMALL_TEAM = 32, SMALL_TEAMS_AT_ONCE = 16 };
#define GPU_KERNEL(id, function, threads)                                                                              \
    static __global__ void __launch_bounds__(threads, threads == SMALL_TEAM ? SMALL_TEAMS_AT_ONCE : 0)                 \
        function##_grid(const __grid_constant__ struct gpu_work work)                                                  \
    {                                                                                                                  \
        __shared__ double reduce[threads];                                                                             \
        extern __shared__ __align__(16) real shared[];                                                                               \
        struct team team = team_of_block(threads, reduce, shared);                                                     \
        function(&team, &work);                                                                                        \
    }
#include "executor/gpu/kernels.def"

typedef void grid_function(const struct gpu_work work);

static grid_function *grid_of(enum gpu_kernel kernel, int *threads)
{
    switch (kernel) {
#define GPU_KERNEL(id, function, thread_count)                                                                         \
    case GPU_##id:                                                                                                     \
        *threads = thread_count;                                                                                       \
        return function##_grid;
#include "executor/gpu/kernels.def"
    case GPU_KERNEL_COUNT:
        break;
    }
    return 0;
}

extern "C" int cuda_launch(enum gpu_kernel kernel, int64_t teams, const struct gpu_work *work, void *stream)
{
    int threads = 0;
    grid_function *grid = grid_of(kernel, &threads);
    size_t bytes = (size_t)work->shared_reals * sizeof(real);
    if (!grid)
        return cudaErrorInvalidValue;
    if (bytes > PLAIN_SHARED_BYTES) { /* more than any device gives without being asked */
        cudaError_t error =
            cudaFuncSetAttribute((const void *)grid, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)bytes);
        if (error != cudaSuccess)
            return error;
    }
    grid<<<(unsigned)teams, (unsigned)threads, bytes, (cudaStream_t)stream>>>(*work);
    return cudaGetLastError();
}

static __device__ inline int64_t device_now_ns(void)
{
    int64_t now;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
    return now;
}

static __global__ void hold_grid(const volatile int32_t *gate, int32_t number, int64_t most_ns)
{
    const int64_t start_ns = device_now_ns();
    while (*gate < number && device_now_ns() - start_ns < most_ns)
        __nanosleep(200);
}

extern "C" int cuda_hold(const int32_t *gate, int32_t number, int64_t most_ns, void *stream)
{
    hold_grid<<<1, 1, 0, (cudaStream_t)stream>>>(gate, number, most_ns);
    return cudaGetLastError();
}

extern "C" int cuda_load_kernels(int live[GPU_KERNEL_COUNT])
{
    cudaFuncAttributes held;
    cudaError_t error = cudaFuncGetAttributes(&held, (const void *)hold_grid);
    for (int kernel = 0; kernel < GPU_KERNEL_COUNT && error == cudaSuccess; kernel++) {
        cudaFuncAttributes attributes;
        int threads = 0;
        const void *grid = (const void *)grid_of((enum gpu_kernel)kernel, &threads);
        error = cudaFuncGetAttributes(&attributes, grid);
        if (error == cudaSuccess)
            error = cudaOccupancyMaxActiveBlocksPerMultiprocessor(&live[kernel], grid, threads, 0);
    }
    return error;
}
