/* A second look at the plain part of a space. */
#ifndef CLEAVE_SEARCH_PLAIN_H
#define CLEAVE_SEARCH_PLAIN_H
#include "planner/search/search.h"

/* Only what has one mesh for each stage, one layout for all layers, and no choices that are restricted by default.
 * False: the space has no such part, or nothing else, and stays as it is. */
bool plain_narrow(struct space *space);
/* Where the space has such plans, and others beside them: adds
 * the best of these by themselves to the result's plans. By the formula the others may keep plain ones from being
 * looked at that are simulated shorter; so allowing more makes no plan longer. Ends with the search's time. Fails for
 * want of memory. */
bool find_plain(struct search_result *result, const struct model *model, const struct facts *facts,
                const struct search_options *options, int64_t start_ns, struct error *err);
#endif
