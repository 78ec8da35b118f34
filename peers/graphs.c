#include "peers/graphs.h"
#include "base/num.h"
#include <string.h>

/* Walks Tarjan's components without recursion: `at` is the next edge of each node on the path. */
struct component_walk {
    const int *first_out, *out;
    int *index, *low, *at, *stack, *path, *component;
    int next_index, stacked, components;
};

static void walk_from(struct component_walk *w, int start)
{
    int depth = 0;
    w->path[depth++] = start;
    while (depth > 0) {
        int v = w->path[depth - 1];
        if (w->index[v] < 0) {
            w->index[v] = w->low[v] = w->next_index++;
            w->at[v] = w->first_out[v];
            w->stack[w->stacked++] = v;
        }
        bool deeper = false;
        while (!deeper && w->at[v] < w->first_out[v + 1]) {
            int u = w->out[w->at[v]];
            if (w->index[u] < 0) {
                w->path[depth++] = u;
                deeper = true; /* the edge is looked at again on the way back */
            } else {
                if (w->component[u] < 0 && w->low[u] < w->low[v])
                    w->low[v] = w->low[u];
                w->at[v]++;
            }
        }
        if (deeper)
            continue;
        if (w->low[v] == w->index[v]) {
            int u;
            do {
                u = w->stack[--w->stacked];
                w->component[u] = w->components;
            } while (u != v);
            w->components++;
        }
        depth--;
    }
}

bool dag_components(struct arena *arena, int node_count, const struct dag_edge *edges, int edge_count, int *component,
                    int *count, struct error *err)
{
    size_t n = (size_t)node_count, m = (size_t)edge_count;
    struct dag_edge *sorted = arena_alloc(arena, m, sizeof *sorted);
    int *first = arena_alloc(arena, n + 1, sizeof(int)), *row = arena_alloc(arena, m, sizeof(int));
    int *scratch = arena_alloc(arena, 5 * n, sizeof(int));
    if (arena_failed(arena))
        return fail_memory(err);
    dag_fill_rows(sorted, edges, edge_count, first, row, node_count);
    struct component_walk w = {
        first, row, scratch, scratch + n, scratch + 2 * n, scratch + 3 * n, scratch + 4 * n, component, 0, 0, 0
    };
    for (int v = 0; v < node_count; v++)
        w.index[v] = component[v] = -1;
    for (int v = 0; v < node_count; v++)
        if (w.index[v] < 0)
            walk_from(&w, v);
    for (int v = 0; v < node_count; v++) /* Tarjan closes the last ones first */
        component[v] = w.components - 1 - component[v];
    *count = w.components;
    return true;
}

/* ---- alike branches ---- */

static int in_count(const struct dag *dag, int v)
{
    return dag->first_in[v + 1] - dag->first_in[v];
}

static int out_count(const struct dag *dag, int v)
{
    return dag->first_out[v + 1] - dag->first_out[v];
}

/* Gives the node after v on its branch, or -1 where the branch ends. */
static int next_on_branch(const struct dag *dag, int v)
{
    if (out_count(dag, v) != 1)
        return -1;
    int u = dag->out[dag->first_out[v]];
    return in_count(dag, u) == 1 ? u : -1;
}

static bool same_row(const int *a, int a_count, const int *b, int b_count)
{
    return a_count == b_count && memcmp(a, b, (size_t)a_count * sizeof *a) == 0;
}

static bool alike(const struct dag *dag, const int *kind, int u, int v)
{
    if (!same_row(&dag->in[dag->first_in[u]], in_count(dag, u), &dag->in[dag->first_in[v]], in_count(dag, v)))
        return false;
    for (;;) {
        if (kind[u] != kind[v])
            return false;
        int after_u = next_on_branch(dag, u), after_v = next_on_branch(dag, v);
        if (after_u < 0 || after_v < 0)
            return after_u == after_v && same_row(&dag->out[dag->first_out[u]], out_count(dag, u),
                                                  &dag->out[dag->first_out[v]], out_count(dag, v));
        u = after_u;
        v = after_v;
    }
}

static bool is_head(const struct dag *dag, int v)
{
    return in_count(dag, v) != 1 || next_on_branch(dag, dag->in[dag->first_in[v]]) != v;
}

int dag_order_alike(const struct dag *dag, const int *kind, struct dag_edge *more)
{
    int added = 0;
    for (int v = 0; v < dag->node_count; v++) {
        if (!is_head(dag, v))
            continue;
        bool found = false;
        /* siblings share a predecessor, or both have none */
        int parent = in_count(dag, v) > 0 ? dag->in[dag->first_in[v]] : -1;
        int first = parent < 0 ? v + 1 : dag->first_out[parent],
            end = parent < 0 ? dag->node_count : dag->first_out[parent + 1];
        for (int i = first; i < end && !found; i++) {
            int u = parent < 0 ? i : dag->out[i];
            found = u > v && is_head(dag, u) && alike(dag, kind, v, u);
            if (found)
                more[added++] = (struct dag_edge){ v, u };
        }
    }
    return added;
}

bool dag_window(struct dag *out, struct arena *arena, const struct dag *dag, const int *order, int window,
                struct error *err)
{
    int n = dag->node_count, count = 0;
    int span = min_int(n, window); /* farther pairs follow: every step of window to 2 window - 1 is an edge */
    size_t most = (size_t)dag->edge_count + (size_t)n * (size_t)span;
    if (most > INT32_MAX)
        return fail_memory(err);
    struct dag_edge *edges = arena_alloc(arena, most, sizeof *edges);
    if (!edges)
        return fail_memory(err);
    for (int v = 0; v < n; v++)
        for (int e = dag->first_out[v]; e < dag->first_out[v + 1]; e++)
            edges[count++] = (struct dag_edge){ v, dag->out[e] };
    for (int i = 0; i < n; i++)
        for (int j = i + window; j < n && j < i + 2 * window; j++)
            edges[count++] = (struct dag_edge){ order[i], order[j] };
    return dag_build(out, arena, n, edges, count, NULL, err);
}

void ideals_sum(const struct ideals *ideals, const double *value, double *sum)
{
    int next = 1; /* new ideals first appear as covers in order of their index */
    sum[0] = 0;
    for (int i = 0; i < ideals->count; i++)
        for (int64_t k = ideals->first_up[i]; k < ideals->first_up[i + 1]; k++)
            if (ideals->up_ideal[k] == next)
                sum[next++] = sum[i] + value[ideals->up_node[k]];
}
