/* The methods that can solve a stage's knapsack to the end, by name, and those that solve a whole configuration. Bounds
 * and first answers come from knapsack.h whatever the method. */
#ifndef CLEAVE_CUT_SOLVER_H
#define CLEAVE_CUT_SOLVER_H
#include "planner/knapsack/knapsack.h"

struct arena;
struct partition_problem;
struct partition_result;
struct solver_method {
    const char *name;
    /* As knapsack_solve(). */
    bool (*solve)(const struct knapsack *problem, struct knapsack_result *result, struct error *err);
    /* As partition_solve(), where *proven; else that goes on with the stages one by one. NULL: always. */
    bool (*partition)(const struct partition_problem *problem, struct arena *arena, struct partition_result *result,
                      bool *proven, struct error *err);
    bool (*thread_safe)(void); /* found out at run time */
    int most_layers;           /* of the models that it answers in reasonable time; 0: any */
};
extern const struct solver_method *const solvers[]; /* from solvers.def, NULL-terminated */
#endif
