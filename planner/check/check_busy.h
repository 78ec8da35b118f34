/* Whether a claimed bound of the simulated step holds for one configuration, worked out anew (what is bounded and why:
 * planner/bound/busy_bound.h). */
#ifndef CLEAVE_CHECK_BUSY_H
#define CLEAVE_CHECK_BUSY_H
#include "planner/check/check_orders.h"
#include "planner/cut/partition.h"
#include "planner/space/space.h"

/**
 * *holds: no cut and no choice of strategies keeps every stage's kernels, with what must run before and after them,
 * below bound_ns. All cuts are looked at; where layers may come in other orders (orders, else NULL), the mean of all
 * stages. Fails only for want of memory.
 */
bool busy_holds(bool *holds, const struct chain *chain, const struct orders *orders, const struct config *config,
                const struct price_table *table, int64_t bound_ns, struct error *err);
/* The same by both lanes of a stage and its memory (planner/bound/lanes_bound.h), with prices of whole strategies:
 * false where nothing can be said. */
bool busy_lanes_hold(bool *holds, const struct chain *chain, const struct orders *orders, const struct config *config,
                     const struct price_table *table, int64_t capacity_bytes, int64_t bound_ns, struct error *err);
#endif
