/* What each layer of a plan costs where it, or its copy, is: with its stage's type of device and replicas, what
 * neighbours of another layout hand over, and weights that it shares with a layer of another stage. */
#ifndef CLEAVE_ESTIMATE_PIPELINE_PRICES_H
#define CLEAVE_ESTIMATE_PIPELINE_PRICES_H
#include "planner/cut/partition.h"

/* Gives *out, (layers) by place in the plan's order, in the arena or the table's. Fails for want of memory, and when a
 * layer has a strategy that the table does not have. */
bool pipeline_prices(const struct layer_price ***out, const struct plan *plan, const struct chain *chain,
                     const struct price_table *table, const struct facts *facts, int copy, struct arena *arena,
                     struct error *err);
#endif
