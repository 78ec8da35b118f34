/* Which of like layers takes which strategy: the formula only knows how many of a stage take each. */
#ifndef CLEAVE_ESTIMATE_SWAPS_H
#define CLEAVE_ESTIMATE_SWAPS_H
#include "planner/estimate/pipeline.h"

/* Two layers of one class in one chunk of a stage with different strategies. */
bool swaps_exist(const struct plan *plan, const struct chain *chain);
/* Micro-batches that the descent walks: order matters where a step begins and ends, and so many show it. */
int swaps_micro_batches(const struct plan *plan);
/* Descent: swaps the strategies of two such layers as long as that shortens the walk (pipeline_step_ns()) of so many
 * micro-batches, or until the walk has visited `visits` layers. *changed: the plan is another one. The rest as for
 * pipeline_step_ns(). */
bool swaps_descend(struct plan *plan, const struct chain *chain, const struct price_table *table,
                   const struct facts *facts, struct pipeline_shelf *orders, int64_t visits, bool *changed,
                   struct error *err);
#endif
