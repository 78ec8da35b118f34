/* `--backend cuda`: opens the module cleave-cuda.so for each rank. */
#include "base/text.h"
#include "executor/backends.h"
#include "executor/gpu/comm.h"
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

/* gpu NULL: only what the library is. */
static bool open_nccl(struct nccl *out, const char *module_dir, const struct gpu *gpu, int lanes, int multiprocessors,
                      struct error *err)
{
    void *symbol = module_symbol(module_dir, GPU_MODULE_FILE, NCCL_MODULE_SYMBOL, err);
    nccl_module_open *open_module;
    if (!symbol)
        return error_within(err, "transport nccl is absent");
    memcpy(&open_module, &symbol, sizeof open_module);
    return open_module(out, gpu, lanes, multiprocessors, err);
}

/* Lanes of any stage: all ranks come to the same number. */
static int lanes_that_talk(const struct program *program)
{
    bool talks[LANE_COUNT] = { false };
    int count = 0;
    for (int s = 0; s < program->stage_count; s++)
        for (int i = 0; i < program->stages[s].instr_count; i++) {
            const struct instr *instr = &program->stages[s].instrs[i];
            talks[instr->lane] |= instr_moves_data(instr);
        }
    for (int lane = 0; lane < LANE_COUNT; lane++)
        count += talks[lane];
    return count;
}

static bool check_sharing(const struct rank *rank, const struct gpu *gpu, int place, struct error *err)
{
    return rank->options->share_gpus || nccl_may_have_own_gpu(place, gpu->device_count) ||
           fail_kind(err, ERROR_INPUT,
                     "rank %d is number %d of its host, which has %d GPUs, and NCCL wants one for each rank: start "
                     "fewer ranks per host, or let them share one by --share-gpus (slow: for tests)",
                     rank->rank, place, gpu->device_count);
}

/* NCCL alone finds out that neighbours who see one GPU each see the same. */
static bool explain_sharing(const struct rank *rank, struct error *err)
{
    return err && strstr(err->message, NCCL_SAME_GPU) &&
           error_within(
               err,
               "rank %d: NCCL wants a GPU for each rank: start fewer ranks per host, show each another GPU, or "
               "let them share one by --share-gpus (slow: for tests)",
               rank->rank);
}

/* The library comes first: the arena is memory of its kind. */
static bool open_among_others(struct rank *rank, const struct gpu *gpu, int place, struct error *err)
{
    struct nccl nccl;
    const int spared = rank->options->transfer_sms;
    if (!check_sharing(rank, gpu, place, err) || (spared > 0 && gpu->spare && !gpu->spare(gpu->self, spared, err)) ||
        !open_nccl(&nccl, rank->options->module_dir, gpu, lanes_that_talk(rank->program), spared, err)) {
        gpu->close(gpu->self);
        return false;
    }
    return gpu_device_open(rank, gpu, &nccl, err) && (gpu_comm_open(rank, err) || explain_sharing(rank, err));
}

static bool open_cuda(struct rank *rank, struct error *err)
{
    struct gpu gpu;
    int place = place_of(rank);
    return open_gpu(&gpu, rank->options->module_dir, place, err) &&
           (rank->transport->of_devices ? open_among_others(rank, &gpu, place, err)
                                        : gpu_device_open(rank, &gpu, NULL, err));
}

bool device_cuda_describe_nccl(const char *module_dir, struct text *out, struct error *err)
{
    struct nccl nccl;
    if (!open_nccl(&nccl, module_dir, NULL, 0, 0, err))
        return false;
    text_add(out, nccl.name);
    nccl.close(nccl.self);
    return true;
}

bool device_cuda_describe(const char *module_dir, struct text *out, int64_t *memory_bytes, int64_t *cache_bytes,
                          struct error *err)
{
    struct gpu gpu;
    if (!open_gpu(&gpu, module_dir, 0, err))
        return false;
    text_add(out, gpu.description);
    if (memory_bytes)
        *memory_bytes = gpu.memory_bytes;
    if (cache_bytes)
        *cache_bytes = gpu.cache_bytes;
    gpu.close(gpu.self);
    return true;
}

bool device_cuda_describe_records(const char *module_dir, struct text *out, struct error *err)
{
    void *symbol = module_symbol(module_dir, GPU_MODULE_FILE, GPU_RECORDS_SYMBOL, err);
    gpu_module_records *tell;
    char records[GPU_LIBRARIES_BYTES] = "";
    if (!symbol)
        return error_within(err, "records of what GPUs run are absent");
    memcpy(&tell, &symbol, sizeof tell);
    if (!tell(records, err))
        return false;
    text_add(out, records);
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

const struct device device_cuda = { .name = "cuda", .open = open_cuda, GPU_DEVICE_FUNCTIONS };
