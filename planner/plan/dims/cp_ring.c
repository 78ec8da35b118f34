#include "planner/plan/dim.h"

/* Liu et al. 2023 (Ring Attention): keys and values, and on the way back their gradients, travel around the ranks. */
extern const struct dimension dimension_cp_ring;
const struct dimension dimension_cp_ring = {
    .name = "cp-ring",
    .doc =
        "context parallel: the sequence is split, keys and values rotate in rounds; ZeRO may shard parameters over it",
    .lane = LANE_CP,
    .prefer = { { TAG_SEQUENCE, PREFER_ALWAYS } },
    .ring = true,
    .shard = true,
};
