/* Sweeps of passes. The limit first grows from the proven bound until a pass finds a placement, since passes with a
 * small limit are short; then it goes down, half of the time to just below the best, half of the time to the middle of
 * what is open. A graph with very many ideals is first solved on narrower ones (dag_window), which give a placement but
 * no proof: each keeps the best so far, since the stages of that follow each other in its order, and is searched for a
 * better one; where there is none, wider ones follow. */
#include "peers/stage_walk.h"
#include "base/num.h"
#include "peers/graphs.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Narrow graphs have at most so many ideals; larger ones are worth a narrow start. */
enum { NARROW_IDEALS = 3000, LARGE_IDEALS = 20000, GROWING_PASSES = 8, NARROW_SHARE = 8 };
/* Wider graphs have so many times the ideals of the one before; where all ideals follow, a part of these at most. */
enum { WIDENING = 4, FIRST_OF_BLOCKS = 250, WIDEST_SHARE = 16 };
static const double strictly_less = 1 - 1e-12; /* what counts as better */
static const double first_step = 0.05, step_growth = 2, worth_growing = 4, close_enough = 1.05;
/* With all ideals of a large graph a pass that takes so many times the work of all before it, and more than the least,
 * is given up for one with a nearer limit, down to the smallest step: what bounds there are come from passes that end.
 */
enum { PATIENCE = 16, LEAST_PATIENCE = 20000000 };
static const double smallest_step = 0.01, step_back = 4;
/* A pass whose limit is far above the optimum is long; where it is not the last one it starts the halving. */
static const double largest_step[] = { [false] = 1, [true] = 0.3 }; /* by stage_walk_is_exact() */

struct sweep {
    const struct stage_model *model;
    const struct stage_limits *limits;
    enum stage_value objective;
    double more_weight; /* latency: (m - 1) */
    struct arena *arena;
    struct stage_plan *plan;
    struct stage_walk *walk;
    double lower; /* proven for the ideals at hand: no placement has a smaller largest load */
    bool narrow;  /* the ideals at hand are not all: there is nothing to prove */
    bool stopped; /* by the work limit or stops() */
    struct error *err;
};

static double largest_load(const struct stage_plan *plan)
{
    double largest = 0;
    for (int s = 0; s < plan->stage_count; s++)
        largest = fmax(largest, plan->stages[s].load);
    return largest;
}

static double objective_of(const struct sweep *sweep, const struct stage_plan *plan)
{
    double sum = 0, largest = largest_load(plan);
    for (int s = 0; s < plan->stage_count; s++)
        sum += plan->stages[s].load;
    return sweep->objective == VALUE_MAX ? largest : sum + sweep->more_weight * largest;
}

/* Keeps the placement if it is better than the best so far. */
static bool keep(struct sweep *sweep, int label, struct stage_plan *found)
{
    struct stage_plan *plan = sweep->plan;
    *found = *plan;
    if (!stage_walk_stages(sweep->walk, label, sweep->arena, &found->stages, &found->stage_count, sweep->err))
        return false;
    found->feasible = true;
    found->value = objective_of(sweep, found);
    if (!plan->feasible || found->value < plan->value)
        *plan = *found;
    return true;
}

static int64_t work_of(const struct sweep *sweep)
{
    return sweep->walk->work + (sweep->model->inner_work ? *sweep->model->inner_work : 0);
}

static bool run_pass(struct sweep *sweep, double limit, int *label)
{
    return stage_walk_pass(sweep->walk, 0, limit, label, sweep->err);
}

/* ---- the largest load ---- */

struct schedule_of_limits {
    double step;
    int grown, lowered;
};

static double next_limit(const struct sweep *sweep, struct schedule_of_limits *s)
{
    const struct stage_plan *plan = sweep->plan;
    double best = plan->feasible ? plan->value * strictly_less : INFINITY;
    bool large = sweep->walk->ideals->count > LARGE_IDEALS, exact = stage_walk_is_exact(sweep->walk);
    bool wide = !plan->feasible || plan->value > sweep->lower * worth_growing, all = large && !sweep->narrow;
    if (sweep->lower > 0 && (all || (s->grown < GROWING_PASSES && wide))) {
        double limit = sweep->lower * (1 + s->step);
        s->step = fmin(s->step * step_growth, largest_step[exact]);
        s->grown++;
        if (limit < best)
            return limit;
    }
    if (!plan->feasible || sweep->lower <= 0 || large)
        return best;
    /* Where a pass finds the optimum one below the best settles it. */
    bool halve = !exact && (plan->value > sweep->lower * close_enough || s->lowered++ % 2 != 0);
    return halve ? fmin(best, sqrt(sweep->lower * plan->value)) : best;
}

/* *closed: all that is below the plan's value was searched. */
static bool sweep_bottleneck(struct sweep *sweep, bool *closed)
{
    struct schedule_of_limits schedule = { .step = first_step };
    bool exact = stage_walk_is_exact(sweep->walk), given = sweep->plan->feasible; /* by a narrower graph */
    bool all = sweep->walk->ideals->count > LARGE_IDEALS && !sweep->narrow;
    int64_t start = work_of(sweep);
    *closed = false;
    for (;;) {
        const struct stage_plan *plan = sweep->plan;
        if (plan->feasible && plan->value * strictly_less <= sweep->lower) {
            *closed = true;
            return true;
        }
        double step = schedule.step, limit = next_limit(sweep, &schedule);
        int64_t work = work_of(sweep), patience = max_i64(PATIENCE * (work - start), LEAST_PATIENCE);
        struct stage_plan found;
        int label;
        /* What is given is mostly best: a pass just below it has to find nothing. */
        sweep->walk->decides = exact && given && limit >= plan->value * strictly_less;
        sweep->walk->pass_limit = all && plan->feasible && step > smallest_step ? work + patience : INT64_MAX;
        if (!run_pass(sweep, limit, &label) || (label >= 0 && !keep(sweep, label, &found)))
            return false;
        if (sweep->walk->stopped)
            return true;
        if (label >= 0) {
            schedule.grown = GROWING_PASSES;
            given = false;
            if (exact && !sweep->walk->decides && !sweep->walk->given_up)
                sweep->lower = found.value * strictly_less;
        } else if (sweep->walk->given_up) {
            schedule.step = fmax(step / step_back, smallest_step);
        } else {
            sweep->lower = limit;
            if (isinf(limit)) {
                *closed = true;
                return true;
            }
        }
    }
}

/* ---- sum and largest load ---- */

/* As the limit falls the smallest sum rises; between two of its values nothing can be better. */
static bool sweep_latency(struct sweep *sweep, double *bound, bool *closed)
{
    double limit = INFINITY, lowest = sweep->model->bound;
    *bound = 0;
    *closed = false;
    for (;;) {
        struct stage_plan found, *plan = sweep->plan;
        int label;
        if (!run_pass(sweep, limit, &label) || (label >= 0 && !keep(sweep, label, &found)))
            return false;
        if (sweep->walk->stopped)
            return true;
        *closed = true;
        if (label < 0) {
            *bound = plan->feasible ? plan->value : INFINITY;
            return true;
        }
        double largest = largest_load(&found), sum = found.value - sweep->more_weight * largest;
        *bound = fmin(plan->value, sum + sweep->more_weight * lowest);
        if (*bound >= plan->value * strictly_less)
            return true;
        limit = fmin(largest, (plan->value - sum) / sweep->more_weight) * strictly_less;
        *closed = false;
    }
}

/* ---- one set of ideals ---- */

/* exact: the ideals are all there are, so that what is proven of them is proven. */
static bool solve_on(struct sweep *sweep, const struct ideals *ideals, bool exact, int64_t work)
{
    const struct stage_model *model = sweep->model;
    struct stage_plan *plan = sweep->plan;
    double bound = model->bound;
    bool closed = false;
    int64_t inner_before = model->inner_work ? *model->inner_work : 0;
    if (model->prepare && !model->prepare(model->self, ideals, sweep->err))
        return false;
    if (!stage_walk_make(&sweep->walk, model, ideals, sweep->objective, sweep->err))
        return false;
    sweep->walk->work_limit = work + inner_before;
    stage_walk_stop_with(sweep->walk, sweep->limits);
    sweep->lower = model->bound;
    sweep->narrow = !exact;
    plan->ideals = ideals->count;
    plan->words = ideals->words;
    bool ok = sweep->objective == VALUE_MAX ? sweep_bottleneck(sweep, &closed) : sweep_latency(sweep, &bound, &closed);
    if (sweep->objective == VALUE_MAX)
        bound = sweep->lower;
    plan->work += *stage_walk_work(sweep->walk) + (model->inner_work ? *model->inner_work - inner_before : 0);
    sweep->stopped = sweep->walk->stopped;
    stage_walk_free(sweep->walk);
    sweep->walk = NULL;
    if (exact) {
        plan->bound = fmax(plan->bound, fmin(bound, plan->value));
        plan->exhausted = closed;
        plan->optimal = closed && plan->feasible;
    }
    return ok;
}

static bool is_late(const struct stage_limits *limits)
{
    return limits->stops && limits->stops(limits->self);
}

static bool is_over(const struct sweep *sweep, int64_t work)
{
    return sweep->stopped || sweep->plan->work >= work || is_late(sweep->limits);
}

/* The widest window along the order with few enough ideals: window 1 always has node_count + 1. *window: one that may
 * be near, or 0; then what was found. */
static bool narrow_ideals(struct sweep *sweep, const struct dag *dag, const int *order, int64_t most,
                          struct ideals *out, int *window)
{
    int low = 1, high = dag->node_count, near[] = { *window, 2 * *window }, asked = *window > 0 ? 2 : 0;
    struct arena scratch = { 0 };
    struct dag narrow;
    bool ok = true;
    while (ok && low < high && !is_over(sweep, INT64_MAX)) {
        int middle = asked > 0 ? near[--asked] : 0;
        if (middle <= low || middle > high)
            middle = low + (high - low + 1) / 2;
        ok = dag_window(&narrow, &scratch, dag, order, middle, sweep->err) &&
             ideals_build(out, &narrow, most + dag->node_count + 1, sweep->err);
        if (ok && out->complete)
            low = middle;
        else
            high = middle - 1;
        ideals_free(out);
        arena_free(&scratch);
    }
    *window = low;
    ok = ok && dag_window(&narrow, &scratch, dag, order, low, sweep->err) &&
         ideals_build(out, &narrow, INT32_MAX, sweep->err);
    arena_free(&scratch);
    return ok;
}

static bool solve_narrow(struct sweep *sweep, const struct dag *dag, const int *order, int64_t most, int64_t work,
                         int *window)
{
    struct ideals ideals = { 0 };
    bool ok = narrow_ideals(sweep, dag, order, most, &ideals, window) && solve_on(sweep, &ideals, false, work);
    ideals_free(&ideals);
    return ok;
}

/* Places in an order in which branches side by side go on together: as soon as they can, or as late. */
static void find_levels(const struct dag *dag, bool late, int *level)
{
    for (int i = 0; i < dag->node_count; i++) {
        int v = dag->order[late ? dag->node_count - 1 - i : i];
        const int *first = late ? dag->first_out : dag->first_in, *row = late ? dag->out : dag->in;
        level[v] = 0;
        for (int e = first[v]; e < first[v + 1]; e++) {
            int beyond = late ? level[row[e]] - 1 : level[row[e]] + 1;
            level[v] = (int)(late ? min_i64(level[v], beyond) : max_i64(level[v], beyond));
        }
    }
}

enum { BRANCH_BY_BRANCH, AS_SOON, AS_LATE, ORDERS };
struct node_place {
    int stage, level, place, node;
};

static int by_place(const void *a, const void *b)
{
    const struct node_place *x = a, *y = b;
    if (x->stage != y->stage)
        return (x->stage > y->stage) - (x->stage < y->stage);
    if (x->level != y->level)
        return (x->level > y->level) - (x->level < y->level);
    return (x->place > y->place) - (x->place < y->place);
}

/* A topological order along which the plan's stages follow each other: its window graphs have the plan's ideals. */
static bool order_by_plan(const struct sweep *sweep, const struct dag *dag, int kind, int *order)
{
    const struct stage_plan *plan = sweep->plan;
    int n = dag->node_count, *level = calloc((size_t)n, sizeof *level);
    struct node_place *places = malloc((size_t)n * sizeof *places);
    if (level && places) {
        if (kind != BRANCH_BY_BRANCH)
            find_levels(dag, kind == AS_LATE, level);
        for (int v = 0; v < n; v++) {
            places[v] = (struct node_place){ 0, level[v], dag->place[v], v };
            while (places[v].stage < plan->stage_count &&
                   !(plan->stages[places[v].stage].nodes[v / 64] >> (v % 64) & 1))
                places[v].stage++;
        }
        qsort(places, (size_t)n, sizeof *places, by_place);
        for (int i = 0; i < n; i++)
            order[i] = places[i].node;
    }
    bool ok = level && places;
    free(level);
    free(places);
    return ok || fail_kind(sweep->err, ERROR_ENVIRONMENT, "partition: out of memory");
}

/* Ever wider graphs along the best plan, as long as a limit allows. */
static bool improve(struct sweep *sweep, const struct dag *dag, int64_t widest, int64_t work)
{
    int *order = arena_alloc(sweep->arena, (size_t)dag->node_count, sizeof *order), window[ORDERS] = { 0 };
    if (!order)
        return fail_kind(sweep->err, ERROR_ENVIRONMENT, "partition: out of memory");
    for (int64_t most = sweep->model->inner_work ? FIRST_OF_BLOCKS : NARROW_IDEALS; most <= widest; most *= WIDENING)
        for (int kind = 0, idle = 0; idle < ORDERS; kind = (kind + 1) % ORDERS) {
            double before = sweep->plan->value;
            if (is_over(sweep, work))
                return true;
            if (!order_by_plan(sweep, dag, kind, order) ||
                !solve_narrow(sweep, dag, order, most, work - sweep->plan->work, &window[kind]))
                return false;
            idle = sweep->plan->value < before ? 0 : idle + 1;
        }
    return true;
}

static bool solve(struct sweep *sweep, const struct dag *dag)
{
    const struct stage_limits *limits = sweep->limits;
    struct ideals ideals = { 0 };
    int64_t work = limits->work ? min_i64(limits->work, INT64_MAX / 2) : STAGE_WORK;
    int64_t most_ideals = limits->ideals ? limits->ideals : STAGE_IDEALS;
    bool ok = ideals_build(&ideals, dag, min_i64(most_ideals, LARGE_IDEALS), sweep->err);
    bool large = !ideals.complete, wide = large || ideals.count > 2 * (dag->node_count + 1);
    int most = large && !sweep->model->inner_work ? NARROW_IDEALS : 0;
    int window = 0;
    sweep->plan->value = INFINITY;
    sweep->plan->bound = sweep->model->bound * (1 + sweep->more_weight);
    if (ok && wide)
        ok = solve_narrow(sweep, dag, dag->order, most, work / NARROW_SHARE, &window);
    if (ok && large && most_ideals > LARGE_IDEALS && !is_late(limits)) { /* to list them all takes a while */
        ideals_free(&ideals);
        ok = ideals_build(&ideals, dag, most_ideals, sweep->err);
    }
    bool exact = ideals.complete;
    int64_t widest = exact ? ideals.count / WIDEST_SHARE : most_ideals;
    if (ok && large)
        ok = improve(sweep, dag, widest, exact ? work / NARROW_SHARE : work);
    if (ok && exact && !(sweep->plan->feasible && is_late(limits)))
        ok = solve_on(sweep, &ideals, true, large ? work - work / NARROW_SHARE : work);
    ideals_free(&ideals);
    return ok;
}

bool stages_bottleneck(const struct stage_model *model, const struct dag *dag, const struct stage_limits *limits,
                       struct arena *arena, struct stage_plan *out, struct error *err)
{
    memset(out, 0, sizeof *out);
    struct sweep sweep = {
        .model = model, .limits = limits, .objective = VALUE_MAX, .arena = arena, .plan = out, .err = err
    };
    return solve(&sweep, dag);
}

bool stages_latency(const struct stage_model *model, const struct dag *dag, const struct stage_limits *limits,
                    int64_t micro_batches, struct arena *arena, struct stage_plan *out, struct error *err)
{
    memset(out, 0, sizeof *out);
    struct sweep sweep = { .model = model,
                           .limits = limits,
                           .objective = VALUE_SUM,
                           .more_weight = (double)(micro_batches - 1),
                           .arena = arena,
                           .plan = out,
                           .err = err };
    return solve(&sweep, dag);
}
