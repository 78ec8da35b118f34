/* Bounds of stages from multipliers that someone claims: weak duality, whatever they are. */
#ifndef CLEAVE_CHECK_DUAL_H
#define CLEAVE_CHECK_DUAL_H
#include "planner/check/check_orders.h"
#include "planner/check/check_stage.h"

enum { DUAL_PEAKS = 16, DUAL_VECTORS = 16, DUAL_BITS = 46 };
struct dual_claim {
    int64_t cap_ns; /* on the longest stage's time, where the proof ends: nothing below is looked at. May be negative */
    int peak_count, vector_count;
    int64_t peaks[DUAL_PEAKS];                     /* thresholds in bytes */
    int64_t multiplier[DUAL_VECTORS][LIMIT_COUNT]; /* ns per unit of each limit, times 2^DUAL_BITS */
};
struct dual;
/**
 * Of one kind of stage, over a chain of layers:
 *
 *   sum C >= min over i of sum over layers of min over strategies with transient <= peaks[i] of (C + multipliers use)
 *                                                        + multiplier of bytes x peaks[i - 1] - multipliers limits
 *
 * NULL: out of memory, or the multipliers are too large for sums. class_of: (layer_count). orders: NULL, or what stages
 * begin and end with.
 */
struct dual *dual_open(struct arena *arena, const struct stage_kind *kind, const struct dual_claim *claim,
                       const int *class_of, int layer_count, const struct orders *orders);
/* No stage of the layers between first and end whose three times stay within cap_ns has a shorter path; INT64_MAX: none
 * fits. */
int64_t dual_least(const struct dual *dual, int first, int end, int64_t cap_ns);
#endif
