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
 * budget  nodes of branch and bound; 0: the linear relaxation only
 * *least  a proven bound; INT64_MAX: no choice of strategies fits
 * *exact  whether it is the optimum
 * *times  the longest of the three times of a choice with that path, when exact
 * Fails only for want of memory.
 */
bool stage_least_path(const struct stage_kind *kind, const int *count, bool holds_both, int64_t cap_ns, int64_t budget,
                      int64_t *least, bool *exact, int64_t *times, struct error *err);
#endif
