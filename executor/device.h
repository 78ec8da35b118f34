/* What computes: the instructions that move nothing between ranks, and where the rank's memory lies. */
#ifndef CLEAVE_EXECUTOR_DEVICE_H
#define CLEAVE_EXECUTOR_DEVICE_H
#include "planner/facts/memory_parts.h"
#include "planner/program/program.h"

struct rank;
struct span;
struct device {
    const char *name;
    /* Tells whether it can run this program. May be NULL: any. */
    bool (*check)(const struct program *program, struct error *err);
    /* Runs one instruction that is not a transfer, or queues it on the instruction's lane; span as in lane_run_function
     * (lanes.h). Called by the lane's thread, when the same was called for all that the instruction waits for. */
    bool (*execute)(struct rank *rank, const struct instr *instr, struct span *span, struct error *err);
    bool computes; /* losses and gradients mean something */

    /* The rest is for devices with memory of their own; NULL for those that compute in the rank's arena, which then is
     * only the host's copy of what stays over the steps. */
    bool (*open)(struct rank *rank, struct error *err); /* sets rank->device_state */
    void (*close)(struct rank *rank);                   /* also after an open that failed */
    /* What stays over the steps (all of it, in a poisoned run) from the host's copy to the device and back. Nothing may
     * be under way. */
    bool (*upload)(struct rank *rank, struct error *err);
    bool (*download)(struct rank *rank, struct error *err);
    /* A transfer between ranks; muted as in collective_run(). */
    bool (*transfer)(struct rank *rank, const struct instr *instr, bool muted, struct span *span, struct error *err);
    bool (*begin_step)(struct rank *rank, struct error *err);
    /* Waits for all that was queued; fills loss_part and squared_norm, and the spans (by instruction) with when things
     * ran rather than when they were queued. */
    bool (*finish_step)(struct rank *rank, struct span *spans, struct error *err);
    /* Says what libraries and the context hold on the rank's device beside the arenas of the ranks that share it: the
     * rank's part, and what of it is known by name. */
    bool (*memory_beside_arena)(struct rank *rank, struct memory_outside *out, struct error *err);
};
/* Whether any device runs it: no layer is planned alone or has given times, and what experts give is weighted behind
 * their last product, as kernels do it; else says why not. */
bool device_may_run(const struct program *program, struct error *err);
extern const struct device device_cpu;   /* kernels of executor/kernels, on the calling thread */
extern const struct device device_timed; /* waits as long as cost_instr_ns() says; communication is real */
extern const struct device device_cuda;  /* kernels of executor/gpu, by the module cleave-cuda.so */
#endif
