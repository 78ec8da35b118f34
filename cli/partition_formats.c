#include "cli/partition_formats.h"
#include "peers/dnn.h"
#include "peers/pipedream.h"
#include "peers/piper.h"
#include <stdlib.h>
#include <string.h>

static bool has(const uint64_t *set, int node)
{
    return set[node / 64] >> (node % 64) & 1;
}

static int count_nodes(const uint64_t *set, int words)
{
    int count = 0;
    for (int w = 0; w < words; w++)
        count += __builtin_popcountll(set[w]);
    return count;
}

/* ---- PipeDream ---- */

/* "4" or "4,2" for --machines, "1e9" or "10e9,1.25e9" for --bandwidth: as many numbers as there are levels. */
static bool read_levels(const char *what, const char *text, double out[PIPEDREAM_LEVELS], int *count, struct error *err)
{
    *count = 0;
    if (!text)
        return fail(err, "cleave partition: --%s is needed for pipedream: N, or N,M for two levels", what);
    for (const char *at = text; *count < PIPEDREAM_LEVELS;) {
        const char *comma = strchr(at, ',');
        size_t length = comma ? (size_t)(comma - at) : strlen(at);
        if (!text_read_double(at, length, &out[*count]))
            return fail(err, "cleave partition: --%s: expected a number, found '%.*s'", what, (int)length, at);
        ++*count;
        if (!comma)
            return true;
        at = comma + 1;
    }
    return fail(err, "cleave partition: --%s: expected at most %d numbers, found '%s'", what, PIPEDREAM_LEVELS, text);
}

static bool read_pipedream_options(const struct partition_request *request, struct pipedream_options *o,
                                   struct error *err)
{
    double machines[PIPEDREAM_LEVELS] = { 0 };
    int bandwidths;
    *o = (struct pipedream_options){ .exact_transfers = request->exact_transfers };
    if (!read_levels("machines", request->machines, machines, &o->level_count, err) ||
        !read_levels("bandwidth", request->bandwidth, o->bytes_per_s, &bandwidths, err))
        return false;
    if (bandwidths != o->level_count)
        return fail(err, "cleave partition: --bandwidth: expected as many numbers as --machines has (%d), found %d",
                    o->level_count, bandwidths);
    for (int l = 0; l < o->level_count; l++) {
        o->machines[l] = machines[l] >= 1 && machines[l] <= PIPEDREAM_MACHINES ? (int)machines[l] : 0;
        if (o->machines[l] < machines[l] || o->machines[l] > machines[l])
            return fail(err, "cleave partition: --machines: expected whole numbers of 1 to %d, found %s",
                        PIPEDREAM_MACHINES, request->machines);
        if (!(o->bytes_per_s[l] > 0))
            return fail(err, "cleave partition: --bandwidth: expected bytes per second above 0, found %s",
                        request->bandwidth);
    }
    return true;
}

static bool solve_pipedream(const struct partition_request *request, struct arena *arena, struct partition_answer *out,
                            struct error *err)
{
    struct pipedream_graph graph;
    struct pipedream_options options;
    struct pipedream_plan *plan = arena_alloc(arena, 1, sizeof *plan);
    if (!plan)
        return fail_memory(err);
    if (!read_pipedream_options(request, &options, err) ||
        !pipedream_read(&graph, request->name, request->text, request->length, arena, err))
        return false;
    if (!pipedream_solve(&graph, &options, &request->limits, arena, plan, err))
        return error_within(err, "%s", request->name);
    *out = (struct partition_answer){ .found = &plan->found,
                                      .unit = "s",
                                      .plan = plan,
                                      .graph = &plan->graph,
                                      .sums = pipedream_sums(&graph, &options) };
    if (plan->found.feasible)
        out->objective = pipedream_evaluate(&plan->graph, &options, plan->stages, plan->found.stage_count, arena);
    return true;
}

static void write_pipedream_nodes(struct json_writer *w, const struct pipedream_graph *graph, const uint64_t *nodes)
{
    json_write_key(w, "nodes");
    json_begin_array(w);
    for (int v = 0; v < graph->node_count; v++)
        if (has(nodes, v))
            json_write_string(w, graph->nodes[v].id);
    json_end_array(w);
}

static void write_pipedream(struct json_writer *w, const struct partition_answer *answer, int s)
{
    const struct pipedream_plan *plan = answer->plan;
    const struct pipedream_stage *stage = &plan->stages[s];
    json_put_int(w, "replicas", stage->replicas);
    json_put_double(w, "load", plan->found.stages[s].load);
    if (stage->inner_count > 0) {
        json_write_key(w, "stages");
        json_begin_array(w);
        for (int i = 0; i < stage->inner_count; i++) {
            json_begin_object(w);
            json_put_int(w, "replicas", stage->inner[i].choice + 1);
            write_pipedream_nodes(w, answer->graph, stage->inner[i].nodes);
            json_end_object(w);
        }
        json_end_array(w);
    } else {
        write_pipedream_nodes(w, answer->graph, stage->nodes);
    }
}

static void print_pipedream(struct text *out, const struct partition_answer *answer, int s)
{
    const struct pipedream_plan *plan = answer->plan;
    const struct pipedream_stage *stage = &plan->stages[s];
    text_printf(out, "%4d nodes x %d replicas", count_nodes(stage->nodes, plan->found.words), stage->replicas);
    for (int i = 0; i < stage->inner_count; i++)
        text_printf(out, "%s%d x %d", i ? ", " : ", in each ", count_nodes(stage->inner[i].nodes, plan->found.words),
                    stage->inner[i].choice + 1);
    text_printf(out, ": %.9g s", plan->found.stages[s].load);
}

/* ---- Piper ---- */

static bool solve_piper(const struct partition_request *request, struct arena *arena, struct partition_answer *out,
                        struct error *err)
{
    struct piper_graph *graph = arena_alloc(arena, 1, sizeof *graph);
    struct piper_plan *plan = arena_alloc(arena, 1, sizeof *plan);
    struct piper_options options = { .time_unit = request->milliseconds ? 1e-3 : 1 };
    double bytes_per_s[PIPEDREAM_LEVELS];
    int count;
    if (!graph || !plan)
        return fail_memory(err);
    if (!piper_read(graph, request->name, request->text, request->length, arena, err))
        return false;
    if (request->bandwidth) {
        if (!read_levels("bandwidth", request->bandwidth, bytes_per_s, &count, err))
            return false;
        if (count != 1 || !(bytes_per_s[0] > 0))
            return fail(err, "cleave partition: --bandwidth: expected one number above 0 for piper, found %s",
                        request->bandwidth);
        graph->bytes_per_s = bytes_per_s[0];
    }
    graph->memory_bytes = request->memory_bytes > 0 ? request->memory_bytes : graph->memory_bytes;
    graph->device_count = request->devices > 0 ? request->devices : graph->device_count;
    graph->micro_batch_count = request->micro_batches > 0 ? request->micro_batches : graph->micro_batch_count;
    if (!piper_solve(graph, &options, &request->limits, arena, plan, err))
        return error_within(err, "%s", request->name);
    *out = (struct partition_answer){ .found = &plan->found,
                                      .unit = "s per sample",
                                      .plan = plan,
                                      .graph = graph,
                                      .sums = piper_sums(graph, &options),
                                      .room_bytes = graph->memory_bytes };
    if (plan->found.feasible)
        out->objective = piper_evaluate(graph, &options, plan->stages, plan->found.stage_count);
    return true;
}

static void write_piper(struct json_writer *w, const struct partition_answer *answer, int s)
{
    const struct piper_plan *plan = answer->plan;
    const struct piper_graph *graph = answer->graph;
    const struct piper_stage *stage = &plan->stages[s];
    json_put_int(w, "data_degree", stage->data_degree);
    json_put_int(w, "tensor_degree", stage->tensor_degree);
    json_put_int(w, "in_flight", stage->in_flight);
    json_put_double(w, "load", stage->load);
    json_write_key(w, "nodes");
    json_begin_array(w);
    for (int v = 0; v < graph->node_count; v++)
        if (has(stage->nodes, v))
            json_write_int(w, graph->nodes[v].id);
    json_end_array(w);
    json_write_key(w, "variants");
    json_begin_array(w);
    for (int v = 0; v < graph->node_count; v++)
        if (has(stage->nodes, v))
            json_write_int(w, stage->variants[v]);
    json_end_array(w);
}

static void print_piper(struct text *out, const struct partition_answer *answer, int s)
{
    const struct piper_plan *plan = answer->plan;
    const struct piper_graph *graph = answer->graph;
    const struct piper_stage *stage = &plan->stages[s];
    int other = 0;
    for (int v = 0; v < graph->node_count; v++)
        other += has(stage->nodes, v) && stage->variants[v] > 0;
    text_printf(out, "%4d nodes, data %d, tensor %d, %d in flight, %d not in their first variant: %.9g s",
                count_nodes(stage->nodes, plan->found.words), stage->data_degree, stage->tensor_degree,
                stage->in_flight, other, stage->load);
}

/* ---- dnn-partitioning ---- */

static bool solve_dnn(const struct partition_request *request, struct arena *arena, struct partition_answer *out,
                      struct error *err)
{
    struct dnn_graph *graph = arena_alloc(arena, 1, sizeof *graph);
    struct dnn_plan *plan = arena_alloc(arena, 1, sizeof *plan);
    if (!graph || !plan)
        return fail_memory(err);
    if (!dnn_read(graph, request->name, request->text, request->length, arena, err))
        return false;
    graph->accelerator_bytes = request->memory_bytes > 0 ? request->memory_bytes : graph->accelerator_bytes;
    graph->accelerator_count = request->devices >= 0 ? request->devices : graph->accelerator_count;
    graph->cpu_count = request->cpus >= 0 ? request->cpus : graph->cpu_count;
    if (!dnn_solve(graph, &request->limits, arena, plan, err))
        return error_within(err, "%s", request->name);
    *out = (struct partition_answer){ .found = &plan->found,
                                      .unit = "of the file's time",
                                      .plan = plan,
                                      .graph = graph,
                                      .sums = dnn_sums(graph),
                                      .room_bytes = graph->accelerator_bytes };
    if (plan->found.feasible)
        out->objective = dnn_evaluate(graph, plan->stages, plan->found.stage_count);
    return true;
}

static void write_dnn(struct json_writer *w, const struct partition_answer *answer, int s)
{
    const struct dnn_plan *plan = answer->plan;
    const struct dnn_graph *graph = answer->graph;
    json_put_string(w, "device", plan->stages[s].on_cpu ? "cpu" : "accelerator");
    json_put_double(w, "load", plan->stages[s].load);
    json_write_key(w, "nodes");
    json_begin_array(w);
    for (int v = 0; v < graph->node_count; v++)
        if (has(plan->stages[s].nodes, v))
            json_write_int(w, graph->nodes[v].id);
    json_end_array(w);
}

static void print_dnn(struct text *out, const struct partition_answer *answer, int s)
{
    const struct dnn_plan *plan = answer->plan;
    const struct dnn_graph *graph = answer->graph;
    text_printf(out, "%4d nodes on %s: %.9g", count_nodes(plan->stages[s].nodes, (graph->node_count + 63) / 64),
                plan->stages[s].on_cpu ? "a CPU" : "an accelerator", plan->stages[s].load);
}

static const struct partition_format pipedream = {
    .name = "pipedream",
    .solve = solve_pipedream,
    .write_stage = write_pipedream,
    .print_stage = print_pipedream,
    .lack = "machines",
};
static const struct partition_format piper = {
    .name = "piper",
    .solve = solve_piper,
    .write_stage = write_piper,
    .print_stage = print_piper,
    .lack = "memory per device",
};
static const struct partition_format dnn = {
    .name = "dnn-partitioning",
    .solve = solve_dnn,
    .write_stage = write_dnn,
    .print_stage = print_dnn,
    .lack = "memory per accelerator",
    .may_lack_devices = true,
};
const struct partition_format *const partition_formats[] = { &pipedream, &piper, &dnn, &partition_galvatron, NULL };
const char *const partition_format_names[] = { "pipedream", "piper", "dnn-partitioning", "galvatron", NULL };
