#include "base/num.h"
#include "planner/program/schedule.h"

/* Begins with warm-up forwards, one per stage that lies behind, then takes one backward and one forward in turn, then
 * the remaining backwards. */
static int order(const struct schedule_place *place, struct action *out)
{
    int micro_count = place->micro_count, warm = place->ahead + place->extra_in_flight, forward = 0, count = 0;
    if (!out)
        return 2 * micro_count;
    for (; forward < micro_count && forward < warm; forward++)
        out[count++] = (struct action){ .kind = ACTION_FORWARD, .micro = forward };
    for (int backward = 0; backward < micro_count; backward++) {
        out[count++] = (struct action){ .kind = ACTION_BACKWARD, .micro = backward };
        if (forward < micro_count)
            out[count++] = (struct action){ .kind = ACTION_FORWARD, .micro = forward++ };
    }
    return count;
}

static int in_flight(const struct schedule_place *place)
{
    return min_int(place->micro_count, place->ahead + place->extra_in_flight);
}

/* Narayanan et al. 2019 (PipeDream), its synchronous form as in Fan et al. 2021 (DAPPLE). */
extern const struct schedule schedule_one_f_one_b;
const struct schedule schedule_one_f_one_b = {
    .name = "1f1b",
    .doc =
        "one forward, one backward: as short as gpipe with at most as many micro-batches in flight as stages lie ahead",
    .in_flight_doc = "min(m, P - k)",
    .bounded = true,
    .takes_extra = true,
    .order = order,
    .in_flight = in_flight,
};
