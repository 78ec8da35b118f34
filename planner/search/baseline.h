/* Plans that people would write by hand: one strategy for all layers, stages balanced by cost. For estimates and
 * comparisons. */
#ifndef CLEAVE_SEARCH_BASELINE_H
#define CLEAVE_SEARCH_BASELINE_H
#include "planner/space/space.h"

struct model;

/* Fields below 0 (degrees and micro: below 1) are chosen: missing degrees so that the product is the device count,
 * schedule 0, prefetch 1. */
struct uniform {
    int pipeline, tensor, data, zero, recompute, offload, reshard, replicate, schedule, prefetch;
    bool sequence_parallel, reversed;     /* reversed: the pipeline begins on the cluster's last ranks */
    int chunks;                           /* of the model on each stage; below 1: as few as the schedule takes */
    int extra;                            /* extra_in_flight; below 0: 0 */
    int loss_chunks;                      /* below 1: 1 */
    int context, slices;                  /* below 1: 1 */
    int context_dimension;                /* enum dimension_index; below 0: the first with a cp lane */
    int data_dimension, tensor_dimension; /* enum dimension_index; below 0: dp, tp */
    int expert;                           /* data-parallel ranks that share out the experts; below 1: 1 */
    int shard_group;                      /* data-parallel ranks over which ZeRO shards; below 1: all */
    enum mesh_order order;
    int64_t micro; /* sequences per micro-batch and data-parallel rank; below 1: 1 */
};
struct uniform uniform_unset(void);
/**
 * The plan. space gives batch, sequence, dtype, bucket and clipping, and its rules what some layers decide instead, of
 * one value each. Fails when degrees do not multiply to the device
 * count, a batch does not divide (with the nearest sizes that do), or tensor parallelism cannot share the model.
 */
bool uniform_plan(struct plan **out, const struct uniform *uniform, const struct space *space,
                  const struct model *model, const struct facts *facts, struct error *err);
#endif
