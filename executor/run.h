/* Runs a program: initial weights, steps, losses, a measured timeline. */
#ifndef CLEAVE_EXECUTOR_RUN_H
#define CLEAVE_EXECUTOR_RUN_H
#include "executor/checkpoint/saver.h"
#include "executor/run_options.h"
#include "executor/transport.h"
#include "planner/facts/memory_parts.h"

struct run_summary {
    int64_t first_step, last_step;
    int64_t step_ns_median; /* without the first step where there are more, nor one that was recorded
                               (run_options.kernels) where there are three; of long runs see step_times.h */
    bool has_loss;
    double first_loss, last_loss; /* NaN without has_loss */
    double squared_norm;          /* of the last step's gradient; 0 without clipping */
    int64_t choices, dropped;     /* of experts in all steps and on all ranks, and those that found no slot; 0 where a
                                     device does not count them */
    bool asked_to_end;            /* it saved and ended before its last step because it was asked to */
    struct save_times saves;      /* of rank 0 */
    int rank_count;
    int64_t *peak_bytes;      /* (rank_count) on rank 0's process, else NULL */
    int64_t *host_peak_bytes; /* likewise, of host memory */
    struct memory_outside
        *outside;              /* likewise, what devices with memory of their own say; not where each step is shown */
    struct timeline *timeline; /* of the last step, all ranks; on rank 0's process, else NULL */
};
void run_summary_free(struct run_summary *summary);

/**
 * Runs the ranks of transports[0 .. local_count) in this process, each with a thread per lane. The program has offsets
 * (layout_program()) and passed verify_program. Fails, on every rank, when one does; the message names the rank and
 * what it did last.
 */
bool run_program(struct run_summary *out, const struct program *program, const struct transport *transports,
                 int local_count, const struct run_options *options, struct error *err);
#endif
