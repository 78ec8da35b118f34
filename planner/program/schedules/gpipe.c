#include "planner/program/schedule.h"

static int order(int stages, int stage, int micro_count, int extra_in_flight, struct action *out)
{
    (void)stages, (void)stage, (void)extra_in_flight;
    for (int i = 0; out && i < micro_count; i++) {
        out[i] = (struct action){ .kind = ACTION_FORWARD, .micro = i };
        out[micro_count + i] = (struct action){ .kind = ACTION_BACKWARD, .micro = i };
    }
    return 2 * micro_count;
}

/* Huang et al. 2019. */
extern const struct schedule schedule_gpipe;
const struct schedule schedule_gpipe = {
    .name = "gpipe",
    .doc = "all forwards, then all backwards: the fewest messages in order, the most activations",
    .order = order,
};
