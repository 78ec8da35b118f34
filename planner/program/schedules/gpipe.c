#include "planner/program/schedule.h"

static int order(const struct schedule_place *place, struct action *out)
{
    int micro_count = place->micro_count;
    for (int i = 0; out && i < micro_count; i++) {
        out[i] = (struct action){ .kind = ACTION_FORWARD, .micro = i };
        out[micro_count + i] = (struct action){ .kind = ACTION_BACKWARD, .micro = i };
    }
    return 2 * micro_count;
}

static int in_flight(const struct schedule_place *place)
{
    return place->micro_count;
}

/* Huang et al. 2019. */
extern const struct schedule schedule_gpipe;
const struct schedule schedule_gpipe = {
    .name = "gpipe",
    .doc = "all forwards, then all backwards: the fewest messages in order, the most activations",
    .in_flight_doc = "m",
    .bounded = true,
    .phases = true,
    .order = order,
    .in_flight = in_flight,
};
