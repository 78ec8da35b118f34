/* Says what a plan chose and why not another: the best plan of each kind that it is not. */
#include "base/num.h"
#include "planner/estimate/effort.h"
#include "planner/program/schedule.h"
#include "planner/explain/explain.h"
#include <string.h>

/* Takes the degrees of the widest layer of the stage. */
static void choose_degrees(struct choice *c, const struct plan *plan, const struct plan_stage *stage)
{
    c->tensor = c->context = c->data = c->expert = 1;
    for (int l = stage->first_layer; l < stage->first_layer + stage->layer_count; l++) {
        int tensor = 1, context = 1, data = 1, expert = 1;
        for (int a = 0; a < plan->atom_count; a++) {
            const struct dimension *dimension = dimensions[plan->layers[l].dim[a]];
            int *degree = dimension->splits_batch ? &data : dimension->lane == LANE_CP ? &context : &tensor;
            *degree *= plan->layers[l].dim[a] == DIM_none ? 1 : stage->atom[a];
            expert *= dimension_prefers(dimension, TAG_EXPERT) ? stage->atom[a] : 1;
            c->sequence_parallel |=
                dimension->lane == LANE_TP && dimension_prefers(dimension, TAG_SEQUENCE) && stage->atom[a] > 1;
        }
        c->tensor = max_int(c->tensor, tensor);
        c->context = max_int(c->context, context);
        c->expert = max_int(c->expert, expert);
        c->data = max_int(c->data, data);
    }
}

struct choice choice_of(const struct plan *plan, const struct graph *graph)
{
    struct choice c = { .schedule = plan->schedule, .prefetch = plan->prefetch, .layers = plan->layer_count };
    for (int s = 0; s < plan->stage_count; s++)
        c.pipeline += plan->stages[s].turn == 0;
    choose_degrees(&c, plan, &plan->stages[0]);
    for (int s = 1; s < plan->stage_count; s++) { /* where they differ, those of the stage with the most tensor ranks */
        struct choice own = c;
        choose_degrees(&own, plan, &plan->stages[s]);
        c = own.tensor > c.tensor ? own : c;
    }
    c.micro = max_i64(1, plan->batch / plan->micro_batch_count / c.data);
    for (int l = 0; l < plan->layer_count; l++) {
        c.recompute[plan->layers[l].recompute]++;
        if (!graph_layer_has_weights(graph, l))
            continue;
        c.weighted++;
        c.zero[plan_zero_on(plan, &plan->stages[plan_stage_of_layer(plan, l)], l)]++;
    }
    return c;
}

/* ---- why not another ---- */

/* Lists divisors of n up to `most` that the user allows, without `own`: the 24 nearest to it by ratio. */
static struct allowed others(const struct allowed *base, int64_t n, int64_t most, int64_t own)
{
    struct allowed all = { 0 };
    for (int64_t d = 1; d <= n && d <= most; d++) {
        if (n % d != 0 || d == own || !allowed_has(base, d))
            continue;
        if (all.count == SPACE_VALUES) { /* the list ascends: drop the first while own is above it */
            if (d > own * own / max_i64(1, all.values[0]))
                break;
            memmove(&all.values[0], &all.values[1], (SPACE_VALUES - 1) * sizeof all.values[0]);
            all.count--;
        }
        all.values[all.count++] = d;
    }
    return all;
}

/* Fixes the value where the plan's own is another. */
static bool change(struct allowed *allowed, int64_t own, int64_t value)
{
    return own != value && allowed_narrow(allowed, value);
}

static bool restrict_to(struct allowed *allowed, struct allowed values)
{
    *allowed = values;
    return values.count > 0;
}

/* Allows synchronous schedules but the plan's own; the user's if any are named. */
static bool other_schedules(struct space *space, int own)
{
    struct allowed list = { 0 };
    for (int s = 0; schedules[s] && list.count < SPACE_VALUES; s++)
        if (s != own && !schedules[s]->asynchronous && allowed_has(&space->schedule, s))
            list.values[list.count++] = s;
    return restrict_to(&space->schedule, list);
}

enum kind {
    OTHER_PIPELINE,
    OTHER_TENSOR,
    OTHER_MICRO,
    OTHER_SCHEDULE,
    NO_PIPELINE,
    NO_TENSOR,
    PURE_DATA,
    NO_ZERO,
    ZERO_3,
    NO_RECOMPUTATION,
    FULL_RECOMPUTATION,
    WITH_SEQUENCE,
    WITHOUT_SEQUENCE,
    KINDS
};
static const char *const kind_names[KINDS] = {
    [OTHER_PIPELINE] = "other pipeline degree",
    [OTHER_TENSOR] = "other tensor degree",
    [OTHER_MICRO] = "other micro-batch",
    [OTHER_SCHEDULE] = "other schedule",
    [NO_PIPELINE] = "no pipeline",
    [NO_TENSOR] = "no tensor parallelism",
    [PURE_DATA] = "pure data parallel",
    [NO_ZERO] = "no ZeRO",
    [ZERO_3] = "ZeRO-3 everywhere",
    [NO_RECOMPUTATION] = "no recomputation",
    [FULL_RECOMPUTATION] = "full recomputation",
    [WITH_SEQUENCE] = "with sequence parallelism",
    [WITHOUT_SEQUENCE] = "without sequence parallelism",
};

/* Restricts the space to the kind; false: the plan is of it already, or the user's restrictions leave nothing of it. */
static bool apply(enum kind kind, const struct choice *c, const struct cluster *cluster, struct space *s)
{
    int devices = cluster->device_count;
    switch (kind) {
    case OTHER_PIPELINE:
        return restrict_to(&s->stages, others(&s->stages, devices, c->layers, c->pipeline));
    case OTHER_TENSOR:
        return restrict_to(&s->tensor, others(&s->tensor, devices, cluster_node_size(cluster), c->tensor));
    case OTHER_MICRO:
        return restrict_to(&s->micro, others(&s->micro, s->batch, s->batch, c->micro));
    case OTHER_SCHEDULE:
        return c->pipeline > 1 && allowed_narrow(&s->stages, c->pipeline) && other_schedules(s, c->schedule);
    case NO_PIPELINE:
        return change(&s->stages, c->pipeline, 1);
    case NO_TENSOR:
        return change(&s->tensor, c->tensor, 1);
    case PURE_DATA:
        return change(&s->stages, c->pipeline, 1) && change(&s->tensor, c->tensor, 1);
    case NO_ZERO:
        return c->zero[0] < c->weighted && allowed_narrow(&s->zero, 0);
    case ZERO_3:
        /* It shards something where ranks share shards: data-parallel ones of a stage's mesh, unless others do. */
        return c->zero[3] < c->weighted && allowed_narrow(&s->zero, 3) &&
               (allowed_several(&s->context) || restrict_to(&s->data, others(&s->data, devices, devices, 1)));
    case NO_RECOMPUTATION:
        return c->recompute[RECOMPUTE_NONE] < c->layers && allowed_narrow(&s->recompute, RECOMPUTE_NONE);
    case FULL_RECOMPUTATION:
        return c->recompute[RECOMPUTE_FULL] < c->layers && allowed_narrow(&s->recompute, RECOMPUTE_FULL);
    case WITH_SEQUENCE:
        return c->tensor > 1 && change(&s->sequence_parallel, c->sequence_parallel, 1) &&
               restrict_to(&s->tensor, others(&s->tensor, devices, cluster_node_size(cluster), 1));
    case WITHOUT_SEQUENCE:
        return c->tensor > 1 && change(&s->sequence_parallel, c->sequence_parallel, 0);
    case KINDS:
        break;
    }
    return false;
}

/* The alternatives, and for each a space in which everything is free that does not make a plan one of its kind. */
struct contest {
    struct explainer *e;
    struct alternatives *out;
    struct space kinds[MAX_ALTERNATIVES];
    struct error *err;
};

/* True when so much of the plan as choices tell lies in the space. */
static bool is_among(const struct choice *c, const struct space *space)
{
    bool among = allowed_has(&space->stages, c->pipeline) && allowed_has(&space->tensor, c->tensor) &&
                 allowed_has(&space->micro, c->micro) && allowed_has(&space->schedule, c->schedule) &&
                 (c->tensor == 1 || allowed_has(&space->sequence_parallel, c->sequence_parallel));
    for (int zero = 0; zero < 4; zero++)
        among = among && (c->zero[zero] == 0 || allowed_has(&space->zero, zero));
    for (int mode = 0; mode < RECOMPUTE_COUNT; mode++)
        among = among && (c->recompute[mode] == 0 || allowed_has(&space->recompute, mode));
    return among;
}

/* True when a plan that took so long would be shown for some kind. */
static bool would_win(const struct contest *contest, const struct choice *c, int64_t step_ns)
{
    for (int i = 0; i < contest->out->count; i++) {
        const struct solution *shown = &contest->out->list[i].solution;
        if ((shown->kind != SOLUTION_PLAN || step_ns < shown->step_ns) && (!c || is_among(c, &contest->kinds[i])))
            return true;
    }
    return false;
}

static void compete(struct contest *contest, const struct choice *c, const struct solution *solution)
{
    for (int i = 0; i < contest->out->count; i++) {
        struct solution *shown = &contest->out->list[i].solution;
        if (is_among(c, &contest->kinds[i]) && (shown->kind != SOLUTION_PLAN || solution->step_ns < shown->step_ns))
            *shown = *solution;
    }
}

/* The kinds that there are for the plan. */
struct kinds {
    struct contest *contest;
    bool light; /* they are sought with little effort */
    int count;
    const char *name[MAX_ALTERNATIVES];
    struct space free_space[MAX_ALTERNATIVES];
    struct query query[MAX_ALTERNATIVES];
};

/* Lists leaders: plans of other schedules mostly have the degrees of what is near the plan's own. */
static bool list_leaders(struct explainer *e, const struct choice *own, struct query *query)
{
    struct config *leaders = arena_alloc(&e->arena, OTHER_LEADERS, sizeof *leaders);
    query->leaders = leaders;
    for (int i = 0; leaders && i < e->near_count && query->leader_count < OTHER_LEADERS; i++)
        if (e->near[i].schedule == own->schedule && e->near[i].stages == own->pipeline &&
            e->near[i].prefetch == own->prefetch)
            leaders[query->leader_count++] = e->near[i];
    return leaders != NULL;
}

static bool list_kinds(struct kinds *kinds, const struct choice *own)
{
    struct explainer *e = kinds->contest->e;
    for (int kind = 0; kind < KINDS; kind++) {
        struct query *query = &kinds->query[kinds->count];
        struct space *free_space = &kinds->free_space[kinds->count];
        *query = (struct query){ .space = e->options.space, .facts = e->facts, .light = kinds->light };
        *free_space = (struct space){ .batch = query->space.batch };
        kinds->name[kinds->count] = kind_names[kind];
        if (!apply((enum kind)kind, own, e->facts->cluster, &query->space) ||
            !apply((enum kind)kind, own, e->facts->cluster, free_space))
            continue;
        if (kind == OTHER_SCHEDULE && !list_leaders(e, own, query))
            return fail_memory(kinds->contest->err);
        kinds->count++;
    }
    return true;
}

/* Searches without leaders, too, as --versus does: those of a light look need not lead to the best of schedules that
 * the closed form does not bound. */
static bool look_without(struct explainer *e, const struct query *query, struct solution *best, struct error *err)
{
    struct solution found;
    if (!explainer_solve(e, &query->space, e->facts, &found, err))
        return false;
    if (best->kind != SOLUTION_PLAN || (found.kind == SOLUTION_PLAN && found.step_ns < best->step_ns))
        *best = found;
    return true;
}

static bool answer_kind(void *self, int index, const struct solution *solution, struct error *err)
{
    struct kinds *kinds = self;
    struct contest *contest = kinds->contest;
    struct explainer *e = contest->e;
    const struct space *free_space = &kinds->free_space[index];
    const struct query *query = &kinds->query[index];
    struct alternative *a = &contest->out->list[contest->out->count];
    *a = (struct alternative){ kinds->name[index], *solution };
    if (a->solution.kind == SOLUTION_ENDED)
        return true;
    if (query->leader_count > 0 && !look_without(e, query, &a->solution, err))
        return false;
    if (a->solution.kind == SOLUTION_NO_MEMORY &&
        !explain_missing(e, &query->space, e->facts, &a->solution.missing_bytes, err))
        return false;
    if (a->solution.kind == SOLUTION_PLAN) {
        struct choice found = choice_of(a->solution.explained->plan, a->solution.explained->graph);
        if (!is_among(&found, free_space)) /* as where rules say otherwise of some layers */
            a->solution = (struct solution){ .kind = SOLUTION_NONE };
    }
    contest->kinds[contest->out->count++] = *free_space;
    return true;
}

static bool solve_kinds(struct contest *contest, const struct choice *own, bool light)
{
    struct kinds *kinds = arena_alloc(&contest->e->arena, 1, sizeof *kinds);
    if (!kinds)
        return fail_memory(contest->err);
    kinds->contest = contest;
    kinds->light = light;
    return list_kinds(kinds, own) &&
           explainer_solve_all(contest->e, kinds->query, kinds->count, answer_kind, kinds, contest->err);
}

/* Lets what was found for other kinds compete, which may be of this one, too. */
static bool let_known_compete(struct contest *contest)
{
    struct explainer *e = contest->e;
    for (int i = 0; i < e->known_count && !explainer_ends(e); i++) {
        const struct explained *known = e->known[i].explained;
        struct choice c = choice_of(known->plan, known->graph);
        struct solution own;
        if (!would_win(contest, &c, 0))
            continue;
        if (!explainer_judge(e, known->plan, &own, contest->err))
            return false;
        if (own.kind == SOLUTION_PLAN)
            compete(contest, &c, &own);
    }
    return true;
}

static bool let_compete(struct contest *contest, const struct simulated_plan *simulated)
{
    struct graph *graph = NULL;
    struct solution own;
    if (!would_win(contest, NULL, simulated->least_ns))
        return true;
    if (!plan_graph(&graph, contest->e->model, simulated->plan, contest->err))
        return false;
    struct choice c = choice_of(simulated->plan, graph);
    graph_free(graph);
    if (!would_win(contest, &c, simulated->least_ns))
        return true;
    if (!explainer_judge_simulated(contest->e, simulated, &own, contest->err))
        return false;
    if (own.kind == SOLUTION_PLAN)
        compete(contest, &c, &own);
    return true;
}

/* Lets what searches simulated on their way compete, the shortest first, since they spare others the simulation. */
static bool let_simulated_compete(struct contest *contest)
{
    struct explainer *e = contest->e;
    explainer_sort_simulated(e);
    for (int i = 0; i < e->simulated_count && !explainer_ends(e); i++)
        if (!let_compete(contest, &e->simulated[i]))
            return false;
    return true;
}

bool explain_alternatives(struct explainer *e, const struct explained *plan, struct alternatives *out,
                          struct error *err)
{
    struct choice choice = choice_of(plan->plan, plan->graph);
    struct contest contest = { .e = e, .out = out, .err = err };
    struct solution base;
    *out = (struct alternatives){ 0 };
    if (!explainer_base(e, &base, err))
        return false;
    return solve_kinds(&contest, &choice, explainer_is_dear(plan)) && let_known_compete(&contest) &&
           let_simulated_compete(&contest);
}
