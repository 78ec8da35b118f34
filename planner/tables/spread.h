/* Prices of stages whose meshes share each micro-batch: a table for each number of meshes. */
#ifndef CLEAVE_SEARCH_SPREAD_H
#define CLEAVE_SEARCH_SPREAD_H
#include "planner/tables/workbench.h"

/* The table of a configuration that is spread, with one for each number of meshes that its stages may have, made once.
 * *out NULL: lowering refuses one of them. */
bool spread_table(struct workbench *bench, const struct config *config, bool bound_only, const struct price_table **out,
                  struct error *err);
#endif
