/* graph.txt: "id -- description -- forward_compute_time=F, backward_compute_time=B, activation_size=A,
 * parameter_size=P[ -- stage_id=S]" per node, TAB "id -- id" per edge, in any order. */
#include "peers/pipedream.h"
#include "base/text.h"
#include <stdlib.h>
#include <string.h>

struct piece { /* of the text */
    const char *at;
    size_t length;
};
struct read_edge {
    struct piece end[2];
};
struct reader {
    const char *name, *text, *end;
    struct arena *arena;
    struct pipedream_graph *graph;
    struct piece *id;        /* (node_count) */
    struct read_edge *edges; /* (edge_count) */
    int *by_id;              /* (node_count) sorted */
    struct error *err;
};

static bool fail_at(struct reader *r, const char *at, const char *expected, struct piece found)
{
    int line = 1, column = 1;
    for (const char *p = r->text; p < at; p++) {
        bool newline = *p == '\n';
        line += newline;
        column = newline ? 1 : column + ((*p & 0xc0) != 0x80);
    }
    int shown = found.length < 60 ? (int)found.length : 60;
    if (found.length == 0)
        return fail(r->err, "%s:%d:%d: expected %s, found the end of the line", r->name, line, column, expected);
    return fail(r->err, "%s:%d:%d: expected %s, found '%.*s'", r->name, line, column, expected, shown, found.at);
}

static struct piece trim(struct piece p)
{
    while (p.length > 0 && (p.at[p.length - 1] == ' ' || p.at[p.length - 1] == '\r' || p.at[p.length - 1] == '\t'))
        p.length--;
    while (p.length > 0 && *p.at == ' ') {
        p.at++;
        p.length--;
    }
    return p;
}

static struct piece rest_from(struct piece p, size_t offset)
{
    return (struct piece){ p.at + offset, p.length - offset };
}

/* Where the separator stands, from the left or from the right; -1: nowhere. */
static long find(struct piece p, const char *separator, bool last)
{
    size_t n = strlen(separator);
    long found = -1;
    for (size_t i = 0; i + n <= p.length && (last || found < 0); i++)
        if (memcmp(p.at + i, separator, n) == 0)
            found = (long)i;
    return found;
}

static bool begins(struct piece p, const char *word)
{
    return p.length >= strlen(word) && memcmp(p.at, word, strlen(word)) == 0;
}

static bool read_number(struct reader *r, struct piece p, double *out)
{
    double value;
    p = trim(p);
    if (!text_read_double(p.at, p.length, &value) || value < 0 || value > 1e18)
        return fail_at(r, p.at, "a number of 0 to 1e18", p);
    *out = value;
    return true;
}

/* A number, or "[a; b; c]", which counts as the sum. */
static bool read_sum(struct reader *r, struct piece p, double *out)
{
    p = trim(p);
    if (!begins(p, "["))
        return read_number(r, p, out);
    if (p.at[p.length - 1] != ']')
        return fail_at(r, p.at, "a list that ends with ']'", p);
    p = (struct piece){ p.at + 1, p.length - 2 };
    double sum = 0, value;
    for (;;) {
        long cut = find(p, ";", false);
        if (!read_number(r, cut < 0 ? p : (struct piece){ p.at, (size_t)cut }, &value))
            return false;
        sum += value;
        if (cut < 0)
            break;
        p = rest_from(p, (size_t)cut + 1);
    }
    *out = sum;
    return true;
}

static const char *const metric_names[] = { "forward_compute_time", "backward_compute_time", "activation_size",
                                            "parameter_size" };
enum { METRICS = 4 };

static bool read_metrics(struct reader *r, struct piece p, struct pipedream_node *node)
{
    double value[METRICS];
    bool seen[METRICS] = { false };
    struct piece whole = p;
    while (p.length > 0) {
        long cut = find(p, ",", false), equals = find(p, "=", false);
        struct piece item = trim(cut < 0 ? p : (struct piece){ p.at, (size_t)cut });
        int m = 0;
        while (m < METRICS &&
               (equals < 0 || !begins(item, metric_names[m]) || item.at + strlen(metric_names[m]) != p.at + equals))
            m++;
        if (m == METRICS || seen[m])
            return fail_at(r, item.at,
                           m == METRICS ? "forward_compute_time=, backward_compute_time=, activation_size= "
                                          "or parameter_size="
                                        : "each value once",
                           item);
        struct piece text = { p.at + equals + 1, (size_t)(item.at + item.length - (p.at + equals + 1)) };
        if (!(m == 2 ? read_sum : read_number)(r, text, &value[m]))
            return false;
        seen[m] = true;
        p = cut < 0 ? (struct piece){ p.at, 0 } : rest_from(p, (size_t)cut + 1);
    }
    for (int m = 0; m < METRICS; m++)
        if (!seen[m])
            return fail_at(r, whole.at, metric_names[m], whole);
    node->forward_ms = value[0];
    node->backward_ms = value[1];
    node->activation_bytes = value[2];
    node->parameter_bytes = value[3];
    return true;
}

/* The description may hold anything, so that the fields are found from both ends. */
static bool read_node(struct reader *r, struct piece line)
{
    static const char separator[] = " -- ";
    struct pipedream_node *node = &r->graph->nodes[r->graph->node_count];
    long first = find(line, separator, false);
    if (first <= 0)
        return fail_at(r, line.at, "'id -- description -- forward_compute_time=...'", line);
    struct piece id = trim((struct piece){ line.at, (size_t)first }), rest = rest_from(line, (size_t)first + 4);
    long last = find(rest, separator, true);
    if (last >= 0 && begins(trim(rest_from(rest, (size_t)last + 4)), "stage_id=")) {
        rest.length = (size_t)last;
        last = find(rest, separator, true);
    }
    if (last < 0)
        return fail_at(r, rest.at, "'description -- forward_compute_time=...'", rest);
    node->id = arena_strndup(r->arena, id.at, id.length);
    node->description = arena_strndup(r->arena, rest.at, (size_t)last);
    if (!node->id || !node->description)
        return fail_kind(r->err, ERROR_ENVIRONMENT, "partition: out of memory");
    r->id[r->graph->node_count] = id;
    if (id.length == 0)
        return fail_at(r, line.at, "the name of a node", line);
    if (!read_metrics(r, trim(rest_from(rest, (size_t)last + 4)), node))
        return false;
    r->graph->node_count++;
    return true;
}

static bool read_edge(struct reader *r, struct piece line)
{
    struct piece p = trim(rest_from(line, 1));
    long cut = find(p, " -- ", false);
    if (cut <= 0)
        return fail_at(r, p.at, "TAB 'id -- id'", p);
    struct read_edge *edge = &r->edges[r->graph->edge_count++];
    edge->end[0] = trim((struct piece){ p.at, (size_t)cut });
    edge->end[1] = trim(rest_from(p, (size_t)cut + 4));
    return true;
}

static int compare(struct piece a, struct piece b)
{
    int order = memcmp(a.at, b.at, a.length < b.length ? a.length : b.length);
    return order != 0 ? order : (a.length > b.length) - (a.length < b.length);
}

/* Heap sort by id: qsort has no argument for the ids. */
static void sift(struct reader *r, int at, int count)
{
    for (;;) {
        int child = 2 * at + 1;
        if (child >= count)
            return;
        if (child + 1 < count && compare(r->id[r->by_id[child]], r->id[r->by_id[child + 1]]) < 0)
            child++;
        if (compare(r->id[r->by_id[at]], r->id[r->by_id[child]]) >= 0)
            return;
        int swap = r->by_id[at];
        r->by_id[at] = r->by_id[child];
        r->by_id[child] = swap;
        at = child;
    }
}

static bool sort_ids(struct reader *r)
{
    int n = r->graph->node_count;
    for (int i = 0; i < n; i++)
        r->by_id[i] = i;
    for (int i = n / 2 - 1; i >= 0; i--)
        sift(r, i, n);
    for (int i = n - 1; i > 0; i--) {
        int swap = r->by_id[0];
        r->by_id[0] = r->by_id[i];
        r->by_id[i] = swap;
        sift(r, 0, i);
    }
    for (int i = 1; i < n; i++)
        if (compare(r->id[r->by_id[i - 1]], r->id[r->by_id[i]]) == 0) {
            struct piece a = r->id[r->by_id[i - 1]], b = r->id[r->by_id[i]];
            return fail_at(r, a.at > b.at ? a.at : b.at, "a name that no other node has", a);
        }
    return true;
}

static int find_id(const struct reader *r, struct piece id)
{
    int low = 0, high = r->graph->node_count;
    while (low < high) {
        int middle = low + (high - low) / 2, order = compare(r->id[r->by_id[middle]], id);
        if (order == 0)
            return r->by_id[middle];
        if (order < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return -1;
}

static bool link_edges(struct reader *r)
{
    for (int e = 0; e < r->graph->edge_count; e++) {
        int end[2];
        for (int k = 0; k < 2; k++) {
            end[k] = find_id(r, r->edges[e].end[k]);
            if (end[k] < 0)
                return fail_at(r, r->edges[e].end[k].at, "the name of a node", r->edges[e].end[k]);
        }
        r->graph->edges[e] = (struct dag_edge){ end[0], end[1] };
    }
    return true;
}

static bool read_lines(struct reader *r)
{
    for (const char *at = r->text; at < r->end;) {
        const char *newline = memchr(at, '\n', (size_t)(r->end - at)), *stop = newline ? newline : r->end;
        struct piece line = { at, (size_t)(stop - at) };
        at = newline ? newline + 1 : r->end;
        if (memchr(line.at, '\0', line.length))
            return fail_at(r, line.at, "text without zero bytes", (struct piece){ "a zero byte", 11 });
        if (trim(line).length == 0)
            continue;
        if (!(*line.at == '\t' ? read_edge : read_node)(r, line))
            return false;
    }
    if (r->graph->node_count == 0)
        return fail(r->err, "%s: expected at least one node, found none", r->name);
    return sort_ids(r) && link_edges(r);
}

bool pipedream_read(struct pipedream_graph *out, const char *name, const char *text, size_t length, struct arena *arena,
                    struct error *err)
{
    size_t lines = 1;
    for (size_t i = 0; i < length; i++)
        lines += text[i] == '\n';
    if (lines > 1000000)
        return fail(err, "%s: expected at most 1000000 lines, found %zu", name, lines);
    struct pipedream_graph graph = { .nodes = arena_alloc(arena, lines, sizeof *graph.nodes),
                                     .edges = arena_alloc(arena, lines, sizeof *graph.edges) };
    struct reader r = { .name = name, .text = text, .end = text + length, .arena = arena, .graph = &graph, .err = err };
    r.id = arena_alloc(arena, lines, sizeof *r.id);
    r.edges = arena_alloc(arena, lines, sizeof *r.edges);
    r.by_id = arena_alloc(arena, lines, sizeof *r.by_id);
    if (!graph.nodes || !graph.edges || !r.id || !r.edges || !r.by_id)
        return fail_kind(err, ERROR_ENVIRONMENT, "partition: out of memory");
    if (!read_lines(&r))
        return false;
    *out = graph;
    return true;
}
