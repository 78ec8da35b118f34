#include "planner/plan/dim.h"

/* Lepikhin et al. 2021 (GShard), Rajbhandari et al. 2022 (DeepSpeed-MoE): ranks that are data parallel elsewhere share
 * out the experts; all-to-alls take tokens there and back. Experts' gradients are summed over the other data-parallel
 * ranks only. */
extern const struct dimension dimension_ep;
const struct dimension dimension_ep = {
    .name = "ep",
    .doc = "expert parallel: each rank has its own sequences and its own experts; ZeRO may shard all other parameters "
           "over it",
    .lane = LANE_EP,
    .prefer = { { TAG_EXPERT, PREFER_ALWAYS }, { TAG_BATCH, PREFER_ALWAYS } },
    .shard = true,
    .splits_batch = true,
};
