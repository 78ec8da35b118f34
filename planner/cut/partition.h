/* The room of the cut: one configuration solved exactly. It uses knapsack/ for what the layers of one stage choose, of
 * price/ only the tables, and knows nothing of spaces or programs; chain.h is what is cut.
 * Tested by tests/test_partition.c and test_space.c against enumeration, test_solvers.c against GLPK.
 *
 * The outer problem of one configuration: where to cut the chain of layers into stages, and which strategy each layer
 * takes, so that the formula's step is shortest and every stage fits. Exact.
 *
 *   T = sum_k C_k + 2 (P-1) c + N + max_k max( (m-1)(C_k + p_k) + O_k,
 *                                              (m-1)(C_k + p_k) - B_k + R_k + O_k,
 *                                              m D_k + G_k - C_k + R_k + O_k )
 *
 * with, per stage k and micro-batch, C the compute path (B of it backward), D the dp lane, c one send, m micro-batches;
 * once per step G the gathers that stay, R the last reductions, O the optimizer and the part of the norm that it clips
 * by, N the exchange of those parts. That is sum C - C_* + m max(C_*, D_*) with the tail of the bottleneck stage: the
 * last reductions hide behind one backward or queue up in the lane. p_k = 2c (n-1)/n is the part of a round trip that n
 * micro-batches in flight leave exposed. Minimal C is not enough, so stages are solved under a cap Y on the maximum,
 * and Y falls from one Pareto point to the next.
 *
 * Where all forward passes come before the backward ones (phases), either phase waits for its own longest stage:
 *
 *   T = sum C + 2 (P-1) c + N + max( X + max_k max( (m-1)(B_k + p_k) + O_k, (m-1)(B_k + p_k) - B_k + R_k + O_k ),
 *                                    max_k m D_k + G_k - C_k + R_k + O_k )        X = max_k (m-1)(C_k - B_k)
 *
 * which is no less, and the same where B / C is the same in all stages (partition_phases.c).
 *
 * Where replicas take turns, a stage of r replicas has m/r micro-batches, rounded up, in place of m: those of its
 * fullest replica, which has the first one too. Then the number of stages is free: what is given is how many meshes all
 * stages have together. n is in a replica's own micro-batches, and R has the exchange of gradients among r replicas. */
#ifndef CLEAVE_CUT_PARTITION_H
#define CLEAVE_CUT_PARTITION_H
#include "planner/cut/chain.h"
#include "planner/price/price.h"

/* Limits what is looked at in a model with branches, by counts, so that answers are the same everywhere. */
struct ideal_limits {
    int tie_places;     /* up to so many places, cuts that are equally good are compared by what crosses them */
    int64_t trial_work; /* places looked at for each place of the chain, before what is left behind them is bounded */
    int64_t most_work;  /* in all: then the plans so far, with a bound that holds */
};
struct partition_problem {
    const struct chain *chain;
    const struct price_table *table; /* by_stage: each stage by its own prices */
    int stage_count, micro_batch_count;
    const int *in_flight; /* (stage_count); in turn (mesh_count + 1, shape_count): of a stage from which on there are
                             so many meshes, itself among them */
    int mesh_count;       /* 0: one for each stage. Else of all stages together; stage_count 0: any number */
    int shape_count;      /* with meshes: */
    const int *turns;     /* (shape_count) meshes that a stage may have, ascending; price_of_shape() has their prices */
    bool phases;          /* all forward passes of a stage come before all its backward ones */
    int64_t capacity_bytes;
    /* For partition_evaluate() alone: the capacity is that of a device, which several stages (chunks) share; NULL: each
     * has it to itself. held_bytes: (devices) scratch, zeros. */
    const int *device_of; /* (stage_count) */
    int64_t *held_bytes;
    int64_t below_ns;   /* only plans strictly shorter than this are wanted; INT64_MAX: any */
    int64_t enough_ns;  /* where passes are in phases, a bound of so much is good enough; 0: none is */
    int64_t node_limit; /* of each knapsack, a quarter of it after a few hard ones; 0: to the end */
    int64_t most_nodes; /* of all together: then it ends as where `stops` says so; 0: any number */
    int64_t gap_ppm;    /* good enough: within so many millionths; 0: exact */
    int halves;         /* of bound_only: how often the bound is sharpened, at most PARTITION_HALVES */
    bool bound_only;    /* no plan is looked for: bound_ns is what the relaxation proves of those below below_ns */
    const struct ideal_limits *ideal_limits; /* NULL: the usual ones */
    bool (*stops)(void *self); /* may be NULL; true ends the solution: the plans so far, with a bound that holds */
    void *self;
};
/* Says that `count` layers of a class take a strategy: number `at` of (class_count, strategy_count). Few of a stage's
 * are not 0, so they are listed, in any order; behind the last comes a count of 0. */
struct layer_count {
    int at, count;
};
/* A complete answer of the formula. */
struct partition_plan {
    int64_t step_ns;
    int *first_layer;            /* (stage_count) place of the chain where each begins */
    struct layer_count **counts; /* (stage_count) lists */
    int stage_count;             /* with meshes; else the problem's */
    int *shape;                  /* (stage_count) index into the problem's turns, its meshes; NULL: one each */
};
enum { PARTITION_PLANS = 8, PARTITION_HALVES = 6 };
struct partition_result {
    bool no_memory; /* not even the thriftiest strategies fit, all stages' memory taken together */
    bool feasible;  /* a plan below below_ns was found */
    bool beyond;    /* its sums of times may not fit 64 bits: nothing was solved, bound_ns is 0 (partition_is_beyond) */
    bool ruled_out; /* already the relaxation under the widest cap left none, but for the gap */
    int64_t bound_ns; /* proven: no plan of this problem is shorter, unless it is not below below_ns. Without gap and
                         node limit it is the optimum, or below_ns when there is none */
    int plan_count;
    struct partition_plan plans[PARTITION_PLANS]; /* best first, met on the way; arrays in the arena */
    int64_t passes, knapsacks, nodes;             /* nodes: of the knapsacks that were solved to the end */
};
/* Fails only for want of memory. Deterministic. */
bool partition_solve(const struct partition_problem *problem, struct arena *arena, struct partition_result *out,
                     struct error *err);

/* Sets the plan's counts from all of them: (stages, block), a block for each stage. False when out of memory. */
bool partition_set_counts(struct partition_plan *plan, struct arena *arena, const int *count, int stages, int block);
static inline int partition_stages(const struct partition_problem *problem, const struct partition_plan *plan)
{
    return plan->shape ? plan->stage_count : problem->stage_count;
}
/* Gives the number of micro-batches of the fullest of so many replicas. */
static inline int micro_batches_in_turn(int micro_batch_count, int replicas)
{
    return (micro_batch_count + replicas - 1) / replicas;
}
/* Gives the formula's step for given stages, which tests and re-ranking hold against the optimum; INT64_MAX when a
 * stage does not fit. */
int64_t partition_evaluate(const struct partition_problem *problem, const struct partition_plan *plan);
/* Gives by how much a bound may lie below a step of so many ns and be good enough. */
int64_t partition_gap_ns(int64_t gap_ppm, int64_t step_ns);
/* Bounds without solving anything, for sorting and pruning: from the cheapest compute path and the shortest update of
 * each class. */
int64_t partition_quick_bound(const struct partition_problem *problem);
/* Bounds from paths alone. */
int64_t partition_path_bound(const struct partition_problem *problem);
/* True when all stages' memory together is too little even for the thriftiest strategies with the fewest in flight. */
bool partition_lacks_memory(const struct partition_problem *problem);
/* Sums of times, as knapsacks weigh them, might not fit 64 bits: links of a byte per second, batches of 10^9 in one
 * micro-batch. Then all bounds are 0 and nothing is solved. */
bool partition_is_beyond(const struct partition_problem *problem);
/* Bounds like the first of these, with stages of layers in whatever order. */
int64_t partition_orders_bound(const struct partition_problem *problem);
/* Bounds without sends for a table by_stage, from paths and perhaps updates (partition_mixed.c). */
int64_t partition_mixed_bound(const struct partition_problem *problem, bool updates);
#endif
