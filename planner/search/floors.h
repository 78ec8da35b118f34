/* What costs almost nothing to know of a configuration: bounds that are no more than its first ones. */
#ifndef CLEAVE_SEARCH_FLOORS_H
#define CLEAVE_SEARCH_FLOORS_H
#include "planner/tables/workbench.h"

struct floor {
    int64_t path_ns, first_ns; /* as partition_path_bound() and partition_quick_bound(); 0: nothing is known */
};
/* Before search_floor() of any of these configurations. */
bool search_open_floors(struct workbench *bench, const struct config *configs, int count, struct error *err);
/* The configuration's first bounds are no less, neither by paths nor by all that they know. One sample serves all that
 * have its mesh but for ranks with sequences of their own, whatever their micro-batches. */
bool search_floor(struct floor *out, struct workbench *bench, const struct config *config, struct error *err);
#endif
