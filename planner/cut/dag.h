/* Directed acyclic graphs of whole numbers: what the partition machinery cuts. Nodes are 0..node_count-1; what they
 * cost stands elsewhere. */
#ifndef CLEAVE_CUT_DAG_H
#define CLEAVE_CUT_DAG_H
#include "base/arena.h"
#include "base/error.h"

struct dag_edge {
    int from, to;
};
/* Neighbours stand in compressed rows; everything lies in the arena that built it. */
struct dag {
    int node_count, edge_count; /* edges without duplicates */
    const int *first_out, *out; /* (node_count + 1), (edge_count) */
    const int *first_in, *in;   /* (node_count + 1), (edge_count) */
    const int *order, *place;   /* (node_count) topological, low indices first; the node's place in it */
};

/* Builds the graph; duplicate edges count once. Fails with the index of a node on a cycle (a self-loop is one) in
 * *on_cycle, which may be NULL, and for want of memory. Ends of edges must be valid indices: readers check them. */
bool dag_build(struct dag *out, struct arena *arena, int node_count, const struct dag_edge *edges, int edge_count,
               int *on_cycle, struct error *err);

/* Finds which nodes any split into contiguous stages must keep together: the strongly connected components of the
 * edges. Nodes that belong together by decree are joined by an edge in each direction. component: (node_count),
 * numbered in topological order; *count of them. Fails for want of memory. */
bool dag_components(struct arena *arena, int node_count, const struct dag_edge *edges, int edge_count, int *component,
                    int *count, struct error *err);

/* Gives (node_count, words) bit sets: bit u of row v is set when u comes before v. words = dag_words(node_count). */
int dag_words(int node_count);
bool dag_ancestors(const struct dag *dag, struct arena *arena, uint64_t **out, struct error *err);

/**
 * Puts alike parallel branches in order. A branch is a chain of nodes with one way in and one way out; branches between
 * the same nodes whose nodes are of equal kinds (kind: (node_count), equal numbers mean that the cost cannot tell them
 * apart) may change places in any split, so that their heads can be asked to lie in order of their stages. Adds an edge
 * from each head to the next alike one: nothing is lost, and k single-node branches have k+1 ideals and not 2^k. Writes
 * at most node_count edges to `more`; returns how many.
 */
int dag_order_alike(const struct dag *dag, const int *kind, struct dag_edge *more);

/* Makes the graph with fewer ideals: besides its own edges u goes before v when v stands `window` or more places after
 * u in `order`, a topological one. Window 1 is a chain, whose ideals are the prefixes of the order; with node_count
 * nothing is added. */
bool dag_window(struct dag *out, struct arena *arena, const struct dag *dag, const int *order, int window,
                struct error *err);
#endif
