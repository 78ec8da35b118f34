/* Tables of configurations whose layers have different layouts. */
#ifndef CLEAVE_SEARCH_LAYOUTS_H
#define CLEAVE_SEARCH_LAYOUTS_H
#include "planner/tables/workbench.h"

/* The strategies of all the configuration's layouts in one table, what lies between layers of different ones, and what
 * cuts cost; of bound_only only the strategies. A layout that lowering refuses is left out; *out NULL: it refuses all.
 * Made once. */
bool layouts_table(struct workbench *bench, const struct config *config, bool bound_only,
                   const struct price_table **out, struct error *err);
#endif
