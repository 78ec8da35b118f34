/* The room of the knapsack: which strategy for how many of the identical layers of a stage.
 *
 * It answers a grouped multiple-choice knapsack over counts, exactly in integers, or with a proven bound where a limit
 * ends it (knapsack_solve()): options that others undercut go first (knapsack.c), multipliers of a relaxation bound
 * what is left (knapsack_relax.c), labels enumerate that (knapsack_core.c), and where these are too many, branch and
 * bound decides (knapsack_tree.c). A small problem of its own: it knows neither layers nor devices.
 *
 * It uses base/ alone; cut/ asks for every stage, peers/ for Galvatron's.
 * Tested by tests/test_solvers.c against brute force and GLPK, timed by benchmarks/solver_speed. */
#ifndef CLEAVE_KNAPSACK_KNAPSACK_H
#define CLEAVE_KNAPSACK_KNAPSACK_H
#include "base/error.h"
#include <stdint.h>

enum { KNAPSACK_ROWS = 5 };

struct knapsack_option {
    int64_t cost, row[KNAPSACK_ROWS];
    int64_t peak; /* >= 0; the largest one in use counts once in row 0 (transient memory) */
};
struct knapsack_group { /* `count` identical items, each of which takes one option */
    int count, option_count;
    const struct knapsack_option *options;
};
/**
 * Minimise  sum x[g][s] cost[g][s]
 * subject to  sum over s of x[g][s] = count[g],  x whole and not negative,
 *             sum x row[r] (+ for r = 0 the largest peak in use) <= cap[r] for r < row_count.
 * With excess_cost > 0 the rows from excess_first >= 1 on may exceed their caps, and excess_cost times the largest
 * excess is added to what is minimised: min-max problems.
 * Magnitudes: every sum of costs, of rows, and of excess times its cost below 2^60. Where that might not hold nothing
 * is solved (KNAPSACK_LIMIT), and costs are not negative.
 */
struct knapsack {
    int group_count, row_count;
    const struct knapsack_group *groups;
    int64_t cap[KNAPSACK_ROWS];
    int64_t excess_cost;
    int excess_first;
    int64_t node_limit;        /* 0: to the end */
    int tie_bits;              /* the low bits of costs only break ties: optimal means optimal in cost >> tie_bits */
    int64_t gap_ppm;           /* good enough: within so many millionths of the optimum; 0: exact */
    const double *multipliers; /* (row_count) of a similar problem, cost per unit of each row; NULL: none */
};
enum knapsack_status {
    KNAPSACK_INFEASIBLE, /* proven */
    KNAPSACK_OPTIMAL,    /* proven: cost and bound agree but for tie_bits and gap_ppm */
    KNAPSACK_LIMIT       /* node_limit ended it: bound is proven, cost INT64_MAX when nothing was found */
};
struct knapsack_result {
    enum knapsack_status status;
    int64_t cost, bound, nodes;
    double multipliers[KNAPSACK_ROWS]; /* with which the bound of the relaxation was proven */
    int *counts; /* the caller's array, one per option of all groups in order; filled when cost < INT64_MAX */
};
/* Solves the knapsack. node_limit 1 solves the root only: a proven bound in microseconds, and often the optimum. Fails
 * only for want of memory. result->counts must be set, or NULL when the counts are not wanted. Deterministic. */
bool knapsack_solve(const struct knapsack *problem, struct knapsack_result *result, struct error *err);
#endif
