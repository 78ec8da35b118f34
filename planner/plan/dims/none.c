#include "planner/plan/dim.h"

extern const struct dimension dimension_none;
const struct dimension dimension_none = {
    .name = "none",
    .doc = "every rank of the atom computes the same",
    .lane = LANE_TP,
};
