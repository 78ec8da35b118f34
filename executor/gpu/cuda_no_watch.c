/* The CUDA module where CUPTI's headers were absent when it was built: nobody keeps records. */
#include "executor/gpu/cuda.h"

bool cuda_watch_describe(char *out, size_t bytes, struct error *err)
{
    (void)out, (void)bytes;
    return fail_kind(err, ERROR_ENVIRONMENT, "CUPTI was absent at build time");
}

bool cuda_watch_ready(struct error *err)
{
    return cuda_watch_describe(NULL, 0, err);
}

void *cuda_watch_begin(void *const *streams, int64_t (*now_ns)(void), struct error *err)
{
    (void)streams, (void)now_ns;
    cuda_watch_ready(err);
    return NULL;
}

bool cuda_watch_end(void *watch, struct rank_activity *out, struct error *err)
{
    (void)watch, (void)out;
    return cuda_watch_ready(err);
}
