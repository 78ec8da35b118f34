#include "cli/measuring.h"
#include "cli/inputs.h"
#include "cli/progress.h"
#include "executor/backends.h"
#include "host/blas.h"
#include <stdio.h>

const struct device *measuring_backend(const char *name, struct error *err)
{
    const struct device *device = device_find(name, err);
    if (device && !device->computes) {
        fail(err, "--backend %s: it computes nothing, so there is nothing to measure; expected cpu or cuda", name);
        return NULL;
    }
    return device;
}

bool measuring_device(const struct cli *cli, const char *backend, const char *dtype, struct crew *crew,
                      struct text *machine, int64_t *memory_bytes, struct error *err)
{
    const struct device *device = measuring_backend(backend, err);
    if (!device)
        return false;
    bool gpu = device == &device_cuda;
    int found = gpu ? DTYPE_BF16 : DTYPE_FP32;
    if (dtype && !inputs_word("--dtype", dtype, dtype_names, &found, err))
        return false;
    if (found != DTYPE_FP32 && !(gpu && found == DTYPE_BF16))
        return fail(err, "--dtype %s: --backend %s computes in fp32%s", dtype, backend, gpu ? " and bf16" : "");
    crew->dtype = (enum dtype)found;
    if (!gpu)
        return true;
    crew->device = device, crew->module_dir = cli->module_dir;
    return device_cuda_describe(cli->module_dir, machine, memory_bytes, &crew->device_cache_bytes, err);
}

void measuring_software(const struct cli *cli, const struct crew *crew, char out[MEASURING_SOFTWARE_BYTES])
{
    const struct blas *blas = blas_open();
    struct text libraries = { 0 };
    if (crew->device)
        device_cuda_libraries(cli->module_dir, &libraries);
    if (libraries.data)
        snprintf(out, MEASURING_SOFTWARE_BYTES, "cleave %s, %s", CLEAVE_VERSION, libraries.data);
    else if (blas)
        snprintf(out, MEASURING_SOFTWARE_BYTES, "cleave %s, %s, core type %s", CLEAVE_VERSION, blas->config(),
                 blas->core());
    else
        snprintf(out, MEASURING_SOFTWARE_BYTES, "cleave %s, own matmul", CLEAVE_VERSION);
    text_free(&libraries);
}

void measuring_progress(void *context, const char *what, int done, int count)
{
    progress_say(context, "%s, %d of %d", what, done + 1, count);
}
