#include "planner/plan/dim.h"

/* Expert-parallel ranks are taken from context-parallel ones first (Liu et al. 2025, MoE parallel folding). */
extern const struct dimension dimension_cp_gather_ep;
const struct dimension dimension_cp_gather_ep = {
    .name = "cp-gather+ep",
    .doc = "as cp-gather, and the ranks share out the experts with the expert-parallel ones",
    .lane = LANE_CP,
    .prefer = { { TAG_EXPERT, PREFER_ALWAYS }, { TAG_SEQUENCE, PREFER_ALWAYS } },
    .shard = true,
};
