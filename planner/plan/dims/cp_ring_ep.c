#include "planner/plan/dim.h"

/* See cp_gather_ep.c. */
extern const struct dimension dimension_cp_ring_ep;
const struct dimension dimension_cp_ring_ep = {
    .name = "cp-ring+ep",
    .doc = "as cp-ring, and the ranks share out the experts with the expert-parallel ones",
    .lane = LANE_CP,
    .prefer = { { TAG_EXPERT, PREFER_ALWAYS }, { TAG_SEQUENCE, PREFER_ALWAYS } },
    .ring = true,
    .shard = true,
};
