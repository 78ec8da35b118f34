#include "planner/plan/dim.h"

/* Zhang et al. 2022 (MiCS), Zhao et al. 2023 (hybrid sharding): groups of ranks each hold all shards; what groups have
 * reduced is summed over them once per step. */
extern const struct dimension dimension_rp;
const struct dimension dimension_rp = {
    .name = "rp",
    .doc = "data parallel between groups that each hold the whole: ZeRO does not shard over it",
    .lane = LANE_DP,
    .prefer = { { TAG_BATCH, PREFER_ALWAYS } },
    .splits_batch = true,
};
