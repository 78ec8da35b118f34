/* The ranks that measure together, as one process sees them. Timelines reach the process of rank 0 alone, so it
 * decides. */
#ifndef CLEAVE_PROFILER_CREW_H
#define CLEAVE_PROFILER_CREW_H
#include "executor/run.h"

struct crew {
    const struct transport *transports; /* (local_count) those of this process */
    int local_count, rank_count;
    const struct device *device; /* a GPU (executor/gpu/device.h); NULL: the processor */
    const char *module_dir;      /* of devices that are modules */
    bool share_gpus;             /* run_options.h */
    struct gpu_learned *learned; /* run_options.h */
    enum dtype dtype;            /* of the computations */
    int64_t cache_bytes;         /* that rig_empty_caches() passes over; 0: what crew_cache_bytes() finds */
    int64_t device_cache_bytes;  /* of one device; 0: unknown */
};
/* So many that nothing of what came before is left in the caches of what computes. */
int64_t crew_cache_bytes(const struct crew *crew);
bool crew_leads(const struct crew *crew); /* rank 0 lives here */
/* Every process gets rank 0's bytes. Called by all, between runs. */
bool crew_agree(const struct crew *crew, void *data, size_t bytes, struct error *err);
/* Runs the program for at most step_count steps and shows each timeline to on_timeline. data NULL: nothing loads
 * tokens. */
bool crew_run(const struct crew *crew, const struct program *program, const struct data *data, int64_t step_count,
              bool (*on_timeline)(void *context, int64_t step, const struct timeline *timeline), void *context,
              struct error *err);
/* The same, and how many bytes one rank has on its device beside its arena: the most that any rank of this process saw
 * after a step but the first, when all ranks are open; ranks that share a device have equal parts. Of all ranks, which
 * are on this host, each has the GPU of its number modulo theirs. Raises *outside_bytes; leaves it where no device
 * says. */
bool crew_run_and_weigh(const struct crew *crew, const struct program *program, const struct data *data,
                        int64_t step_count,
                        bool (*on_timeline)(void *context, int64_t step, const struct timeline *timeline),
                        void *context, struct memory_outside *outside, struct error *err);
#endif
