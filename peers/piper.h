/* Piper's inputs (JSON) and problem: contiguous stages of a graph, each with a data-parallel and a tensor-parallel
 * degree and a variant per node (recomputed or not), so that the slowest stage's time per sample is smallest and every
 * device's memory suffices. The objective is that of the paper (Tarnawski et al., NeurIPS 2021) as its released code
 * computes it:
 *
 *   load = (sum p) / d + ( (sum over edges into the stage 2 (c + syncFw) + sum over edges out of it 2 (c + syncBw)) / d
 *                          + sum 4 (d - 1) w / (d N) ) / bandwidth
 *   sum (a y + b) <= memory,  y = ceil((d of this and all later stages) / d)
 */
#ifndef CLEAVE_PEERS_PIPER_H
#define CLEAVE_PEERS_PIPER_H
#include "peers/stages.h"

struct piper_variant {
    const char *name;
    double time;               /* p, per sample, in the file's unit */
    double memory_a, memory_b; /* bytes per micro-batch in flight, bytes besides */
};
struct piper_degree { /* a node under a tensor degree; its weights and messages are those of every variant */
    int degree;
    double parameter_bytes;           /* w */
    const double *sync_in, *sync_out; /* bytes per edge into and out of the node, as in_edges and out_edges list them */
    int variant_count;
    const struct piper_variant *variants;
};
struct piper_node {
    int64_t id;
    const char *name;
    int in_count, out_count;
    int *in_edges, *out_edges;
    int degree_count;
    const struct piper_degree *degrees;
};
struct piper_edge {
    int from, to;
    double bytes; /* c */
};
struct piper_graph {
    double memory_bytes, bytes_per_s;
    int64_t device_count, micro_batch_count; /* k, N */
    int node_count, edge_count;
    struct piper_node *nodes;
    struct piper_edge *edges;
};
/* name appears in messages. Everything in the arena. */
bool piper_read(struct piper_graph *out, const char *name, const char *text, size_t length, struct arena *arena,
                struct error *err);

enum { PIPER_DEVICES = 16384, PIPER_DEGREES = 16 };
struct piper_options { /* the graph's own numbers unless the caller changes them there */
    double time_unit;  /* seconds per unit of timePerSample: 1 is what the peer computes */
};
struct piper_stage {
    const uint64_t *nodes;
    int data_degree, tensor_degree;
    int in_flight;       /* y */
    const int *variants; /* (node_count) index of the variant; -1 outside the stage */
    double load;
};
struct piper_plan {
    struct stage_plan
        found; /* value and bound in seconds (or the file's unit) per sample; its stages count from the end */
    struct piper_stage *stages; /* (found.stage_count) from the first */
};
/* Fails on a cycle, for want of memory, and on what the format allows but the problem does not. */
bool piper_solve(const struct piper_graph *graph, const struct piper_options *options,
                 const struct stage_limits *limits, struct arena *arena, struct piper_plan *out, struct error *err);
/* NULL where the node lacks the tensor degree. */
const struct piper_degree *piper_find_degree(const struct piper_node *node, int degree);
/* The load of a stage from its nodes, degrees and variants alone; NAN when a node lacks one. */
double piper_stage_load(const struct piper_graph *graph, const struct piper_options *options,
                        const struct piper_stage *stage);
/* The objective of given stages, straight from the nodes; NAN when they are no split, INFINITY when one does not fit.
 */
double piper_evaluate(const struct piper_graph *graph, const struct piper_options *options,
                      const struct piper_stage *stages, int stage_count);
struct graph_sums piper_sums(const struct piper_graph *graph, const struct piper_options *options);
#endif
