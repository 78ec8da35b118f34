/* The CUDA module over the double of its libraries, opened and with one stream, for each test of a suite. */
#ifndef CLEAVE_TESTS_CUDA_FIXTURE_H
#define CLEAVE_TESTS_CUDA_FIXTURE_H
#include "check.h"
#include "executor/gpu/gpu.h"
#include "tests/cuda_double.h"

gpu_module_open cleave_gpu_open;

static struct gpu gpu;
static void *stream;

/* The device that was last opened: its libraries know what they found. */
static inline void open_again(void)
{
    struct error error = { 0 };
    ck_assert_msg(cleave_gpu_open(&gpu, GPU_MODULE_VERSION, cuda_double.device_count - 1, &error), "%s", error.message);
    stream = gpu.open_stream(gpu.self, false, &error);
}

/* A device of which the process knows nothing. */
static inline void open_module(void)
{
    cuda_double_reset();
    open_again();
}

static inline void close_module(void)
{
    gpu.close_stream(gpu.self, stream);
    gpu.close(gpu.self);
}
#endif
