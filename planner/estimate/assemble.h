/* From the search's numbers to a plan: counts of identical layers become an order, degrees become meshes. */
#ifndef CLEAVE_ESTIMATE_ASSEMBLE_H
#define CLEAVE_ESTIMATE_ASSEMBLE_H
#include "planner/cut/partition.h"
#include "planner/space/space.h"

/* Makes a plan of the configuration with every layer on its defaults (zero 0, no recomputation) and even stages by
 * layer count; with turns its stages are left open. NULL when out of memory. The caller frees. */
struct plan *assemble_config(const struct space *space, const struct config *config, const struct graph *graph);
/* Makes the plan of a solution: identical layers take their strategies evenly interleaved, copy i of n at place (i +
 * 1/2) / n. */
struct plan *assemble_partition(const struct space *space, const struct config *config, const struct graph *graph,
                                const struct chain *chain, const struct price_table *table,
                                const struct partition_plan *solution);
/* Estimates what a stage of that plan needs, were all alike. */
int64_t assemble_thriftiest_bytes(const struct config *config, const struct chain *chain,
                                  const struct price_table *table, const int *in_flight);
/* Makes the plan in which every layer takes the strategy that needs least memory, with one replica of each stage, and
 * stages balanced by it. in_flight: (pieces). NULL when out of memory. */
struct plan *assemble_thriftiest(const struct space *space, const struct config *config, const struct graph *graph,
                                 const struct chain *chain, const struct price_table *table, const int *in_flight);
/* Cuts layers of given weights into stages so that the heaviest stage is as light as can be; first has stage_count
 * entries. A layer's weight in stage k is weight[k * stride + layer]; stride 0: the same in all. */
void assemble_balance(const int64_t *weight, int stride, int layer_count, int stage_count, int *first);
#endif
