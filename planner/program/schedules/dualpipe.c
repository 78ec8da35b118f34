#include "planner/program/schedules/pass_list.h"

/* A stage of the back half does what its opposite does, with copies exchanged. `own` is the one that begins here. */
struct writing {
    struct pass_list list;
    int own, other, micro_batches;
    int outer, inner; /* stages between this one and its end of the pipeline; and the middle */
    int late;         /* weights' gradients that were put off and written since */
};

static struct writing begin(const struct schedule_place *place, struct action *out)
{
    int half = place->stages / 2, back = place->stage >= half;
    int outer = back ? place->stages - 1 - place->stage : place->stage;
    return (struct writing){ .list = { .out = out, .micro_count = place->micro_count, .copies = 2 },
                             .own = back,
                             .other = !back,
                             .micro_batches = pass_micro_batches(place, 2 * place->stages) / 2,
                             .outer = outer,
                             .inner = half - 1 - outer };
}

static void fill(struct writing *w)
{
    for (int i = 0; i < 2 * w->inner; i++)
        pass_add(&w->list, ACTION_FORWARD, w->own);
    for (int i = 0; i <= w->outer; i++) {
        pass_add(&w->list, ACTION_FORWARD, w->own);
        pass_add(&w->list, ACTION_FORWARD, w->other);
    }
    for (int i = 0; i < w->inner; i++) {
        pass_add_backward(&w->list, w->other);
        pass_add(&w->list, ACTION_FORWARD, w->other);
    }
}

/* Runs a forward pass of one copy beside a backward pass of the other. */
static void run_full(struct writing *w)
{
    int forwards = w->list.done[ACTION_FORWARD][w->own];
    for (int i = forwards; i < w->micro_batches; i++) {
        pass_add(&w->list, ACTION_FORWARD, w->own);
        pass_add_backward(&w->list, w->other);
        pass_add(&w->list, ACTION_FORWARD, w->other);
        pass_add_backward(&w->list, w->own);
    }
    for (int i = 0; i < w->inner; i++) {
        pass_add_backward(&w->list, w->other);
        pass_add(&w->list, ACTION_FORWARD, w->other);
        pass_add_backward(&w->list, w->own);
    }
}

/* Puts off the weights' gradients of half of the backward passes that follow each other. */
static void put_off(struct writing *w)
{
    int passes = 2 * (w->outer + 1);
    for (int i = 0; i < passes; i++) {
        int chunk = i % 2 ? w->own : w->other;
        if (i < passes / 2)
            pass_add_backward(&w->list, chunk);
        else
            pass_add(&w->list, ACTION_BACKWARD_INPUT, chunk);
    }
}

/* Adds weights' gradients in the order in which they were put off: the two copies in turn, then this half's own. */
static void add_late(struct writing *w)
{
    int count = w->outer + 1, first = count % 2 ? w->own : w->other, second = count % 2 ? w->other : w->own;
    int chunk = w->late >= count ? w->own : w->late % 2 ? second : first;
    pass_add(&w->list, ACTION_BACKWARD_WEIGHT, chunk);
    w->late++;
}

static int order(const struct schedule_place *place, struct action *out)
{
    struct writing w = begin(place, out);
    fill(&w);
    run_full(&w);
    put_off(&w);
    for (int i = 0; i < w.inner; i++) {
        add_late(&w);
        pass_add(&w.list, ACTION_BACKWARD_INPUT, w.own);
    }
    for (int i = 0; i <= w.outer; i++)
        add_late(&w);
    return w.list.count;
}

/* DeepSeek-AI 2024 (DeepSeek-V3 Technical Report); the order in its closed form, as in the DualPipe that they
 * published. The two passes that run beside each other there follow each other on our one lane of kernels. */
extern const struct schedule schedule_dualpipe;
const struct schedule schedule_dualpipe = {
    .name = "dualpipe",
    .doc = "as chimera with split backward and steady pairs of forward and backward: hardly any idle time, weights and "
           "optimizer state twice",
    .in_flight_doc = "P + 1 of both pieces together",
    .interleaves = true,
    .folded = true,
    .copies = true,
    .splits = true,
    .legal = schedule_check_copies,
    .order = order,
};
