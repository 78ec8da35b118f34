#include "planner/plan/dim.h"

/* Context parallelism with gathered keys and values, as in Llama 3 (Dubey et al. 2024, section 3.3.2). */
extern const struct dimension dimension_cp_gather;
const struct dimension dimension_cp_gather = {
    .name = "cp-gather",
    .doc = "context parallel: the sequence is split, keys and values are gathered; ZeRO may shard parameters over it",
    .lane = LANE_CP,
    .prefer = { { TAG_SEQUENCE, PREFER_ALWAYS } },
    .shard = true,
};
