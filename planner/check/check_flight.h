/* Whether a claimed bound of the simulated step holds by what stages have in flight, worked out anew (what is bounded
 * and why: planner/bound/flight_bound.h). */
#ifndef CLEAVE_CHECK_FLIGHT_H
#define CLEAVE_CHECK_FLIGHT_H
#include "planner/cut/partition.h"
#include "planner/space/space.h"

/* Whether another layer's decision may count for the weights of layers of the class: a weight that both ends of the
 * model use, where a stage has the last layer of one copy before the first one of the other. */
bool flight_shares_weight(const struct chain *chain, const struct config *config, int class_index);
/* before_ns (stages): the least time before each stage's first kernel. table: of whole strategies. Fails only for want
 * of memory. */
bool flight_holds(bool *holds, const struct chain *chain, const struct config *config, const struct price_table *table,
                  const int64_t *before_ns, int64_t capacity_bytes, int64_t bound_ns, struct error *err);
#endif
