#include "planner/program/schedules/steady.h"

/* Keeps the version that the step computes with, and the one that the next step already uses. */
static int versions(const struct schedule_place *place)
{
    (void)place;
    return 2;
}

/* Narayanan et al. 2021 (Memory-Efficient Pipeline-Parallel DNN Training), section 3.1. */
extern const struct schedule schedule_pipedream_2bw;
const struct schedule schedule_pipedream_2bw = {
    .name = "pipedream-2bw",
    .doc = "1f1b without draining, one update per step, made of gradients at the weights before: no idle time, two "
           "versions of the weights",
    .in_flight_doc = "P - k, and 2 versions of the weights",
    .staleness_doc = "1 update on all stages",
    .versions = versions,
    STEADY_PARTS,
};
