#include "planner/program/schedules/pass_list.h"

/* Goes down to the fold, then first backward passes come as soon as they can be. */
static void warm_up(struct pass_list *w, const struct schedule_place *place)
{
    for (int i = 0; i < 2 * (place->stages - place->stage) - 1; i++)
        pass_add(w, ACTION_FORWARD, 0);
    for (int i = 0; i < place->stage; i++) {
        pass_add(w, ACTION_FORWARD, 1);
        pass_add(w, ACTION_FORWARD, 0);
    }
    for (int i = 0; i < place->stages - place->stage; i++) {
        pass_add(w, ACTION_FORWARD, 1);
        pass_add_backward(w, 1);
    }
}

/* Takes inputs' gradients first, weights' gradients where others would wait. */
static void drain(struct pass_list *w, const struct schedule_place *place)
{
    for (int i = 0; i < place->stage; i++) {
        pass_add(w, ACTION_BACKWARD_INPUT, 0);
        pass_add(w, ACTION_BACKWARD_INPUT, 1);
    }
    for (int i = 0; i < place->stages - place->stage; i++) {
        pass_add(w, ACTION_BACKWARD_INPUT, 0);
        pass_add(w, ACTION_BACKWARD_WEIGHT, 0);
    }
    for (int chunk = 1; chunk >= 0; chunk--)
        while (w->done[ACTION_BACKWARD_WEIGHT][chunk] < w->done[ACTION_BACKWARD_INPUT][chunk])
            pass_add(w, ACTION_BACKWARD_WEIGHT, chunk);
}

static int order(const struct schedule_place *place, struct action *out)
{
    struct pass_list w = { .out = out, .micro_count = place->micro_count, .copies = 1 };
    int micro_count = pass_micro_batches(place, 2 * place->stages - 1), *forward = w.done[ACTION_FORWARD];
    warm_up(&w, place);
    while (forward[1] < forward[0] || forward[0] < micro_count) {
        if (forward[0] < micro_count)
            pass_add(&w, ACTION_FORWARD, 0);
        pass_add_backward(&w, 0);
        pass_add(&w, ACTION_FORWARD, 1);
        pass_add_backward(&w, 1);
    }
    drain(&w, place);
    return w.count;
}

static bool legal(const struct plan *plan, struct error *err)
{
    if (plan->stage_count < 2 || plan->chunk_count != 2)
        return fail(err, "plan: schedule zb-v wants at least 2 stages of 2 chunks each, found %d of %d",
                    plan->stage_count, plan->chunk_count);
    if (plan->extra_in_flight > 0)
        return fail(err, "plan: schedule zb-v knows no extra_in_flight, found %d", plan->extra_in_flight);
    return true;
}

/* Qi et al. 2024 (Pipeline Parallelism with Controllable Memory), the V with the memory of 1f1b; the order in its
 * closed form, as in PyTorch's pipelining schedules. */
extern const struct schedule schedule_zb_v;
const struct schedule schedule_zb_v = {
    .name = "zb-v",
    .doc = "two chunks per stage, down and back up; weights' gradients where others idle: hardly any idle time",
    .in_flight_doc = "P of the stage's layers at most",
    .interleaves = true,
    .folded = true,
    .splits = true,
    .legal = legal,
    .order = order,
};
