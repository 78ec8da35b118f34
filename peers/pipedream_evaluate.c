/* The objective of given stages straight from the nodes: of the search only what leaves a set is shared. */
#include "peers/pipedream.h"
#include "peers/pipedream_cut.h"
#include <math.h>

static bool has(const uint64_t *set, int node)
{
    return set[node / 64] >> (node % 64) & 1;
}

struct evaluation {
    const struct pipedream_graph *graph;
    const struct pipedream_cuts *cuts;
    uint64_t *placed, *scratch; /* (words) */
    bool sound;
    double worst_s;
};

/* What the nodes take on one machine and their weights; they become placed. */
static void place_nodes(struct evaluation *e, const uint64_t *nodes, double *one_s, double *parameter_bytes)
{
    *one_s = *parameter_bytes = 0;
    for (int v = 0; v < e->graph->node_count; v++)
        if (has(nodes, v)) {
            const struct pipedream_node *node = &e->graph->nodes[v];
            *one_s += (node->forward_ms + node->backward_ms) / 1000;
            *parameter_bytes += node->parameter_bytes;
            e->sound = e->sound && !has(e->placed, v);
            e->placed[v / 64] |= UINT64_C(1) << (v % 64);
        }
    const struct dag *dag = e->cuts->dag;
    for (int v = 0; v < e->graph->node_count; v++)
        for (int k = dag->first_in[v]; has(nodes, v) && k < dag->first_in[v + 1]; k++)
            e->sound = e->sound && has(e->placed, dag->in[k]);
}

static bool all_placed(const struct evaluation *e)
{
    for (int v = 0; v < e->graph->node_count; v++)
        if (!has(e->placed, v))
            return false;
    return true;
}

/* Seconds to move what leaves the placed nodes, by d machines. */
static double evaluate_moving(const struct evaluation *e, int d, double bytes_per_s)
{
    return all_placed(e) ? 0 : 2 * pipedream_cut_bytes(e->cuts, e->placed, e->scratch) / (bytes_per_s * d);
}

/* The block's value on the machines of one server. */
static double evaluate_block(struct evaluation *e, const struct pipedream_options *o,
                             const struct pipedream_stage *block, double *parameter_bytes)
{
    double worst_s = 0, one_s, parameters;
    int machines = 0;
    *parameter_bytes = 0;
    for (int s = 0; s < block->inner_count; s++) {
        int d = block->inner[s].choice + 1;
        double in_s = s > 0 ? evaluate_moving(e, d, o->bytes_per_s[0]) : 0;
        place_nodes(e, block->inner[s].nodes, &one_s, &parameters);
        double out_s = s > 0 ? evaluate_moving(e, d, o->bytes_per_s[0]) : 0;
        double stage_s = (one_s + 4.0 * (d - 1) * parameters / (o->bytes_per_s[0] * d)) / d;
        worst_s = fmax(worst_s, fmax(stage_s, fmax(in_s, out_s)));
        *parameter_bytes += parameters;
        machines += d;
    }
    e->sound = e->sound && machines == o->machines[0];
    return worst_s;
}

static void evaluate_stage(struct evaluation *e, const struct pipedream_options *o, const struct pipedream_stage *stage,
                           bool first)
{
    bool blocks = o->level_count == 2;
    int r = stage->replicas, share = blocks && first ? o->machines[0] : 1;
    double bandwidth = o->bytes_per_s[blocks], one_s, parameters;
    double in_s = first ? 0 : evaluate_moving(e, r, bandwidth);
    if (blocks)
        one_s = evaluate_block(e, o, stage, &parameters);
    else
        place_nodes(e, stage->nodes, &one_s, &parameters);
    double out_s = first ? 0 : evaluate_moving(e, r, bandwidth);
    double stage_s = (one_s + 4.0 * (r - 1) * parameters / (bandwidth * r) / share) / r;
    e->worst_s = fmax(e->worst_s, fmax(stage_s, fmax(in_s, out_s)));
}

double pipedream_evaluate(const struct pipedream_graph *prepared, const struct pipedream_options *options,
                          const struct pipedream_stage *stages, int stage_count, struct arena *arena)
{
    struct dag dag;
    if (!dag_build(&dag, arena, prepared->node_count, prepared->edges, prepared->edge_count, NULL, NULL))
        return NAN;
    struct pipedream_cuts cuts = { .graph = prepared, .dag = &dag, .exact = options->exact_transfers };
    if (!pipedream_cuts_make(&cuts, arena, NULL))
        return NAN;
    struct evaluation e = { .graph = prepared, .cuts = &cuts, .sound = true };
    e.placed = arena_alloc(arena, (size_t)cuts.words, sizeof *e.placed);
    e.scratch = arena_alloc(arena, (size_t)cuts.words, sizeof *e.scratch);
    if (!e.placed || !e.scratch)
        return NAN;
    int machines = 0;
    for (int s = 0; s < stage_count; s++) {
        evaluate_stage(&e, options, &stages[s], s == 0);
        machines += stages[s].replicas;
    }
    bool sound = e.sound && all_placed(&e) && machines == options->machines[options->level_count == 2];
    return sound ? e.worst_s : NAN;
}

struct graph_sums pipedream_sums(const struct pipedream_graph *graph, const struct pipedream_options *options)
{
    struct graph_sums sums = { .terms = graph->node_count };
    double slowest = options->bytes_per_s[0];
    for (int l = 1; l < options->level_count; l++)
        slowest = fmin(slowest, options->bytes_per_s[l]);
    for (int v = 0; v < graph->node_count; v++)
        sums.time += (graph->nodes[v].forward_ms + graph->nodes[v].backward_ms) / 1000 +
                     4 * graph->nodes[v].parameter_bytes / slowest;
    return sums;
}
