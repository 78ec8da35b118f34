#include "base/num.h"
#include "planner/program/schedules/zero_bubble.h"

static int warm_up(const struct schedule_place *place)
{
    return place->ahead + place->extra_in_flight;
}

static int order(const struct schedule_place *place, struct action *out)
{
    return zero_bubble_order(place, warm_up(place), place->stage, out);
}

static int in_flight(const struct schedule_place *place)
{
    return min_int(place->micro_count, warm_up(place));
}

/* Qi et al. 2023 (Zero Bubble Pipeline Parallelism), figure 2. */
extern const struct schedule schedule_zb_h1;
const struct schedule schedule_zb_h1 = {
    .name = "zb-h1",
    .doc = "1f1b that computes the weights' gradients where 1f1b idles: a third of its idle time, as many "
           "micro-batches held",
    .in_flight_doc = "min(m, P - k), and up to k more for the weights' gradients",
    .splits = true,
    .takes_extra = true,
    .order = order,
    .in_flight = in_flight,
};
