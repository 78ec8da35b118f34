#include "planner/program/schedule.h"

/* Where the writing stands: how many of each pass of each chunk were written. Passes of micro-batches that the step
 * does not have are counted and left out, so that the pattern is that of a full pipeline. */
struct writing {
    struct action *out; /* NULL: only count */
    int micro_count, count;
    int done[4][2]; /* [enum action_kind][chunk] */
};

static void put(struct writing *w, enum action_kind kind, int chunk)
{
    int micro = w->done[kind][chunk]++;
    if (micro >= w->micro_count)
        return;
    if (w->out)
        w->out[w->count] = (struct action){ .kind = kind, .micro = micro, .chunk = chunk };
    w->count++;
}

/* Both halves of a backward pass at once. */
static void put_backward(struct writing *w, int chunk)
{
    put(w, ACTION_BACKWARD_INPUT, chunk);
    put(w, ACTION_BACKWARD_WEIGHT, chunk);
}

static int least_micro_batches(const struct schedule_place *place)
{
    int full = 2 * place->stages - 1;
    return place->micro_count > full ? place->micro_count : full;
}

/* Down to the fold, then first backward passes as soon as they can be. */
static void warm_up(struct writing *w, const struct schedule_place *place)
{
    for (int i = 0; i < 2 * (place->stages - place->stage) - 1; i++)
        put(w, ACTION_FORWARD, 0);
    for (int i = 0; i < place->stage; i++) {
        put(w, ACTION_FORWARD, 1);
        put(w, ACTION_FORWARD, 0);
    }
    for (int i = 0; i < place->stages - place->stage; i++) {
        put(w, ACTION_FORWARD, 1);
        put_backward(w, 1);
    }
}

/* Inputs' gradients first, weights' gradients where others would wait. */
static void drain(struct writing *w, const struct schedule_place *place)
{
    for (int i = 0; i < place->stage; i++) {
        put(w, ACTION_BACKWARD_INPUT, 0);
        put(w, ACTION_BACKWARD_INPUT, 1);
    }
    for (int i = 0; i < place->stages - place->stage; i++) {
        put(w, ACTION_BACKWARD_INPUT, 0);
        put(w, ACTION_BACKWARD_WEIGHT, 0);
    }
    for (int chunk = 1; chunk >= 0; chunk--)
        while (w->done[ACTION_BACKWARD_WEIGHT][chunk] < w->done[ACTION_BACKWARD_INPUT][chunk])
            put(w, ACTION_BACKWARD_WEIGHT, chunk);
}

static int order(const struct schedule_place *place, struct action *out)
{
    struct writing w = { .out = out, .micro_count = place->micro_count };
    int micro_count = least_micro_batches(place), *forward = w.done[ACTION_FORWARD];
    warm_up(&w, place);
    while (forward[1] < forward[0] || forward[0] < micro_count) {
        if (forward[0] < micro_count)
            put(&w, ACTION_FORWARD, 0);
        put_backward(&w, 0);
        put(&w, ACTION_FORWARD, 1);
        put_backward(&w, 1);
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
