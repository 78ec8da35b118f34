/* The knapsack of a stage as an integer linear program for GLPK's branch and cut: a method of its own and an
 * independent second opinion. */
#ifndef CLEAVE_CUT_ILP_H
#define CLEAVE_CUT_ILP_H
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
 * result->counts, ->cost, ->status as in knapsack_solve(). time_limit_ms is of the wall clock; problem->stops() ends it
 * too.
 */
bool ilp_knapsack(const struct knapsack *problem, int time_limit_ms, struct knapsack_result *result, struct error *err);
/* Whether this GLPK keeps one environment per thread, so that several threads may solve at once. */
bool ilp_thread_safe(void);
#endif
