#include "planner/plan/dim.h"

/* Li et al. 2014 (parameter server), with the server on the first worker: all gradients go there, it alone has the
 * optimizer's state and updates, and every worker takes its weights from it. The first rank's link carries everything;
 * rings replaced it for that reason (Patarasuk & Yuan 2009). */
extern const struct dimension dimension_ps;
const struct dimension dimension_ps = {
    .name = "ps",
    .doc = "data parallel through a parameter server: the first rank gathers gradients, updates and hands out weights",
    .lane = LANE_DP,
    .prefer = { { TAG_BATCH, PREFER_ALWAYS } },
    .splits_batch = true,
    .server = true,
};
