/* A proven lower bound of one stage's compute path, worked out anew: the checker trusts the search's prices and nothing
 * else of it. */
#ifndef CLEAVE_CHECK_STAGE_H
#define CLEAVE_CHECK_STAGE_H
#include "base/arena.h"
#include "base/error.h"
#include "planner/search/price.h"

/* Constraints of a stage: bytes, and the three times of which the longest enters the formula. */
enum { LIMIT_BYTES, LIMIT_PATH, LIMIT_TAIL, LIMIT_LANE, LIMIT_COUNT };

/* What stages of one kind share. */
struct stage_kind {
    const struct price_table *table;
    int64_t capacity_bytes, in_flight, micro_batches;
    int64_t waiting_ns; /* of each micro-batch, for sends that too few micro-batches in flight do not hide */
};
/* So much of each limit does one layer take; the tied weight counts unless the stage holds its first user too. */
void stage_layer_use(const struct stage_kind *kind, const struct layer_price *price, bool holds_both,
                     int64_t use[LIMIT_COUNT]);
static inline int64_t stage_layer_path_ns(const struct layer_price *price)
{
    return price->forward_ns + price->backward_ns;
}

/**
 * The least sum of compute paths of a stage that holds count[c] layers of each class and whose three times stay within
 * cap_ns.
 *
 * whole   over whole counts, by GLPK's branch and bound; else the linear relaxation, whose bound is proven in integers
 * *least  a bound; of whole counts the optimum but for 1e-9 of it, GLPK's tolerance. INT64_MAX: no choice fits
 * *cost   the path of the best choice that was found and checked in integers; INT64_MAX: none
 * *times  the longest of its three times
 * Fails only for want of memory.
 */
bool stage_least_path(const struct stage_kind *kind, const int *count, bool holds_both, int64_t cap_ns, bool whole,
                      int64_t *least, int64_t *cost, int64_t *times, struct error *err);
/* The least sum of compute paths and longest time of such a stage, but for 1e-9 of it; 0 where GLPK gives up,
 * INT64_MAX: nothing fits. Where the data-parallel lane decides, one trades for the other, and no cap on the time says
 * much. */
bool stage_least_total(const struct stage_kind *kind, const int *count, bool holds_both, int64_t *least,
                       struct error *err);
#endif
