/* Small random graphs, and all ways to cut one into contiguous stages: what exact methods are held against. */
#ifndef CLEAVE_TESTS_RANDOM_DAG_H
#define CLEAVE_TESTS_RANDOM_DAG_H
#include "base/num.h"
#include "planner/cut/dag.h"
#include "tests/check.h"
#include <string.h>

enum { RANDOM_NODES = 12, RANDOM_EDGES = RANDOM_NODES * RANDOM_NODES };
struct draw {
    uint64_t seed, count;
};
static inline int64_t draw_below(struct draw *d, int64_t limit)
{
    return (int64_t)(mix64(d->seed * 1000003 + d->count++) % (uint64_t)limit);
}

/* Edges from low to high indices, each with probability 1 / rare. */
static inline int draw_edges(struct draw *d, int nodes, int rare, struct dag_edge *out)
{
    int count = 0;
    for (int v = 0; v < nodes; v++)
        for (int u = 0; u < v; u++)
            if (draw_below(d, rare) == 0)
                out[count++] = (struct dag_edge){ u, v };
    return count;
}

/* Calls visit for every non-empty set of nodes outside `placed` that can come next. */
static inline void each_next_set(int nodes, const struct dag_edge *edges, int edge_count, uint64_t placed,
                                 void (*visit)(void *self, uint64_t set), void *self)
{
    uint64_t all = (UINT64_C(1) << nodes) - 1, free_nodes = all & ~placed;
    for (uint64_t set = free_nodes; set; set = (set - 1) & free_nodes) {
        bool closed = true;
        for (int e = 0; e < edge_count && closed; e++)
            closed = !(set >> edges[e].to & 1) || (set | placed) >> edges[e].from & 1;
        if (closed)
            visit(self, set);
    }
}
#endif
