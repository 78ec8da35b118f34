/* Ideals, stages of any cost, and variants against enumeration of everything on small random graphs. */
#include "peers/graphs.h"
#include "peers/stages.h"
#include "peers/variants.h"
#include "tests/random_dag.h"

/* Index of the set, or -1: it walks covers from the empty set. */
static int ideals_find(const struct ideals *ideals, const uint64_t *bits)
{
    int at = 0;
    for (bool moved = true; moved;) {
        moved = false;
        for (int64_t k = ideals->first_up[at]; k < ideals->first_up[at + 1] && !moved; k++)
            if (bits[ideals->up_node[k] / 64] >> (ideals->up_node[k] % 64) & 1) {
                at = ideals->up_ideal[k];
                moved = true;
            }
    }
    return memcmp(bits, ideal_bits(ideals, at), (size_t)ideals->words * sizeof *bits) == 0 ? at : -1;
}

static const struct stage_limits no_limits = { 0 };

/* ---- graphs and ideals ---- */

static struct ideals ideals_of(int nodes, const struct dag_edge *edges, int edge_count)
{
    struct arena arena = { 0 };
    struct dag dag;
    struct ideals ideals;
    struct error err = { 0 };
    ck_assert_msg(dag_build(&dag, &arena, nodes, edges, edge_count, NULL, &err), "%s", err.message);
    ck_assert_msg(ideals_build(&ideals, &dag, 1 << 20, &err), "%s", err.message);
    arena_free(&arena);
    return ideals;
}

/* Chains of a, b, ... nodes side by side: (a + 1)(b + 1)... ideals. */
START_TEST(chains_side_by_side_multiply)
{
    static const int lengths[] = { 3, 5, 1, 7 };
    struct dag_edge edges[64];
    int nodes = 0, count = 0, expected = 1;
    for (int c = 0; c < 4; c++) {
        for (int i = 1; i < lengths[c]; i++)
            edges[count++] = (struct dag_edge){ nodes + i - 1, nodes + i };
        nodes += lengths[c];
        expected *= lengths[c] + 1;
        struct ideals ideals = ideals_of(nodes, edges, count);
        ck_assert(ideals.complete);
        ck_assert_int_eq(ideals.count, expected);
        ideals_free(&ideals);
    }
}
END_TEST

static bool is_closed(uint64_t set, const struct dag_edge *edges, int count)
{
    for (int e = 0; e < count; e++)
        if (set >> edges[e].to & 1 && !(set >> edges[e].from & 1))
            return false;
    return true;
}

START_TEST(ideals_are_all_closed_sets)
{
    struct draw d = { (uint64_t)_i + 1, 0 };
    struct dag_edge edges[RANDOM_EDGES];
    int nodes = 1 + (int)draw_below(&d, 10), count = draw_edges(&d, nodes, 3, edges), expected = 0;
    struct ideals ideals = ideals_of(nodes, edges, count);
    for (uint64_t set = 0; set < UINT64_C(1) << nodes; set++) {
        if (!is_closed(set, edges, count))
            continue;
        expected++;
        ck_assert_int_ge(ideals_find(&ideals, &set), 0);
    }
    ck_assert_int_eq(ideals.count, expected);
    for (int i = 0; i < ideals.count; i++) {
        int covers = 0;
        for (int v = 0; v < nodes; v++)
            covers +=
                !ideal_has(&ideals, i, v) && is_closed(ideal_bits(&ideals, i)[0] | UINT64_C(1) << v, edges, count);
        ck_assert_int_eq(ideals.first_up[i + 1] - ideals.first_up[i], covers);
    }
    ideals_free(&ideals);
}
END_TEST

START_TEST(cycles_are_named_and_merged)
{
    static const struct dag_edge edges[] = { { 0, 1 }, { 1, 2 }, { 2, 3 }, { 3, 1 }, { 3, 4 } };
    struct arena arena = { 0 };
    struct error err = { 0 };
    struct dag dag;
    int on_cycle = -1, component[5], count;
    ck_assert(!dag_build(&dag, &arena, 5, edges, 5, &on_cycle, &err));
    ck_assert(on_cycle >= 1 && on_cycle <= 3);
    ck_assert_int_eq(err.kind, ERROR_INPUT);
    ck_assert(dag_components(&arena, 5, edges, 5, component, &count, &err));
    ck_assert_int_eq(count, 3);
    ck_assert(component[0] == 0 && component[1] == 1 && component[2] == 1 && component[3] == 1 && component[4] == 2);
    arena_free(&arena);
}
END_TEST

START_TEST(windows_grow_from_a_chain_to_all)
{
    struct draw d = { (uint64_t)_i + 1, 0 };
    struct dag_edge edges[RANDOM_EDGES];
    struct arena arena = { 0 };
    struct error err = { 0 };
    struct dag dag, narrow;
    int nodes = 8, count = draw_edges(&d, nodes, 5, edges), before = nodes;
    ck_assert(dag_build(&dag, &arena, nodes, edges, count, NULL, &err));
    struct ideals all = ideals_of(nodes, edges, count), ideals;
    for (int window = 1; window <= nodes; window++) {
        ck_assert(dag_window(&narrow, &arena, &dag, dag.order, window, &err));
        ck_assert(ideals_build(&ideals, &narrow, 1 << 20, &err));
        ck_assert_int_ge(ideals.count, window == 1 ? nodes + 1 : before);
        for (int i = 0; i < ideals.count; i++)
            ck_assert_int_ge(ideals_find(&all, ideal_bits(&ideals, i)), 0);
        before = ideals.count;
        ideals_free(&ideals);
    }
    ck_assert_int_eq(before, all.count);
    ideals_free(&all);
    arena_free(&arena);
}
END_TEST

/* k branches of two nodes between fork and join: in order of their heads far fewer than 3^k. */
START_TEST(alike_branches_are_ordered)
{
    enum { K = 10 };
    struct dag_edge edges[4 * K], more[2 * K + 2];
    int kind[2 * K + 2] = { 0 }, count = 0;
    struct arena arena = { 0 };
    struct error err = { 0 };
    struct dag dag;
    for (int b = 0; b < K; b++) {
        edges[count++] = (struct dag_edge){ 0, 2 + 2 * b };
        edges[count++] = (struct dag_edge){ 2 + 2 * b, 3 + 2 * b };
        edges[count++] = (struct dag_edge){ 3 + 2 * b, 1 };
        kind[2 + 2 * b] = 1;
        kind[3 + 2 * b] = 2;
    }
    ck_assert(dag_build(&dag, &arena, 2 * K + 2, edges, count, NULL, &err));
    ck_assert_int_eq(dag_order_alike(&dag, kind, more), K - 1);
    kind[2] = 7; /* one branch is different now */
    ck_assert_int_eq(dag_order_alike(&dag, kind, more), K - 2);
    arena_free(&arena);
}
END_TEST

/* ---- any cost at all ---- */

/* Loads drawn by the set of nodes and the choice: no structure that a method could lean on. */
struct any_cost {
    uint64_t seed;
    const struct ideals *ideals;
    int nodes, edge_count;
    struct dag_edge edges[RANDOM_EDGES];
    struct stage_model model;
    int64_t micro_batches; /* 0: largest load */
    /* enumeration */
    uint64_t placed;
    int used[STAGE_AXES];
    double largest, sum, best;
};
static const struct stage_choice any_choices[] = { { { 1, 0 } }, { { 2, 1 } }, { { 1, 1 } } };

static double any_load(uint64_t seed, uint64_t set, int choice)
{
    return 1 + (double)(mix64(seed ^ mix64(set * 8 + (uint64_t)choice)) % 100000);
}

static bool any_prepare(void *self, const struct ideals *ideals, struct error *err)
{
    (void)err;
    ((struct any_cost *)self)->ideals = ideals;
    return true;
}

static double any_model_load(void *self, int below, int above, int choice, const int used[STAGE_AXES], double limit)
{
    const struct any_cost *c = self;
    (void)used, (void)limit;
    return any_load(c->seed, *ideal_bits(c->ideals, above) & ~*ideal_bits(c->ideals, below), choice);
}

static void any_enumerate(struct any_cost *c);
static void any_visit(void *self, uint64_t set)
{
    struct any_cost *c = self;
    for (int choice = 0; choice < c->model.choice_count; choice++) {
        struct any_cost before = *c;
        bool fits = true;
        for (int axis = 0; axis < STAGE_AXES; axis++) {
            c->used[axis] += any_choices[choice].use[axis];
            fits = fits && c->used[axis] <= c->model.axis_limit[axis];
        }
        double load = any_load(c->seed, set, choice), best = c->best;
        c->largest = fmax(c->largest, load);
        c->sum += load;
        c->placed |= set;
        if (fits)
            any_enumerate(c);
        best = c->best;
        *c = before;
        c->best = best;
    }
}

static void any_enumerate(struct any_cost *c)
{
    if (c->placed != (UINT64_C(1) << c->nodes) - 1) {
        each_next_set(c->nodes, c->edges, c->edge_count, c->placed, any_visit, c);
        return;
    }
    for (int axis = 0; axis < STAGE_AXES; axis++)
        if (c->model.axis_exact[axis] && c->used[axis] < c->model.axis_limit[axis])
            return;
    double value = c->micro_batches ? c->sum + (double)(c->micro_batches - 1) * c->largest : c->largest;
    c->best = fmin(c->best, value);
}

static void draw_any_cost(struct any_cost *c, int i)
{
    struct draw d = { (uint64_t)i + 1, 0 };
    *c = (struct any_cost){ .seed = (uint64_t)i, .nodes = 1 + (int)draw_below(&d, 5), .best = INFINITY };
    c->edge_count = draw_edges(&d, c->nodes, 3, c->edges);
    c->model = (struct stage_model){ .name = "any",
                                     .self = c,
                                     .axis_limit = { 2 + (int)draw_below(&d, 4), (int)draw_below(&d, 4) },
                                     .axis_exact = { draw_below(&d, 2) == 0, false },
                                     .choice_count = 3,
                                     .choices = any_choices,
                                     .context = i % 3 == 0,
                                     .bound = i % 2 == 0 ? 1 : 0,
                                     .prepare = any_prepare,
                                     .load = any_model_load };
    c->micro_batches = i % 4 == 1 ? 0 : draw_below(&d, 9);
}

START_TEST(stages_equal_enumeration)
{
    struct any_cost c;
    struct arena arena = { 0 };
    struct error err = { 0 };
    struct dag dag;
    struct stage_plan plan;
    draw_any_cost(&c, _i);
    ck_assert(dag_build(&dag, &arena, c.nodes, c.edges, c.edge_count, NULL, &err));
    any_enumerate(&c);
    bool ok = c.micro_batches ? stages_latency(&c.model, &dag, &no_limits, c.micro_batches, &arena, &plan, &err)
                              : stages_bottleneck(&c.model, &dag, &no_limits, &arena, &plan, &err);
    ck_assert_msg(ok, "%s", err.message);
    ck_assert_msg(plan.feasible == (c.best < INFINITY) && plan.exhausted && plan.optimal == plan.feasible, "case %d",
                  _i);
    if (plan.feasible)
        CHECK_NEAR(plan.value, c.best, 1e-9 * c.best);
    ck_assert(!plan.feasible || plan.bound <= c.best);
    arena_free(&arena);
}
END_TEST

/* With too few ideals or too little work allowed: a plan, a bound under the optimum, and no claim. */
/* ---- potentials ---- */

enum { MODULES = 3, MODULE_BRANCHES = 4, BRANCH_NODES = 4, MACHINES = 8, MODULE_NODES = 60 };
/* Modules of branches side by side; a stage on d machines takes a d-th of its nodes' time and of d - 1 times what its
 * weights take, or of what crosses its ends, which is drawn for each ideal: seldom little, so that few can be ends. */
struct modules_cost {
    const struct ideals *ideals;
    uint64_t seed;
    int nodes, edge_count, machines;
    double time[MODULE_NODES], weights[MODULE_NODES], *sum, *weights_sum, mean;
    struct dag_edge edges[4 * MODULE_NODES];
    struct arena arena;
};

static bool modules_prepare(void *self, const struct ideals *ideals, struct error *err)
{
    struct modules_cost *c = self;
    c->ideals = ideals;
    c->sum = arena_alloc(&c->arena, (size_t)ideals->count, sizeof *c->sum);
    c->weights_sum = arena_alloc(&c->arena, (size_t)ideals->count, sizeof *c->weights_sum);
    if (!c->sum || !c->weights_sum)
        return fail_kind(err, ERROR_ENVIRONMENT, "out of memory");
    ideals_sum(ideals, c->time, c->sum);
    ideals_sum(ideals, c->weights, c->weights_sum);
    return true;
}

static double modules_key(void *self, int ideal, int choice)
{
    const struct modules_cost *c = self;
    return (c->sum[ideal] + choice * c->weights_sum[ideal]) / (choice + 1);
}

static double modules_entry(void *self, int below, int choice)
{
    const struct modules_cost *c = self;
    uint64_t drawn = mix64(c->seed ^ *ideal_bits(c->ideals, below));
    bool end = below == 0 || below == c->ideals->count - 1;
    return end ? 0 : c->mean * (drawn % 8 == 0 ? .5 : 2) * (1 + (double)(drawn >> 8 & 255) / 256) / (choice + 1);
}

static double modules_load(void *self, int below, int above, int choice, const int used[STAGE_AXES], double limit)
{
    double load = modules_key(self, above, choice) - modules_key(self, below, choice);
    (void)used, (void)limit;
    return below == 0 ? load : fmax(load, fmax(modules_entry(self, below, choice), modules_entry(self, above, choice)));
}

static double modules_finish_below(void *self, int above, const int used[STAGE_AXES], double limit)
{
    const struct modules_cost *c = self;
    double left = (c->sum[c->ideals->count - 1] - c->sum[above]) * (1 - 1e-12);
    int machines = c->machines - used[0];
    return machines > 0 && left < limit * machines ? limit : -INFINITY;
}

static bool modules_may_grow(void *self, int below, int above, const int room[STAGE_AXES], double limit)
{
    const struct modules_cost *c = self;
    return c->sum[above] - c->sum[below] < limit * room[0];
}

static void draw_modules(struct modules_cost *c, int i)
{
    struct draw d = { (uint64_t)i + 1, 0 };
    *c = (struct modules_cost){ .seed = (uint64_t)i, .nodes = 1, .machines = 2 + (int)draw_below(&d, MACHINES - 1) };
    for (int m = 0; m < MODULES; m++) {
        int fork = c->nodes - 1, branches = 1 + (int)draw_below(&d, MODULE_BRANCHES), ends[MODULE_BRANCHES];
        for (int b = 0; b < branches; b++) {
            ends[b] = fork;
            for (int length = 1 + (int)draw_below(&d, BRANCH_NODES); length > 0; length--) {
                c->edges[c->edge_count++] = (struct dag_edge){ ends[b], c->nodes };
                ends[b] = c->nodes++;
            }
        }
        for (int b = 0; b < branches; b++)
            c->edges[c->edge_count++] = (struct dag_edge){ ends[b], c->nodes };
        c->nodes++;
    }
    for (int v = 0; v < c->nodes; v++) {
        c->time[v] = 1 + (double)draw_below(&d, 100);
        c->weights[v] = (double)draw_below(&d, 60);
        c->mean += c->time[v] / c->machines;
    }
}

/* The optimum is the same whether or not the engine knows of potentials. */
START_TEST(potentials_change_nothing)
{
    static const struct stage_choice choices[MACHINES] = { { { 1 } }, { { 2 } }, { { 3 } }, { { 4 } },
                                                           { { 5 } }, { { 6 } }, { { 7 } }, { { 8 } } };
    struct modules_cost c;
    struct error err = { 0 };
    struct dag dag;
    struct stage_plan plain, far;
    draw_modules(&c, _i);
    struct stage_model model = { .name = "modules",
                                 .self = &c,
                                 .axis_limit = { c.machines, 0 },
                                 .axis_exact = { true, true },
                                 .choice_count = c.machines,
                                 .choices = choices,
                                 .bound = c.mean * (1 - 1e-12),
                                 .prepare = modules_prepare,
                                 .load = modules_load };
    ck_assert(dag_build(&dag, &c.arena, c.nodes, c.edges, c.edge_count, NULL, &err));
    ck_assert_msg(stages_bottleneck(&model, &dag, &no_limits, &c.arena, &plain, &err), "%s", err.message);
    model.key = modules_key;
    model.entry = model.exit = modules_entry;
    model.finish_below = modules_finish_below;
    model.may_grow = modules_may_grow;
    ck_assert_msg(stages_bottleneck(&model, &dag, &no_limits, &c.arena, &far, &err), "%s", err.message);
    ck_assert(plain.optimal && far.optimal);
    CHECK_NEAR(far.value, plain.value, 1e-9 * plain.value);
    arena_free(&c.arena);
}
END_TEST

START_TEST(limits_are_honest)
{
    struct any_cost c;
    struct arena arena = { 0 };
    struct error err = { 0 };
    struct dag dag;
    struct stage_plan exact, limited;
    draw_any_cost(&c, 4 * _i + 1);
    c.model.axis_exact[0] = false;
    ck_assert(dag_build(&dag, &arena, c.nodes, c.edges, c.edge_count, NULL, &err));
    ck_assert(stages_bottleneck(&c.model, &dag, &no_limits, &arena, &exact, &err));
    struct stage_limits few = { .ideals = 1 }, hasty = { .work = 1 + _i % 7 };
    ck_assert(stages_bottleneck(&c.model, &dag, &few, &arena, &limited, &err));
    ck_assert(!limited.optimal && !limited.exhausted);
    ck_assert(limited.value >= exact.value && limited.bound <= exact.value);
    ck_assert(stages_bottleneck(&c.model, &dag, &hasty, &arena, &limited, &err));
    ck_assert(limited.value >= exact.value && limited.bound <= exact.value);
    ck_assert(!limited.optimal || limited.value <= exact.value);
    arena_free(&arena);
}
END_TEST

/* ---- variants ---- */

START_TEST(variants_equal_enumeration)
{
    struct draw d = { (uint64_t)_i + 1, 0 };
    struct variants v = { 0 };
    int items = 1 + (int)draw_below(&d, 6), options[6], grain = _i % 2 ? 5 : 1000;
    double cost[6][3], bytes[6][3], total = 0, best = INFINITY, bound, found;
    for (int i = 0; i < items; i++) {
        options[i] = 1 + (int)draw_below(&d, 3);
        for (int o = 0; o < options[i]; o++) {
            cost[i][o] = (double)draw_below(&d, grain);
            bytes[i][o] = (double)draw_below(&d, grain);
        }
        total += bytes[i][0];
    }
    double cap = total * (double)draw_below(&d, 11) / 10;
    variants_clear(&v, cap);
    for (int i = 0; i < items; i++) {
        ck_assert(variants_add_item(&v, options[i]));
        for (int o = 0; o < options[i]; o++)
            variants_set(&v, o, cost[i][o], bytes[i][o]);
    }
    for (int code = 0; code < 729; code++) {
        double c = 0, b = 0;
        bool valid = true;
        for (int i = 0, rest = code; i < items; i++, rest /= 3) {
            valid = valid && rest % 3 < options[i];
            c += valid ? cost[i][rest % 3] : 0;
            b += valid ? bytes[i][rest % 3] : 0;
        }
        best = valid && b <= cap ? fmin(best, c) : best;
    }
    variants_bound(&v, &bound, &found);
    ck_assert_msg((found < INFINITY) == (best < INFINITY), "case %d: %g %g", _i, found, best);
    if (best < INFINITY) {
        ck_assert(bound <= best * (1 + 1e-12) && found >= best);
        ck_assert_int_eq(variants_solve(&v, bound, &found), VARIANTS_DONE);
        CHECK_NEAR(found, best, 1e-9);
        double again = 0, used = 0;
        for (int i = 0; i < items; i++) {
            again += cost[i][variants_chosen(&v, i)];
            used += bytes[i][variants_chosen(&v, i)];
        }
        CHECK_NEAR(again, best, 1e-9);
        ck_assert(used <= cap);
    }
    variants_free(&v);
}
END_TEST

static Suite *partition(void)
{
    Suite *s = suite_create("partition");
    CHECK_ADD(s, chains_side_by_side_multiply);
    CHECK_ADD_LOOP(s, ideals_are_all_closed_sets, 40);
    CHECK_ADD(s, cycles_are_named_and_merged);
    CHECK_ADD_LOOP(s, windows_grow_from_a_chain_to_all, 10);
    CHECK_ADD(s, alike_branches_are_ordered);
    CHECK_ADD_LOOP(s, stages_equal_enumeration, 400);
    CHECK_ADD_LOOP(s, potentials_change_nothing, 200);
    CHECK_ADD_LOOP(s, limits_are_honest, 60);
    CHECK_ADD_LOOP(s, variants_equal_enumeration, 300);
    return s;
}

CHECK_MAIN(partition)
