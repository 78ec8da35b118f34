#include "planner/plan/dim.h"

extern const struct dimension dimension_dp;
const struct dimension dimension_dp = {
    .name = "dp",
    .doc = "data parallel: each rank has its own sequences; ZeRO may shard parameters over it",
    .lane = LANE_DP,
    .prefer = { { TAG_BATCH, PREFER_ALWAYS } },
    .shard = true,
    .splits_batch = true,
};
