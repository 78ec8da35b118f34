#include "base/num.h"
#include "peers/dnn.h"
#include "peers/graphs.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { AXIS_ACCELERATOR = 0, AXIS_CPU = 1 };
enum { ON_ACCELERATOR = 0, ON_CPU = 1, KINDS = 2 };
static const struct stage_choice choices[KINDS] = { { { 1, 0 } }, { { 0, 1 } } };

/* The number that two doubles make together: what comes and goes again leaves nothing of itself behind. */
struct pair {
    double high, low;
};

/* Potentials of ideals; SUM_CPU_ONLY: CPU time of what only a CPU can do. */
enum sum { SUM_CPU, SUM_ACCELERATOR, SUM_BYTES, SUM_UNSUPPORTED, SUM_CPU_ONLY, SUMS };
struct problem {
    const struct dnn_graph *graph;
    struct arena *arena;
    const struct dag *parts;
    int *part_of;
    int *first_member, *member; /* (parts + 1), (nodes): nodes by part */
    struct dag readers;         /* the whole graph, cycles or not: only its rows are used */
    const struct ideals *ideals;
    double (*sums)[SUMS]; /* (ideals) */
    double slowdown;      /* no node is slowed down less by a CPU */
    /* the stage in hand */
    struct sender *senders;     /* (nodes) */
    struct touch *touches;      /* by part from first_touch[part] on: what its coming in changes */
    int *first_touch;           /* (parts + 1) */
    struct pair *sent, sending; /* (parts + 1) what crosses, before each part that was counted */
    int *path, depth, counted;  /* (parts) added parts, of which the first `counted` are in the above */
};

/* A node as the stage in hand sees it. */
struct sender {
    double cost; /* of sending its value */
    int readers, inside_readers;
    bool inside;
};

/* A node that is of a part, or that so many edges lead from into it. */
struct touch {
    int node, readers;
    bool member;
};

static bool has(const uint64_t *set, int node)
{
    return set[node / 64] >> (node % 64) & 1;
}

/* ---- what stays together ---- */

struct color_place {
    int64_t color;
    int node;
};
static int by_color(const void *a, const void *b)
{
    const struct color_place *x = a, *y = b;
    return x->color != y->color ? (x->color > y->color) - (x->color < y->color)
                                : (x->node > y->node) - (x->node < y->node);
}

/* Edges both ways along each colour; marks backward nodes whose colour no forward node has, or that have none. */
static bool join_colors(const struct dnn_graph *graph, struct arena *arena, struct dag_edge *edges, int *count,
                        bool *orphan, struct error *err)
{
    int n = graph->node_count, colored = 0;
    struct color_place *places = arena_alloc(arena, (size_t)n, sizeof *places);
    if (!places)
        return fail_memory(err);
    for (int v = 0; v < n; v++) {
        orphan[v] = graph->nodes[v].backward;
        if (graph->nodes[v].color >= 0)
            places[colored++] = (struct color_place){ graph->nodes[v].color, v };
    }
    qsort(places, (size_t)colored, sizeof *places, by_color);
    for (int first = 0, end; first < colored; first = end) {
        bool forward = false;
        for (end = first; end < colored && places[end].color == places[first].color; end++)
            forward = forward || !graph->nodes[places[end].node].backward;
        for (int i = first; i < end; i++) {
            orphan[places[i].node] = orphan[places[i].node] && !forward;
            if (i > first) {
                edges[(*count)++] = (struct dag_edge){ places[i - 1].node, places[i].node };
                edges[(*count)++] = (struct dag_edge){ places[i].node, places[i - 1].node };
            }
        }
    }
    return true;
}

/* The order of placing: forward edges as they are, edges at orphans turned around if both ends are backward. */
static int order_edges(const struct dnn_graph *graph, const bool *orphan, struct dag_edge *edges, int count)
{
    for (int e = 0; e < graph->edge_count; e++) {
        struct dag_edge edge = graph->edges[e];
        bool from_back = graph->nodes[edge.from].backward, to_back = graph->nodes[edge.to].backward;
        bool at_orphan = orphan[edge.from] || orphan[edge.to];
        if (!from_back && (!to_back || orphan[edge.to]))
            edges[count++] = edge;
        else if (from_back && to_back && at_orphan)
            edges[count++] = (struct dag_edge){ edge.to, edge.from };
    }
    return count;
}

bool dnn_parts(const struct dnn_graph *graph, struct arena *arena, int *part_of, struct dag *parts, struct error *err)
{
    size_t most = 2 * (size_t)graph->node_count + (size_t)graph->edge_count;
    struct dag_edge *edges = arena_alloc(arena, most, sizeof *edges);
    bool *orphan = arena_alloc(arena, (size_t)graph->node_count, sizeof *orphan);
    int count = 0, between = 0, part_count;
    if (!edges || !orphan)
        return fail_memory(err);
    if (!join_colors(graph, arena, edges, &count, orphan, err))
        return false;
    count = order_edges(graph, orphan, edges, count);
    if (!dag_components(arena, graph->node_count, edges, count, part_of, &part_count, err))
        return false;
    for (int e = 0; e < count; e++) {
        struct dag_edge edge = { part_of[edges[e].from], part_of[edges[e].to] };
        if (edge.from != edge.to)
            edges[between++] = edge;
    }
    return dag_build(parts, arena, part_count, edges, between, NULL, err);
}

/* ---- idle leaves ---- */

/* What a part is to the parts beside it. */
struct leaf {
    int neighbors, mixed; /* parts that are joined with it by edges of any kind, and the XOR of their numbers */
    bool idle, supported;
};

static void find_leaves(const struct dnn_graph *graph, const int *part_of, const struct dag *beside,
                        struct leaf *leaves)
{
    double bytes = 0;
    for (int v = 0; v < graph->node_count; v++)
        bytes += graph->nodes[v].bytes;
    bool roomy = bytes <= graph->accelerator_bytes; /* whatever lies where */
    for (int part = 0; part < beside->node_count; part++) {
        leaves[part] = (struct leaf){ .idle = true, .supported = true };
        for (int e = beside->first_out[part]; e < beside->first_out[part + 1]; e++, leaves[part].neighbors++)
            leaves[part].mixed ^= beside->out[e];
        for (int e = beside->first_in[part]; e < beside->first_in[part + 1]; e++, leaves[part].neighbors++)
            leaves[part].mixed ^= beside->in[e];
    }
    for (int v = 0; v < graph->node_count; v++) {
        const struct dnn_node *node = &graph->nodes[v];
        struct leaf *leaf = &leaves[part_of[v]];
        leaf->supported = leaf->supported && node->supported;
        leaf->idle =
            leaf->idle && !(node->cpu_latency > 0 || node->accelerator_latency > 0) && (roomy || !(node->bytes > 0));
    }
}

/* A part that takes no time, needs no room that may be short and is joined with one other part alone goes where that
 * goes: no split is worse for it, since nothing else knows of it, and what crossed between the two does not. Each such
 * leaf doubles the ideals at most. parts_of (node_count) and *parts are made anew. */
static bool merge_idle_leaves(const struct dnn_graph *graph, struct arena *arena, int *part_of, struct dag *parts,
                              struct error *err)
{
    int count = parts->node_count, edge_count = 0, roots = 0;
    struct dag_edge *edges = arena_alloc(arena, (size_t)graph->edge_count, sizeof *edges);
    struct leaf *leaves = arena_alloc(arena, (size_t)count, sizeof *leaves);
    int *into = arena_alloc(arena, (size_t)count, sizeof *into),
        *number = arena_alloc(arena, (size_t)count, sizeof *number);
    struct dag beside;
    if (!edges || !leaves || !into || !number)
        return fail_memory(err);
    for (int e = 0; e < graph->edge_count;
         e++) { /* from the smaller number to the larger: once, whatever its direction */
        int a = part_of[graph->edges[e].from], b = part_of[graph->edges[e].to];
        if (a != b)
            edges[edge_count++] = (struct dag_edge){ min_int(a, b), max_int(a, b) };
    }
    if (!dag_build(&beside, arena, count, edges, edge_count, NULL, err))
        return false;
    find_leaves(graph, part_of, &beside, leaves);
    for (int part = 0; part < count; part++)
        into[part] = part;
    for (int part = 0; part < count; part++)
        for (int leaf = part, to; leaves[leaf].neighbors == 1 && leaves[leaf].idle; leaf = to) {
            to = leaves[leaf].mixed;
            if (leaves[to].supported && !leaves[leaf].supported)
                break;
            into[leaf] = to;
            leaves[leaf].neighbors = 0;
            leaves[to].neighbors--;
            leaves[to].mixed ^= leaf;
        }
    for (int part = 0; part < count; part++) /* among themselves the others are in the order of before */
        number[part] = into[part] == part ? roots++ : -1;
    for (int v = 0; v < graph->node_count; v++) {
        int part = part_of[v];
        while (into[part] != part)
            part = into[part];
        part_of[v] = number[part];
    }
    edge_count = 0;
    for (int part = 0; part < count; part++)
        for (int e = parts->first_out[part]; number[part] >= 0 && e < parts->first_out[part + 1]; e++)
            if (number[parts->out[e]] >= 0)
                edges[edge_count++] = (struct dag_edge){ number[part], number[parts->out[e]] };
    return dag_build(parts, arena, roots, edges, edge_count, NULL, err);
}

/* ---- the stage in hand ---- */

/* Knuth's exact sum of two doubles: *rest is what the rounded one lacks. */
static double add_exactly(double a, double b, double *rest)
{
    double sum = a + b, of_b = sum - a;
    *rest = (a - (sum - of_b)) + (b - of_b);
    return sum;
}

static struct pair pair_plus(struct pair pair, double term)
{
    double rest, high = add_exactly(pair.high, term, &rest), low = pair.low + rest;
    pair.high = add_exactly(high, low, &pair.low);
    return pair;
}

static bool crosses(const struct sender *s)
{
    return s->inside ? s->inside_readers < s->readers : s->inside_readers > 0;
}

/* The part comes in (sign 1) or goes, and what that does to the sum. */
static void change_part(struct problem *p, int part, int sign)
{
    for (int i = p->first_touch[part]; i < p->first_touch[part + 1]; i++) {
        const struct touch *touch = &p->touches[i];
        struct sender *s = &p->senders[touch->node];
        bool before = crosses(s);
        s->inside_readers += sign * touch->readers;
        s->inside ^= touch->member;
        bool after = crosses(s);
        if (after != before)
            p->sending = pair_plus(p->sending, after ? s->cost : -s->cost);
    }
}

static void add(void *self, int part)
{
    struct problem *p = self;
    p->path[p->depth++] = part;
}

static void drop(void *self, int part)
{
    struct problem *p = self;
    p->depth--;
    if (p->counted <= p->depth)
        return;
    change_part(p, part, -1);
    p->sending = p->sent[--p->counted]; /* the very bits, so that nothing drifts */
}

/* Most stages are never asked for: parts are counted when one is. */
static void count_parts(struct problem *p)
{
    while (p->counted < p->depth) {
        p->sent[p->counted] = p->sending;
        change_part(p, p->path[p->counted++], 1);
    }
}

static double load(void *self, int below, int above, int choice, const int used[STAGE_AXES], double limit)
{
    struct problem *p = self;
    const double *from = p->sums[below], *to = p->sums[above];
    (void)used;
    if (choice == ON_CPU)
        return to[SUM_CPU] - from[SUM_CPU];
    double latency = to[SUM_ACCELERATOR] - from[SUM_ACCELERATOR];
    if (!(latency < limit) || to[SUM_UNSUPPORTED] - from[SUM_UNSUPPORTED] > 0.5 ||
        (to[SUM_BYTES] - from[SUM_BYTES]) * (1 - 1e-12) > p->graph->accelerator_bytes)
        return INFINITY;
    count_parts(p);
    return latency + p->sending.high;
}

static bool may_grow(void *self, int below, int above, const int room[STAGE_AXES], double limit)
{
    const struct problem *p = self;
    const double *from = p->sums[below], *to = p->sums[above];
    bool on_cpu = room[AXIS_CPU] > 0 && to[SUM_CPU] - from[SUM_CPU] < limit;
    bool on_accelerator = room[AXIS_ACCELERATOR] > 0 && to[SUM_UNSUPPORTED] - from[SUM_UNSUPPORTED] < 0.5 &&
                          (to[SUM_ACCELERATOR] - from[SUM_ACCELERATOR]) * (1 - 1e-12) < limit &&
                          (to[SUM_BYTES] - from[SUM_BYTES]) * (1 - 1e-12) <= p->graph->accelerator_bytes;
    return on_cpu || on_accelerator;
}

/* What the accelerators cannot take in time the CPUs must, at their slowdown. */
static bool enough_devices(const struct problem *p, double accelerator, double unsupported_cpu, double bytes,
                           int accelerators, int cpus, double limit)
{
    double over = accelerator - accelerators * limit, cpu = unsupported_cpu + (over > 0 ? over * p->slowdown : 0);
    if (accelerators + cpus == 0)
        return false;
    return !(cpu * (1 - 1e-12) > cpus * limit) &&
           (cpus > 0 || bytes * (1 - 1e-12) <= accelerators * p->graph->accelerator_bytes);
}

static double finish_below(void *self, int above, const int used[STAGE_AXES], double limit)
{
    const struct problem *p = self;
    const double *from = p->sums[above], *all = p->sums[p->ideals->count - 1];
    bool fits =
        enough_devices(p, all[SUM_ACCELERATOR] - from[SUM_ACCELERATOR], all[SUM_CPU_ONLY] - from[SUM_CPU_ONLY],
                       all[SUM_BYTES] - from[SUM_BYTES], (int)p->graph->accelerator_count - used[AXIS_ACCELERATOR],
                       (int)p->graph->cpu_count - used[AXIS_CPU], limit);
    return fits ? limit : -INFINITY;
}

/* ---- tables ---- */

static bool prepare(void *self, const struct ideals *ideals, struct error *err)
{
    struct problem *p = self;
    size_t n = (size_t)ideals->count, parts = (size_t)p->parts->node_count;
    double *value = arena_alloc(p->arena, SUMS * parts, sizeof *value),
           *table = arena_alloc(p->arena, n, sizeof *table);
    p->sums = arena_alloc(p->arena, n, sizeof *p->sums);
    if (!value || !table || !p->sums)
        return fail_memory(err);
    p->ideals = ideals;
    for (int v = 0; v < p->graph->node_count; v++) {
        const struct dnn_node *node = &p->graph->nodes[v];
        size_t part = (size_t)p->part_of[v];
        value[SUM_CPU * parts + part] += node->cpu_latency;
        value[SUM_ACCELERATOR * parts + part] += node->supported ? node->accelerator_latency : 0;
        value[SUM_BYTES * parts + part] += node->bytes;
        value[SUM_UNSUPPORTED * parts + part] += !node->supported;
        value[SUM_CPU_ONLY * parts + part] += node->supported ? 0 : node->cpu_latency;
    }
    for (size_t t = 0; t < SUMS; t++) {
        ideals_sum(ideals, value + t * parts, table);
        for (size_t i = 0; i < n; i++)
            p->sums[i][t] = table[i];
    }
    return true;
}

/* Rows of edges both ways, by node and not by part. dag_build refuses cycles, and backward may close some. */
static bool make_rows(struct problem *p, struct error *err)
{
    const struct dnn_graph *graph = p->graph;
    size_t n = (size_t)graph->node_count, m = (size_t)graph->edge_count;
    int *first_out = arena_alloc(p->arena, n + 2, sizeof(int)), *first_in = arena_alloc(p->arena, n + 2, sizeof(int));
    int *in = arena_alloc(p->arena, m, sizeof(int));
    if (!first_out || !first_in || !in)
        return fail_memory(err);
    for (int e = 0; e < graph->edge_count; e++) {
        first_out[graph->edges[e].from + 1]++;
        first_in[graph->edges[e].to + 2]++;
    }
    for (size_t v = 0; v < n; v++) {
        first_out[v + 1] += first_out[v];
        first_in[v + 2] += first_in[v + 1];
    }
    for (int e = 0; e < graph->edge_count; e++)
        in[first_in[graph->edges[e].to + 1]++] = graph->edges[e].from;
    p->readers = (struct dag){
        .node_count = (int)n, .edge_count = (int)m, .first_out = first_out, .first_in = first_in, .in = in
    };
    return true;
}

static bool make_members(struct problem *p, struct error *err)
{
    size_t n = (size_t)p->graph->node_count, parts = (size_t)p->parts->node_count;
    p->first_member = arena_alloc(p->arena, parts + 2, sizeof *p->first_member);
    p->member = arena_alloc(p->arena, n, sizeof *p->member);
    p->sent = arena_alloc(p->arena, parts + 1, sizeof *p->sent);
    p->path = arena_alloc(p->arena, parts + 1, sizeof *p->path);
    if (!p->path || !p->first_member || !p->member || !p->sent)
        return fail_memory(err);
    for (size_t v = 0; v < n; v++)
        p->first_member[p->part_of[v] + 2]++;
    for (size_t i = 0; i < parts; i++)
        p->first_member[i + 2] += p->first_member[i + 1];
    for (size_t v = 0; v < n; v++)
        p->member[p->first_member[p->part_of[v] + 1]++] = (int)v;
    return true;
}

/* The node's touch by the part whose touches begin at `first`: latest[node] is its index, or below. */
static struct touch *touch_of(struct problem *p, int *latest, int first, int *count, int node)
{
    if (latest[node] < first) {
        latest[node] = *count;
        p->touches[(*count)++] = (struct touch){ .node = node };
    }
    return &p->touches[latest[node]];
}

static bool make_touches(struct problem *p, struct error *err)
{
    size_t n = (size_t)p->graph->node_count, parts = (size_t)p->parts->node_count;
    int count = 0, *latest = arena_alloc(p->arena, n, sizeof *latest);
    p->senders = arena_alloc(p->arena, n, sizeof *p->senders);
    p->touches = arena_alloc(p->arena, n + (size_t)p->readers.edge_count, sizeof *p->touches);
    p->first_touch = arena_alloc(p->arena, parts + 1, sizeof *p->first_touch);
    if (!latest || !p->senders || !p->touches || !p->first_touch)
        return fail_memory(err);
    for (size_t v = 0; v < n; v++) {
        latest[v] = -1;
        p->senders[v].cost = p->graph->nodes[v].cost;
        p->senders[v].readers = p->readers.first_out[v + 1] - p->readers.first_out[v];
    }
    for (size_t part = 0; part < parts; part++) {
        int first = p->first_touch[part] = count;
        for (int m = p->first_member[part]; m < p->first_member[part + 1]; m++) {
            int v = p->member[m];
            touch_of(p, latest, first, &count, v)->member = true;
            for (int k = p->readers.first_in[v]; k < p->readers.first_in[v + 1]; k++)
                touch_of(p, latest, first, &count, p->readers.in[k])->readers++;
        }
    }
    p->first_touch[parts] = count;
    return true;
}

/* The part that is slowest on the device that suits it. */
static double slowest_part(const struct problem *p)
{
    double slowest = 0;
    for (int part = 0; part < p->parts->node_count; part++) {
        double cpu = p->graph->cpu_count > 0 ? 0 : INFINITY,
               accelerator = p->graph->accelerator_count > 0 ? 0 : INFINITY;
        for (int m = p->first_member[part]; m < p->first_member[part + 1]; m++) {
            const struct dnn_node *node = &p->graph->nodes[p->member[m]];
            cpu += node->cpu_latency;
            accelerator += node->supported ? node->accelerator_latency : INFINITY;
        }
        slowest = fmax(slowest, fmin(cpu, accelerator));
    }
    return slowest;
}

/* The smallest limit at which the devices could take the work if it were sand. */
static double lower_bound(struct problem *p)
{
    double accelerator = 0, unsupported_cpu = 0, bytes = 0, low = 0, high = 0;
    p->slowdown = INFINITY;
    for (int v = 0; v < p->graph->node_count; v++) {
        const struct dnn_node *node = &p->graph->nodes[v];
        bytes += node->bytes;
        high += node->cpu_latency + node->accelerator_latency;
        if (!node->supported)
            unsupported_cpu += node->cpu_latency;
        else if (node->accelerator_latency > 0)
            p->slowdown = fmin(p->slowdown, node->cpu_latency / node->accelerator_latency);
        accelerator += node->supported ? node->accelerator_latency : 0;
    }
    for (int step = 0; step < 60; step++) {
        double middle = (low + high) / 2;
        bool enough = enough_devices(p, accelerator, unsupported_cpu, 0, (int)p->graph->accelerator_count,
                                     (int)p->graph->cpu_count, middle);
        *(enough ? &high : &low) = middle;
    }
    return fmin(fmax(low, slowest_part(p)), high) * (1 - 1e-12);
}

/* ---- the answer ---- */

static bool fill_stages(const struct problem *p, struct dnn_plan *plan, struct error *err)
{
    int words = dag_words(p->graph->node_count);
    plan->stages = arena_alloc(p->arena, (size_t)plan->found.stage_count, sizeof *plan->stages);
    if (!plan->stages)
        return fail_memory(err);
    for (int s = 0; s < plan->found.stage_count; s++) {
        const struct stage *found = &plan->found.stages[s];
        struct dnn_stage *stage = &plan->stages[s];
        stage->on_cpu = found->choice == ON_CPU;
        stage->load = found->load;
        stage->nodes = arena_alloc(p->arena, (size_t)words, sizeof *stage->nodes);
        if (!stage->nodes)
            return fail_memory(err);
        for (int v = 0; v < p->graph->node_count; v++)
            if (has(found->nodes, p->part_of[v]))
                stage->nodes[v / 64] |= UINT64_C(1) << (v % 64);
    }
    return true;
}

bool dnn_solve(const struct dnn_graph *graph, const struct stage_limits *limits, struct arena *arena,
               struct dnn_plan *out, struct error *err)
{
    struct dag parts;
    struct problem p = { .graph = graph, .arena = arena, .parts = &parts };
    p.part_of = arena_alloc(arena, (size_t)graph->node_count, sizeof *p.part_of);
    if (!p.part_of)
        return fail_memory(err);
    if (!dnn_parts(graph, arena, p.part_of, &parts, err) || !merge_idle_leaves(graph, arena, p.part_of, &parts, err) ||
        !make_rows(&p, err) || !make_members(&p, err) || !make_touches(&p, err))
        return false;
    struct stage_model model = { .name = "dnn-partitioning",
                                 .self = &p,
                                 .axis_limit = { (int)graph->accelerator_count, (int)graph->cpu_count },
                                 .choice_count = KINDS,
                                 .choices = choices,
                                 .bound = lower_bound(&p),
                                 .prepare = prepare,
                                 .add = add,
                                 .drop = drop,
                                 .may_grow = may_grow,
                                 .load = load,
                                 .finish_below = finish_below };
    out->part_count = parts.node_count;
    return stages_bottleneck(&model, &parts, limits, arena, &out->found, err) && fill_stages(&p, out, err);
}

/* ---- the objective from the nodes ---- */

double dnn_stage_load(const struct dnn_graph *graph, const uint64_t *nodes, bool on_cpu)
{
    double time = 0, bytes = 0;
    bool supported = true;
    for (int v = 0; v < graph->node_count; v++)
        if (has(nodes, v)) {
            time += on_cpu ? graph->nodes[v].cpu_latency : graph->nodes[v].accelerator_latency;
            bytes += graph->nodes[v].bytes;
            supported = supported && graph->nodes[v].supported;
        }
    if (on_cpu)
        return time;
    bool *sent = calloc((size_t)graph->node_count, sizeof *sent);
    if (!sent)
        return NAN;
    for (int e = 0; e < graph->edge_count; e++) {
        struct dag_edge edge = graph->edges[e];
        if (!sent[edge.from] && has(nodes, edge.from) != has(nodes, edge.to)) {
            sent[edge.from] = true;
            time += graph->nodes[edge.from].cost;
        }
    }
    free(sent);
    return supported && bytes <= graph->accelerator_bytes ? time : INFINITY;
}

static int stage_of(const struct dnn_stage *stages, int count, int node)
{
    int found = -1;
    for (int s = 0; s < count; s++)
        if (has(stages[s].nodes, node)) {
            if (found >= 0)
                return -1;
            found = s;
        }
    return found;
}

double dnn_evaluate(const struct dnn_graph *graph, const struct dnn_stage *stages, int stage_count)
{
    double worst = 0;
    int64_t cpus = 0;
    for (int s = 0; s < stage_count; s++) {
        worst = fmax(worst, dnn_stage_load(graph, stages[s].nodes, stages[s].on_cpu));
        cpus += stages[s].on_cpu;
    }
    for (int v = 0; v < graph->node_count; v++)
        if (stage_of(stages, stage_count, v) < 0)
            return NAN;
    for (int e = 0; e < graph->edge_count; e++) {
        const struct dag_edge *edge = &graph->edges[e];
        bool forward = !graph->nodes[edge->from].backward && !graph->nodes[edge->to].backward;
        if (forward && stage_of(stages, stage_count, edge->from) > stage_of(stages, stage_count, edge->to))
            return NAN;
    }
    return cpus <= graph->cpu_count && stage_count - cpus <= graph->accelerator_count ? worst : INFINITY;
}

struct graph_sums dnn_sums(const struct dnn_graph *graph)
{
    struct graph_sums sums = { .terms = graph->node_count };
    for (int v = 0; v < graph->node_count; v++) {
        const struct dnn_node *node = &graph->nodes[v];
        sums.time += node->cpu_latency + (node->supported ? node->accelerator_latency : 0) + node->cost;
        sums.bytes += node->bytes;
    }
    return sums;
}
