#include "profiler/crew.h"
#include "base/num.h"
#include "executor/device.h"
#include "executor/rank.h"
#include "host/machine.h"
#include <pthread.h>

int64_t crew_cache_bytes(const struct crew *crew)
{
    enum { PASSES = 2 }; /* a cache in parts may keep bytes that were passed over once */
    if (crew->cache_bytes > 0)
        return crew->cache_bytes;
    return crew->device && crew->device_cache_bytes > 0 ? PASSES * crew->device_cache_bytes : host_cache_bytes();
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

/* ---- memory beside arenas ---- */
/* A run's callbacks, and what stands before the device's own. */
struct weighing {
    bool (*on_timeline)(void *context, int64_t step, const struct timeline *timeline);
    void *context;
    bool (*finish_step)(struct rank *rank, struct span *spans, struct error *err);
    bool (*memory_beside_arena)(struct rank *rank, struct memory_outside *out, struct error *err);
    pthread_mutex_t mutex;
    struct memory_outside most; /* under the mutex */
};

static bool show_timeline(void *context, int64_t step, const struct timeline *timeline)
{
    const struct weighing *w = context;
    return w->on_timeline(w->context, step, timeline);
}

static bool weigh_and_finish(struct rank *rank, struct span *spans, struct error *err)
{
    struct weighing *w = rank->options->context;
    struct memory_outside outside = { .bytes = -1 };
    if (!w->finish_step(rank, spans, err))
        return false;
    if (rank->step > 0 && !w->memory_beside_arena(rank, &outside, err))
        return false;
    pthread_mutex_lock(&w->mutex);
    if (outside.bytes > w->most.bytes)
        w->most = outside;
    pthread_mutex_unlock(&w->mutex);
    return true;
}

/* ---- runs ---- */
static bool run(const struct crew *crew, struct device device, const struct program *program, const struct data *data,
                int64_t step_count, bool (*on_timeline)(void *context, int64_t step, const struct timeline *timeline),
                void *context, struct error *err)
{
    if (!data)
        device.computes = false, device.check = NULL;
    struct run_options options = run_options_default();
    options.step_count = step_count;
    options.device = &device;
    options.rough = true;
    options.resident =
        !crew->device; /* sources that only a program made by hand never writes would share one page of zeros */
    options.module_dir = crew->module_dir, options.share_gpus = crew->share_gpus;
    options.learned = crew->learned;
    options.data = data;
    options.context = context;
    options.on_timeline = on_timeline;
    struct run_summary summary = { 0 };
    bool ok = run_program(&summary, program, crew->transports, crew->local_count, &options, err);
    run_summary_free(&summary);
    return ok;
}

static struct device device_of(const struct crew *crew)
{
    return crew->device ? *crew->device : device_cpu;
}

bool crew_run(const struct crew *crew, const struct program *program, const struct data *data, int64_t step_count,
              bool (*on_timeline)(void *context, int64_t step, const struct timeline *timeline), void *context,
              struct error *err)
{
    return run(crew, device_of(crew), program, data, step_count, on_timeline, context, err);
}

bool crew_run_and_weigh(const struct crew *crew, const struct program *program, const struct data *data,
                        int64_t step_count,
                        bool (*on_timeline)(void *context, int64_t step, const struct timeline *timeline),
                        void *context, struct memory_outside *outside, struct error *err)
{
    struct device device = device_of(crew);
    if (!device.memory_beside_arena)
        return run(crew, device, program, data, step_count, on_timeline, context, err);
    struct weighing w = { .on_timeline = on_timeline,
                          .context = context,
                          .finish_step = device.finish_step,
                          .memory_beside_arena = device.memory_beside_arena,
                          .mutex = PTHREAD_MUTEX_INITIALIZER,
                          .most = *outside };
    device.finish_step = weigh_and_finish;
    bool ok = run(crew, device, program, data, step_count, show_timeline, &w, err);
    pthread_mutex_destroy(&w.mutex);
    if (ok)
        *outside = w.most;
    return ok;
}
