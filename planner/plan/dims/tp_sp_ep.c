#include "planner/plan/dim.h"

/* Megatron-Core's expert tensor degree of 1 (Liu et al. 2025, MoE parallel folding): one all-to-all takes tokens to
 * experts over all ranks that share them out. */
extern const struct dimension dimension_tp_sp_ep;
const struct dimension dimension_tp_sp_ep = {
    .name = "tp+sp+ep",
    .doc = "as tp+sp, but whole experts: with the expert-parallel ranks the tensor-parallel ones share them out",
    .lane = LANE_TP,
    .prefer = { { TAG_EXPERT, PREFER_ALWAYS },
                { TAG_HEAD, PREFER_ALWAYS },
                { TAG_FFN, PREFER_ALWAYS },
                { TAG_VOCAB, PREFER_ALWAYS },
                { TAG_SEQUENCE, PREFER_ALWAYS } },
};
