/* Searches the narrower part of a space once more: what is chosen without `turns`, or by default. */
#ifndef CLEAVE_SEARCH_NARROWER_H
#define CLEAVE_SEARCH_NARROWER_H
#include "planner/search/search.h"

/* Keeps what has one mesh for each stage. False when the space has no such part, or nothing else, and stays so. */
bool narrower_space(struct space *space);
/* Adds the best plans of the narrower space to the result's, where the space has others beside them or allows what is
 * restricted by default. By the formula the others may keep them from being looked at although they are simulated
 * shorter; so allowing more makes no plan longer. Ends with the search's time. Fails for want of memory. */
bool narrower_find(struct search_result *result, const struct model *model, const struct facts *facts,
                   const struct search_options *options, int64_t start_ns, struct error *err);
#endif
