/* Sweeps of passes. The limit first grows from the proven bound until a pass finds a placement, since passes with a
 * small limit are short; then it goes down, half of the time to just below the best, half of the time to the middle of
 * what is open. A graph with too many ideals is first solved on a narrower one (dag_window), which gives a placement
 * but no proof. */
#include "peers/stage_walk.h"
#include "base/num.h"
#include <math.h>
#include <string.h>

/* Narrow graphs have at most so many ideals; larger ones are worth a narrow start. */
enum { NARROW_IDEALS = 3000, LARGE_IDEALS = 20000, GROWING_PASSES = 8, NARROW_SHARE = 8 };
static const double strictly_less = 1 - 1e-12; /* what counts as better */
static const double first_step = 0.05, step_growth = 2, worth_growing = 4, close_enough = 1.05;
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

static bool run_pass(struct sweep *sweep, double limit, int *label)
{
    sweep->plan->passes++;
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
    bool wide = !plan->feasible || large || plan->value > sweep->lower * worth_growing;
    if (sweep->lower > 0 && s->grown < GROWING_PASSES && wide) {
        double limit = sweep->lower * (1 + s->step);
        s->step = fmin(s->step * step_growth, largest_step[exact]);
        s->grown++;
        if (limit < best)
            return limit;
    }
    if (!plan->feasible || sweep->lower <= 0)
        return best;
    /* Where a pass finds the optimum one below the best settles it. */
    bool halve = (!exact || large) && (plan->value > sweep->lower * close_enough || s->lowered++ % 2 != 0);
    return halve ? fmin(best, sqrt(sweep->lower * plan->value)) : best;
}

/* *closed: all that is below the plan's value was searched. */
static bool sweep_bottleneck(struct sweep *sweep, bool *closed)
{
    struct schedule_of_limits schedule = { .step = first_step };
    bool exact = stage_walk_is_exact(sweep->walk), given = sweep->plan->feasible; /* by a narrower graph */
    *closed = false;
    for (;;) {
        const struct stage_plan *plan = sweep->plan;
        if (plan->feasible && plan->value * strictly_less <= sweep->lower) {
            *closed = true;
            return true;
        }
        double limit = next_limit(sweep, &schedule);
        struct stage_plan found;
        int label;
        /* What is given is mostly best: a pass just below it has to find nothing. */
        sweep->walk->decides = exact && given && limit >= plan->value * strictly_less;
        if (!run_pass(sweep, limit, &label) || (label >= 0 && !keep(sweep, label, &found)))
            return false;
        if (sweep->walk->stopped)
            return true;
        if (label >= 0) {
            schedule.grown = GROWING_PASSES;
            given = false;
            if (exact && !sweep->walk->decides)
                sweep->lower = found.value * strictly_less;
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
    sweep->walk->stops = sweep->limits->stops;
    sweep->walk->stops_self = sweep->limits->self;
    sweep->lower = model->bound;
    plan->ideals = ideals->count;
    plan->words = ideals->words;
    bool ok = sweep->objective == VALUE_MAX ? sweep_bottleneck(sweep, &closed) : sweep_latency(sweep, &bound, &closed);
    if (sweep->objective == VALUE_MAX)
        bound = sweep->lower;
    plan->work += *stage_walk_work(sweep->walk) + (model->inner_work ? *model->inner_work - inner_before : 0);
    stage_walk_free(sweep->walk);
    sweep->walk = NULL;
    if (exact) {
        plan->bound = fmax(plan->bound, fmin(bound, plan->value));
        plan->exhausted = closed;
        plan->optimal = closed && plan->feasible;
    }
    return ok;
}

/* The widest window with few enough ideals: window 1 always has node_count + 1. */
static bool narrow_ideals(struct sweep *sweep, const struct dag *dag, int most, struct ideals *out)
{
    int low = 1, high = dag->node_count;
    struct arena scratch = { 0 };
    struct dag narrow;
    bool ok = true;
    while (ok && low < high) {
        int middle = low + (high - low + 1) / 2;
        ok = dag_window(&narrow, &scratch, dag, dag->order, middle, sweep->err) &&
             ideals_build(out, &narrow, most + dag->node_count + 1, sweep->err);
        if (ok && out->complete)
            low = middle;
        else
            high = middle - 1;
        ideals_free(out);
        arena_free(&scratch);
    }
    ok = ok && dag_window(&narrow, &scratch, dag, dag->order, low, sweep->err) &&
         ideals_build(out, &narrow, INT32_MAX, sweep->err);
    arena_free(&scratch);
    return ok;
}

static bool solve_narrow(struct sweep *sweep, const struct dag *dag, int most, int64_t work)
{
    struct ideals ideals = { 0 };
    bool ok = narrow_ideals(sweep, dag, most, &ideals) && solve_on(sweep, &ideals, false, work);
    ideals_free(&ideals);
    return ok;
}

static bool solve(struct sweep *sweep, const struct dag *dag)
{
    const struct stage_limits *limits = sweep->limits;
    struct ideals ideals = { 0 };
    int64_t work = limits->work ? limits->work : STAGE_WORK;
    bool ok = ideals_build(&ideals, dag, limits->ideals ? limits->ideals : STAGE_IDEALS, sweep->err);
    bool exact = ideals.complete, large = !exact || ideals.count > LARGE_IDEALS;
    bool wide = large || ideals.count > 2 * (dag->node_count + 1);
    int most = large && !sweep->model->inner_work ? NARROW_IDEALS : 0;
    sweep->plan->value = INFINITY;
    sweep->plan->bound = sweep->model->bound * (1 + sweep->more_weight);
    if (ok && wide)
        ok = solve_narrow(sweep, dag, most, work / NARROW_SHARE);
    if (ok && exact)
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
