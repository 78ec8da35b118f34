/* How much computing and communicating on the same ranks slow each other down. */
#ifndef CLEAVE_PROFILER_CONTENTION_H
#define CLEAVE_PROFILER_CONTENTION_H
#include "profiler/crew.h"

struct contention {
    double compute_under_communication, communication_under_compute; /* at least 1 */
    int compute_samples, communication_samples;                      /* that ran beside the other all the time */
};
/* A product and an all-reduce over all ranks, each alone and both at once. One rank: factors of 1. Only the process of
 * rank 0 gets the result. */
bool contention_measure(struct contention *out, const struct crew *crew, double budget_s, struct error *err);
#endif
