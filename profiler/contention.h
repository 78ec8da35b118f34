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
 * Sizes begin as fits the device, and short runs fit them to its paces (contention_resize()).
 */
bool contention_measure(struct contention *out, const struct crew *crew, double budget_s, struct error *err);

/* A product of edge^3 and an all-reduce of so many bytes. */
struct contention_sizes {
    int edge;
    int64_t transfer_bytes;
};
enum { CONTENTION_MOST_EDGE = 4096, CONTENTION_MOST_BYTES = 16 << 20 }; /* of which a rank holds 3 and 12 at once */
struct contention_sizes contention_first_sizes(bool on_device);
/* Of so many ns each alone: whether other sizes, which *sizes becomes, would last better. A transfer is to end beside
 * one product and to last a good part of it, a product long enough to be timed beside what starts it. */
bool contention_resize(struct contention_sizes *sizes, bool on_device, double product_ns, double transfer_ns);
#endif
