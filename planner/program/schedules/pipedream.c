#include "planner/program/schedules/steady.h"

/* Stashes weights: there is a version for each micro-batch that the stage holds. */
static int versions(const struct schedule_place *place)
{
    return place->ahead;
}

/* Narayanan et al. 2019 (PipeDream), sections 3.2 and 3.3: 1F1B with weight stashing. */
extern const struct schedule schedule_pipedream;
const struct schedule schedule_pipedream = {
    .name = "pipedream",
    .doc = "1f1b without draining, one update per micro-batch: no idle time, a version of the weights for each "
           "micro-batch held",
    .in_flight_doc = "P - k, and as many versions of the weights",
    .staleness_doc = "P - k - 1 updates on stage k",
    .updates_each = true,
    .versions = versions,
    STEADY_PARTS,
};
