#include "planner/plan/dim.h"

/* Korthikanti et al. 2022: what tensor parallelism would replicate is split along the sequence. */
extern const struct dimension dimension_tp_sp;
const struct dimension dimension_tp_sp = {
    .name = "tp+sp",
    .doc = "tensor parallel, and the sequence where nothing else splits (norms, residuals, loss)",
    .lane = LANE_TP,
    .prefer = { { TAG_HEAD, PREFER_ALWAYS },
                { TAG_FFN, PREFER_ALWAYS },
                { TAG_VOCAB, PREFER_ALWAYS },
                { TAG_SEQUENCE, PREFER_ALWAYS } },
};
