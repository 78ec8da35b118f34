/* `--backend cuda`: opens the module cleave-cuda.so for each rank. */
#include "base/text.h"
#include "executor/backends.h"
#include "executor/gpu/device.h"
#include "planner/facts/cluster.h"
#include <dlfcn.h>
#include <string.h>

/* The rank's place on its host: as the plan's cluster has it. */
static int place_of(const struct rank *rank)
{
    const struct facts *facts = rank->options->facts;
    return facts && facts->cluster && rank->rank < facts->cluster->device_count
               ? cluster_place(facts->cluster, rank->rank, 0)
               : rank->rank;
}

static bool open_gpu(struct gpu *out, const char *module_dir, int place, struct error *err)
{
    void *symbol = module_symbol(module_dir, GPU_MODULE_FILE, GPU_MODULE_SYMBOL, err);
    gpu_module_open *open_module;
    if (!symbol)
        return error_within(err, "backend cuda is absent");
    memcpy(&open_module, &symbol, sizeof open_module); /* ISO C has no conversion to function pointers */
    return open_module(out, GPU_MODULE_VERSION, place, err);
}

static bool open(struct rank *rank, struct error *err)
{
    struct gpu gpu;
    return open_gpu(&gpu, rank->options->module_dir, place_of(rank), err) && gpu_device_open(rank, &gpu, err);
}

bool device_cuda_describe(const char *module_dir, struct text *out, struct error *err)
{
    struct gpu gpu;
    if (!open_gpu(&gpu, module_dir, 0, err))
        return false;
    text_add(out, gpu.description);
    gpu.close(gpu.self);
    return true;
}

void device_cuda_libraries(const char *module_dir, struct text *out)
{
    void *symbol = module_symbol(module_dir, GPU_MODULE_FILE, GPU_LIBRARIES_SYMBOL, NULL);
    gpu_module_libraries *tell;
    char libraries[GPU_LIBRARIES_BYTES] = "";
    if (!symbol)
        return;
    memcpy(&tell, &symbol, sizeof tell); /* ISO C has no conversion to function pointers */
    tell(libraries);
    text_add(out, libraries);
}

const struct device device_cuda = { .name = "cuda", .open = open, GPU_DEVICE_FUNCTIONS };
