/* The problems of other planners, each with its own objective, against enumeration of everything on small graphs. */
#include "peers/dnn.h"
#include "peers/pipedream.h"
#include "peers/piper.h"
#include "tests/random_dag.h"

static const struct stage_limits no_limits = { 0 };

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
    c->options.machines[0] = 1 + (int)draw_below(&d, two ? 3 : 4);
    c->options.machines[1] = 1 + (int)draw_below(&d, 4);
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

/* Where most stages are only looked up, those that are taken count as work too: a limit ends the search there. */
START_TEST(work_is_limited_on_long_chains)
{
    enum { NODES = 180, MACHINES = 60, WORK = 2000 };
    static struct pipedream_node nodes[NODES];
    static struct dag_edge edges[NODES];
    struct draw d = { (uint64_t)_i + 1, 0 };
    struct arena arena = { 0 };
    struct error err = { 0 };
    struct pipedream_plan whole, part;
    struct pipedream_graph graph = { .nodes = nodes, .node_count = NODES, .edges = edges, .edge_count = NODES - 1 };
    struct pipedream_options options = { .level_count = 1, .machines = { MACHINES }, .bytes_per_s = { 4e9 } };
    struct stage_limits few = { .work = WORK };
    for (int v = 0; v < NODES; v++) {
        nodes[v] =
            (struct pipedream_node){ "n", "Linear", 1 + (double)draw_below(&d, 20), 1, (double)draw_below(&d, 2000000),
                                     1000 };
        edges[v] = (struct dag_edge){ v, v + 1 };
    }
    ck_assert(pipedream_solve(&graph, &options, &no_limits, &arena, &whole, &err));
    ck_assert(pipedream_solve(&graph, &options, &few, &arena, &part, &err));
    ck_assert(whole.found.optimal && whole.found.work > 4 * WORK);
    ck_assert_int_le(part.found.work, WORK + NODES);
    ck_assert(part.found.bound <= whole.found.value && part.found.value >= whole.found.value);
    arena_free(&arena);
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

/* A forward graph, its mirror as backward, some colours joined, now and then an orphan; some nodes take no time, some
 * values cannot be sent. */
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
        bool idle = v < n ? draw_below(&d, 3) == 0 : !(c->nodes[twin].cpu_latency > 0);
        c->nodes[v] = (struct dnn_node){ .id = v,
                                         .name = "",
                                         .supported = draw_below(&d, 5) > 0,
                                         .backward = v >= n,
                                         .cpu_latency = idle ? 0 : (double)draw_below(&d, 300),
                                         .accelerator_latency = idle ? 0 : (double)draw_below(&d, 30),
                                         .bytes = (double)draw_below(&d, 30),
                                         .cost = draw_below(&d, 12) == 0 ? 1e15 : (double)draw_below(&d, 300) / 7,
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

/* A chain with so many leaves of zeros before and behind its second node, which double the ideals each if they are not
 * merged; one of them takes room that only the other accelerator has. */
START_TEST(dnn_merges_idle_leaves)
{
    enum { CHAIN = 4, LEAVES = 40 };
    struct dnn_node nodes[CHAIN + LEAVES];
    struct dag_edge edges[CHAIN - 1 + LEAVES];
    struct arena arena = { 0 };
    struct error err = { 0 };
    struct dnn_plan plan;
    for (int v = 0; v < CHAIN + LEAVES; v++)
        nodes[v] = (struct dnn_node){ .id = v, .name = "", .supported = true, .bytes = 1, .cost = 1, .color = -1 };
    for (int v = 0; v < CHAIN; v++) {
        nodes[v].cpu_latency = nodes[v].accelerator_latency = 10;
        if (v > 0)
            edges[v - 1] = (struct dag_edge){ v - 1, v };
    }
    for (int l = 0; l < LEAVES; l++)
        edges[CHAIN - 1 + l] = l % 2 ? (struct dag_edge){ 1, CHAIN + l } : (struct dag_edge){ CHAIN + l, 1 };
    struct dnn_graph graph = { CHAIN + LEAVES, 2, 0, CHAIN + LEAVES, CHAIN - 1 + LEAVES, nodes, edges };
    ck_assert_msg(dnn_solve(&graph, &no_limits, &arena, &plan, &err), "%s", err.message);
    ck_assert(plan.found.optimal && plan.part_count == CHAIN);
    CHECK_NEAR(dnn_evaluate(&graph, plan.stages, plan.found.stage_count), 21, 1e-9);
    for (int l = 1; l < LEAVES; l++)
        nodes[CHAIN + l].bytes = 0;
    graph.accelerator_bytes = CHAIN; /* one byte short for all: the leaf that takes one stays for itself */
    ck_assert_msg(dnn_solve(&graph, &no_limits, &arena, &plan, &err), "%s", err.message);
    ck_assert(plan.found.optimal && plan.part_count == CHAIN + 1);
    nodes[CHAIN + 1].supported = false; /* so does one that would take its neighbour to a CPU */
    ck_assert_msg(dnn_solve(&graph, &no_limits, &arena, &plan, &err), "%s", err.message);
    ck_assert(!plan.found.feasible && plan.found.exhausted && plan.part_count == CHAIN + 2);
    arena_free(&arena);
}
END_TEST

static Suite *partition_objectives(void)
{
    Suite *s = suite_create("partition objectives");
    CHECK_ADD_LOOP(s, pipedream_equals_enumeration, 1000);
    CHECK_ADD_LOOP(s, work_is_limited_on_long_chains, 3);
    CHECK_ADD_LOOP(s, piper_equals_enumeration, 600);
    CHECK_ADD_LOOP(s, dnn_equals_enumeration, 1000);
    CHECK_ADD(s, dnn_merges_idle_leaves);
    return s;
}

CHECK_MAIN(partition_objectives)
