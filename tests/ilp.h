/* The knapsack of a stage as an integer linear program for GLPK's branch and cut: an independent second opinion on
 * knapsack_solve(). */
#ifndef TESTS_ILP_H
#define TESTS_ILP_H
#include "planner/knapsack/knapsack.h"

/**
 * Solves the whole knapsack on counts: all rows, peaks, rows that may be exceeded.
 *
 *     minimise  sum cost x + excess_cost z     rows <= cap (+ z),  row 0 + p <= cap,  p >= peak b,  x <= count b
 *
 * with b in {0, 1} where an option has a peak. Costs are taken without the bits that only break ties. GLPK works in
 * doubles: exact agreement can be asked where integers stay below 2^26, and to about 1e-9 beyond. The answer is rounded
 * and evaluated in integers here; a cap that it breaks by rounding is stated again in digits that doubles hold exactly,
 * and solved again. mip gap 0, tol_obj 1e-9: GLPK's own 1e-7 loses optima. A fatal error inside
 * GLPK fails with ERROR_BUG instead of ending the process; GLPK's environment of the thread is then made anew.
 *
 * result->counts, ->cost, ->status as in knapsack_solve(). time_limit_ms is of the wall clock.
 */
bool ilp_knapsack(const struct knapsack *problem, int time_limit_ms, struct knapsack_result *result, struct error *err);
/* GLPK's branch and cut with its presolver, silent, to the end: gap 0, objectives apart by 1e-9. Returns the code of
 * glp_intopt(). */
struct glp_prob;
int ilp_branch_and_cut(struct glp_prob *program, int time_limit_ms);
#endif
