#include "base/num.h"
#include "planner/program/schedules/zero_bubble.h"

static int warm_up(const struct schedule_place *place)
{
    return 2 * place->ahead - 1 + place->extra_in_flight;
}

static int order(const struct schedule_place *place, struct action *out)
{
    return zero_bubble_order(place, warm_up(place), 2 * place->stage, out);
}

static int in_flight(const struct schedule_place *place)
{
    return min_int(place->micro_count, warm_up(place));
}

/* Qi et al. 2023 (Zero Bubble Pipeline Parallelism), figure 3. */
extern const struct schedule schedule_zb_h2;
const struct schedule schedule_zb_h2 = {
    .name = "zb-h2",
    .doc = "as zb-h1 with twice the warm-up: hardly any idle time, twice the micro-batches held",
    .in_flight_doc = "min(m, 2 (P - k) - 1), and up to 2 k more for the weights' gradients",
    .splits = true,
    .takes_extra = true,
    .order = order,
    .in_flight = in_flight,
};
