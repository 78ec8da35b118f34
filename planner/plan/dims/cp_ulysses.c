#include "planner/plan/dim.h"

/* Jacobs et al. 2023 (DeepSpeed Ulysses): attention splits heads, all else the sequence; all-to-alls lie between. */
extern const struct dimension dimension_cp_ulysses;
const struct dimension dimension_cp_ulysses = {
    .name = "cp-ulysses",
    .doc =
        "context parallel: heads are split inside attention, the sequence elsewhere; ZeRO may shard parameters over it",
    .lane = LANE_CP,
    .prefer = { { TAG_HEAD, PREFER_IF_KEY }, { TAG_SEQUENCE, PREFER_ALWAYS } },
    .shard = true,
};
