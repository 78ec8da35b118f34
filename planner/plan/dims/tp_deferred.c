#include "planner/plan/dim.h"

/* Tensor parallelism whose partial sums pass through segments that are linear in them, so that the sum comes where it
 * moves least. */
extern const struct dimension dimension_tp_deferred;
const struct dimension dimension_tp_deferred = {
    .name = "tp-deferred",
    .doc = "tensor parallel; partial sums pass through linear operators and are reduced later",
    .lane = LANE_TP,
    .prefer = { { TAG_HEAD, PREFER_ALWAYS }, { TAG_FFN, PREFER_ALWAYS }, { TAG_VOCAB, PREFER_ALWAYS } },
    .defer = true,
};
