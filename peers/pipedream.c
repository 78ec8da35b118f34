#include "peers/pipedream.h"
#include "peers/graphs.h"
#include "peers/pipedream_cut.h"
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

/* Rows of blocks are kept for graphs with at most so many ideals: 8 bytes per pair. */
enum { ROW_IDEALS = 6000 };

struct block { /* the stages inside a server, or each of its replicas */
    struct stage *stages;
    int stage_count;
};
struct sought { /* blocks that begin at an ideal: below which limit, on how many servers at least, and how many they and
                   all behind them have */
    double limit;
    int least, servers;
};
struct problem {
    const struct pipedream_graph *graph;
    const struct pipedream_options *options;
    struct pipedream_cuts cuts;
    const struct stage_limits *limits;
    struct arena *arena;
    const struct ideals *ideals;
    double *compute_s, *parameter_bytes, *out_bytes; /* (ideals) */
    double total_s;
    int inside, servers; /* machines of the inner and the outer level */
    double bytes_per_s, inside_bytes_per_s;
    double
        *averaging_s[2]; /* (servers) of one byte of a block's gradients, times its servers; [1]: the first block's */
    /* two levels */
    struct stage_model inner_model;
    struct stage_walk *walk;
    double **rows;        /* (ideals) best values of the blocks from each ideal */
    struct sought *asked; /* (ideals) for which they were found */
    double *row;          /* of the ideal in hand */
    double reach_s;       /* computing of the largest set at which a block ends that begins there */
    struct sought sought;
    int known_end; /* the ideal at which the block in hand ends, where that is known; -1 */
    int start;
    const double *end_s, *end_bytes; /* (ideals) computing and weights of a set that holds the ideal and at which a
                                        block may end, if others follow: at least */
    double *far_s, *far_bytes;       /* the same for blocks behind the first, */
    double far_limit;                /* below this limit */
    int64_t inner_work;
};

static bool starts(const char *text, const char *prefix)
{
    return strncmp(text, prefix, strlen(prefix)) == 0;
}

/* ---- preparation ---- */

static bool remove_nodes(const struct pipedream_graph *graph, const bool *gone, struct arena *arena,
                         struct pipedream_graph *out, struct error *err)
{
    int *index = arena_alloc(arena, (size_t)graph->node_count, sizeof *index);
    struct pipedream_graph kept = { .nodes = arena_alloc(arena, (size_t)graph->node_count, sizeof *kept.nodes),
                                    .edges = arena_alloc(arena, (size_t)graph->edge_count, sizeof *kept.edges) };
    if (!index || !kept.nodes || !kept.edges)
        return fail_memory(err);
    for (int v = 0; v < graph->node_count; v++)
        if (!gone[v]) {
            index[v] = kept.node_count;
            kept.nodes[kept.node_count++] = graph->nodes[v];
        }
    for (int e = 0; e < graph->edge_count; e++) {
        struct dag_edge edge = graph->edges[e];
        if (!gone[edge.from] && !gone[edge.to])
            kept.edges[kept.edge_count++] = (struct dag_edge){ index[edge.from], index[edge.to] };
    }
    *out = kept;
    return true;
}

bool pipedream_prepare(const struct pipedream_graph *graph, struct arena *arena, struct pipedream_graph *out,
                       struct error *err)
{
    struct pipedream_graph without_inputs;
    bool *gone = arena_alloc(arena, (size_t)graph->node_count, sizeof *gone);
    if (!gone)
        return fail_memory(err);
    for (int v = 0; v < graph->node_count; v++)
        gone[v] = starts(graph->nodes[v].description, "Input");
    for (int e = 0; e < graph->edge_count; e++)
        gone[graph->edges[e].to] = false;
    if (!remove_nodes(graph, gone, arena, &without_inputs, err))
        return false;
    for (int v = 0; v < without_inputs.node_count; v++)
        gone[v] = starts(without_inputs.nodes[v].description, "__getitem__");
    for (int e = 0; e < without_inputs.edge_count; e++)
        gone[without_inputs.edges[e].from] = false;
    return remove_nodes(&without_inputs, gone, arena, out, err);
}

/* ---- the plug-in ---- */

/* Computing and averaging of d replicas, each on `share` machines that split the sum of gradients. */
static double replicated_s(double one_s, double parameter_bytes, int d, double bytes_per_s, double share)
{
    return (one_s + 4.0 * (d - 1) * parameter_bytes / (bytes_per_s * d) / share) / d;
}

static double moving_s(const struct problem *p, int ideal, int d, double bytes_per_s)
{
    bool end = ideal == 0 || ideal == p->ideals->count - 1;
    return end ? 0 : 2 * p->out_bytes[ideal] / (bytes_per_s * d);
}

static double key(void *self, int ideal, int choice)
{
    const struct problem *p = self;
    return replicated_s(p->compute_s[ideal], p->parameter_bytes[ideal], choice + 1, p->bytes_per_s, 1);
}

static double entry(void *self, int below, int choice)
{
    const struct problem *p = self;
    return moving_s(p, below, choice + 1, p->bytes_per_s);
}

static double load(void *self, int below, int above, int choice, const int used[STAGE_AXES], double limit)
{
    const struct problem *p = self;
    double compute_s = p->compute_s[above] - p->compute_s[below];
    double parameters = p->parameter_bytes[above] - p->parameter_bytes[below];
    double load_s = replicated_s(compute_s, parameters, choice + 1, p->bytes_per_s, 1);
    (void)used, (void)limit;
    if (below > 0)
        load_s = fmax(load_s, fmax(entry(self, below, choice), entry(self, above, choice)));
    return load_s;
}

static bool may_grow(void *self, int below, int above, const int room[STAGE_AXES], double limit)
{
    const struct problem *p = self;
    return p->compute_s[above] - p->compute_s[below] < limit * room[0] * p->inside;
}

static double finish_below(void *self, int above, const int used[STAGE_AXES], double limit)
{
    const struct problem *p = self;
    int machines = (p->servers - used[0]) * p->inside;
    bool fits = machines > 0 && (p->total_s - p->compute_s[above]) * (1 - 1e-12) < limit * machines;
    return fits ? limit : -INFINITY;
}

/* ---- two levels: a stage is a block of stages ---- */

static double inner_load(void *self, int below, int above, int choice, const int used[STAGE_AXES], double limit)
{
    const struct problem *p = self;
    double compute_s = p->compute_s[above] - p->compute_s[below];
    double parameters = p->parameter_bytes[above] - p->parameter_bytes[below];
    double load_s = replicated_s(compute_s, parameters, choice + 1, p->inside_bytes_per_s, 1);
    (void)used, (void)limit;
    if (below != p->start)
        load_s = fmax(load_s, fmax(moving_s(p, below, choice + 1, p->inside_bytes_per_s),
                                   moving_s(p, above, choice + 1, p->inside_bytes_per_s)));
    return load_s;
}

static double inner_key(void *self, int ideal, int choice)
{
    const struct problem *p = self;
    return replicated_s(p->compute_s[ideal], p->parameter_bytes[ideal], choice + 1, p->inside_bytes_per_s, 1);
}

static double inner_entry(void *self, int below, int choice)
{
    const struct problem *p = self;
    return moving_s(p, below, choice + 1, p->inside_bytes_per_s);
}

/* The first block's gradients are averaged by all machines of its servers. */
static double averaged_s(const struct problem *p, double one_s, double parameter_bytes, int servers, bool first)
{
    return replicated_s(one_s, parameter_bytes, servers, p->bytes_per_s, first ? p->inside : 1);
}

/* What blocks from the start on that end at a set of so many weights must stay below, on so many servers at most. On r
 * servers that is r limits less the time of averaging; convex in r, so that one of the ends is largest. */
static double block_limit(const struct problem *p, double end_bytes, int most)
{
    const double *averaging_s = p->averaging_s[p->start == 0];
    double bytes = end_bytes - p->parameter_bytes[p->start], limit = p->sought.limit;
    int least = p->sought.least;
    if (most < least)
        return -INFINITY;
    double below = fmax(least * limit - bytes * averaging_s[least - 1], most * limit - bytes * averaging_s[most - 1]);
    return below * (1 + 1e-12);
}

/* The same for those that hold `above`: the end is that of a block with others behind it, or everything. */
static double any_block_limit(const struct problem *p, int above)
{
    double middle = p->end_s[above] < INFINITY ? block_limit(p, p->end_bytes[above], p->sought.servers - 1) : -INFINITY;
    return fmax(middle, block_limit(p, p->parameter_bytes[p->ideals->count - 1], p->sought.servers));
}

/* The least that a block must grow to. Between two blocks behind the first one of both has at most half of the servers
 * left, and moves what crosses there with these alone. */
static void find_ends(struct problem *p)
{
    const struct ideals *ideals = p->ideals;
    bool anywhere = p->start == 0 || isinf(p->sought.limit);
    int last = ideals->count - 1, half = (p->servers - 1) / 2;
    p->end_s = anywhere ? p->compute_s : p->far_s;
    p->end_bytes = anywhere ? p->parameter_bytes : p->far_bytes;
    if (anywhere || p->far_limit == p->sought.limit)
        return;
    p->far_limit = p->sought.limit;
    for (int i = last; i >= 0; i--) {
        bool is_end = i < last && half > 0 && moving_s(p, i, half, p->bytes_per_s) < p->far_limit;
        p->far_s[i] = is_end ? p->compute_s[i] : INFINITY;
        p->far_bytes[i] = is_end ? p->parameter_bytes[i] : INFINITY;
        for (int64_t k = ideals->first_up[i]; !is_end && k < ideals->first_up[i + 1]; k++) {
            p->far_s[i] = fmin(p->far_s[i], p->far_s[ideals->up_ideal[k]]);
            p->far_bytes[i] = fmin(p->far_bytes[i], p->far_bytes[ideals->up_ideal[k]]);
        }
    }
}

static bool inner_may_grow(void *self, int below, int above, const int room[STAGE_AXES], double limit)
{
    const struct problem *p = self;
    if (p->known_end >= 0)
        return stages_within(p->ideals, above, p->known_end) &&
               p->compute_s[above] - p->compute_s[below] < limit * room[0];
    return p->compute_s[above] - p->compute_s[below] < fmin(any_block_limit(p, above), limit) * room[0];
}

/* Of blocks that used so many machines up to `above` and end at a set of so much, on so many servers at most. Each
 * machine of a block on r servers stands for r: the machines left hold the rest only if r is small enough. */
static double finish_block(const struct problem *p, int above, int used, double end_s, double end_bytes, int most)
{
    const double slack = 1 - 1e-12;
    double left_s = (p->total_s - p->compute_s[above]) * slack;
    double spare = p->sought.servers * p->inside - left_s / p->sought.limit; /* machines, used or not */
    if (!(most * used < spare))
        most = used > 0 ? (int)ceil(spare / used) - 1 : 0;
    double limit = block_limit(p, end_bytes, most), rest_s = (end_s - p->compute_s[above]) * slack;
    return rest_s <= 0 || rest_s < limit * (p->inside - used) ? limit : -INFINITY;
}

static double inner_finish_below(void *self, int above, const int used[STAGE_AXES], double limit)
{
    const struct problem *p = self;
    if (p->known_end >= 0) {
        double rest_s = (p->compute_s[p->known_end] - p->compute_s[above]) * (1 - 1e-12);
        return rest_s <= 0 || rest_s < limit * (p->inside - used[0]) ? limit : -INFINITY;
    }
    double all_bytes = p->parameter_bytes[p->ideals->count - 1];
    double last = finish_block(p, above, used[0], p->total_s, all_bytes, p->sought.servers);
    double middle = p->end_s[above] < INFINITY
                        ? finish_block(p, above, used[0], p->end_s[above], p->end_bytes[above], p->sought.servers - 1)
                        : -INFINITY;
    return fmin(fmax(last, middle), limit);
}

static bool walk_block(struct problem *p, int below, int end, double limit, double *value, struct error *err)
{
    int64_t before = *stage_walk_work(p->walk);
    bool ok = stage_walk_from(p->walk, below, end, limit, value, err);
    p->inner_work += *stage_walk_work(p->walk) - before;
    return ok;
}

/* The values of all blocks that begin here: a stage of r servers is below the limit only if its block is below r times
 * that. */
static bool enter_block(void *self, int below, const int room[STAGE_AXES], double limit, struct error *err)
{
    struct problem *p = self;
    p->start = below;
    p->sought = (struct sought){ limit, 1, room[0] };
    while (p->sought.least <= room[0] && !(moving_s(p, below, p->sought.least, p->bytes_per_s) < limit))
        p->sought.least++;
    find_ends(p);
    if (p->rows) {
        if (!p->rows[below] && !(p->rows[below] = arena_alloc(p->arena, (size_t)p->ideals->count, sizeof **p->rows)))
            return fail_memory(err);
        p->row = p->rows[below];
    }
    bool known = p->rows && p->asked[below].limit >= limit && p->asked[below].servers >= room[0];
    if (p->rows && !known)
        p->asked[below] = p->sought;
    if (!known && !walk_block(p, below, p->ideals->count, limit * room[0], p->row, err))
        return false;
    p->reach_s = 0;
    for (int i = below + 1; i < p->ideals->count; i++)
        p->reach_s = p->row[i] < INFINITY ? fmax(p->reach_s, p->compute_s[i]) : p->reach_s;
    return true;
}

static bool block_may_grow(void *self, int below, int above, const int room[STAGE_AXES], double limit)
{
    const struct problem *p = self;
    return p->compute_s[above] <= p->reach_s && may_grow(self, below, above, room, limit);
}

static double block_load(void *self, int below, int above, int choice, const int used[STAGE_AXES], double limit)
{
    const struct problem *p = self;
    int r = choice + 1;
    if (!(p->row[above] < INFINITY))
        return INFINITY;
    double parameters = p->parameter_bytes[above] - p->parameter_bytes[below];
    double load_s = averaged_s(p, p->row[above], parameters, r, below == 0);
    (void)used, (void)limit;
    if (below > 0)
        load_s = fmax(load_s, fmax(entry(self, below, choice), entry(self, above, choice)));
    return load_s;
}

/* The stages inside a block that was chosen: walked once more up to its end, since only values are kept. The block's
 * own is below that of its replicas taken together. */
static bool detail_block(void *self, int below, int above, int choice, const int used[STAGE_AXES], struct arena *arena,
                         void **out, double *load_s, struct error *err)
{
    struct problem *p = self;
    struct block *block = arena_alloc(arena, 1, sizeof *block);
    double *value = arena_alloc(arena, (size_t)p->ideals->count, sizeof *value);
    (void)used;
    if (!block || !value)
        return fail_memory(err);
    p->start = below;
    p->known_end = above;
    stage_walk_stop_with(p->walk, NULL);
    double below_s = *load_s * (choice + 1) * (1 + 1e-9) + DBL_MIN; /* some blocks take no time */
    bool walked = walk_block(p, below, above + 1, below_s, value, err);
    stage_walk_stop_with(p->walk, p->limits);
    p->known_end = -1;
    if (!walked)
        return false;
    *out = block;
    return stage_walk_stages(p->walk, stage_walk_best(p->walk, above), arena, &block->stages, &block->stage_count, err);
}

static bool make_averaging(struct problem *p, struct error *err)
{
    for (int first = 0; first < 2; first++) {
        double *averaging_s = arena_alloc(p->arena, (size_t)p->servers + 1, sizeof *averaging_s);
        if (!averaging_s)
            return fail_memory(err);
        for (int r = 1; r <= p->servers + 1; r++)
            averaging_s[r - 1] = r * averaged_s(p, 0, 1, r, first);
        p->averaging_s[first] = averaging_s;
    }
    return true;
}

static bool prepare_blocks(struct problem *p, struct error *err)
{
    size_t n = (size_t)p->ideals->count;
    stage_walk_free(p->walk);
    p->walk = NULL;
    p->rows = NULL;
    p->far_limit = NAN;
    p->far_s = arena_alloc(p->arena, n, sizeof *p->far_s);
    p->far_bytes = arena_alloc(p->arena, n, sizeof *p->far_bytes);
    if (!p->far_s || !p->far_bytes)
        return fail_memory(err);
    if (n <= ROW_IDEALS) {
        p->rows = arena_alloc(p->arena, n, sizeof *p->rows);
        p->asked = arena_alloc(p->arena, n, sizeof *p->asked);
        if (!p->rows || !p->asked)
            return fail_memory(err);
    } else if (!(p->row = arena_alloc(p->arena, n, sizeof *p->row))) {
        return fail_memory(err);
    }
    if (!make_averaging(p, err) || !stage_walk_make(&p->walk, &p->inner_model, p->ideals, VALUE_MAX, err))
        return false;
    stage_walk_stop_with(p->walk, p->limits);
    return true;
}

static bool prepare(void *self, const struct ideals *ideals, struct error *err)
{
    struct problem *p = self;
    const struct pipedream_graph *graph = p->graph;
    size_t n = (size_t)ideals->count, nodes = (size_t)graph->node_count;
    double *value = arena_alloc(p->arena, nodes, sizeof *value);
    uint64_t *scratch = arena_alloc(p->arena, (size_t)ideals->words, sizeof *scratch);
    p->ideals = ideals;
    p->compute_s = arena_alloc(p->arena, n, sizeof *p->compute_s);
    p->parameter_bytes = arena_alloc(p->arena, n, sizeof *p->parameter_bytes);
    p->out_bytes = arena_alloc(p->arena, n, sizeof *p->out_bytes);
    if (!value || !scratch || !p->compute_s || !p->parameter_bytes || !p->out_bytes)
        return fail_memory(err);
    for (size_t v = 0; v < nodes; v++)
        value[v] = (graph->nodes[v].forward_ms + graph->nodes[v].backward_ms) / 1000;
    ideals_sum(ideals, value, p->compute_s);
    for (size_t v = 0; v < nodes; v++)
        value[v] = graph->nodes[v].parameter_bytes;
    ideals_sum(ideals, value, p->parameter_bytes);
    for (int i = 0; i < ideals->count; i++)
        p->out_bytes[i] = pipedream_cut_bytes(&p->cuts, ideal_bits(ideals, i), scratch);
    p->total_s = p->compute_s[n - 1];
    return p->options->level_count == 1 || prepare_blocks(p, err);
}

/* Work over machines, and the node that is slowest however it is replicated. */
static double lower_bound(const struct problem *p)
{
    double total_s = 0, slowest_s = 0;
    int most = p->options->machines[0];
    for (int v = 0; v < p->graph->node_count; v++) {
        const struct pipedream_node *node = &p->graph->nodes[v];
        double one_s = (node->forward_ms + node->backward_ms) / 1000, best_s = INFINITY;
        for (int d = 1; d <= most; d++)
            best_s = fmin(best_s, replicated_s(one_s, node->parameter_bytes, d, p->options->bytes_per_s[0], 1));
        total_s += one_s;
        slowest_s = fmax(slowest_s, p->options->level_count == 1 ? best_s : best_s / p->servers);
    }
    return fmax(total_s / ((double)p->inside * p->servers), slowest_s) * (1 - 1e-12);
}

static bool make_choices(struct stage_choice **out, int count, struct arena *arena, struct error *err)
{
    struct stage_choice *choices = arena_alloc(arena, (size_t)count, sizeof *choices);
    if (!choices)
        return fail_memory(err);
    for (int c = 0; c < count; c++)
        choices[c].use[0] = c + 1;
    *out = choices;
    return true;
}

static bool make_model(struct problem *p, struct stage_model *model, struct error *err)
{
    const struct pipedream_options *o = p->options;
    bool blocks = o->level_count == 2;
    struct stage_choice *outer = NULL, *inner = NULL;
    p->inside = blocks ? o->machines[0] : 1;
    p->servers = o->machines[blocks];
    p->bytes_per_s = o->bytes_per_s[blocks];
    p->inside_bytes_per_s = o->bytes_per_s[0];
    if (!make_choices(&outer, p->servers, p->arena, err) || !make_choices(&inner, p->inside, p->arena, err))
        return false;
    *model = (struct stage_model){ .name = "pipedream",
                                   .self = p,
                                   .axis_limit = { p->servers, 0 },
                                   .axis_exact = { true, true },
                                   .choice_count = p->servers,
                                   .choices = outer,
                                   .prepare = prepare,
                                   .may_grow = may_grow,
                                   .finish_below = finish_below };
    if (blocks) {
        model->enter = enter_block;
        model->may_grow = block_may_grow;
        model->load = block_load;
        model->detail = detail_block;
        model->inner_work = &p->inner_work;
    } else {
        model->load = load;
        model->key = key;
        model->entry = model->exit = entry;
    }
    p->inner_model = (struct stage_model){ .name = "pipedream block",
                                           .self = p,
                                           .axis_limit = { p->inside, 0 },
                                           .axis_exact = { true, true },
                                           .choice_count = p->inside,
                                           .choices = inner,
                                           .load = inner_load,
                                           .may_grow = inner_may_grow,
                                           .finish_below = inner_finish_below,
                                           .key = inner_key,
                                           .entry = inner_entry,
                                           .exit = inner_entry };
    model->bound = lower_bound(p);
    return true;
}

/* ---- the answer ---- */

static bool fill_stages(const struct stage_plan *found, struct arena *arena, struct pipedream_stage **out,
                        struct error *err)
{
    struct pipedream_stage *stages = arena_alloc(arena, (size_t)found->stage_count, sizeof *stages);
    if (!stages)
        return fail_memory(err);
    for (int s = 0; s < found->stage_count; s++) {
        const struct block *block = found->stages[s].detail;
        stages[s].nodes = found->stages[s].nodes;
        stages[s].replicas = found->stages[s].choice + 1;
        stages[s].inner_count = block ? block->stage_count : 0;
        stages[s].inner = block ? block->stages : NULL;
    }
    *out = stages;
    return true;
}

static bool check_options(const struct pipedream_options *o, struct error *err)
{
    for (int l = 0; l < o->level_count; l++) {
        if (o->machines[l] < 1 || o->machines[l] > PIPEDREAM_MACHINES)
            return fail(err, "machines: expected 1 to %d on each level, found %d", PIPEDREAM_MACHINES, o->machines[l]);
        if (!(o->bytes_per_s[l] > 0))
            return fail(err, "bandwidth: expected a positive number of bytes per second, found %g", o->bytes_per_s[l]);
    }
    return true;
}

static bool same_node(const struct pipedream_node *a, const struct pipedream_node *b)
{
    const double left[] = { a->forward_ms, a->backward_ms, a->activation_bytes, a->parameter_bytes };
    const double right[] = { b->forward_ms, b->backward_ms, b->activation_bytes, b->parameter_bytes };
    return memcmp(left, right, sizeof left) == 0;
}

/* The graph with alike branches in order: the objective cannot tell them apart. */
static bool order_alike(const struct pipedream_graph *graph, const struct dag *dag, struct arena *arena,
                        struct dag *out, struct error *err)
{
    int n = graph->node_count, m = graph->edge_count;
    int *kind = arena_alloc(arena, (size_t)n, sizeof *kind);
    struct dag_edge *edges = arena_alloc(arena, (size_t)m + (size_t)n, sizeof *edges);
    if (!kind || !edges)
        return fail_memory(err);
    for (int v = 0; v < n; v++)
        while (!same_node(&graph->nodes[kind[v]], &graph->nodes[v])) /* the first alike node, v itself at the latest */
            kind[v]++;
    if (m > 0)
        memcpy(edges, graph->edges, (size_t)m * sizeof *edges);
    int more = dag_order_alike(dag, kind, edges + m);
    return dag_build(out, arena, n, edges, m + more, NULL, err);
}

bool pipedream_solve(const struct pipedream_graph *graph, const struct pipedream_options *options,
                     const struct stage_limits *limits, struct arena *arena, struct pipedream_plan *out,
                     struct error *err)
{
    struct dag dag, ordered;
    struct stage_model model;
    struct problem p = { .known_end = -1, .options = options, .limits = limits, .arena = arena, .graph = &out->graph };
    int on_cycle = -1;
    if (!check_options(options, err) || !pipedream_prepare(graph, arena, &out->graph, err))
        return false;
    if (out->graph.node_count == 0)
        return fail(err, "expected a node that is neither an input nor an unread item, found none");
    if (!dag_build(&dag, arena, out->graph.node_count, out->graph.edges, out->graph.edge_count, &on_cycle, err)) {
        if (on_cycle >= 0 && err)
            snprintf(err->message, sizeof err->message, "expected a graph without cycles, found %s on one",
                     out->graph.nodes[on_cycle].id);
        return false;
    }
    p.cuts = (struct pipedream_cuts){ .graph = &out->graph, .dag = &dag, .exact = options->exact_transfers };
    bool ok = pipedream_cuts_make(&p.cuts, arena, err) && make_model(&p, &model, err) &&
              order_alike(&out->graph, &dag, arena, &ordered, err) &&
              stages_bottleneck(&model, &ordered, limits, arena, &out->found, err);
    stage_walk_free(p.walk);
    return ok && fill_stages(&out->found, arena, &out->stages, err);
}
