/* A proven lower bound of one stage's compute path, worked out anew: the checker trusts the search's prices and nothing
 * else of it. */
#ifndef CLEAVE_CHECK_CHECK_STAGE_H
#define CLEAVE_CHECK_CHECK_STAGE_H
#include "base/error.h"
#include "base/num.h"
#include "planner/price/price.h"

/* Constraints of a stage: bytes, the three times of which the longest enters the formula, and the forward passes where
 * these are apart. */
enum { LIMIT_BYTES, LIMIT_PATH, LIMIT_TAIL, LIMIT_LANE, LIMIT_FORWARD, LIMIT_COUNT };

/* What stages of one kind share. */
struct stage_kind {
    const struct price_table *table;
    int64_t capacity_bytes, in_flight, micro_batches;
    int64_t waiting_ns; /* of each micro-batch, for sends that too few micro-batches in flight do not hide */
    bool apart; /* forward passes all come before the backward ones: all stages wait for the longest of the former, and
                   the times above are of backward passes alone. Only plans are meant where that longest is at most: */
    int64_t to_ns;
    int64_t from_ns; /* and at least so much of it is in each of the times but the lane's */
    bool patient;    /* GLPK gets more time: where it gave up without it, and that left something open */
};
/* Gives what one layer takes of each limit; the tied weight counts unless the stage holds its first user too. */
void stage_layer_use(const struct stage_kind *kind, const struct layer_price *price, bool holds_both,
                     int64_t use[LIMIT_COUNT]);
/* Gives what waiting adds to a stage's path and to its tail. */
static inline int64_t stage_waiting_ns(const struct stage_kind *kind)
{
    return (kind->micro_batches - 1) * kind->waiting_ns + kind->from_ns;
}
/* What a stage's layers take together; or the longest of each that any stage has. */
struct stage_ends {
    int64_t forward_ns, rest_ns, lane_ns; /* rest: of path and tail the longer */
};
static const struct stage_ends no_ends = { INT64_MIN / 4, INT64_MIN / 4, INT64_MIN / 4 };
struct stage_ends stage_ends_of(const struct stage_kind *kind, const int64_t use[LIMIT_COUNT]);
static inline struct stage_ends stage_longer(struct stage_ends a, struct stage_ends b)
{
    return (struct stage_ends){ max_i64(a.forward_ns, b.forward_ns), max_i64(a.rest_ns, b.rest_ns),
                                max_i64(a.lane_ns, b.lane_ns) };
}
/* Gives what they add to the step with that longest forward part, or by a kind's from_ns what caps are about. */
static inline int64_t stage_longest_ns(struct stage_ends ends, int64_t forward_ns)
{
    return max_i64(forward_ns + ends.rest_ns, ends.lane_ns);
}
/* What a stage holds. */
struct stage_content {
    const int *count; /* (classes) layers */
    bool holds_both;  /* both layers that share a weight */
};
static inline int64_t stage_layer_path_ns(const struct layer_price *price)
{
    return price->forward_ns + price->backward_ns;
}
/* The least that a layer of the class takes of a limit, or of the path or the update, whatever it decides. */
enum { USE_PATH = LIMIT_COUNT, USE_STEP };
int64_t stage_layer_least(const struct stage_kind *kind, int class_index, int what);

/**
 * Gives the least sum of compute paths of a stage with that content whose three times stay within cap_ns.
 *
 * whole   over whole counts, by GLPK's branch and bound; else the linear relaxation, whose bound is proven in integers
 * *least  a bound; of whole counts the optimum but for 1e-9 of it, GLPK's tolerance. INT64_MAX: no choice fits
 * *cost   the path of the best choice that was found and checked in integers; INT64_MAX: none
 * *ends   what that takes
 * Fails only for want of memory.
 */
bool stage_least_path(const struct stage_kind *kind, const struct stage_content *content, int64_t cap_ns, bool whole,
                      int64_t *least, int64_t *cost, struct stage_ends *ends, struct error *err);
/* Gives the least sum of compute paths and longest time of such a stage, but for 1e-9 of it; 0 where GLPK gives up,
 * INT64_MAX: nothing fits. Where the data-parallel lane decides, one trades for the other, and no cap on the time says
 * much. whole false: of parts of layers, and as if nothing were transient. A bound that is enough is not raised, and
 * one that turns out lower is not looked for to the end: it only says so. known: zeroes, or the multipliers of another
 * stage of the kind, which may prove this one's bound, too; its own stand there afterwards. */
bool stage_least_total(const struct stage_kind *kind, const struct stage_content *content, bool whole,
                       int64_t enough_ns, int64_t known[LIMIT_COUNT], int64_t *least, struct error *err);
#endif
