/* What would make a plan fit, when nothing does. */
#ifndef CLEAVE_SEARCH_ADVICE_H
#define CLEAVE_SEARCH_ADVICE_H
#include "planner/search/search.h"

/* Fills result->nearest's suggestion: twice, four times, ... 64 times the nodes until a plan fits, in a space narrowed
 * to the thriftiest choices that the user allows; and the memory that the nearest plan needs. start_ns: when the search
 * began, by its own clock; its time limit ends this too. Fails for want of memory. */
bool advise(struct search_result *result, const struct model *model, const struct facts *facts,
            const struct search_options *options, int64_t start_ns, struct error *err);
#endif
