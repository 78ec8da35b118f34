/* How much computing and communicating on the same ranks slow each other down. */
#ifndef CLEAVE_PROFILER_CONTENTION_H
#define CLEAVE_PROFILER_CONTENTION_H
#include "profiler/crew.h"

struct contention {
    double compute_under_communication, communication_under_compute;               /* at least 1 */
    double compute_under_communication_spread, communication_under_compute_spread; /* interquartile range / median */
    int compute_samples, communication_samples; /* steps and ranks behind them; 0: nothing ran side by side */
};
/**
 * Products and all-reduces on all ranks, each alone and both at once, for many of the scheduler's time slices. A sample
 * is the pace (time from the first begin to the last end, over their number) of those that ran beside the other kind
 * all the time, over the pace alone in the same step: the share of progress that is left in a long step, with all that
 * a thread waits for a core, which durations of single instructions hide. The factor is the samples' median. One rank:
 * factors of 1. Only the process of rank 0 gets the result.
 */
bool contention_measure(struct contention *out, const struct crew *crew, double budget_s, struct error *err);
#endif
