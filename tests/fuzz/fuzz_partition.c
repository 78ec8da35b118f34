/* Any bytes as each of the foreign formats. What is accepted and small is solved, and the plan computed anew from its
 * nodes must be what the search says. */
#include "peers/dnn.h"
#include "peers/pipedream.h"
#include "peers/piper.h"
#include <math.h>
#include <stdint.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { SMALL_NODES = 14, SMALL_DEVICES = 6 };
static const struct stage_limits limits = { .ideals = 300, .work = 5000 };

static void must(bool holds)
{
    if (!holds)
        abort();
}

/* summed: no less than any sum whose differences loads are made of, which sums lose a part of. */
static void check(const struct stage_plan *found, double value, double summed)
{
    const double lost = 1e-13 * summed;
    if (!found->feasible)
        must(found->stage_count == 0 && !found->optimal);
    else if (!(lost > found->value)) /* else the file's numbers of 64 bits say nothing */
        must(fabs(value - found->value) <= 1e-9 * fabs(found->value) + lost &&
             found->bound <= found->value * (1 + 1e-9) + lost);
}

static double summed_piper(const struct piper_graph *graph)
{
    double bytes = 0, times = 0;
    for (int v = 0; v < graph->node_count; v++)
        for (int i = 0; i < graph->nodes[v].degree_count; i++) {
            const struct piper_degree *degree = &graph->nodes[v].degrees[i];
            bytes += 4 * degree->parameter_bytes;
            for (int k = 0; k < graph->nodes[v].in_count; k++)
                bytes += 2 * degree->sync_in[k];
            for (int k = 0; k < graph->nodes[v].out_count; k++)
                bytes += 2 * degree->sync_out[k];
            for (int k = 0; k < degree->variant_count; k++)
                times += degree->variants[k].time;
        }
    for (int e = 0; e < graph->edge_count; e++)
        bytes += 4 * graph->edges[e].bytes;
    return times + bytes / graph->bytes_per_s;
}

static double summed_dnn(const struct dnn_graph *graph)
{
    double summed = 0;
    for (int v = 0; v < graph->node_count; v++)
        summed += graph->nodes[v].cpu_latency + graph->nodes[v].accelerator_latency + graph->nodes[v].cost;
    return summed;
}

static double summed_pipedream(const struct pipedream_graph *graph)
{
    double summed = 0;
    for (int v = 0; v < graph->node_count; v++)
        summed += (graph->nodes[v].forward_ms + graph->nodes[v].backward_ms) / 1000 +
                  4 * graph->nodes[v].parameter_bytes / 1e8;
    return summed;
}

static void try_pipedream(const uint8_t *data, size_t size)
{
    struct arena arena = { 0 };
    struct error err = { 0 };
    struct pipedream_graph graph;
    struct pipedream_plan plan;
    struct pipedream_options options = { 1 + (int)(size % 2), { 1 + (int)(size % 3), 2 }, { 1e9, 1e8 }, size % 5 == 0 };
    if (!pipedream_read(&graph, "fuzz", (const char *)data, size, &arena, &err))
        must(err.kind != ERROR_NONE);
    else if (graph.node_count <= SMALL_NODES) {
        if (!pipedream_solve(&graph, &options, &limits, &arena, &plan, &err))
            must(err.kind == ERROR_INPUT);
        else
            check(&plan.found, pipedream_evaluate(&plan.graph, &options, plan.stages, plan.found.stage_count, &arena),
                  summed_pipedream(&graph));
    }
    arena_free(&arena);
}

static void try_piper(const uint8_t *data, size_t size)
{
    struct arena arena = { 0 };
    struct error err = { 0 };
    struct piper_graph graph;
    struct piper_plan plan;
    struct piper_options options = { 1 };
    if (!piper_read(&graph, "fuzz", (const char *)data, size, &arena, &err))
        must(err.kind != ERROR_NONE);
    else if (graph.node_count <= SMALL_NODES && graph.device_count <= SMALL_DEVICES) {
        if (!piper_solve(&graph, &options, &limits, &arena, &plan, &err))
            must(err.kind == ERROR_INPUT);
        else
            check(&plan.found, piper_evaluate(&graph, &options, plan.stages, plan.found.stage_count),
                  summed_piper(&graph));
    }
    arena_free(&arena);
}

static void try_dnn(const uint8_t *data, size_t size)
{
    struct arena arena = { 0 };
    struct error err = { 0 };
    struct dnn_graph graph;
    struct dnn_plan plan;
    if (!dnn_read(&graph, "fuzz", (const char *)data, size, &arena, &err))
        must(err.kind != ERROR_NONE);
    else if (graph.node_count <= SMALL_NODES && graph.accelerator_count + graph.cpu_count <= SMALL_DEVICES) {
        if (!dnn_solve(&graph, &limits, &arena, &plan, &err))
            must(err.kind == ERROR_INPUT);
        else
            check(&plan.found, dnn_evaluate(&graph, plan.stages, plan.found.stage_count), summed_dnn(&graph));
    }
    arena_free(&arena);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    try_pipedream(data, size);
    try_piper(data, size);
    try_dnn(data, size);
    return 0;
}
