#include "planner/program/schedule.h"

static int order(int stages, int stage, int micro_count, int extra_in_flight, struct action *out)
{
    (void)stages;
    (void)extra_in_flight;
    for (int i = 0; out && i < micro_count; i++) {
        out[i] = (struct action){ .kind = ACTION_FORWARD, .chunk = stage, .micro = i };
        out[micro_count + i] = (struct action){ .kind = ACTION_BACKWARD, .chunk = stage, .micro = i };
    }
    return 2 * micro_count;
}

static int stage_of_chunk(int stages, int chunk, int replica)
{
    (void)stages;
    (void)replica;
    return chunk;
}

/* Huang et al. 2019. */
extern const struct schedule schedule_gpipe;
const struct schedule schedule_gpipe = {
    .name = "gpipe",
    .doc = "all forwards, then all backwards: the fewest messages in order, the most activations",
    .chunks_per_stage = 1,
    .stage_of_chunk = stage_of_chunk,
    .order = order,
};
