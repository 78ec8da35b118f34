/* Piper's JSON. */
#include "peers/piper.h"
#include "base/json.h"
#include "peers/node_ids.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Sums of a million of these are still told from infinity, and from each other. */
#define LARGEST 1e18

struct top_fields {
    double memory_bytes, bytes_per_s;
    int64_t device_count, micro_batch_count;
    const struct json *nodes, *edges;
};
static const struct json_field top_fields[] = {
    { "maxMemoryPerDevice", FIELD_DOUBLE, offsetof(struct top_fields, memory_bytes), true, 0, LARGEST, NULL, "bytes" },
    { "maxDevices", FIELD_INT, offsetof(struct top_fields, device_count), true, 1, PIPER_DEVICES, NULL, "devices" },
    { "bandwidth", FIELD_DOUBLE, offsetof(struct top_fields, bytes_per_s), true, 0, LARGEST, NULL, "bytes per second" },
    { "mbsInBatch", FIELD_INT, offsetof(struct top_fields, micro_batch_count), true, 1, 1e9, NULL,
      "micro-batches per batch" },
    { "nodes", FIELD_NODE, offsetof(struct top_fields, nodes), true, 0, 0, NULL, "nodes" },
    { "edges", FIELD_NODE, offsetof(struct top_fields, edges), true, 0, 0, NULL, "edges" },
};
struct node_fields {
    int64_t id;
    const char *name;
    const struct json *degrees;
};
static const struct json_field node_fields[] = {
    { "id", FIELD_INT, offsetof(struct node_fields, id), true, 0, 0, NULL, "number of the node" },
    { "name", FIELD_STRING, offsetof(struct node_fields, name), false, 0, 0, NULL, "name" },
    { "TMPCs", FIELD_NODE, offsetof(struct node_fields, degrees), true, 0, 0, NULL, "variants by tensor degree" },
};
struct variant_fields {
    const char *name;
    double time, parameter_bytes, memory_a, memory_b;
    const struct json *sync_in, *sync_out;
};
static const struct json_field variant_fields[] = {
    { "id", FIELD_STRING, offsetof(struct variant_fields, name), false, 0, 0, NULL, "name" },
    { "timePerSample", FIELD_DOUBLE, offsetof(struct variant_fields, time), true, 0, LARGEST, NULL, "time" },
    { "parameterSize", FIELD_DOUBLE, offsetof(struct variant_fields, parameter_bytes), true, 0, LARGEST, NULL,
      "bytes" },
    { "memoryUsageA", FIELD_DOUBLE, offsetof(struct variant_fields, memory_a), true, 0, LARGEST, NULL, "bytes" },
    { "memoryUsageB", FIELD_DOUBLE, offsetof(struct variant_fields, memory_b), true, 0, LARGEST, NULL, "bytes" },
    { "syncTimeFw", FIELD_NODE, offsetof(struct variant_fields, sync_in), true, 0, 0, NULL, "bytes by node" },
    { "syncTimeBw", FIELD_NODE, offsetof(struct variant_fields, sync_out), true, 0, 0, NULL, "bytes by node" },
};
struct edge_fields {
    int64_t from, to;
    double bytes;
};
static const struct json_field edge_fields[] = {
    { "sourceId", FIELD_INT, offsetof(struct edge_fields, from), true, 0, 0, NULL, "node" },
    { "destId", FIELD_INT, offsetof(struct edge_fields, to), true, 0, 0, NULL, "node" },
    { "communicationCost", FIELD_DOUBLE, offsetof(struct edge_fields, bytes), true, 0, LARGEST, NULL, "bytes" },
};
#define FIELDS(table) (table), sizeof(table) / sizeof *(table)

struct reader {
    struct piper_graph *graph;
    struct arena *arena;
    struct node_ids ids;
    struct error *err;
};

static void *take(struct reader *r, size_t count, size_t size)
{
    void *memory = arena_alloc(r->arena, count, size);
    if (!memory)
        fail_kind(r->err, ERROR_ENVIRONMENT, "partition: out of memory");
    return memory;
}

static bool expect(const struct json *value, enum json_type type, struct error *err)
{
    return json_type(value) == type ||
           json_fail(value, err, "expected an %s, found %s", json_type_name(type), json_type_name(json_type(value)));
}

/* Bytes per edge of one side of the node: every edge named once, nothing else. */
static bool read_sync(struct reader *r, const struct json *value, const int *edges, int count, bool in,
                      const double **out)
{
    double *bytes = take(r, (size_t)count, sizeof *bytes);
    if (!bytes || !expect(value, JSON_OBJECT, r->err))
        return false;
    for (int e = 0; e < count; e++) {
        const struct piper_edge *edge = &r->graph->edges[edges[e]];
        char key[32];
        snprintf(key, sizeof key, "%lld", (long long)r->graph->nodes[in ? edge->from : edge->to].id);
        const struct json *item = json_member(value, key);
        if (!item)
            return json_fail(value, r->err, "expected the bytes for node %s, found none", key);
        if (!json_double(item, 0, LARGEST, &bytes[e], r->err))
            return false;
    }
    if (json_count(value) != count)
        return json_fail(value, r->err, "expected %d node%s, one per edge, found %d", count, count == 1 ? "" : "s",
                         json_count(value));
    *out = bytes;
    return true;
}

static bool same_bytes(const double *a, const double *b, int count)
{
    for (int i = 0; i < count; i++)
        if (a[i] < b[i] || a[i] > b[i])
            return false;
    return true;
}

static bool read_variant(struct reader *r, const struct json *value, const struct piper_node *node, bool first,
                         struct piper_degree *degree, struct piper_variant *variant)
{
    struct variant_fields f = { .name = "" };
    const double *sync_in, *sync_out;
    if (!json_read_fields(value, FIELDS(variant_fields), &f, r->arena, r->err) ||
        !read_sync(r, f.sync_in, node->in_edges, node->in_count, true, &sync_in) ||
        !read_sync(r, f.sync_out, node->out_edges, node->out_count, false, &sync_out))
        return false;
    if (first) {
        degree->parameter_bytes = f.parameter_bytes;
        degree->sync_in = sync_in;
        degree->sync_out = sync_out;
    } else if (!same_bytes(&f.parameter_bytes, &degree->parameter_bytes, 1) ||
               !same_bytes(sync_in, degree->sync_in, node->in_count) ||
               !same_bytes(sync_out, degree->sync_out, node->out_count)) {
        return json_fail(
            value, r->err,
            "expected parameterSize, syncTimeFw and syncTimeBw of the degree's first variant, found others");
    }
    *variant = (struct piper_variant){ f.name, f.time, f.memory_a, f.memory_b };
    return true;
}

static bool read_degree(struct reader *r, const struct json *list, const char *key, const struct piper_node *node,
                        struct piper_degree *degree)
{
    char *end;
    long number = strtol(key, &end, 10);
    if (*end || end == key || number < 1 || number > PIPER_DEVICES)
        return json_fail(list, r->err, "expected a tensor degree of 1 to %d as the key, found '%s'", PIPER_DEVICES,
                         key);
    if (!expect(list, JSON_ARRAY, r->err))
        return false;
    int count = json_count(list);
    if (count < 1 || count > 64)
        return json_fail(list, r->err, "expected 1 to 64 variants, found %d", count);
    struct piper_variant *variants = take(r, (size_t)count, sizeof *variants);
    if (!variants)
        return false;
    degree->degree = (int)number;
    for (int v = 0; v < count; v++)
        if (!read_variant(r, json_at(list, v), node, v == 0, degree, &variants[v]))
            return false;
    degree->variants = variants;
    degree->variant_count = count;
    return true;
}

static bool read_degrees(struct reader *r, const struct json *object, struct piper_node *node)
{
    if (!expect(object, JSON_OBJECT, r->err))
        return false;
    int count = json_count(object);
    if (count < 1 || count > PIPER_DEGREES)
        return json_fail(object, r->err, "expected 1 to %d tensor degrees, found %d", PIPER_DEGREES, count);
    struct piper_degree *degrees = take(r, (size_t)count, sizeof *degrees);
    if (!degrees)
        return false;
    for (int i = 0; i < count; i++)
        if (!read_degree(r, json_member_at(object, i), json_key(object, i), node, &degrees[i]))
            return false;
    node->degrees = degrees;
    node->degree_count = count;
    return true;
}

static bool read_edges(struct reader *r, const struct json *list)
{
    struct piper_graph *graph = r->graph;
    graph->edges = take(r, (size_t)json_count(list), sizeof *graph->edges);
    if (!graph->edges)
        return false;
    for (int e = 0; e < json_count(list); e++) {
        struct edge_fields f;
        const struct json *value = json_at(list, e);
        int from, to;
        if (!json_read_fields(value, FIELDS(edge_fields), &f, r->arena, r->err) ||
            !node_ids_edge(&r->ids, value, f.from, f.to, &from, &to, r->err))
            return false;
        graph->edges[graph->edge_count++] = (struct piper_edge){ from, to, f.bytes };
        graph->nodes[from].out_count++;
        graph->nodes[to].in_count++;
    }
    return true;
}

static bool list_edges(struct reader *r)
{
    struct piper_graph *graph = r->graph;
    for (int v = 0; v < graph->node_count; v++) {
        struct piper_node *node = &graph->nodes[v];
        node->in_edges = take(r, (size_t)node->in_count, sizeof *node->in_edges);
        node->out_edges = take(r, (size_t)node->out_count, sizeof *node->out_edges);
        if (!node->in_edges || !node->out_edges)
            return false;
        node->in_count = node->out_count = 0;
    }
    for (int e = 0; e < graph->edge_count; e++) {
        struct piper_node *from = &graph->nodes[graph->edges[e].from], *to = &graph->nodes[graph->edges[e].to];
        from->out_edges[from->out_count++] = e;
        to->in_edges[to->in_count++] = e;
    }
    return true;
}

static bool read_ids(struct reader *r, const struct json *list)
{
    struct piper_graph *graph = r->graph;
    graph->node_count = json_count(list);
    graph->nodes = take(r, (size_t)graph->node_count, sizeof *graph->nodes);
    r->ids = (struct node_ids){ graph->node_count, take(r, (size_t)graph->node_count, sizeof *r->ids.sorted) };
    if (!graph->nodes || !r->ids.sorted)
        return false;
    for (int v = 0; v < graph->node_count; v++) {
        struct node_fields f = { .name = "" };
        if (!json_read_fields(json_at(list, v), FIELDS(node_fields), &f, r->arena, r->err))
            return false;
        graph->nodes[v].id = f.id;
        graph->nodes[v].name = f.name;
        r->ids.sorted[v] = (struct node_id){ f.id, v };
    }
    return node_ids_sort(&r->ids, list, r->err);
}

static bool read_root(void *self, const struct json *root, struct error *err)
{
    struct reader *r = self;
    struct top_fields f;
    if (!json_read_fields(root, FIELDS(top_fields), &f, r->arena, err) || !expect(f.nodes, JSON_ARRAY, err) ||
        !expect(f.edges, JSON_ARRAY, err))
        return false;
    if (json_count(f.nodes) == 0)
        return json_fail(f.nodes, err, "expected at least one node, found none");
    if (!(f.bytes_per_s > 0))
        return json_fail(json_member(root, "bandwidth"), err, "expected a positive number, found 0");
    r->graph->memory_bytes = f.memory_bytes;
    r->graph->bytes_per_s = f.bytes_per_s;
    r->graph->device_count = f.device_count;
    r->graph->micro_batch_count = f.micro_batch_count;
    if (!read_ids(r, f.nodes) || !read_edges(r, f.edges) || !list_edges(r))
        return false;
    for (int v = 0; v < r->graph->node_count; v++)
        if (!read_degrees(r, json_member(json_at(f.nodes, v), "TMPCs"), &r->graph->nodes[v]))
            return false;
    return true;
}

bool piper_read(struct piper_graph *out, const char *name, const char *text, size_t length, struct arena *arena,
                struct error *err)
{
    struct piper_graph graph = { 0 };
    struct reader r = { .graph = &graph, .arena = arena, .err = err };
    if (!json_parse_with(name, text, length, read_root, &r, err))
        return false;
    *out = graph;
    return true;
}
