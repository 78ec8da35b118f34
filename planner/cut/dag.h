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

/* Fills the compressed rows of what follows each node: first (node_count + 1), row and sorted (edge_count). Duplicates
 * count once. Gives how many are left. */
int dag_fill_rows(struct dag_edge *sorted, const struct dag_edge *edges, int edge_count, int *first, int *row,
                  int node_count);

/* Gives (node_count, words) bit sets: bit u of row v is set when u comes before v. words = dag_words(node_count). */
int dag_words(int node_count);
bool dag_ancestors(const struct dag *dag, struct arena *arena, uint64_t **out, struct error *err);
#endif
