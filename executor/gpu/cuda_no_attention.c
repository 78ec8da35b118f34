/* The CUDA module where cuDNN's headers were absent when it was built: own kernels serve. */
#include "executor/gpu/cuda.h"
#include <stdio.h>

void cuda_attention_describe(char *out, size_t bytes)
{
    snprintf(out, bytes, GPU_OWN_ATTENTION "cuDNN was absent at build time");
}

bool cuda_attention_new(struct cuda_attention **out, struct error *absent, struct error *err)
{
    (void)err;
    *out = NULL;
    fail_kind(absent, ERROR_ENVIRONMENT, "cuDNN was absent at build time");
    return true;
}

void cuda_attention_free(struct cuda_attention *attention)
{
    (void)attention;
}

bool cuda_attention_run(struct cuda_attention *attention, struct cuda_workspaces *memory, void *stream,
                        const struct gpu_attention *call, bool *taken, struct error *declined, struct error *err)
{
    (void)attention, (void)memory, (void)stream, (void)call, (void)declined, (void)err;
    *taken = false;
    return true;
}
