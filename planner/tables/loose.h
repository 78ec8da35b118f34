/* Prices that are no more than any of a configuration's, and cost little. */
#ifndef CLEAVE_SEARCH_LOOSE_H
#define CLEAVE_SEARCH_LOOSE_H
#include "planner/tables/workbench.h"

/* A strategy for each of space_ends(), with the least time of any ZeRO stage and the memory of the thriftiest, whatever
 * the prefetch: no gathers, no reductions, no sends, nothing that lives in passing. Whatever a relaxation over it rules
 * out has no plan. Made once. *out NULL: there is
 * none, where stages are not all of one kind, paths are no sums, memory is ample or lowering refuses. */
bool loose_table(struct workbench *bench, const struct config *config, const struct price_table **out,
                 struct error *err);
#endif
