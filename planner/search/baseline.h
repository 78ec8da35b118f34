/* Plans as people write them: one strategy for all layers, stages balanced by cost. For estimates and comparisons. */
#ifndef CLEAVE_SEARCH_BASELINE_H
#define CLEAVE_SEARCH_BASELINE_H
#include "planner/space/space.h"

struct model;

/**
 * Makes the plan. A choice of the space with one value has that, any other its usual one (choices.def); missing degrees
 * are so that the product is the device count. The space's rules say what some layers decide instead, of one value
 * each. reversed: the pipeline begins on the cluster's last ranks. Fails with the reason of choice_legal().
 */
bool baseline_plan(struct plan **out, const struct space *space, bool reversed, const struct model *model,
                   const struct facts *facts, struct error *err);
/* Makes the configuration alone, of the graph's model. Fails as that does. */
bool baseline_config(struct config *out, const struct space *space, bool reversed, const struct graph *graph,
                     const struct cluster *cluster, struct error *err);
#endif
