/* PipeDream's profiles (graph.txt) and its optimizer's problem: stages of a graph, each replicated over machines of one
 * or two levels, so that the slowest of computing and moving, per minibatch, is as fast as possible. The objective is
 * that of the paper (Narayanan et al., SOSP 2019) as its released optimizer computes it. */
#ifndef CLEAVE_PEERS_PIPEDREAM_H
#define CLEAVE_PEERS_PIPEDREAM_H
#include "peers/stages.h"

struct pipedream_node {
    const char *id, *description;
    double forward_ms, backward_ms;           /* per minibatch */
    double activation_bytes, parameter_bytes; /* output per minibatch; weights */
};
struct pipedream_graph {
    int node_count, edge_count;
    struct pipedream_node *nodes;
    struct dag_edge *edges; /* by index */
};
/* Text of graph.txt; name appears in messages "name:line:column: ...". Everything in the arena. */
bool pipedream_read(struct pipedream_graph *out, const char *name, const char *text, size_t length, struct arena *arena,
                    struct error *err);

enum { PIPEDREAM_LEVELS = 2, PIPEDREAM_MACHINES = 1024 };
struct pipedream_options {
    int level_count;                /* 1 or 2 */
    int machines[PIPEDREAM_LEVELS]; /* inside a server, servers */
    double bytes_per_s[PIPEDREAM_LEVELS];
    bool exact_transfers; /* what crosses a cut counts once, and only if it is read behind it; the peer looks at each
                             last node alone and can count more */
};
struct pipedream_stage {
    uint64_t *nodes;
    int replicas;
    int inner_count;     /* two levels: the stages inside the block; else 0 */
    struct stage *inner; /* choice + 1 is the number of replicas */
};
struct pipedream_plan {
    struct pipedream_graph graph;   /* as it was prepared: inputs and unread items removed */
    struct stage_plan found;        /* choice + 1 is the number of replicas; value and bound in seconds */
    struct pipedream_stage *stages; /* (found.stage_count) */
};
/* Fails on a cycle (named), on an empty graph, for want of memory. */
bool pipedream_solve(const struct pipedream_graph *graph, const struct pipedream_options *options,
                     const struct stage_limits *limits, struct arena *arena, struct pipedream_plan *out,
                     struct error *err);
/* The objective of given stages, straight from the nodes: no table of the search is used. Seconds; NAN when the stages
 * are not a chain of ideals that uses all machines. */
double pipedream_evaluate(const struct pipedream_graph *prepared, const struct pipedream_options *options,
                          const struct pipedream_stage *stages, int stage_count, struct arena *arena);
struct graph_sums pipedream_sums(const struct pipedream_graph *graph, const struct pipedream_options *options);
/* Removes each source whose description begins with "Input" and then each sink that begins with "__getitem__". */
bool pipedream_prepare(const struct pipedream_graph *graph, struct arena *arena, struct pipedream_graph *out,
                       struct error *err);
#endif
