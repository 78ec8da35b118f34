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

static void check(const struct stage_plan *found, double value, struct graph_sums sums)
{
    const double lost = 1e-13 * sums.time;
    if (!found->feasible)
        must(found->stage_count == 0 && !found->optimal);
    else if (!(lost > found->value)) /* else the file's numbers of 64 bits say nothing */
        must(fabs(value - found->value) <= 1e-9 * fabs(found->value) + lost &&
             found->bound <= found->value * (1 + 1e-9) + lost);
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
                  pipedream_sums(&graph, &options));
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
                  piper_sums(&graph, &options));
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
            check(&plan.found, dnn_evaluate(&graph, plan.stages, plan.found.stage_count), dnn_sums(&graph));
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
