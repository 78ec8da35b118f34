#include "planner/plan/dim.h"

/* Shoeybi et al. 2019: heads, feed-forward columns and vocabulary rows are split; every rank computes all else. */
extern const struct dimension dimension_tp;
const struct dimension dimension_tp = {
    .name = "tp",
    .doc = "tensor parallel: heads, feed-forward and vocabulary are split",
    .lane = LANE_TP,
    .prefer = { { TAG_HEAD, PREFER_ALWAYS }, { TAG_FFN, PREFER_ALWAYS }, { TAG_VOCAB, PREFER_ALWAYS } },
};
