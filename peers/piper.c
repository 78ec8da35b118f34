/* Stages are placed from the end, because a stage's memory depends on the degrees of those behind it: the graph is
 * turned around, `below` is what stands behind the stage. */
#include "base/num.h"
#include "peers/graphs.h"
#include "peers/piper.h"
#include "peers/variants.h"
#include <math.h>
#include <string.h>

/* TABLE_IDEALS: of so few what is known of every stage is kept from pass to pass. */
enum { SHORTEST_CACHE = 16, TABLE_IDEALS = 64 };

struct choice {              /* beside struct stage_choice */
    int data_degree, degree; /* degree: index in problem.degrees */
};
struct sums { /* of a set of nodes under one tensor degree, every node's fastest variant */
    double time, parameter_bytes, memory_a, memory_b;
    double message_bytes;    /* of all edges at the nodes, but for both sides of those inside the set */
    double missing;          /* nodes without the degree */
    double least_a, least_b; /* of every node's thriftiest variants, each for itself */
};
struct shortest { /* time that fits with so many in flight: 0: not known */
    int in_flight;
    bool exact;
    double bound, time;
};
struct pair { /* what is known of a stage */
    int below, above;
    struct sums sums[PIPER_DEGREES];
    bool known[PIPER_DEGREES];
    struct shortest *shortest[PIPER_DEGREES]; /* (SHORTEST_CACHE) NULL: not asked for */
    /* (choice_count) with every node's fastest variant: no choice of variants is faster; and the part that none changes
     */
    double *fastest, *moving;
};
struct problem {
    const struct piper_graph *graph;
    const struct piper_options *options;
    double time_unit;
    struct arena *arena;
    struct error *err;
    int degree_count, degrees[PIPER_DEGREES];
    const struct piper_degree **of; /* (node_count, degree_count) NULL where a node lacks the degree */
    double *edge_bytes;             /* (edge_count, degree_count) see edge_bytes() */
    struct stage_choice *choices;
    struct choice *kinds;
    int choice_count;
    const struct ideals *ideals;
    struct sums *sums;         /* (ideals, degree_count) */
    double *device_time;       /* (ideals) sum of the cheapest degree's time x degree */
    double *least_bytes;       /* (ideals) sum of the thriftiest memory with one micro-batch in flight */
    double *least_a, *least_b; /* (ideals) likewise x degree, apart */
    int *cut, cut_count;       /* edges into `below` */
    struct pair *pair;         /* the stage in hand */
    struct pair **pairs; /* (ideals, ideals) of all that were looked at; NULL: too many, the one in hand serves all */
    struct variants variants;
    bool open;   /* a choice of variants was given up: nothing is proven */
    bool failed; /* memory ran out where nothing can be returned */
};

static const struct piper_degree *degree_of(const struct problem *p, int node, int degree)
{
    return p->of[node * p->degree_count + degree];
}

static bool has(const uint64_t *set, int node)
{
    return set[node / 64] >> (node % 64) & 1;
}

static int in_flight_of(const struct problem *p, int choice, const int used[STAGE_AXES])
{
    int d = p->kinds[choice].data_degree;
    return (used[1] + d + d - 1) / d;
}

/* ---- tables ---- */

static double fastest(const struct piper_degree *degree, int *index)
{
    *index = 0;
    for (int v = 1; v < degree->variant_count; v++) {
        const struct piper_variant *a = &degree->variants[v], *b = &degree->variants[*index];
        if (a->time < b->time || (a->time <= b->time && a->memory_a + a->memory_b < b->memory_a + b->memory_b))
            *index = v;
    }
    return degree->variants[*index].time;
}

/* Both directions of an edge whose ends have the degree: what its head reads, what its tail is told. */
static double edge_bytes(const struct problem *p, int e, int degree)
{
    const struct piper_edge *edge = &p->graph->edges[e];
    const struct piper_degree *from = degree_of(p, edge->from, degree), *to = degree_of(p, edge->to, degree);
    const struct piper_node *tail = &p->graph->nodes[edge->from], *head = &p->graph->nodes[edge->to];
    double bytes = 0;
    for (int i = 0; from && i < tail->out_count; i++)
        bytes += tail->out_edges[i] == e ? 2 * (edge->bytes + from->sync_out[i]) : 0;
    for (int i = 0; to && i < head->in_count; i++)
        bytes += head->in_edges[i] == e ? 2 * (edge->bytes + to->sync_in[i]) : 0;
    return bytes;
}

/* What the node adds to a set that holds all nodes behind it. */
static struct sums sums_of_node(const struct problem *p, int node, int degree)
{
    const struct piper_degree *d = degree_of(p, node, degree);
    const struct piper_node *n = &p->graph->nodes[node];
    struct sums sums = { .missing = !d };
    if (d) {
        int v;
        sums.time = fastest(d, &v);
        sums.parameter_bytes = d->parameter_bytes;
        sums.memory_a = d->variants[v].memory_a;
        sums.memory_b = d->variants[v].memory_b;
        sums.least_a = sums.memory_a;
        sums.least_b = sums.memory_b;
    }
    for (int v = 0; d && v < d->variant_count; v++) {
        sums.least_a = fmin(sums.least_a, d->variants[v].memory_a);
        sums.least_b = fmin(sums.least_b, d->variants[v].memory_b);
    }
    for (int i = 0; d && i < n->in_count; i++)
        sums.message_bytes += 2 * (p->graph->edges[n->in_edges[i]].bytes + d->sync_in[i]);
    for (int i = 0; i < n->out_count; i++) {
        if (d)
            sums.message_bytes += 2 * (p->graph->edges[n->out_edges[i]].bytes + d->sync_out[i]);
        sums.message_bytes -= p->edge_bytes[n->out_edges[i] * p->degree_count + degree];
    }
    return sums;
}

static void add_sums(struct sums *a, const struct sums *b, double sign)
{
    a->time += sign * b->time;
    a->parameter_bytes += sign * b->parameter_bytes;
    a->memory_a += sign * b->memory_a;
    a->memory_b += sign * b->memory_b;
    a->message_bytes += sign * b->message_bytes;
    a->missing += sign * b->missing;
    a->least_a += sign * b->least_a;
    a->least_b += sign * b->least_b;
}

struct least { /* of a node over all degrees and variants */
    double device_time, bytes, a, b;
};
static struct least least_of(const struct piper_node *node)
{
    struct least least = { INFINITY, INFINITY, INFINITY, INFINITY };
    for (int i = 0; i < node->degree_count; i++)
        for (int v = 0; v < node->degrees[i].variant_count; v++) {
            const struct piper_variant *variant = &node->degrees[i].variants[v];
            double t = node->degrees[i].degree;
            least.device_time = fmin(least.device_time, t * variant->time);
            least.bytes = fmin(least.bytes, variant->memory_a + variant->memory_b);
            least.a = fmin(least.a, t * variant->memory_a);
            least.b = fmin(least.b, t * variant->memory_b);
        }
    return least;
}

static struct pair *new_pair(struct problem *p)
{
    size_t choices = (size_t)p->choice_count;
    struct pair *pair = arena_alloc(p->arena, 1, sizeof *pair);
    double *loads = arena_alloc(p->arena, 2 * choices, sizeof *loads);
    if (!pair || !loads)
        return NULL;
    *pair = (struct pair){ -1, -1, .fastest = loads, .moving = loads + choices };
    return pair;
}

static bool prepare(void *self, const struct ideals *ideals, struct error *err)
{
    struct problem *p = self;
    size_t n = (size_t)ideals->count, nodes = (size_t)p->graph->node_count, degrees = (size_t)p->degree_count;
    struct sums *of_node = arena_alloc(p->arena, nodes * degrees, sizeof *of_node);
    double *value = arena_alloc(p->arena, 4 * nodes, sizeof *value),
           *tables = arena_alloc(p->arena, 4 * n, sizeof *tables);
    p->ideals = ideals;
    p->sums = arena_alloc(p->arena, n * degrees, sizeof *p->sums);
    if (!of_node || !value || !tables || !p->sums)
        return fail_memory(err);
    for (size_t v = 0; v < nodes; v++) {
        struct least least = least_of(&p->graph->nodes[v]);
        value[v] = least.device_time * p->time_unit;
        value[nodes + v] = least.bytes;
        value[2 * nodes + v] = least.a;
        value[3 * nodes + v] = least.b;
        for (size_t d = 0; d < degrees; d++)
            of_node[v * degrees + d] = sums_of_node(p, (int)v, (int)d);
    }
    double **table[] = { &p->device_time, &p->least_bytes, &p->least_a, &p->least_b };
    for (size_t t = 0; t < 4; t++) {
        *table[t] = tables + t * n;
        ideals_sum(ideals, value + t * nodes, *table[t]);
    }
    for (int i = 0, next = 1; i < ideals->count; i++)
        for (int64_t k = ideals->first_up[i]; k < ideals->first_up[i + 1]; k++)
            if (ideals->up_ideal[k] == next) {
                for (size_t d = 0; d < degrees; d++) {
                    struct sums *sums = &p->sums[(size_t)next * degrees + d];
                    *sums = p->sums[(size_t)i * degrees + d];
                    add_sums(sums, &of_node[(size_t)ideals->up_node[k] * degrees + d], 1);
                }
                next++;
            }
    p->pairs = n <= TABLE_IDEALS ? arena_alloc(p->arena, n * n, sizeof *p->pairs) : NULL;
    p->pair = p->pairs ? NULL : new_pair(p);
    return p->pairs || p->pair || fail_memory(err);
}

/* ---- one stage ---- */

static bool enter(void *self, int below, const int room[STAGE_AXES], double limit, struct error *err)
{
    struct problem *p = self;
    (void)room, (void)limit, (void)err;
    p->cut_count = 0;
    for (int e = 0; e < p->graph->edge_count; e++)
        if (ideal_has(p->ideals, below, p->graph->edges[e].to) && !ideal_has(p->ideals, below, p->graph->edges[e].from))
            p->cut[p->cut_count++] = e;
    return true;
}

/* Sums of the stage. Edges between it and what stands behind it were taken off as if inside, and come back. */
static const struct sums *sums_of_pair(struct problem *p, int degree)
{
    struct pair *pair = p->pair;
    struct sums *sums = &pair->sums[degree];
    if (pair->known[degree])
        return sums;
    pair->known[degree] = true;
    if (pair->shortest[degree])
        memset(pair->shortest[degree], 0, SHORTEST_CACHE * sizeof **pair->shortest);
    *sums = p->sums[pair->above * p->degree_count + degree];
    add_sums(sums, &p->sums[pair->below * p->degree_count + degree], -1);
    for (int i = 0; i < p->cut_count && sums->missing < 0.5; i++)
        if (ideal_has(p->ideals, pair->above, p->graph->edges[p->cut[i]].from))
            sums->message_bytes += p->edge_bytes[p->cut[i] * p->degree_count + degree];
    return sums;
}

/* load() has no way to fail: solve() asks afterwards. */
static double out_of_memory(struct problem *p)
{
    p->failed = true;
    return INFINITY;
}

/* The stage as a choice of variants. */
static bool list_stage(struct problem *p, int below, int above, int degree, int in_flight)
{
    variants_clear(&p->variants, p->graph->memory_bytes);
    const uint64_t *high = ideal_bits(p->ideals, above), *low = ideal_bits(p->ideals, below);
    for (int w = 0; w < p->ideals->words; w++)
        for (uint64_t rest = high[w] & ~low[w]; rest; rest &= rest - 1) {
            const struct piper_degree *d = degree_of(p, 64 * w + __builtin_ctzll(rest), degree);
            if (!variants_add_item(&p->variants, d->variant_count))
                return false;
            for (int i = 0; i < d->variant_count; i++)
                variants_set(&p->variants, i, d->variants[i].time,
                             d->variants[i].memory_a * in_flight + d->variants[i].memory_b);
        }
    return true;
}

/* A time in the file's unit below enough, if one fits; INFINITY if none does. The exact shortest is looked for only if
 * the bound leaves it open. */
static double shortest_time(struct problem *p, int degree, int in_flight, double enough)
{
    struct pair *pair = p->pair;
    struct shortest **row = &pair->shortest[degree];
    if (!*row && !(*row = arena_alloc(p->arena, SHORTEST_CACHE, sizeof **row)))
        return out_of_memory(p);
    struct shortest *known = &(*row)[in_flight % SHORTEST_CACHE];
    bool fresh = known->in_flight != in_flight;
    if (!fresh && (known->time < enough || known->exact || !(known->bound < enough)))
        return known->time < enough ? known->time : INFINITY;
    if (!list_stage(p, pair->below, pair->above, degree, in_flight))
        return out_of_memory(p);
    double bound, time;
    variants_bound(&p->variants, &bound, &time);
    *known = (struct shortest){ in_flight, false, bound, time };
    if (time < enough || !(bound < enough))
        return time < enough ? time : INFINITY;
    enum variants_end end = variants_solve(&p->variants, bound, &known->time);
    if (end == VARIANTS_NO_MEMORY)
        return out_of_memory(p);
    p->open = p->open || end == VARIANTS_LIMIT;
    known->exact = true;
    return known->time < enough ? known->time : INFINITY;
}

static void find_fastest(struct problem *p)
{
    for (int c = 0; c < p->choice_count; c++) {
        const struct choice *kind = &p->kinds[c];
        const struct sums *sums = sums_of_pair(p, kind->degree);
        double d = kind->data_degree, weights = 4 * (d - 1) * sums->parameter_bytes;
        double moving =
            (sums->message_bytes / d + weights / (d * (double)p->graph->micro_batch_count)) / p->graph->bytes_per_s;
        p->pair->moving[c] = moving;
        p->pair->fastest[c] = sums->missing > 0.5 ? INFINITY : sums->time * p->time_unit / d + moving;
    }
}

/* False: out of memory. */
static bool look_at(struct problem *p, int below, int above)
{
    if (p->pair && p->pair->below == below && p->pair->above == above)
        return true;
    struct pair **at = p->pairs ? &p->pairs[(size_t)below * (size_t)p->ideals->count + (size_t)above] : &p->pair;
    if (!*at && !(*at = new_pair(p)))
        return false;
    struct pair *pair = p->pair = *at;
    if (pair->below == below && pair->above == above)
        return true;
    pair->below = below;
    pair->above = above;
    memset(pair->known, 0, sizeof pair->known);
    find_fastest(p);
    return true;
}

static double load(void *self, int below, int above, int choice, const int used[STAGE_AXES], double limit)
{
    struct problem *p = self;
    if (!look_at(p, below, above))
        return out_of_memory(p);
    double fastest = p->pair->fastest[choice], moving = p->pair->moving[choice];
    if (!(fastest < limit))
        return INFINITY;
    const struct choice *kind = &p->kinds[choice];
    const struct sums *sums = &p->pair->sums[kind->degree];
    int in_flight = in_flight_of(p, choice, used);
    if (sums->memory_a * in_flight + sums->memory_b <= p->graph->memory_bytes * (1 - 1e-12))
        return fastest;
    if ((sums->least_a * in_flight + sums->least_b) * (1 - 1e-12) > p->graph->memory_bytes)
        return INFINITY;
    double scale = p->time_unit / kind->data_degree;
    return shortest_time(p, kind->degree, in_flight, (limit - moving) / scale) * scale + moving;
}

static const double *least_loads(void *self, int below, int above)
{
    struct problem *p = self;
    if (look_at(p, below, above))
        return p->pair->fastest;
    p->failed = true;
    return NULL;
}

static bool may_grow(void *self, int below, int above, const int room[STAGE_AXES], double limit)
{
    const struct problem *p = self;
    double slack = 1 - 1e-12;
    return (p->device_time[above] - p->device_time[below]) * slack < limit * room[0] &&
           (p->least_bytes[above] - p->least_bytes[below]) * slack <= p->graph->memory_bytes;
}

/* Work over the devices left; memory of what is left, of which every stage has at least 1 + used[1] replicas' worth of
 * micro-batches in flight per replica: d (a y + b) >= a (d + used[1]) + d b >= a (1 + used[1]) + b. */
static double finish_below(void *self, int above, const int used[STAGE_AXES], double limit)
{
    const struct problem *p = self;
    int last = p->ideals->count - 1;
    double left = (double)p->graph->device_count - used[0], slack = 1 - 1e-12;
    if (!(left > 0 && (p->device_time[last] - p->device_time[above]) * slack < limit * left))
        return -INFINITY;
    double bytes = (p->least_a[last] - p->least_a[above]) * (1 + used[1]) + p->least_b[last] - p->least_b[above];
    bool fits = used[1] < p->graph->micro_batch_count && bytes * slack <= left * p->graph->memory_bytes;
    return fits ? limit : -INFINITY;
}

/* ---- the answer ---- */

/* With the shortest time that fits; load() was content with one below the limit. */
static bool detail(void *self, int below, int above, int choice, const int used[STAGE_AXES], struct arena *arena,
                   void **out, double *load_out, struct error *err)
{
    struct problem *p = self;
    const struct choice *kind = &p->kinds[choice];
    size_t words = (size_t)p->ideals->words;
    struct piper_stage *stage = arena_alloc(arena, 1, sizeof *stage);
    int *variants = arena_alloc(arena, (size_t)p->graph->node_count, sizeof *variants), item = 0;
    uint64_t *nodes = arena_alloc(arena, words, sizeof *nodes);
    double time, bound;
    if (!stage || !variants || !nodes)
        return fail_memory(err);
    for (size_t w = 0; w < words; w++)
        nodes[w] = ideal_bits(p->ideals, above)[w] & ~ideal_bits(p->ideals, below)[w];
    int in_flight = in_flight_of(p, choice, used);
    if (!list_stage(p, below, above, kind->degree, in_flight))
        return fail_memory(err);
    variants_bound(&p->variants, &bound, &time);
    if (variants_solve(&p->variants, bound, &time) == VARIANTS_NO_MEMORY)
        return fail_memory(err);
    for (int v = 0; v < p->graph->node_count; v++)
        variants[v] = has(nodes, v) ? variants_chosen(&p->variants, item++) : -1;
    *stage = (struct piper_stage){ .nodes = nodes,
                                   .data_degree = kind->data_degree,
                                   .tensor_degree = p->degrees[kind->degree],
                                   .in_flight = in_flight,
                                   .variants = variants };
    stage->load = piper_stage_load(p->graph, p->options, stage);
    *load_out = fmin(*load_out, stage->load);
    *out = stage;
    return true;
}

/* ---- the model ---- */

static bool list_degrees(struct problem *p)
{
    for (int v = 0; v < p->graph->node_count; v++)
        for (int i = 0; i < p->graph->nodes[v].degree_count; i++) {
            int degree = p->graph->nodes[v].degrees[i].degree, d = 0;
            while (d < p->degree_count && p->degrees[d] != degree)
                d++;
            if (d == PIPER_DEGREES)
                return fail(p->err, "expected at most %d different tensor degrees, found more", PIPER_DEGREES);
            if (d == p->degree_count)
                p->degrees[p->degree_count++] = degree;
        }
    p->of = arena_alloc(p->arena, (size_t)p->graph->node_count * (size_t)p->degree_count, sizeof *p->of);
    p->cut = arena_alloc(p->arena, (size_t)p->graph->edge_count, sizeof *p->cut);
    p->edge_bytes =
        arena_alloc(p->arena, (size_t)p->graph->edge_count * (size_t)p->degree_count, sizeof *p->edge_bytes);
    if (!p->of || !p->cut || !p->edge_bytes)
        return fail_memory(p->err);
    for (int v = 0; v < p->graph->node_count; v++)
        for (int d = 0; d < p->degree_count; d++)
            p->of[v * p->degree_count + d] = piper_find_degree(&p->graph->nodes[v], p->degrees[d]);
    for (int e = 0; e < p->graph->edge_count; e++)
        for (int d = 0; d < p->degree_count; d++)
            p->edge_bytes[e * p->degree_count + d] = edge_bytes(p, e, d);
    return true;
}

/* Data-parallel degrees that divide the batch, times tensor degrees. */
static bool list_choices(struct problem *p)
{
    int64_t k = p->graph->device_count, n = p->graph->micro_batch_count;
    size_t most = (size_t)k * (size_t)p->degree_count;
    p->choices = arena_alloc(p->arena, most, sizeof *p->choices);
    p->kinds = arena_alloc(p->arena, most, sizeof *p->kinds);
    if (!p->choices || !p->kinds)
        return fail_memory(p->err);
    for (int t = 0; t < p->degree_count; t++)
        for (int64_t d = 1; d * p->degrees[t] <= k && d <= n; d++) {
            if (n % d != 0)
                continue;
            p->choices[p->choice_count] = (struct stage_choice){ { (int)(d * p->degrees[t]), (int)d } };
            p->kinds[p->choice_count++] = (struct choice){ (int)d, t };
        }
    return true;
}

static bool make_model(struct problem *p, struct stage_model *model)
{
    int64_t k = p->graph->device_count, n = p->graph->micro_batch_count;
    double device_time = 0;
    if (k < 1 || k > PIPER_DEVICES || n < 1)
        return fail(p->err, "expected 1 to %d devices and at least one micro-batch, found %lld and %lld", PIPER_DEVICES,
                    (long long)k, (long long)n);
    if (!list_degrees(p) || !list_choices(p))
        return false;
    for (int v = 0; v < p->graph->node_count; v++)
        device_time += least_of(&p->graph->nodes[v]).device_time * p->time_unit;
    *model = (struct stage_model){ .name = "piper",
                                   .self = p,
                                   .axis_limit = { (int)k, (int)min_i64(n, k) },
                                   .choice_count = p->choice_count,
                                   .choices = p->choices,
                                   .bound = device_time / (double)k * (1 - 1e-12),
                                   .prepare = prepare,
                                   .enter = enter,
                                   .may_grow = may_grow,
                                   .load = load,
                                   .context = true,
                                   .least_loads = least_loads,
                                   .finish_below = finish_below,
                                   .detail = detail };
    return true;
}

static bool build_reversed(const struct piper_graph *graph, struct arena *arena, struct dag *out, struct error *err)
{
    struct dag_edge *edges = arena_alloc(arena, (size_t)graph->edge_count, sizeof *edges);
    int on_cycle = -1;
    if (!edges)
        return fail_memory(err);
    for (int e = 0; e < graph->edge_count; e++)
        edges[e] = (struct dag_edge){ graph->edges[e].to, graph->edges[e].from };
    if (dag_build(out, arena, graph->node_count, edges, graph->edge_count, &on_cycle, NULL))
        return true;
    return on_cycle < 0 ? fail_memory(err)
                        : fail(err, "expected a graph without cycles, found node %lld on one",
                               (long long)graph->nodes[on_cycle].id);
}

bool piper_solve(const struct piper_graph *graph, const struct piper_options *options,
                 const struct stage_limits *limits, struct arena *arena, struct piper_plan *out, struct error *err)
{
    struct dag dag;
    struct stage_model model;
    struct problem p = {
        .graph = graph, .options = options, .time_unit = options->time_unit, .arena = arena, .err = err
    };
    if (!build_reversed(graph, arena, &dag, err) || !make_model(&p, &model))
        return false;
    bool ok = stages_bottleneck(&model, &dag, limits, arena, &out->found, err);
    variants_free(&p.variants);
    out->stages = ok ? arena_alloc(arena, (size_t)out->found.stage_count, sizeof *out->stages) : NULL;
    if (!ok || p.failed || !out->stages)
        return fail_memory(err);
    if (p.open) {
        out->found.optimal = out->found.exhausted = false;
        out->found.bound = model.bound;
    }
    for (int s = 0; s < out->found.stage_count; s++)
        out->stages[s] = *(const struct piper_stage *)out->found.stages[out->found.stage_count - 1 - s].detail;
    return true;
}
