#include "planner/cut/solver.h"
#include "planner/cut/ilp.h"
#include "planner/cut/ilp_partition.h"
#include <stddef.h>

enum { ILP_TIME_LIMIT_MS = 10000, ILP_LAYERS = 16 }; /* gpt2 cut to 13 layers on 8 devices takes half a minute */

static bool always_safe(void)
{
    return true;
}

static bool solve_exact(const struct knapsack *problem, struct knapsack_result *result, struct error *err)
{
    return knapsack_solve(problem, result, err);
}

/* What GLPK does not prove within its time has at least the relaxation's bound, and the better of both answers. */
static bool solve_ilp(const struct knapsack *problem, struct knapsack_result *result, struct error *err)
{
    if (!ilp_knapsack(problem, ILP_TIME_LIMIT_MS, result, err))
        return false;
    if (result->status != KNAPSACK_LIMIT)
        return true;
    struct knapsack rest = *problem;
    rest.node_limit = 1;
    return knapsack_solve(&rest, result, err);
}

static bool partition_ilp(const struct partition_problem *problem, struct arena *arena, struct partition_result *result,
                          bool *proven, struct error *err)
{
    return ilp_partition(problem, ILP_TIME_LIMIT_MS, arena, result, proven, err);
}

#define SOLVER(name, solve, partition, safe, most_layers)                                                              \
    static const struct solver_method solver_##name = { #name, solve, partition, safe, most_layers };
#include "planner/cut/solvers.def"
#undef SOLVER

const struct solver_method *const solvers[] = {
#define SOLVER(name, solve, partition, safe, most_layers) &solver_##name,
#include "planner/cut/solvers.def"
#undef SOLVER
    NULL,
};
