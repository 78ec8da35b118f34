/* The parts of a search in the order of work (search.c); each is one of a run. False: it failed, run->err says why. */
#ifndef CLEAVE_SEARCH_SEARCH_PARTS_H
#define CLEAVE_SEARCH_SEARCH_PARTS_H
#include "planner/pool/early.h"
#include "planner/pool/pool_parts.h"

/* first_bounds.c: gives all configurations their bounds; fewer where time ends. */
bool first_bounds_all(struct run *run);
/* propose.c: bounds configurations and solves them best first until no bound lies below what is already known. Where
 * that is much work it pauses, and propose_rest() ends what it began when plans are judged. */
bool propose_first(struct run *run);
bool propose_rest(struct run *run);
/* Ends a paused proof: what it leaves open counts in the bound. */
void propose_leave(struct run *run);
/* Solves, when time is over and no plan fits, one configuration after the other of those that fit easily and were not
 * tried, with a bound or without, until one has a plan. *found: it is a candidate. */
bool propose_scout_on(struct run *run, bool *found);
/* families.c: proposes candidates for the judge from families that have none. */
bool families_solve(struct run *run);

/* joined_ends.c: true when first and last layer lie on one stage, so that a weight which both use is exchanged with
 * nobody: then what leads under other schedules says little. */
bool joined_ends_are(const struct config *config);
/* Makes of ranked candidates with joined ends that nobody has judged others with the first layer's weight on one stage,
 * and ranks them. */
bool joined_ends_make(struct run *run);
/* Makes more such plans with moves_join_tied() in a model with branches, and ranks those, too. */
bool joined_ends_try_all(struct run *run);

/* True when the two work alike here, where neither prefetch nor how much more is in flight decides anything. */
bool unbounded_works_alike(const struct config *a, const struct config *b);
/* True when the configuration has several stages of one mesh each. */
static inline bool unbounded_is_usual(const struct config *config)
{
    return config->stages > 1 && config->meshes == 0;
}
/* unbounded.c: appends the configurations of schedules that the closed form does not bound. */
bool unbounded_list(struct run *run);
/* Bounds each by what it has to do at least. */
bool unbounded_bound(struct run *run);
/* Writes into the certificate what is known of them, where that was found. */
bool unbounded_enter(struct run *run);
/* Tries schedules that the closed form does not bound on what was judged best. */
bool unbounded_try(struct run *run);
/* Tries schedules that have both ends of the model on one stage, whatever leads with others, when it is small and ties
 * weights of its first and last layer. */
bool unbounded_try_joined(struct run *run);

/* nearest.c: puts into result->nearest, where nothing fits, the plan that lacks least of those that need least. */
bool nearest_find(struct run *run);
/* near.c: lists into result->near what may be the best under other facts. */
bool near_list(struct run *run);
/* certificate_ranges.c: makes ranges of the records, and counts them by fate. */
bool certificate_ranges_make(struct run *run);
#endif
