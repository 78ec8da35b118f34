/* Whether a claimed bound of the simulated step holds for one configuration, worked out anew (what is bounded and why:
 * planner/bound/busy_bound.h). The least kernels of a class are the table's (price_least()); where the search bisects
 * the step, this looks whether any cut keeps below it. */
#ifndef CLEAVE_CHECK_CHECK_BUSY_H
#define CLEAVE_CHECK_CHECK_BUSY_H
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
#endif
