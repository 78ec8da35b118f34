/* Integer linear programs by GLPK, an independent second opinion: minimise cost x, rows with upper caps or exact sums,
 * x whole >= 0. */
#ifndef CLEAVE_SEARCH_ILP_H
#define CLEAVE_SEARCH_ILP_H
#include "planner/search/knapsack.h"

/**
 * Solves a knapsack without peaks by GLPK's branch and cut, on counts.
 *
 * GLPK works in doubles: exact agreement can be asked where integers stay below 2^26; the answer is rounded and
 * re-evaluated in integers here, and refused when it does not fit. tol_obj is 1e-9: GLPK's own 1e-7 loses optima.
 * result->counts as in knapsack_solve(). Fails when GLPK does, or a peak is not 0.
 */
bool ilp_knapsack(const struct knapsack *problem, int time_limit_ms, struct knapsack_result *result, struct error *err);
#endif
