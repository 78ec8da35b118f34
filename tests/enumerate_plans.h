/* All plans of one configuration, one by one: what exact methods are held against. The formula of
 * planner/cut/partition.h is spelled out once more, from the prices alone. */
#ifndef CLEAVE_TESTS_ENUMERATE_PLANS_H
#define CLEAVE_TESTS_ENUMERATE_PLANS_H
#include "base/num.h"
#include "planner/cut/partition.h"
#include <stdlib.h>
#include <string.h>

/* Of the layers that a stage has so far. */
struct stage_sums {
    int64_t path, backward, lane, first, last, step, bytes, tied, peak;
    int64_t freed; /* of the model's last layers: what is gone while others go backward; their own peaks have it */
    int tied_users;
};
/* Which stage it is; where it may have several meshes, how many and how many there are from it on. */
struct stage_spot {
    int stage, shape, meshes_left;
};
/* A choice of strategies for the layers of a stage that fits, as far as other stages see it. */
struct stage_end { /* what lies beyond its first micro-batch; in phases the forward passes apart */
    int64_t forward, rest, lane;
};
struct stage_choice {
    int64_t path;
    struct stage_end end;
};
/* All of them for one stage, added up once and met again behind all choices of the stages before. */
struct stage_choices {
    struct stage_choices *next;
    uint64_t set;
    struct stage_spot at;
    int count, capacity;
    struct stage_choice *list; /* (count) */
};
enum { WALK_SLOTS = 1024 };
struct plan_walk {
    const struct partition_problem *problem;
    const uint64_t *reads;                    /* (layers) NULL: the file's order */
    struct stage_choices *stages[WALK_SLOTS]; /* by what walk_slot() makes of set and spot */
    int64_t best_ns, plan_count;
};

static inline const struct price_table *spot_table(const struct partition_problem *p, struct stage_spot at)
{
    if (p->table->by_place)
        return p->table->by_place[(p->mesh_count - at.meshes_left) * p->shape_count + at.shape];
    return p->mesh_count > 0 ? p->table->by_turns[at.shape] : price_of_stage(p->table, at.stage);
}

static inline int64_t spot_in_flight(const struct partition_problem *p, struct stage_spot at)
{
    return p->in_flight[p->mesh_count > 0 ? at.meshes_left * p->shape_count + at.shape : at.stage];
}

static inline void sums_add_price(struct stage_sums *sums, const struct layer_price *price, int64_t in_flight)
{
    sums->path += price->forward_ns + price->backward_ns;
    sums->backward += price->backward_ns;
    sums->lane += price->gather_forward_ns + price->gather_backward_ns + price->reduce_ns;
    sums->first += price->gather_once_ns;
    sums->last += price->reduce_last_ns;
    sums->step += price->step_ns;
    sums->bytes += price->weight_bytes + in_flight * price->saved_bytes;
    sums->tied += price->tied_bytes;
    sums->freed += price->freed_bytes;
    sums->peak = max_i64(sums->peak, price->transient_bytes);
}

static inline void sums_add(struct stage_sums *sums, const struct partition_problem *p, struct stage_spot at, int layer,
                            int strategy)
{
    sums_add_price(sums, price_at(spot_table(p, at), p->chain->class_of[layer], strategy), spot_in_flight(p, at));
    sums->tied_users += layer == p->chain->tied_first || layer == p->chain->tied_second;
}

/* False: it does not fit. */
static inline bool sums_end(struct stage_end *out, const struct stage_sums *sums, const struct partition_problem *p,
                            struct stage_spot at)
{
    const struct price_table *table = spot_table(p, at);
    int64_t bytes = table->base_bytes + sums->bytes + sums->peak - sums->freed + (sums->tied_users == 2 ? 0 : sums->tied);
    if (bytes > p->capacity_bytes)
        return false;
    int64_t m = p->micro_batch_count, n = spot_in_flight(p, at), replicas = p->mesh_count > 0 ? p->turns[at.shape] : 1;
    m = m / replicas + (m % replicas > 0);
    int64_t exposed = n < m ? (2 * table->send_ns * (n - 1) + n - 1) / n : 0;
    out->forward = p->phases ? (m - 1) * (sums->path - sums->backward) : 0;
    int64_t compute = (m - 1) * (sums->path + exposed) - out->forward + sums->step;
    out->rest = max_i64(compute, compute - sums->backward + sums->last);
    out->lane = m * sums->lane + sums->first - sums->path + sums->last + sums->step;
    return true;
}

/* Sends between stages of several meshes: each side's own, one way. */
static inline int64_t ends_ns(const struct partition_problem *p, struct stage_spot at, bool last)
{
    int64_t ns = p->table->by_place ? spot_table(p, at)->send_ns : 0;
    return (at.stage > 0 ? ns : 0) + (last ? 0 : ns);
}

/* What a step has once. */
static inline int64_t all_once_ns(const struct partition_problem *p, int stages)
{
    int64_t sum = p->table->norm_exchange_ns;
    for (int k = 0; k + 1 < stages && !p->table->by_place; k++)
        sum += 2 * max_i64(price_of_stage(p->table, k)->send_ns, price_of_stage(p->table, k + 1)->send_ns);
    return sum;
}

static inline void stage_offer(struct stage_choices *choices, struct stage_choice choice)
{
    if (choices->count == choices->capacity) {
        choices->capacity = choices->capacity ? 2 * choices->capacity : 16;
        choices->list = realloc(choices->list, (size_t)choices->capacity * sizeof *choices->list);
    }
    choices->list[choices->count++] = choice;
}

/* Every strategy for the first of the stage's layers that has none yet (set), then for the others. */
static inline void walk_layer(struct stage_choices *choices, const struct partition_problem *p, uint64_t set,
                              struct stage_sums before)
{
    int layer = 0;
    while (!(set >> layer & 1))
        layer++;
    set &= set - 1;
    for (int strategy = 0; strategy < p->table->strategy_count; strategy++) {
        struct stage_sums sums = before;
        sums_add(&sums, p, choices->at, layer, strategy);
        struct stage_end end;
        if (set)
            walk_layer(choices, p, set, sums);
        else if (sums_end(&end, &sums, p, choices->at))
            stage_offer(choices, (struct stage_choice){ sums.path, end });
    }
}

static inline int walk_slot(uint64_t set, struct stage_spot at)
{
    return (int)(mix64(set << 24 | (uint64_t)at.stage << 16 | (uint64_t)at.shape << 8 | (uint64_t)at.meshes_left) %
                 WALK_SLOTS);
}

static inline const struct stage_choices *stage_choices(struct plan_walk *w, uint64_t set, struct stage_spot at)
{
    struct stage_choices **slot = &w->stages[walk_slot(set, at)], *new;
    for (struct stage_choices *old = *slot; old; old = old->next)
        if (old->set == set && memcmp(&old->at, &at, sizeof at) == 0)
            return old;
    new = calloc(1, sizeof *new);
    *new = (struct stage_choices){ .next = *slot, .set = set, .at = at };
    *slot = new;
    walk_layer(new, w->problem, set, (struct stage_sums){ 0 });
    return new;
}

static inline void walk_close(struct plan_walk *w)
{
    for (int i = 0; i < WALK_SLOTS; i++)
        for (struct stage_choices *next, *at = w->stages[i]; at; at = next) {
            next = at->next;
            free(at->list);
            free(at);
        }
}

static inline uint64_t walk_all(const struct plan_walk *w)
{
    return (UINT64_C(1) << w->problem->chain->layer_count) - 1;
}

/* Whether the layers may be a stage when those that are placed come before it: the next ones of the file's order, or
 * in some order of the layers the next ones. */
static inline bool walk_may_be_next(const struct plan_walk *w, uint64_t placed, uint64_t set)
{
    for (int l = 0; l < w->problem->chain->layer_count; l++) {
        uint64_t needed = w->reads ? w->reads[l] : (UINT64_C(1) << l) - 1;
        if (set >> l & 1 && (needed & ~(placed | set)))
            return false;
    }
    return true;
}

static inline struct stage_end longer_end(struct stage_end a, struct stage_end b)
{
    return (struct stage_end){ max_i64(a.forward, b.forward), max_i64(a.rest, b.rest), max_i64(a.lane, b.lane) };
}

static inline void walk_on(struct plan_walk *w, uint64_t placed, struct stage_spot at, int64_t paths,
                           struct stage_end longest);

/* Every choice of strategies for the stage's layers. paths and longest are those of the stages before. */
static inline void walk_choices(struct plan_walk *w, uint64_t placed, uint64_t set, struct stage_spot at, int64_t paths,
                                struct stage_end longest)
{
    const struct stage_choices *choices = stage_choices(w, set, at);
    for (int i = 0; i < choices->count; i++) {
        const struct stage_choice *c = &choices->list[i];
        walk_on(w, placed | set, at, paths + c->path, longer_end(longest, c->end));
    }
}

/* Every number of replicas and all layers that a stage may have; the last one of a given number has all that are left.
 */
static inline void walk_stage(struct plan_walk *w, uint64_t placed, int stage, int meshes_left, int64_t paths,
                              struct stage_end longest)
{
    const struct partition_problem *p = w->problem;
    uint64_t rest = walk_all(w) & ~placed, least = stage + 1 == p->stage_count ? rest : 1;
    for (int shape = 0; shape < (p->mesh_count > 0 ? p->shape_count : 1); shape++)
        for (uint64_t set = rest; set >= least; set = (set - 1) & rest)
            if ((p->mesh_count == 0 || p->turns[shape] <= meshes_left) && walk_may_be_next(w, placed, set))
                walk_choices(w, placed, set, (struct stage_spot){ stage, shape, meshes_left }, paths, longest);
}

/* The stage's strategies are chosen: the stages behind it, or the end. paths and longest are those of all stages so
 * far. */
static inline void walk_on(struct plan_walk *w, uint64_t placed, struct stage_spot at, int64_t paths,
                           struct stage_end longest)
{
    const struct partition_problem *p = w->problem;
    bool any = p->mesh_count > 0 && p->stage_count == 0, all = placed == walk_all(w); /* any number of stages */
    int stages_left = p->stage_count - at.stage - 1,
        meshes_left = at.meshes_left - (p->mesh_count > 0 ? p->turns[at.shape] : 0);
    paths += ends_ns(p, at, all);
    if (!all && (any || stages_left > 0))
        walk_stage(w, placed, at.stage + 1, meshes_left, paths, longest);
    if (all && (any || stages_left == 0) && meshes_left == 0) {
        w->best_ns = min_i64(w->best_ns, paths + max_i64(longest.forward + longest.rest, longest.lane) +
                                             all_once_ns(p, at.stage + 1));
        w->plan_count++;
    }
}

/* The shortest step by the formula over all cuts into stages and all strategies of all layers; INT64_MAX: no plan fits.
 * reads: of each layer those that it reads, for cuts in all orders of the layers; NULL: of the file's order.
 * *plan_count: those that fit; may be NULL. */
static inline int64_t enumerate_orders(const struct partition_problem *problem, const uint64_t *reads,
                                       int64_t *plan_count)
{
    struct plan_walk w = { .problem = problem, .reads = reads, .best_ns = INT64_MAX };
    if (problem->stage_count <= problem->chain->layer_count)
        walk_stage(&w, 0, 0, problem->mesh_count, 0, (struct stage_end){ INT64_MIN / 4, INT64_MIN / 4, INT64_MIN / 4 });
    walk_close(&w);
    if (plan_count)
        *plan_count = w.plan_count;
    return w.best_ns;
}

static inline int64_t enumerate_plans(const struct partition_problem *problem, int64_t *plan_count)
{
    return enumerate_orders(problem, NULL, plan_count);
}

/* What each layer of the graph reads. */
static inline void graph_reads(const struct graph *graph, uint64_t *reads)
{
    for (int l = 0; l < graph->layer_count; l++) {
        reads[l] = 0;
        for (int i = 0; i < graph->layers[l].input_count; i++)
            reads[l] |= UINT64_C(1) << graph->layers[l].input_layers[i];
    }
}
#endif
