#include "base/num.h"
#include "planner/cut/dag.h"
#include <stdlib.h>
#include <string.h>

static int by_ends(const void *a, const void *b)
{
    const struct dag_edge *x = a, *y = b;
    return x->from != y->from ? (x->from > y->from) - (x->from < y->from) : (x->to > y->to) - (x->to < y->to);
}

int dag_fill_rows(struct dag_edge *sorted, const struct dag_edge *edges, int edge_count, int *first, int *row,
                  int node_count)
{
    int kept = 0, e = 0;
    if (edge_count > 0) {
        memcpy(sorted, edges, (size_t)edge_count * sizeof *sorted);
        qsort(sorted, (size_t)edge_count, sizeof *sorted, by_ends);
    }
    for (int v = 0; v < node_count; v++) {
        first[v] = kept;
        for (; e < edge_count && sorted[e].from == v; e++)
            if (kept == first[v] || row[kept - 1] != sorted[e].to)
                row[kept++] = sorted[e].to;
    }
    first[node_count] = kept;
    return kept;
}

/* Sorts by Kahn's algorithm, depth first among what is ready: a branch is finished before the next begins, which keeps
 * the cuts along the order narrow. Returns how many nodes found a place. */
static int sort_nodes(const struct dag *dag, int *order, int *place, int *waits, int *ready)
{
    int ready_count = 0, placed = 0;
    for (int v = dag->node_count - 1; v >= 0; v--) {
        place[v] = -1;
        waits[v] = dag->first_in[v + 1] - dag->first_in[v];
        if (waits[v] == 0)
            ready[ready_count++] = v;
    }
    while (ready_count > 0) {
        int v = ready[--ready_count];
        place[v] = placed;
        order[placed++] = v;
        for (int e = dag->first_out[v + 1] - 1; e >= dag->first_out[v]; e--)
            if (--waits[dag->out[e]] == 0)
                ready[ready_count++] = dag->out[e];
    }
    return placed;
}

static int node_on_cycle(const struct dag *dag, const int *place)
{
    int v = 0;
    while (place[v] >= 0)
        v++;
    for (int steps = 0; steps < dag->node_count; steps++) { /* backwards among what has no place ends on a cycle */
        int e = dag->first_in[v];
        while (place[dag->in[e]] >= 0)
            e++;
        v = dag->in[e];
    }
    return v;
}

bool dag_build(struct dag *out, struct arena *arena, int node_count, const struct dag_edge *edges, int edge_count,
               int *on_cycle, struct error *err)
{
    size_t n = (size_t)node_count, m = (size_t)edge_count;
    struct dag_edge *sorted = arena_alloc(arena, m, sizeof *sorted);
    int *first_out = arena_alloc(arena, n + 1, sizeof(int)), *row = arena_alloc(arena, m, sizeof(int));
    int *first_in = arena_alloc(arena, n + 1, sizeof(int)), *in = arena_alloc(arena, m, sizeof(int));
    int *order = arena_alloc(arena, n, sizeof(int)), *place = arena_alloc(arena, n, sizeof(int));
    int *waits = arena_alloc(arena, n, sizeof(int)), *ready = arena_alloc(arena, n, sizeof(int));
    if (arena_failed(arena))
        return fail_memory(err);
    int kept = dag_fill_rows(sorted, edges, edge_count, first_out, row, node_count);
    /* the same edges are listed once more, by the nodes at which they end */
    memset(first_in, 0, (size_t)(node_count + 1) * sizeof *first_in);
    for (int e = 0; e < first_out[node_count]; e++)
        first_in[row[e] + 1]++;
    for (int v = 0; v < node_count; v++)
        first_in[v + 1] += first_in[v];
    for (int u = 0; u < node_count; u++)
        for (int e = first_out[u]; e < first_out[u + 1]; e++)
            in[first_in[row[e]]++] = u;
    for (int v = node_count; v > 0; v--)
        first_in[v] = first_in[v - 1];
    first_in[0] = 0;
    struct dag dag = { node_count, kept, first_out, row, first_in, in, order, place };
    if (sort_nodes(&dag, order, place, waits, ready) < node_count) {
        int node = node_on_cycle(&dag, place);
        if (on_cycle)
            *on_cycle = node;
        return fail(err, "expected a graph without cycles, found node %d on one", node);
    }
    *out = dag;
    return true;
}

int dag_words(int node_count)
{
    return (node_count + 63) / 64;
}

bool dag_ancestors(const struct dag *dag, struct arena *arena, uint64_t **out, struct error *err)
{
    size_t words = (size_t)dag_words(dag->node_count);
    uint64_t *bits = arena_alloc(arena, words * (size_t)dag->node_count, sizeof *bits);
    if (!bits)
        return fail_memory(err);
    for (int i = 0; i < dag->node_count; i++) {
        int v = dag->order[i];
        for (int e = dag->first_in[v]; e < dag->first_in[v + 1]; e++) {
            int u = dag->in[e];
            for (size_t w = 0; w < words; w++)
                bits[(size_t)v * words + w] |= bits[(size_t)u * words + w];
            bits[(size_t)v * words + (size_t)(u / 64)] |= UINT64_C(1) << (u % 64);
        }
    }
    *out = bits;
    return true;
}
