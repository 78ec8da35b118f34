/* Galvatron's problem, exactly: for each number of stages, of micro-batches and each way to hold the vocabulary, the
 * layers of a stage are alike, so that a stage is a knapsack over counts. What a stage adds to the step are two
 * numbers: its time C and what its gradients expose E. Its choices that no other beats in both come from knapsacks with
 * a falling limit on E; the stages' choices are then combined by depth first search. */
#include "peers/galvatron.h"
#include "planner/knapsack/knapsack.h"
#include <math.h>
#include <string.h>

enum { OPTIONS = GALVATRON_DEGREES * 4, COMBINATIONS = 1000000 };
static const double ns_per_ms = 1e6;

struct option {
    struct galvatron_layer layer;
    struct galvatron_cost cost;
};
/* A choice of a stage. Milliseconds; layers per option. */
struct point {
    double quiet_ms, exposed_ms; /* quiet: with the others */
    int counts[OPTIONS];
    struct point *next; /* slower, and exposes less */
};
struct stage_points {
    struct point *first;
    double others_ms;
};
struct solver {
    const struct galvatron_problem *problem;
    struct arena *arena;
    struct error *err;
    struct galvatron_plan shape; /* of the combination in hand: no layers yet */
    int option_count;
    struct option options[OPTIONS];
    struct stage_points stages[GALVATRON_STAGES];
    struct point *chosen[GALVATRON_STAGES];
    double quiet[GALVATRON_STAGES], exposed[GALVATRON_STAGES], others[GALVATRON_STAGES];
    int64_t combinations, knapsacks;
    double best_ms, bound_ms; /* of all so far; INFINITY: none */
    struct galvatron_answer *out;
};

/* ---- options of a layer ---- */

/* What was not measured, or cannot be divided so, is no option. */
static void list_options(struct solver *s)
{
    int devices = s->problem->device_count / s->shape.stage_count;
    s->option_count = 0;
    for (int tensor = 1; tensor <= devices && tensor < 1 << GALVATRON_DEGREES; tensor *= 2)
        for (int way = 0; way < 4; way++) {
            struct option *o = &s->options[s->option_count];
            struct error ignored = { 0 };
            o->layer = (struct galvatron_layer){ tensor, way & 1, way & 2 };
            s->option_count += galvatron_layer_cost(s->problem, &s->shape, &o->layer, &o->cost, &ignored);
        }
}

/* ---- the choices of a stage ---- */

static int64_t kilobytes(double mb)
{
    return (int64_t)ceil(mb * 1024 - 1e-6);
}

/* The fastest choice that exposes at most *exposed_ns; *out NULL: none fits. */
static bool solve_stage(struct solver *s, int stage, double room_mb, int64_t exposed_ns, struct point **out)
{
    struct knapsack_option options[OPTIONS];
    int index[OPTIONS], counts[OPTIONS] = { 0 }, count = 0, layers = s->shape.layer_count / s->shape.stage_count;
    *out = NULL;
    for (int i = 0; i < s->option_count; i++) {
        const struct galvatron_cost *c = &s->options[i].cost;
        double mb = c->states_mb + c->activation_mb * galvatron_in_flight(&s->shape, stage);
        if (mb > room_mb)
            continue;
        index[count] = i;
        options[count++] = (struct knapsack_option){ .cost = llround(c->quiet_ms * ns_per_ms),
                                                     .row = { kilobytes(mb), llround(c->exposed_ms * ns_per_ms) } };
    }
    if (count == 0 || room_mb < 0)
        return true;
    struct knapsack_group group = { layers, count, options };
    struct knapsack knapsack = {
        .group_count = 1, .row_count = 2, .groups = &group, .cap = { (int64_t)(room_mb * 1024), exposed_ns }
    };
    struct knapsack_result result = { .counts = counts };
    s->knapsacks++;
    if (!knapsack_solve(&knapsack, &result, s->err))
        return false;
    if (result.status != KNAPSACK_OPTIMAL)
        return true;
    struct point *point = arena_alloc(s->arena, 1, sizeof *point);
    if (!point)
        return fail_kind(s->err, ERROR_ENVIRONMENT, "partition: out of memory");
    for (int i = 0; i < count; i++) {
        point->counts[index[i]] = counts[i];
        point->quiet_ms += counts[i] * s->options[index[i]].cost.quiet_ms;
        point->exposed_ms += counts[i] * s->options[index[i]].cost.exposed_ms;
    }
    point->quiet_ms += s->stages[stage].others_ms;
    *out = point;
    return true;
}

/* The step if this stage takes `point`, all stages their fastest before and nothing yet behind: a bound. */
static double fastest_ms(struct solver *s, int stage_count)
{
    double floor;
    for (int i = 0; i < s->shape.stage_count; i++) {
        s->quiet[i] = i < stage_count ? s->stages[i].first->quiet_ms : 0;
        s->exposed[i] = s->others[i] = 0;
    }
    galvatron_step(s->quiet, s->exposed, s->others, s->shape.stage_count, s->shape.chunks, &floor);
    return floor;
}

/* After the fastest: the others that expose less, as long as that can matter. hidden_ms: what earlier stages hide. */
static bool list_points(struct solver *s, int stage, double room_mb, double hidden_ms)
{
    struct point *last = s->stages[stage].first;
    while (last->exposed_ms > hidden_ms) {
        /* Below it by more than the roundings of all layers. */
        int64_t exposed_ns = llround(last->exposed_ms * ns_per_ms) - 1 - s->shape.layer_count;
        if (exposed_ns < 0 || !solve_stage(s, stage, room_mb, exposed_ns, &last->next))
            return exposed_ns < 0;
        if (!last->next || last->next->quiet_ms >= s->best_ms)
            return true;
        last = last->next;
    }
    return true;
}

/* ---- combining ---- */

static bool keep_best(struct solver *s, double step_ms)
{
    struct galvatron_plan plan = s->shape;
    int layer = 0, each = plan.layer_count / plan.stage_count;
    plan.layers = arena_alloc(s->arena, (size_t)plan.layer_count, sizeof *plan.layers);
    plan.stage_layers = arena_alloc(s->arena, (size_t)plan.stage_count, sizeof *plan.stage_layers);
    if (!plan.layers || !plan.stage_layers)
        return fail_kind(s->err, ERROR_ENVIRONMENT, "partition: out of memory");
    for (int stage = 0; stage < plan.stage_count; stage++) {
        plan.stage_layers[stage] = each;
        for (int i = 0; i < s->option_count; i++)
            for (int c = 0; c < s->chosen[stage]->counts[i]; c++)
                plan.layers[layer++] = s->options[i].layer;
    }
    s->best_ms = step_ms;
    s->out->plan = plan;
    return true;
}

/* What the stages chosen so far take at least, with the fastest of the others. */
static double floor_of(struct solver *s, int depth, double *step_ms)
{
    double floor;
    for (int i = 0; i < s->shape.stage_count; i++) {
        const struct point *p = i < depth ? s->chosen[i] : s->stages[i].first;
        s->quiet[i] = p->quiet_ms;
        s->exposed[i] = i < depth ? p->exposed_ms : 0;
        s->others[i] = s->stages[i].others_ms;
    }
    *step_ms = galvatron_step(s->quiet, s->exposed, s->others, s->shape.stage_count, s->shape.chunks, &floor);
    return floor;
}

static bool combine(struct solver *s, int depth)
{
    double step_ms, floor_ms = floor_of(s, depth, &step_ms);
    if (floor_ms >= s->best_ms)
        return true;
    if (depth == s->shape.stage_count || ++s->combinations > COMBINATIONS) {
        s->bound_ms = fmin(s->bound_ms, floor_ms);
        return depth < s->shape.stage_count || step_ms >= s->best_ms || keep_best(s, step_ms);
    }
    for (struct point *p = s->stages[depth].first; p; p = p->next) {
        s->chosen[depth] = p;
        if (!combine(s, depth + 1))
            return false;
    }
    return true;
}

/* ---- the shapes ---- */

/* False: stop; *fits: every stage has a choice, and the shape may be better than the best. */
static bool list_stages(struct solver *s, double room_mb[GALVATRON_STAGES], bool *fits)
{
    *fits = false;
    for (int stage = 0; stage < s->shape.stage_count; stage++) {
        struct galvatron_cost others;
        struct error ignored = { 0 };
        if (!galvatron_others_cost(s->problem, &s->shape, stage, &others, &ignored))
            return true;
        room_mb[stage] = galvatron_limit_mb(s->problem) - others.states_mb - others.activation_mb;
        s->stages[stage] = (struct stage_points){ NULL, others.quiet_ms };
        if (!solve_stage(s, stage, room_mb[stage], INT64_C(1) << 49, &s->stages[stage].first))
            return false;
        if (!s->stages[stage].first || fastest_ms(s, stage + 1) >= s->best_ms)
            return true;
    }
    *fits = true;
    return true;
}

static bool try_shape(struct solver *s)
{
    double room_mb[GALVATRON_STAGES], hidden_ms = 0;
    bool fits;
    if (!list_stages(s, room_mb, &fits))
        return false;
    for (int stage = 0; fits && stage < s->shape.stage_count; stage++) {
        if (!list_points(s, stage, room_mb[stage], hidden_ms + s->stages[stage].others_ms))
            return false;
        hidden_ms += s->stages[stage].first->quiet_ms;
    }
    s->combinations = 0;
    return !fits || combine(s, 0);
}

/* Every way to hold the vocabulary, for these stages and micro-batches. */
static bool try_vocabularies(struct solver *s)
{
    int devices = s->problem->device_count / s->shape.stage_count;
    list_options(s);
    for (int tensor = 1; tensor <= devices && tensor < 1 << GALVATRON_DEGREES; tensor *= 2)
        for (int way = 0; way < 4; way++) {
            s->shape.vocabulary_tensor = tensor;
            s->shape.vocabulary_sequence = way & 1;
            s->shape.embedding_zero3 = way & 2;
            if (!try_shape(s))
                return false;
        }
    return true;
}

static bool check_problem(const struct galvatron_problem *p, struct error *err)
{
    if (p->device_count < 1 || p->device_count >= 1 << GALVATRON_DEGREES || p->device_count & (p->device_count - 1))
        return fail(err, "galvatron: expected a power of two of at most %d devices, found %d",
                    1 << (GALVATRON_DEGREES - 1), p->device_count);
    if (p->layer_count < 1 || p->layer_count > GALVATRON_LAYERS)
        return fail(err, "galvatron: expected 1 to %d layers, found %d", GALVATRON_LAYERS, p->layer_count);
    if (p->batch < 1 || p->batch > 1000000 || p->hidden < 1 || p->hidden > 1000000)
        return fail(err, "galvatron: expected a batch and a width of 1 to 1000000, found %lld and %lld",
                    (long long)p->batch, (long long)p->hidden);
    return (p->memory_gb > 0 && p->memory_gb <= 1e6) ||
           fail(err, "galvatron: expected a memory of up to 1e6 GB, found %g", p->memory_gb);
}

bool galvatron_solve(const struct galvatron_problem *problem, struct arena *arena, struct galvatron_answer *out,
                     struct error *err)
{
    if (!check_problem(problem, err))
        return false;
    struct solver *s = arena_alloc(arena, 1, sizeof *s);
    if (!s)
        return fail_kind(err, ERROR_ENVIRONMENT, "partition: out of memory");
    *out = (struct galvatron_answer){ 0 };
    s->problem = problem;
    s->arena = arena;
    s->err = err;
    s->best_ms = s->bound_ms = INFINITY;
    s->out = out;
    for (int stages = 1; stages <= problem->device_count; stages *= 2)
        for (int chunks = 1; chunks <= problem->batch && problem->layer_count % stages == 0; chunks++) {
            s->shape = (struct galvatron_plan){
                .stage_count = stages, .layer_count = problem->layer_count, .chunks = chunks, .batch = problem->batch
            };
            if (problem->batch % chunks == 0 && !try_vocabularies(s))
                return false;
        }
    out->knapsacks = s->knapsacks;
    out->feasible = s->best_ms < INFINITY;
    if (!out->feasible)
        return true;
    struct galvatron_price price;
    if (!galvatron_evaluate(problem, &out->plan, &price, err))
        return false;
    out->step_s = price.step_s;
    out->bound_s = fmin(s->bound_ms / 1000, price.step_s);
    out->optimal = out->bound_s >= price.step_s * (1 - 1e-9);
    return true;
}
