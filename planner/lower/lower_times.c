/* The order of messages where values skip stages of a plain pipeline that posts no receive early (lower_arrivals.c).
 *
 * Between neighbours, both ends come to a message in the same order by themselves. A value that a later stage reads
 * stands in the sender's lane before messages to others, and its receiver may not come to it before those have arrived:
 * with lanes that are queues and sends that end with their receive, the stages would wait for each other in a circle.
 * So all actions of all stages get one place in time, found by walking the schedule with the messages as the only
 * dependencies. A message belongs to the action that reads it: receives stand before it, and a send stands before the
 * sender's first action that comes later. Every stage's list then ascends in one common order, and whatever waits, for
 * its partner, its lane or the bytes of an earlier buffer, waits for something before it: the first unfinished
 * instruction can always run. */
#include "planner/lower/lower_emit.h"

struct clock_walk {
    struct lowering *l;
    int stages;
    struct action **actions; /* (stages) */
    int *count, *next;       /* (stages) */
    int64_t *free_at;        /* (stages) when the stage has done what was walked */
    int64_t *ends[2];        /* [backward](stage * micro_count + micro); -1: not walked */
    bool *reads;             /* (reader * stages + maker): some value goes that way */
};

static int stage_of_segment(const struct lowering *l, int segment)
{
    return plan_stage_of_layer(l->plan, l->graph->segments[segment].layer);
}

/* Returns true when a value goes to a stage that is not the next. */
static bool list_readers(struct clock_walk *w)
{
    const struct graph *graph = w->l->graph;
    bool skips = false;
    for (int segment = 0; segment < graph->segment_count; segment++)
        for (int i = 0; i < graph->segments[segment].in_count; i++) {
            int producer = graph->values[graph->segments[segment].in[i].id].producer;
            if (producer < 0)
                continue;
            int reader = stage_of_segment(w->l, segment), maker = stage_of_segment(w->l, producer);
            if (reader != maker)
                w->reads[reader * w->stages + maker] = true;
            skips |= reader > maker + 1;
        }
    return skips;
}

static bool is_backward(const struct action *action)
{
    return action->kind != ACTION_FORWARD;
}

/* Gives when the stage's next action may start; -1: something that it needs was not walked yet. */
static int64_t start_of(const struct clock_walk *w, int stage)
{
    const struct action *action = &w->actions[stage][w->next[stage]];
    int64_t start = w->free_at[stage];
    if (action->kind == ACTION_BACKWARD_WEIGHT)
        return start;
    for (int other = 0; other < w->stages; other++) {
        bool needs = is_backward(action) ? w->reads[other * w->stages + stage] : w->reads[stage * w->stages + other];
        if (!needs)
            continue;
        int64_t end = w->ends[is_backward(action)][other * w->l->micro_count + action->micro];
        if (end < 0)
            return -1;
        start = max_i64(start, end);
    }
    return start;
}

/* Gives the stage whose next action starts first, the last of equals: what drains goes before what fills. */
static int first_stage(const struct clock_walk *w, int64_t *start)
{
    int best = -1;
    for (int stage = 0; stage < w->stages; stage++) {
        int64_t at = w->next[stage] < w->count[stage] ? start_of(w, stage) : -1;
        if (at >= 0 && (best < 0 || at <= *start)) {
            best = stage;
            *start = at;
        }
    }
    return best;
}

/* Walks actions: forward takes one unit and backward two, as is usual; only the order matters. */
static bool walk_actions(struct clock_walk *w)
{
    int64_t start = 0;
    int place = 0;
    for (int stage; (stage = first_stage(w, &start)) >= 0; place++) {
        const struct action *action = &w->actions[stage][w->next[stage]++];
        w->free_at[stage] = start + (action->kind == ACTION_BACKWARD ? 2 : 1);
        if (action->kind == ACTION_BACKWARD_WEIGHT)
            continue;
        int at = stage * w->l->micro_count + action->micro;
        w->ends[is_backward(action)][at] = w->free_at[stage];
        w->l->messages.place[is_backward(action)][at] = place;
    }
    for (int stage = 0; stage < w->stages; stage++)
        if (w->next[stage] < w->count[stage])
            return fail_kind(w->l->err, ERROR_BUG, "the schedule's order of stage %d cannot be walked", stage);
    return true;
}

static bool walk_open(struct clock_walk *w)
{
    struct lowering *l = w->l;
    struct arena *a = &l->scratch;
    size_t stages = (size_t)w->stages, all = stages * (size_t)l->micro_count;
    w->actions = arena_alloc(a, stages, sizeof *w->actions);
    w->count = arena_alloc(a, stages, sizeof *w->count);
    w->next = arena_alloc(a, stages, sizeof *w->next);
    w->free_at = arena_alloc(a, stages, sizeof *w->free_at);
    for (int i = 0; i < 2; i++) {
        w->ends[i] = arena_alloc(a, all, sizeof *w->ends[i]);
        l->messages.place[i] = arena_alloc(a, all, sizeof *l->messages.place[i]);
        for (size_t k = 0; w->ends[i] && k < all; k++)
            w->ends[i][k] = -1;
    }
    bool ok = !arena_failed(a);
    for (int stage = 0; ok && stage < w->stages; stage++)
        ok = (w->actions[stage] = clock_actions(l->plan, stage, &w->count[stage], a)) != NULL;
    return ok || lower_memory(l);
}

bool lower_times(struct lowering *l)
{
    struct clock_walk w = { .l = l, .stages = l->plan->stage_count };
    size_t pairs = (size_t)w.stages * (size_t)w.stages;
    if (w.stages < 3 || clock_posts_early(l->plan))
        return true;
    w.reads = arena_alloc(&l->scratch, pairs, sizeof *w.reads);
    if (!w.reads)
        return lower_memory(l);
    if (!list_readers(&w))
        return true;
    if (clock_posts_skips(l->plan))
        return lower_run_clock(l);
    l->messages.ordered = true;
    if (!walk_open(&w))
        return false;
    if (walk_actions(&w))
        return true;
    l->failed = true;
    return false;
}

int message_place(const struct lowering *l, enum message_kind kind, int stage, int micro)
{
    return l->messages.place[kind == MESSAGE_GRADIENT][stage * l->micro_count + micro];
}
