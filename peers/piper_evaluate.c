/* The objective of given stages straight from the nodes: nothing of the search is used. */
#include "base/num.h"
#include "peers/piper.h"
#include <math.h>

static bool has(const uint64_t *set, int node)
{
    return set[node / 64] >> (node % 64) & 1;
}

const struct piper_degree *piper_find_degree(const struct piper_node *node, int degree)
{
    for (int i = 0; i < node->degree_count; i++)
        if (node->degrees[i].degree == degree)
            return &node->degrees[i];
    return NULL;
}

double piper_stage_load(const struct piper_graph *graph, const struct piper_options *options,
                        const struct piper_stage *stage)
{
    double time = 0, bytes = 0, d = stage->data_degree, weights = 0;
    for (int v = 0; v < graph->node_count; v++) {
        const struct piper_node *node = &graph->nodes[v];
        if (!has(stage->nodes, v))
            continue;
        const struct piper_degree *degree = piper_find_degree(node, stage->tensor_degree);
        if (!degree || !is_index(stage->variants[v], degree->variant_count))
            return NAN;
        time += degree->variants[stage->variants[v]].time;
        weights += degree->parameter_bytes;
        for (int i = 0; i < node->in_count; i++)
            if (!has(stage->nodes, graph->edges[node->in_edges[i]].from))
                bytes += 2 * (graph->edges[node->in_edges[i]].bytes + degree->sync_in[i]);
        for (int i = 0; i < node->out_count; i++)
            if (!has(stage->nodes, graph->edges[node->out_edges[i]].to))
                bytes += 2 * (graph->edges[node->out_edges[i]].bytes + degree->sync_out[i]);
    }
    double synced = 4 * (d - 1) * weights / (d * (double)graph->micro_batch_count);
    return time * options->time_unit / d + (bytes / d + synced) / graph->bytes_per_s;
}

static double stage_bytes(const struct piper_graph *graph, const struct piper_stage *stage, double in_flight)
{
    double bytes = 0;
    for (int v = 0; v < graph->node_count; v++)
        if (has(stage->nodes, v)) {
            const struct piper_degree *degree = piper_find_degree(&graph->nodes[v], stage->tensor_degree);
            const struct piper_variant *variant = &degree->variants[stage->variants[v]];
            bytes += variant->memory_a * in_flight + variant->memory_b;
        }
    return bytes;
}

double piper_evaluate(const struct piper_graph *graph, const struct piper_options *options,
                      const struct piper_stage *stages, int stage_count)
{
    double worst = 0;
    int64_t behind = 0, devices = 0;
    for (int s = stage_count - 1; s >= 0; s--) {
        const struct piper_stage *stage = &stages[s];
        double load = piper_stage_load(graph, options, stage);
        behind += stage->data_degree;
        devices += (int64_t)stage->data_degree * stage->tensor_degree;
        if (isnan(load) || graph->micro_batch_count % stage->data_degree != 0)
            return NAN;
        double in_flight = ceil((double)behind / stage->data_degree);
        if (stage_bytes(graph, stage, in_flight) > graph->memory_bytes)
            return INFINITY;
        worst = fmax(worst, load);
    }
    for (int v = 0; v < graph->node_count; v++) { /* each node once, after what it reads */
        int own = -1;
        for (int s = 0; s < stage_count; s++)
            if (has(stages[s].nodes, v)) {
                if (own >= 0)
                    return NAN;
                own = s;
            }
        for (int i = 0; i < graph->nodes[v].in_count; i++)
            for (int s = own + 1; s < stage_count; s++)
                if (has(stages[s].nodes, graph->edges[graph->nodes[v].in_edges[i]].from))
                    return NAN;
        if (own < 0)
            return NAN;
    }
    return devices <= graph->device_count && behind <= graph->micro_batch_count ? worst : INFINITY;
}

struct graph_sums piper_sums(const struct piper_graph *graph, const struct piper_options *options)
{
    struct graph_sums sums = { .terms = graph->node_count + graph->edge_count };
    double bytes = 0;
    for (int v = 0; v < graph->node_count; v++)
        for (int i = 0; i < graph->nodes[v].degree_count; i++) {
            const struct piper_degree *degree = &graph->nodes[v].degrees[i];
            bytes += 4 * degree->parameter_bytes;
            for (int k = 0; k < graph->nodes[v].in_count; k++)
                bytes += 2 * degree->sync_in[k];
            for (int k = 0; k < graph->nodes[v].out_count; k++)
                bytes += 2 * degree->sync_out[k];
            for (int k = 0; k < degree->variant_count; k++) {
                const struct piper_variant *variant = &degree->variants[k];
                sums.time += variant->time * options->time_unit;
                sums.bytes += variant->memory_a * (double)graph->device_count + variant->memory_b;
            }
        }
    for (int e = 0; e < graph->edge_count; e++)
        bytes += 4 * graph->edges[e].bytes;
    sums.time += bytes / graph->bytes_per_s;
    return sums;
}
