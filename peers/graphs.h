/* What other planners' problems ask of graphs beside what the planner does: which nodes belong together, which branches
 * are alike, fewer ideals of an order, sums over ideals. */
#ifndef CLEAVE_PEERS_GRAPHS_H
#define CLEAVE_PEERS_GRAPHS_H
#include "planner/cut/dag.h"
#include "planner/cut/ideals.h"

/* Finds which nodes any split into contiguous stages must keep together: the strongly connected components of the
 * edges. Nodes that belong together by decree are joined by an edge in each direction. component: (node_count),
 * numbered in topological order; *count of them. Fails for want of memory. */
bool dag_components(struct arena *arena, int node_count, const struct dag_edge *edges, int edge_count, int *component,
                    int *count, struct error *err);

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
/* Gives sum[i] = sum of value over the nodes of ideal i: potentials, of which stages are differences. */
void ideals_sum(const struct ideals *ideals, const double *value, double *sum);
#endif
