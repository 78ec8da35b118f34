/* Straight lines through measured times. */
#ifndef CLEAVE_PROFILER_FIT_H
#define CLEAVE_PROFILER_FIT_H
#include <stdbool.h>

/* One measured point: ns = fixed x calls + per_unit x units. */
struct fit_point {
    double calls, units, ns;
};
struct fit_line {
    double fixed_ns, ns_per_unit, error;
};
/**
 * Least squares of the errors over the square roots of the times, so that large work counts by its share of time and
 * small work still decides the fixed part. Neither coefficient is negative: one that would be is 0 and the other is
 * fitted alone. False without points of positive time. error: the largest relative one at a point of at least
 * FIT_COUNTS of the longest time.
 */
#define FIT_COUNTS 0.01
bool fit_line(struct fit_line *out, const struct fit_point *points, int count);
/* As fit_line() with equal relative weights: latencies and bandwidths of curves over many orders of magnitude. error:
 * the largest relative one at any point. */
bool fit_relative(struct fit_line *out, const struct fit_point *points, int count);
#endif
