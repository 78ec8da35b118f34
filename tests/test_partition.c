/* Ideals, stages and the problems of other planners against enumeration of everything on small random graphs. */
#include "planner/partition/dnn.h"
#include "planner/partition/pipedream.h"
#include "planner/partition/piper.h"
#include "planner/partition/variants.h"
#include "tests/random_dag.h"

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

/* ---- PipeDream ---- */

enum { MOST_STAGES = 8 };
struct pipedream_case {
    struct pipedream_graph graph;
    struct pipedream_options options;
    struct pipedream_node nodes[RANDOM_NODES];
    struct dag_edge edges[RANDOM_EDGES];
    struct arena arena;
    /* enumeration: stages so far; with two levels the last one's blocks */
    struct pipedream_stage stages[MOST_STAGES];
    struct stage inner[MOST_STAGES][MOST_STAGES];
    uint64_t sets[MOST_STAGES], inner_sets[MOST_STAGES][MOST_STAGES];
    int count, machines;
    uint64_t placed;
    double best;
};

static void pipedream_enumerate(struct pipedream_case *c);

/* Ends the block in hand with each number of servers. */
static void pipedream_close(struct pipedream_case *c)
{
    struct pipedream_stage *stage = &c->stages[c->count];
    int most = c->options.machines[c->options.level_count - 1];
    stage->nodes = &c->sets[c->count];
    stage->inner = c->inner[c->count];
    for (stage->replicas = 1; c->machines + stage->replicas <= most; stage->replicas++) {
        c->machines += stage->replicas;
        c->count++;
        pipedream_enumerate(c);
        c->count--;
        c->machines -= stage->replicas;
    }
}

static void pipedream_inside(struct pipedream_case *c, int used);
struct inside {
    struct pipedream_case *c;
    int used;
};
static void pipedream_visit_inner(void *self, uint64_t set)
{
    struct inside *in = self;
    struct pipedream_case *c = in->c;
    struct pipedream_stage *stage = &c->stages[c->count];
    int at = stage->inner_count;
    for (int d = 1; in->used + d <= c->options.machines[0]; d++) {
        c->inner_sets[c->count][at] = set;
        c->inner[c->count][at] = (struct stage){ .nodes = &c->inner_sets[c->count][at], .choice = d - 1 };
        stage->inner_count = at + 1;
        c->sets[c->count] |= set;
        c->placed |= set;
        pipedream_inside(c, in->used + d);
        c->placed &= ~set;
        c->sets[c->count] &= ~set;
        stage->inner_count = at;
    }
}

static void pipedream_inside(struct pipedream_case *c, int used)
{
    struct inside in = { c, used };
    if (used == c->options.machines[0])
        pipedream_close(c);
    else
        each_next_set(c->graph.node_count, c->edges, c->graph.edge_count, c->placed, pipedream_visit_inner, &in);
}

static void pipedream_visit(void *self, uint64_t set)
{
    struct pipedream_case *c = self;
    c->stages[c->count] = (struct pipedream_stage){ 0 };
    c->sets[c->count] = set;
    c->placed |= set;
    pipedream_close(c);
    c->placed &= ~set;
}

static void pipedream_enumerate(struct pipedream_case *c)
{
    if (c->placed == (UINT64_C(1) << c->graph.node_count) - 1) {
        double value = pipedream_evaluate(&c->graph, &c->options, c->stages, c->count, &c->arena);
        c->best = value < c->best ? value : c->best; /* NAN where machines are left over */
        return;
    }
    if (c->machines == c->options.machines[c->options.level_count - 1])
        return;
    if (c->options.level_count == 1) {
        each_next_set(c->graph.node_count, c->edges, c->graph.edge_count, c->placed, pipedream_visit, c);
    } else {
        c->stages[c->count] = (struct pipedream_stage){ 0 };
        c->sets[c->count] = 0;
        pipedream_inside(c, 0);
    }
}

static void draw_pipedream(struct pipedream_case *c, int i)
{
    struct draw d = { (uint64_t)i + 1, 0 };
    bool two = i % 3 == 0;
    memset(c, 0, sizeof *c);
    c->best = INFINITY;
    c->graph.node_count = 1 + (int)draw_below(&d, two ? 4 : 5);
    c->graph.edge_count = draw_edges(&d, c->graph.node_count, 2 + i % 3, c->edges);
    c->graph.nodes = c->nodes;
    c->graph.edges = c->edges;
    for (int v = 0; v < c->graph.node_count; v++)
        c->nodes[v] = (struct pipedream_node){ "n",
                                               "Linear",
                                               (double)draw_below(&d, 20),
                                               (double)draw_below(&d, 20),
                                               (double)draw_below(&d, 20000000),
                                               (double)draw_below(&d, 20000000) };
    for (int v = 1; i % 4 == 1 && v < c->graph.node_count; v++) /* alike nodes: branches that may change places */
        c->nodes[v] = c->nodes[draw_below(&d, v)];
    c->options = (struct pipedream_options){ .level_count = 1 + two, .exact_transfers = i % 2 == 0 };
    c->options.machines[0] = 1 + (int)draw_below(&d, two ? 2 : 4);
    c->options.machines[1] = 1 + (int)draw_below(&d, 3);
    c->options.bytes_per_s[0] = 4e9;
    c->options.bytes_per_s[1] = 1e9;
}

START_TEST(pipedream_equals_enumeration)
{
    static struct pipedream_case c;
    struct error err = { 0 };
    struct pipedream_plan plan;
    draw_pipedream(&c, _i);
    pipedream_enumerate(&c);
    ck_assert_msg(pipedream_solve(&c.graph, &c.options, &no_limits, &c.arena, &plan, &err), "%s", err.message);
    ck_assert_msg(plan.found.feasible == (c.best < INFINITY) && plan.found.exhausted, "case %d", _i);
    if (plan.found.feasible) {
        double value = pipedream_evaluate(&plan.graph, &c.options, plan.stages, plan.found.stage_count, &c.arena);
        ck_assert(plan.found.optimal);
        CHECK_NEAR(value, c.best, 1e-9 * c.best);
        CHECK_NEAR(plan.found.value, c.best, 1e-9 * c.best);
    }
    arena_free(&c.arena);
}
END_TEST

/* ---- Piper ---- */

struct piper_case {
    struct piper_graph graph;
    struct piper_node nodes[RANDOM_NODES];
    struct piper_degree degrees[RANDOM_NODES][2];
    struct piper_variant variants[RANDOM_NODES][2][2];
    double sync[RANDOM_NODES][2][2][RANDOM_NODES];
    int in[RANDOM_NODES][RANDOM_NODES], out[RANDOM_NODES][RANDOM_NODES];
    struct piper_edge piper_edges[RANDOM_EDGES];
    struct dag_edge edges[RANDOM_EDGES];
    struct piper_options options;
    struct piper_stage stages[MOST_STAGES];
    uint64_t sets[MOST_STAGES];
    int chosen[MOST_STAGES][RANDOM_NODES], count, devices;
    uint64_t placed;
    double best;
};

/* All variants of all nodes at once. */
static void piper_leaf(struct piper_case *c)
{
    for (int code = 0; code < 1 << c->graph.node_count; code++) {
        for (int s = 0; s < c->count; s++) {
            for (int v = 0; v < c->graph.node_count; v++)
                c->chosen[s][v] = c->sets[s] >> v & 1 ? code >> v & 1 : -1;
            c->stages[s].variants = c->chosen[s];
        }
        double value = piper_evaluate(&c->graph, &c->options, c->stages, c->count);
        c->best = value < c->best ? value : c->best;
    }
}

static void piper_visit(void *self, uint64_t set)
{
    struct piper_case *c = self;
    int at = c->count++;
    c->placed |= set;
    c->sets[at] = set;
    for (int t = 1; t <= 2; t++)
        for (int d = 1; c->devices + t * d <= c->graph.device_count; d++) {
            c->stages[at] = (struct piper_stage){ .nodes = &c->sets[at], .data_degree = d, .tensor_degree = t };
            c->devices += t * d;
            if (c->placed == (UINT64_C(1) << c->graph.node_count) - 1)
                piper_leaf(c);
            else
                each_next_set(c->graph.node_count, c->edges, c->graph.edge_count, c->placed, piper_visit, c);
            c->devices -= t * d;
        }
    c->placed &= ~set;
    c->count--;
}

static void draw_piper(struct piper_case *c, int i)
{
    struct draw d = { (uint64_t)i + 1, 0 };
    memset(c, 0, sizeof *c);
    int n = 1 + (int)draw_below(&d, 4), m = draw_edges(&d, n, 2, c->edges);
    c->graph = (struct piper_graph){ .memory_bytes = (double)(20 + draw_below(&d, 300)),
                                     .bytes_per_s = 100,
                                     .device_count = 1 + draw_below(&d, 4),
                                     .micro_batch_count = 1 + draw_below(&d, 6),
                                     .node_count = n,
                                     .edge_count = m,
                                     .nodes = c->nodes,
                                     .edges = c->piper_edges };
    for (int v = 0; v < n; v++)
        c->nodes[v] = (struct piper_node){ .id = v, .name = "", .in_edges = c->in[v], .out_edges = c->out[v] };
    for (int e = 0; e < m; e++) {
        struct piper_node *from = &c->nodes[c->edges[e].from], *to = &c->nodes[c->edges[e].to];
        c->piper_edges[e] = (struct piper_edge){ c->edges[e].from, c->edges[e].to, (double)draw_below(&d, 300) };
        from->out_edges[from->out_count++] = e;
        to->in_edges[to->in_count++] = e;
    }
    for (int v = 0; v < n; v++) {
        for (int t = 0; t < 2; t++) {
            for (int side = 0; side < 2; side++)
                for (int e = 0; e < RANDOM_NODES; e++)
                    c->sync[v][t][side][e] = t * (double)draw_below(&d, 100);
            for (int k = 0; k < 2; k++)
                c->variants[v][t][k] = (struct piper_variant){ "", (double)(1 + draw_below(&d, 40)),
                                                               (double)draw_below(&d, 60), (double)draw_below(&d, 60) };
            c->degrees[v][t] = (struct piper_degree){ .degree = t + 1,
                                                      .parameter_bytes = (double)draw_below(&d, 500),
                                                      .sync_in = c->sync[v][t][0],
                                                      .sync_out = c->sync[v][t][1],
                                                      .variant_count = 2,
                                                      .variants = c->variants[v][t] };
        }
        c->nodes[v].degrees = c->degrees[v];
        c->nodes[v].degree_count = v == 0 ? 1 + (int)draw_below(&d, 2) : 2;
    }
    c->options = (struct piper_options){ i % 2 ? 1 : 0.01 };
    c->best = INFINITY;
}

START_TEST(piper_equals_enumeration)
{
    static struct piper_case c;
    struct arena arena = { 0 };
    struct error err = { 0 };
    struct piper_plan plan;
    draw_piper(&c, _i);
    each_next_set(c.graph.node_count, c.edges, c.graph.edge_count, 0, piper_visit, &c);
    ck_assert_msg(piper_solve(&c.graph, &c.options, &no_limits, &arena, &plan, &err), "%s", err.message);
    ck_assert_msg(plan.found.feasible == (c.best < INFINITY) && plan.found.exhausted, "case %d: %d, %g", _i,
                  plan.found.feasible, c.best);
    if (plan.found.feasible) {
        ck_assert(plan.found.optimal);
        CHECK_NEAR(piper_evaluate(&c.graph, &c.options, plan.stages, plan.found.stage_count), c.best, 1e-9 * c.best);
        CHECK_NEAR(plan.found.value, c.best, 1e-9 * c.best);
    }
    arena_free(&arena);
}
END_TEST

/* ---- dnn-partitioning ---- */

struct dnn_case {
    struct dnn_graph graph;
    struct dnn_node nodes[2 * RANDOM_NODES];
    struct dag_edge edges[4 * RANDOM_EDGES], part_edges[RANDOM_EDGES];
    int part_of[2 * RANDOM_NODES], part_edge_count, parts;
    struct dnn_stage stages[MOST_STAGES];
    uint64_t sets[MOST_STAGES], placed; /* sets of nodes; placed: parts */
    int count;
    double best;
};

static void dnn_visit(void *self, uint64_t set)
{
    struct dnn_case *c = self;
    int at = c->count++;
    c->placed |= set;
    c->sets[at] = 0;
    for (int v = 0; v < c->graph.node_count; v++)
        c->sets[at] |= (set >> c->part_of[v] & 1) << v;
    for (int cpu = 0; cpu < 2; cpu++) {
        c->stages[at] = (struct dnn_stage){ .nodes = &c->sets[at], .on_cpu = cpu };
        if (c->placed == (UINT64_C(1) << c->parts) - 1) {
            double value = dnn_evaluate(&c->graph, c->stages, c->count);
            c->best = value < c->best ? value : c->best;
        } else if (c->count < c->graph.accelerator_count + c->graph.cpu_count) {
            each_next_set(c->parts, c->part_edges, c->part_edge_count, c->placed, dnn_visit, c);
        }
    }
    c->placed &= ~set;
    c->count--;
}

/* A forward graph, its mirror as backward, some colours joined, now and then an orphan. */
static void draw_dnn(struct dnn_case *c, int i, struct arena *arena)
{
    struct draw d = { (uint64_t)i + 1, 0 };
    struct error err = { 0 };
    struct dag dag;
    memset(c, 0, sizeof *c);
    int n = 1 + (int)draw_below(&d, 5), m = draw_edges(&d, n, 2, c->edges), backward = i % 2 ? n : 0;
    for (int e = 0; backward && e < m; e++)
        c->edges[m + e] = (struct dag_edge){ n + c->edges[e].to, n + c->edges[e].from };
    for (int v = 0; v < n + backward; v++) {
        int twin = v % n;
        c->nodes[v] = (struct dnn_node){ .id = v,
                                         .name = "",
                                         .supported = draw_below(&d, 5) > 0,
                                         .backward = v >= n,
                                         .cpu_latency = (double)draw_below(&d, 300),
                                         .accelerator_latency = (double)draw_below(&d, 30),
                                         .bytes = (double)draw_below(&d, 30),
                                         .cost = (double)draw_below(&d, 30),
                                         .color = draw_below(&d, 6) == 0 ? 100 : twin };
        if (v >= n && draw_below(&d, 5) > 0)
            c->nodes[v].color = c->nodes[twin].color;
    }
    c->graph = (struct dnn_graph){ .accelerator_bytes = (double)(20 + draw_below(&d, 150)),
                                   .accelerator_count = 1 + draw_below(&d, 3),
                                   .cpu_count = draw_below(&d, 3),
                                   .node_count = n + backward,
                                   .edge_count = backward ? 2 * m : m,
                                   .nodes = c->nodes,
                                   .edges = c->edges };
    ck_assert(dnn_parts(&c->graph, arena, c->part_of, &dag, &err));
    c->parts = dag.node_count;
    for (int v = 0; v < dag.node_count; v++)
        for (int e = dag.first_out[v]; e < dag.first_out[v + 1]; e++)
            c->part_edges[c->part_edge_count++] = (struct dag_edge){ v, dag.out[e] };
    c->best = INFINITY;
}

START_TEST(dnn_equals_enumeration)
{
    static struct dnn_case c;
    struct arena arena = { 0 };
    struct error err = { 0 };
    struct dnn_plan plan;
    draw_dnn(&c, _i, &arena);
    if (c.graph.accelerator_count + c.graph.cpu_count > 0)
        each_next_set(c.parts, c.part_edges, c.part_edge_count, 0, dnn_visit, &c);
    ck_assert_msg(dnn_solve(&c.graph, &no_limits, &arena, &plan, &err), "%s", err.message);
    ck_assert_msg(plan.found.feasible == (c.best < INFINITY) && plan.found.exhausted, "case %d", _i);
    if (plan.found.feasible) {
        CHECK_NEAR(dnn_evaluate(&c.graph, plan.stages, plan.found.stage_count), c.best, 1e-9 * c.best);
        CHECK_NEAR(plan.found.value, c.best, 1e-9 * c.best);
    }
    arena_free(&arena);
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
    CHECK_ADD_LOOP(s, limits_are_honest, 60);
    CHECK_ADD_LOOP(s, variants_equal_enumeration, 300);
    CHECK_ADD_LOOP(s, pipedream_equals_enumeration, 200);
    CHECK_ADD_LOOP(s, piper_equals_enumeration, 150);
    CHECK_ADD_LOOP(s, dnn_equals_enumeration, 200);
    return s;
}

CHECK_MAIN(partition)
