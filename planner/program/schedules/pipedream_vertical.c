#include "planner/program/schedules/steady.h"

/* Every stage computes a micro-batch with the version that the first stage had when it began it. */
static int versions(const struct schedule_place *place)
{
    return place->stages;
}

/* Narayanan et al. 2019 (PipeDream), section 3.3: weight stashing with vertical sync. */
extern const struct schedule schedule_pipedream_vertical;
const struct schedule schedule_pipedream_vertical = {
    .name = "pipedream-vertical",
    .doc = "pipedream with vertical sync: a micro-batch sees one version of the weights on all stages, each of which "
           "keeps one per stage",
    .in_flight_doc = "P - k, and P versions of the weights",
    .staleness_doc = "P - 1 updates on all stages",
    .updates_each = true,
    .versions = versions,
    STEADY_PARTS,
};
