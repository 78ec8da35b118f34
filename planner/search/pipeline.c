#include "planner/search/pipeline.h"
#include "base/num.h"
#include "planner/program/schedule.h"
#include <stdlib.h>

enum { MAX_AHEAD = 8 };

struct stage_clock {
    struct action *actions;
    int action_count, next;
    int64_t compute_ns, lane_ns, send_forward_ns, send_backward_ns;  /* when each is free */
    int64_t use_end[MAX_AHEAD + 1];                                  /* ring: ends of the latest uses */
    int64_t pending_ready[MAX_AHEAD + 1], pending_ns[MAX_AHEAD + 1]; /* ring: reductions not yet issued, by use */
    int64_t uses;
    int64_t *arrived_forward, *arrived_backward; /* (micro-batches) the latest of what came */
    int *missing_forward, *missing_backward;     /* (micro-batches) stages from which something is still to come */
    int backwards_left;
};
struct pipeline {
    const struct plan *plan;
    const struct layer_price **price; /* (layers) */
    const struct price_table *table;
    int *values; /* (stages, stages): values that the first makes and the second reads */
    int ahead, micro_batches;
    struct stage_clock *stages;
};

static int ring(int64_t use)
{
    return (int)(use % (MAX_AHEAD + 1));
}

static void issue_reduction(struct stage_clock *s, int64_t use)
{
    int at = ring(use);
    if (s->pending_ns[at] == 0)
        return;
    s->lane_ns = max_i64(s->lane_ns, s->pending_ready[at]) + s->pending_ns[at];
    s->pending_ns[at] = 0;
}

/* One layer in one direction: its gather was issued when the use `ahead` + 1 before it had ended, after that use's
 * reduction. */
static void run_use(struct pipeline *p, struct stage_clock *s, int64_t compute_ns, int64_t gather_ns, int64_t reduce_ns)
{
    int64_t oldest = s->uses - p->ahead - 1;
    if (oldest >= 0)
        issue_reduction(s, oldest);
    if (gather_ns > 0) {
        int64_t room = oldest >= 0 ? s->use_end[ring(oldest)] : 0;
        s->lane_ns = max_i64(s->lane_ns, room) + gather_ns;
        s->compute_ns = max_i64(s->compute_ns, s->lane_ns);
    }
    s->compute_ns += compute_ns;
    s->use_end[ring(s->uses)] = s->compute_ns;
    s->pending_ready[ring(s->uses)] = s->compute_ns;
    s->pending_ns[ring(s->uses)] = reduce_ns;
    s->uses++;
}

static int64_t send(int64_t *lane_ns, int64_t ready_ns, int64_t ns)
{
    *lane_ns = max_i64(*lane_ns, ready_ns) + ns;
    return *lane_ns;
}

static int values_between(const struct pipeline *p, int maker, int reader)
{
    return p->values[maker * p->plan->stage_count + reader];
}

static void run_forward(struct pipeline *p, int stage, int micro)
{
    struct stage_clock *s = &p->stages[stage];
    const struct plan_stage *at = &p->plan->stages[stage];
    s->compute_ns = max_i64(s->compute_ns, s->arrived_forward[micro]);
    for (int l = at->first_layer; l < at->first_layer + at->layer_count; l++)
        run_use(p, s, p->price[l]->forward_ns, p->price[l]->gather_forward_ns, 0);
    for (int reader = stage + 1; reader < p->plan->stage_count; reader++) {
        struct stage_clock *to = &p->stages[reader];
        int count = values_between(p, stage, reader);
        if (count == 0)
            continue;
        to->arrived_forward[micro] = max_i64(to->arrived_forward[micro], send(&s->send_forward_ns, s->compute_ns,
                                                                              count * price_send_ns(p->table, stage)));
        to->missing_forward[micro]--;
    }
}

static void run_backward(struct pipeline *p, int stage, int micro)
{
    struct stage_clock *s = &p->stages[stage];
    const struct plan_stage *at = &p->plan->stages[stage];
    bool last = --s->backwards_left == 0;
    s->compute_ns = max_i64(s->compute_ns, s->arrived_backward[micro]);
    for (int l = at->first_layer + at->layer_count - 1; l >= at->first_layer; l--) {
        const struct layer_price *price = p->price[l];
        run_use(p, s, price->backward_ns, price->gather_backward_ns,
                price->reduce_ns + (last ? price->reduce_last_ns : 0));
    }
    for (int maker = stage - 1; maker >= 0; maker--) {
        struct stage_clock *to = &p->stages[maker];
        int count = values_between(p, maker, stage);
        if (count == 0)
            continue;
        to->arrived_backward[micro] =
            max_i64(to->arrived_backward[micro],
                    send(&s->send_backward_ns, s->compute_ns, count * price_send_ns(p->table, maker)));
        to->missing_backward[micro]--;
    }
}

/* Runs a stage's actions as far as what they need has arrived; false when nothing moved. */
static bool run_stage(struct pipeline *p, int stage)
{
    struct stage_clock *s = &p->stages[stage];
    bool moved = false;
    for (; s->next < s->action_count; s->next++, moved = true) {
        const struct action *action = &s->actions[s->next];
        if (action->kind == ACTION_FORWARD) {
            if (s->missing_forward[action->micro] > 0)
                break;
            run_forward(p, stage, action->micro);
        } else if (action->kind != ACTION_BACKWARD_WEIGHT) {
            if (s->missing_backward[action->micro] > 0)
                break;
            run_backward(p, stage, action->micro);
        }
    }
    return moved;
}

static int64_t stage_end(struct pipeline *p, int stage)
{
    struct stage_clock *s = &p->stages[stage];
    const struct plan_stage *at = &p->plan->stages[stage];
    int64_t step = 0;
    for (int64_t use = max_i64(0, s->uses - p->ahead - 1); use < s->uses; use++)
        issue_reduction(s, use);
    for (int l = at->first_layer; l < at->first_layer + at->layer_count; l++)
        step += p->price[l]->step_ns;
    return max_i64(s->compute_ns, s->lane_ns) + step;
}

/* Each value once per stage that reads it. */
static bool count_values(struct pipeline *p, const struct chain *chain, struct arena *arena)
{
    const struct graph *graph = chain->graph;
    const struct plan *plan = p->plan;
    int stages = plan->stage_count, *last_reader = arena_alloc(arena, (size_t)chain->layer_count, sizeof(int));
    p->values = arena_alloc(arena, (size_t)stages * (size_t)stages, sizeof *p->values);
    if (!p->values || !last_reader)
        return false;
    for (int k = 0; !graph && k + 1 < stages; k++)
        p->values[k * stages + k + 1] = 1;
    for (int layer = 0, reader = 0; graph && layer < graph->layer_count; layer++) { /* readers ascend */
        reader += layer == plan->stages[reader].first_layer + plan->stages[reader].layer_count;
        for (int i = 0; i < graph->layers[layer].input_count; i++) {
            int from = graph->layers[layer].input_layers[i], maker = stage_of_layer(plan, from);
            if (maker != reader && last_reader[from] <= reader) {
                p->values[maker * stages + reader]++;
                last_reader[from] = reader + 1;
            }
        }
    }
    return true;
}

static int makers_and_readers(const struct pipeline *p, int stage, bool readers)
{
    int count = 0;
    for (int other = 0; other < p->plan->stage_count; other++)
        count += (readers ? values_between(p, stage, other) : values_between(p, other, stage)) > 0;
    return count;
}

static bool start_stages(struct pipeline *p, struct arena *arena)
{
    const struct schedule *schedule = schedules[p->plan->schedule];
    size_t micro = (size_t)p->micro_batches;
    p->stages = arena_alloc(arena, (size_t)p->plan->stage_count, sizeof *p->stages);
    for (int k = 0; p->stages && k < p->plan->stage_count; k++) {
        struct stage_clock *s = &p->stages[k];
        struct schedule_place place =
            schedule_place_even(p->plan->stage_count, k, p->micro_batches, p->plan->extra_in_flight);
        s->action_count = schedule->order(&place, NULL);
        s->actions = arena_alloc(arena, (size_t)s->action_count, sizeof *s->actions);
        s->arrived_forward = arena_alloc(arena, micro, sizeof *s->arrived_forward);
        s->arrived_backward = arena_alloc(arena, micro, sizeof *s->arrived_backward);
        s->missing_forward = arena_alloc(arena, micro, sizeof *s->missing_forward);
        s->missing_backward = arena_alloc(arena, micro, sizeof *s->missing_backward);
        if (!s->actions || !s->arrived_forward || !s->arrived_backward || !s->missing_forward || !s->missing_backward)
            return false;
        schedule->order(&place, s->actions);
        s->backwards_left = p->micro_batches;
        for (int i = 0; i < p->micro_batches; i++) {
            s->missing_forward[i] = makers_and_readers(p, k, false);
            s->missing_backward[i] = makers_and_readers(p, k, true);
        }
    }
    return p->stages != NULL;
}

static const struct layer_price *find_price(const struct price_table *table, int class_index,
                                            const struct plan_layer *layer)
{
    int strategy = price_strategy(table, layer);
    return strategy >= 0 ? price_at(table, class_index, strategy) : NULL;
}

static bool find_prices(struct pipeline *p, const struct chain *chain, const struct price_table *table,
                        struct arena *arena, struct error *err)
{
    p->price = arena_alloc(arena, (size_t)chain->layer_count, sizeof *p->price);
    if (!p->price)
        return fail_kind(err, ERROR_ENVIRONMENT, "search: out of memory");
    for (int l = 0; l < chain->layer_count; l++) {
        p->price[l] =
            find_price(price_of_stage(table, stage_of_layer(p->plan, l)), chain->class_of[l], &p->plan->layers[l]);
        if (!p->price[l])
            return fail_kind(err, ERROR_BUG, "search: layer %d has a strategy without a price", l);
    }
    return true;
}

bool pipeline_step_ns(int64_t *out, const struct plan *plan, const struct chain *chain, const struct price_table *table,
                      int micro_batches, struct error *err)
{
    struct arena arena = { 0 };
    struct pipeline p = {
        .plan = plan, .table = table, .ahead = (int)min_i64(plan->prefetch, MAX_AHEAD), .micro_batches = micro_batches
    };
    bool good = find_prices(&p, chain, table, &arena, err);
    if (good && !(count_values(&p, chain, &arena) && start_stages(&p, &arena)))
        good = fail_kind(err, ERROR_ENVIRONMENT, "search: out of memory");
    for (bool moved = true; good && moved;) {
        moved = false;
        for (int k = 0; k < plan->stage_count; k++)
            moved = run_stage(&p, k) || moved;
    }
    int64_t end = 0;
    for (int k = 0; good && k < plan->stage_count; k++) {
        if (p.stages[k].next < p.stages[k].action_count)
            good = fail(err, "search: schedule %s stalls at stage %d", schedules[plan->schedule]->name, k);
        else
            end = max_i64(end, stage_end(&p, k));
    }
    arena_free(&arena);
    if (good)
        *out = end;
    return good;
}
