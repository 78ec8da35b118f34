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
 * Products and all-reduces on all ranks, each alone and both at once as programs have them: each product lets one
 * transfer go, beside the next product. A transfer takes from when it may go to its end, so that the time counts in
 * which its threads wait for a core that computes; what the products lose meanwhile is their slow-down. The factor is
 * the median over steps and ranks. One rank: factors of 1. Only the process of rank 0 gets the result.
 */
bool contention_measure(struct contention *out, const struct crew *crew, double budget_s, struct error *err);
#endif
