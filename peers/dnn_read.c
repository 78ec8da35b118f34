/* The JSON of dnn-partitioning. */
#include "peers/dnn.h"
#include "base/json.h"
#include "peers/node_ids.h"

/* Sums of a million of these are still told from infinity, and from each other. */
#define LARGEST 1e18

struct top_fields {
    double accelerator_bytes;
    int64_t accelerator_count, cpu_count;
    const struct json *nodes, *edges;
};
static const struct json_field top_fields[] = {
    { "maxSizePerFPGA", FIELD_DOUBLE, offsetof(struct top_fields, accelerator_bytes), true, 0, LARGEST, NULL, "bytes" },
    { "maxFPGAs", FIELD_INT, offsetof(struct top_fields, accelerator_count), true, 0, DNN_DEVICES, NULL,
      "accelerators" },
    { "maxCPUs", FIELD_INT, offsetof(struct top_fields, cpu_count), true, 0, DNN_DEVICES, NULL, "CPUs" },
    { "nodes", FIELD_NODE, offsetof(struct top_fields, nodes), true, 0, 0, NULL, "nodes" },
    { "edges", FIELD_NODE, offsetof(struct top_fields, edges), true, 0, 0, NULL, "edges" },
};
struct node_fields {
    int64_t id;
    const char *name;
    const struct json *supported, *backward, *color, *layer;
    double cpu_latency, accelerator_latency, bytes;
};
static const struct json_field node_fields[] = {
    { "id", FIELD_INT, offsetof(struct node_fields, id), true, 0, 0, NULL, "number of the node" },
    { "name", FIELD_STRING, offsetof(struct node_fields, name), false, 0, 0, NULL, "name" },
    { "supportedOnFpga", FIELD_NODE, offsetof(struct node_fields, supported), true, 0, 0, NULL, "true, false, 1 or 0" },
    { "cpuLatency", FIELD_DOUBLE, offsetof(struct node_fields, cpu_latency), true, 0, LARGEST, NULL, "time on a CPU" },
    { "fpgaLatency", FIELD_DOUBLE, offsetof(struct node_fields, accelerator_latency), true, 0, LARGEST, NULL,
      "time on an accelerator" },
    { "isBackwardNode", FIELD_NODE, offsetof(struct node_fields, backward), true, 0, 0, NULL, "true, false, 1 or 0" },
    { "colorClass", FIELD_NODE, offsetof(struct node_fields, color), false, 0, 0, NULL,
      "nodes of one colour stay together" },
    { "size", FIELD_DOUBLE, offsetof(struct node_fields, bytes), false, 0, LARGEST, NULL, "bytes of memory" },
    { "layerId", FIELD_NODE, offsetof(struct node_fields, layer), false, 0, 0, NULL,
      "which layer the operator is of: the peer's files have it, and nobody reads it" },
};
struct edge_fields {
    int64_t from, to;
    double cost, bytes;
};
static const struct json_field edge_fields[] = {
    { "sourceId", FIELD_INT, offsetof(struct edge_fields, from), true, 0, 0, NULL, "node" },
    { "destId", FIELD_INT, offsetof(struct edge_fields, to), true, 0, 0, NULL, "node" },
    { "cost", FIELD_DOUBLE, offsetof(struct edge_fields, cost), true, 0, LARGEST, NULL, "time to send" },
    { "size", FIELD_DOUBLE, offsetof(struct edge_fields, bytes), false, 0, LARGEST, NULL, "bytes" },
};
#define FIELDS(table) (table), sizeof(table) / sizeof *(table)

struct reader {
    struct dnn_graph *graph;
    struct arena *arena;
    struct node_ids ids;
    bool *has_cost; /* (node_count) */
    struct error *err;
};

static bool read_flag(const struct json *value, bool *out, struct error *err)
{
    int64_t number;
    if (json_type(value) == JSON_BOOL)
        return json_bool(value, out, err);
    if (!json_int(value, 0, 1, &number, err))
        return false;
    *out = number != 0;
    return true;
}

static bool read_node(struct reader *r, const struct json *value, struct dnn_node *node)
{
    struct node_fields f = { .name = "" };
    if (!json_read_fields(value, FIELDS(node_fields), &f, r->arena, r->err))
        return false;
    *node = (struct dnn_node){ .id = f.id,
                               .name = f.name,
                               .cpu_latency = f.cpu_latency,
                               .accelerator_latency = f.accelerator_latency,
                               .bytes = f.bytes,
                               .color = -1 };
    if (f.color && json_type(f.color) != JSON_NULL && !json_int(f.color, 0, INT64_MAX, &node->color, r->err))
        return false;
    return read_flag(f.supported, &node->supported, r->err) && read_flag(f.backward, &node->backward, r->err);
}

static bool read_nodes(struct reader *r, const struct json *list)
{
    struct dnn_graph *graph = r->graph;
    size_t n = (size_t)json_count(list);
    graph->node_count = (int)n;
    graph->nodes = arena_alloc(r->arena, n, sizeof *graph->nodes);
    r->ids = (struct node_ids){ (int)n, arena_alloc(r->arena, n, sizeof *r->ids.sorted) };
    r->has_cost = arena_alloc(r->arena, n, sizeof *r->has_cost);
    if (!graph->nodes || !r->ids.sorted || !r->has_cost)
        return fail_kind(r->err, ERROR_ENVIRONMENT, "partition: out of memory");
    for (int v = 0; v < graph->node_count; v++) {
        if (!read_node(r, json_at(list, v), &graph->nodes[v]))
            return false;
        r->ids.sorted[v] = (struct node_id){ graph->nodes[v].id, v };
    }
    return node_ids_sort(&r->ids, list, r->err);
}

static bool read_edge(struct reader *r, const struct json *value, struct dag_edge *edge)
{
    struct edge_fields f;
    int from, to;
    if (!json_read_fields(value, FIELDS(edge_fields), &f, r->arena, r->err) ||
        !node_ids_edge(&r->ids, value, f.from, f.to, &from, &to, r->err))
        return false;
    double *cost = &r->graph->nodes[from].cost;
    if (r->has_cost[from] && (*cost < f.cost || *cost > f.cost))
        return json_fail(json_member(value, "cost"), r->err,
                         "expected %.17g as on the other edges of node %lld, which is sent once, found %.17g", *cost,
                         (long long)f.from, f.cost);
    *cost = f.cost;
    r->has_cost[from] = true;
    *edge = (struct dag_edge){ from, to };
    return true;
}

static bool read_root(void *self, const struct json *root, struct error *err)
{
    struct reader *r = self;
    struct top_fields f;
    struct dnn_graph *graph = r->graph;
    if (!json_read_fields(root, FIELDS(top_fields), &f, r->arena, err))
        return false;
    if (json_type(f.nodes) != JSON_ARRAY || json_count(f.nodes) == 0)
        return json_fail(f.nodes, err, "expected an array of at least one node, found %s",
                         json_type(f.nodes) == JSON_ARRAY ? "none" : json_type_name(json_type(f.nodes)));
    if (json_type(f.edges) != JSON_ARRAY)
        return json_fail(f.edges, err, "expected an array, found %s", json_type_name(json_type(f.edges)));
    graph->accelerator_bytes = f.accelerator_bytes;
    graph->accelerator_count = f.accelerator_count;
    graph->cpu_count = f.cpu_count;
    if (!read_nodes(r, f.nodes))
        return false;
    graph->edges = arena_alloc(r->arena, (size_t)json_count(f.edges), sizeof *graph->edges);
    if (!graph->edges)
        return fail_kind(err, ERROR_ENVIRONMENT, "partition: out of memory");
    for (int e = 0; e < json_count(f.edges); e++)
        if (!read_edge(r, json_at(f.edges, e), &graph->edges[graph->edge_count++]))
            return false;
    return true;
}

bool dnn_read(struct dnn_graph *out, const char *name, const char *text, size_t length, struct arena *arena,
              struct error *err)
{
    struct dnn_graph graph = { 0 };
    struct reader r = { .graph = &graph, .arena = arena, .err = err };
    if (!json_parse_with(name, text, length, read_root, &r, err))
        return false;
    *out = graph;
    return true;
}
