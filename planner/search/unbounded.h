/* What those share who try schedules that the closed form does not bound. */
#ifndef CLEAVE_SEARCH_UNBOUNDED_H
#define CLEAVE_SEARCH_UNBOUNDED_H
#include "planner/pool/run.h"

/* Neither prefetch nor how much more is in flight decides anything here. */
bool unbounded_works_alike(const struct config *a, const struct config *b);
/* Several stages of one mesh each. */
static inline bool unbounded_is_plain(const struct config *config)
{
    return config->stages > 1 && config->meshes == 0;
}

/* joined_ends.c. Whether first and last layer lie on one stage, so that a weight which both use is exchanged with
 * nobody: then what leads under other schedules says little. */
bool joined_ends_are(const struct config *config);
/* Of the ranked candidates that nobody has judged those with joined ends, again with the first layer's weight on one
 * stage; ranked, too. */
bool joined_ends_make(struct run *run);
#endif
