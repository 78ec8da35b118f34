/* The parts of a search in the order of work (search.c); each is one of a run. False: it failed, run->err says why. */
#ifndef CLEAVE_SEARCH_SEARCH_PARTS_H
#define CLEAVE_SEARCH_SEARCH_PARTS_H
#include "planner/pool/pool_parts.h"

/* first_bounds.c: opens the lists by configuration; where time is limited some configurations get their bounds. */
bool first_bounds_open(struct run *run);
/* opening.c: where time is limited, an early plan of one of these. */
bool opening_find(struct run *run);
/* first_bounds.c: gives all configurations their bounds; fewer where time ends. */
bool first_bounds_all(struct run *run);
/* propose.c: bounds configurations and solves them best first until no bound lies below what is already known. Where
 * that is much work it pauses, and propose_rest() ends what it began when plans are judged. */
bool propose_first(struct run *run);
bool propose_rest(struct run *run);
/* When time is over and there is no plan that fits: solves one configuration after the other of those that fit easily,
 * with a bound or without, and were not tried, until one has a plan. *found: it is a candidate. */
bool propose_scout_on(struct run *run, bool *found);
/* families.c: candidates for the judge, from families that have none. */
bool families_solve(struct run *run);

/* joined_ends.c. Whether first and last layer lie on one stage, so that a weight which both use is exchanged with
 * nobody: then what leads under other schedules says little. */
bool joined_ends_are(const struct config *config);
/* Ranked candidates with joined ends that nobody has judged come again with the first layer's weight on one stage,
 * ranked, too. */
bool joined_ends_make(struct run *run);
/* In a model with branches moves_join_tied() makes more of the ranked candidates that nobody has judged, ranked, too.
 */
bool joined_ends_try_all(struct run *run);

/* Neither prefetch nor how much more is in flight decides anything here. */
bool unbounded_works_alike(const struct config *a, const struct config *b);
/* Several stages of one mesh each. */
static inline bool unbounded_is_usual(const struct config *config)
{
    return config->stages > 1 && config->meshes == 0;
}
/* unbounded.c: appends the configurations of schedules that the closed form does not bound. */
bool unbounded_list(struct run *run);
/* What they have to do at least. */
bool unbounded_bound(struct run *run);
/* Writes into the certificate what is known of them, where that was found. */
bool unbounded_enter(struct run *run);
/* They are tried on what was judged best. */
bool unbounded_try(struct run *run);
/* Small models that tie weights of their first and last layer are tried under schedules that have both on one stage,
 * whatever leads with others. */
bool unbounded_try_joined(struct run *run);

/* nearest.c: where nothing fits, into result->nearest the plan that lacks least of those that need least. */
bool nearest_find(struct run *run);
/* near.c: into result->near. */
bool near_list(struct run *run);
/* certificate_ranges.c: records into ranges, and counts by fate. */
bool certificate_ranges_make(struct run *run);
#endif
