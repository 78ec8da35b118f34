#include "planner/plan/dim.h"

/* See cp_gather_ep.c. */
extern const struct dimension dimension_cp_ulysses_ep;
const struct dimension dimension_cp_ulysses_ep = {
    .name = "cp-ulysses+ep",
    .doc = "as cp-ulysses, and the ranks share out the experts with the expert-parallel ones",
    .lane = LANE_CP,
    .prefer = { { TAG_EXPERT, PREFER_ALWAYS }, { TAG_HEAD, PREFER_IF_KEY }, { TAG_SEQUENCE, PREFER_ALWAYS } },
    .shard = true,
};
