/* Which runs can be compared on a machine whose speed changes: those beside which a reference took about the same time.
 */
#ifndef CLEAVE_BENCHMARKS_BAND_H
#define CLEAVE_BENCHMARKS_BAND_H
#include <stdbool.h>
#include <stdint.h>

/* A run of a plan between two timings of the reference: reference_ns[reference] and the one after it. */
struct band_run {
    int plan, reference;
};
struct band_runs {
    const int64_t *reference_ns; /* (reference_count) */
    const struct band_run *runs; /* (run_count) */
    const int *wanted;           /* (plan_count, at most REPORT_MAX_PLANS) runs that each plan needs */
    int reference_count, run_count, plan_count;
    double width;     /* largest over smallest reference of a band, minus 1, at most */
    int64_t known_ns; /* a reference of before that must lie in the band; 0: none */
};
struct band {
    int64_t low_ns, high_ns; /* of the references that may lie beside a run that counts */
    int run_count;           /* that count */
    int missing;             /* of what the plans need, summed over them */
};
/**
 * The band that misses fewest runs; of several the one with most, then the lowest. Only low ends at a reference (or the
 * known one) need be tried: any other band can be raised to one and loses nothing. Without references, and without a
 * known one, no run counts.
 */
struct band band_choose(const struct band_runs *runs);
/* Whether the run counts: both of its references lie in the band. */
bool band_has(const struct band *band, const int64_t *reference_ns, const struct band_run *run);
#endif
