/* Finds, when nothing fits, which single change would make a plan fit. */
#ifndef CLEAVE_SEARCH_ADVICE_H
#define CLEAVE_SEARCH_ADVICE_H
#include "planner/search/search.h"

/* Fills result->nearest.advice: of each kind the first change that lets a plan fit, all else as it is, among half, a
 * quarter, ... of the batch (then the next batch that all devices share out), of the micro-batch where the user
 * restricts it, and of the sequence; twice, four times, ... 64 times the nodes; frozen matrices in few bits; and the
 * memory that the nearest plan needs. Each is a search in a space narrowed to the thriftiest choices that the user
 * allows. start_ns: when the search began, by its own clock; its time limit ends this too. Fails for want of memory. */
bool advice_find(struct search_result *result, const struct model *model, const struct facts *facts,
                 const struct search_options *options, int64_t start_ns, struct error *err);
/* Gives options for a search of that narrowed space; a plan near the limit of memory gets a second look in it. */
struct search_options advice_thrifty(const struct search_options *options);
/* Leaves what keeps least alone in that space, where there is more and hosts may take part, and tells whether it did:
 * solutions by a price of their memory, which weigh what else there is, keep up to 4 % more than the least. */
bool advice_keep_least(struct search_options *narrowed);
/* Lists, when the search has found nothing, the plan that it finds in that narrowed space, if there is one: the search
 * goes by the sum of what layers need at most, which is more than what lives at once, so that something may fit all the
 * same. Fails for want of memory. */
bool advice_find_thrifty(struct search_result *result, const struct model *model, const struct facts *facts,
                         const struct search_options *options, int64_t start_ns, struct error *err);
#endif
