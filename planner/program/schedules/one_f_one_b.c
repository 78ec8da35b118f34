#include "planner/program/schedule.h"

/* Warm-up forwards, one per stage that lies behind, then one backward and one forward in turn, then the remaining
 * backwards. */
static int order(int stages, int stage, int micro_count, int extra_in_flight, struct action *out)
{
    int warm = stages - stage + extra_in_flight;
    if (!out)
        return 2 * micro_count;
    int forward = 0, count = 0;
    for (; forward < micro_count && forward < warm; forward++)
        out[count++] = (struct action){ .kind = ACTION_FORWARD, .micro = forward };
    for (int backward = 0; backward < micro_count; backward++) {
        out[count++] = (struct action){ .kind = ACTION_BACKWARD, .micro = backward };
        if (forward < micro_count)
            out[count++] = (struct action){ .kind = ACTION_FORWARD, .micro = forward++ };
    }
    return count;
}

/* Narayanan et al. 2019 (PipeDream), its synchronous form as in Fan et al. 2021 (DAPPLE). */
extern const struct schedule schedule_one_f_one_b;
const struct schedule schedule_one_f_one_b = {
    .name = "1f1b",
    .doc =
        "one forward, one backward: as short as gpipe with at most as many micro-batches in flight as stages lie ahead",
    .order = order,
};
