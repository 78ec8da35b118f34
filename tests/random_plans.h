/* Plans that a seed repeats: each layer and mesh atom draws its own dimension, ZeRO stage, recomputation, offload,
 * resharding, replicated operators and slices; redrawn while illegal. The caller frees them. */
#ifndef CLEAVE_TESTS_RANDOM_PLANS_H
#define CLEAVE_TESTS_RANDOM_PLANS_H
#include "planner/plan/plan.h"

/* 1, 2 or 4 stages of one chunk each, on at most MAX_RANKS. */
struct plan *random_plan(const struct graph *graph, uint64_t seed);
/* Any synchronous schedule with chunks, replicas in turn, meshes that differ by stage. */
struct plan *random_shape(const struct graph *graph, uint64_t seed);
#endif
