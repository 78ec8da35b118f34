/* The inputs (JSON) and problem of dnn-partitioning: a graph of operators over accelerators and CPUs, so that the
 * largest load of a device is smallest. The objective is that of the paper (Tarnawski et al., NeurIPS 2020):
 *
 *   accelerator: sum of fpgaLatency + once the cost of every node one of whose edges crosses the device's boundary,
 *                either way; sum of sizes <= maxSizePerFPGA
 *   CPU:         sum of cpuLatency
 *
 * Nodes of one colour stay together; stages are contiguous in the forward graph, backward nodes follow by colour. A
 * backward node whose colour no forward node has is placed as if it had a forward twin with its edges turned around. */
#ifndef CLEAVE_PEERS_DNN_H
#define CLEAVE_PEERS_DNN_H
#include "peers/stages.h"

struct dnn_node {
    int64_t id;
    const char *name;
    bool supported, backward;
    double cpu_latency, accelerator_latency, bytes;
    double cost;   /* to send its output, whoever reads it */
    int64_t color; /* -1: none */
};
struct dnn_graph {
    double accelerator_bytes;
    int64_t accelerator_count, cpu_count;
    int node_count, edge_count;
    struct dnn_node *nodes;
    struct dag_edge *edges; /* by index */
};
/* name appears in messages. Everything in the arena. */
bool dnn_read(struct dnn_graph *out, const char *name, const char *text, size_t length, struct arena *arena,
              struct error *err);

enum { DNN_DEVICES = 1024 };
struct dnn_stage {
    uint64_t *nodes; /* bit set over the graph's nodes */
    bool on_cpu;
    double load;
};
struct dnn_plan {
    struct stage_plan found; /* its stages are sets of parts that stay together */
    int part_count;
    struct dnn_stage *stages; /* (found.stage_count) */
};
/* Fails on a cycle in the forward graph, for want of memory. */
bool dnn_solve(const struct dnn_graph *graph, const struct stage_limits *limits, struct arena *arena,
               struct dnn_plan *out, struct error *err);
/* The objective of given stages, straight from the nodes; NAN when a node is not in exactly one stage or a forward edge
 * goes back, INFINITY when a stage does not fit or there are not so many devices. */
double dnn_evaluate(const struct dnn_graph *graph, const struct dnn_stage *stages, int stage_count);
struct graph_sums dnn_sums(const struct dnn_graph *graph);
/* Load of a set of nodes on a device; INFINITY when it does not fit. */
double dnn_stage_load(const struct dnn_graph *graph, const uint64_t *nodes, bool on_cpu);
/* What stays together, numbered in an order in which it can be placed: part_of (node_count); parts and the edges
 * between them in *parts. Fails for want of memory. */
bool dnn_parts(const struct dnn_graph *graph, struct arena *arena, int *part_of, struct dag *parts, struct error *err);
#endif
