#include "profiler/crew.h"
#include "executor/device.h"
#include "host/machine.h"

int64_t crew_cache_bytes(const struct crew *crew)
{
    return crew->cache_bytes > 0 ? crew->cache_bytes : host_cache_bytes();
}

bool crew_leads(const struct crew *crew)
{
    return crew->transports[0].rank == 0;
}

/* A process has all ranks or one, so its first rank is the one to tell. */
bool crew_agree(const struct crew *crew, void *data, size_t bytes, struct error *err)
{
    const struct transport *t = &crew->transports[0];
    if (crew->local_count == crew->rank_count)
        return true;
    if (t->rank > 0)
        return t->exchange(t->self, LANE_COMPUTE, -1, NULL, 0, 0, data, bytes, err);
    for (int r = 1; r < crew->rank_count; r++)
        if (!t->exchange(t->self, LANE_COMPUTE, r, data, bytes, -1, NULL, 0, err))
            return false;
    return true;
}

bool crew_run(const struct crew *crew, const struct program *program, const struct data *data, int64_t step_count,
              bool (*on_timeline)(void *context, int64_t step, const struct timeline *timeline), void *context,
              struct error *err)
{
    struct device device = crew->device ? *crew->device : device_cpu;
    if (!data)
        device.computes = false, device.check = NULL;
    struct run_options options = run_options_default();
    options.step_count = step_count;
    options.device = &device;
    options.resident = true; /* sources that only a program made by hand never writes would share one page of zeros */
    options.module_dir = crew->module_dir, options.share_gpus = crew->share_gpus;
    options.data = data;
    options.context = context;
    options.on_timeline = on_timeline;
    struct run_summary summary = { 0 };
    bool ok = run_program(&summary, program, crew->transports, crew->local_count, &options, err);
    run_summary_free(&summary);
    return ok;
}
