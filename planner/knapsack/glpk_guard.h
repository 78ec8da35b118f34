/* GLPK ends the process when it meets an error of its own; behind this guard that is a failure like any other. */
#ifndef CLEAVE_KNAPSACK_GLPK_GUARD_H
#define CLEAVE_KNAPSACK_GLPK_GUARD_H
#include "base/error.h"

/**
 * body(context, err), silent, on this thread. When GLPK fails inside it, the rest of it does not run, GLPK's
 * environment of the thread is made anew (all its problems are dead), and the failure is ERROR_BUG; so what the body
 * itself holds must be the context's, to be freed after.
 */
bool glpk_guard(bool (*body)(void *context, struct error *err), void *context, struct error *err);
/* GLPK's branch and cut with its presolver, to the end: gap 0, objectives apart by 1e-9 (its own 1e-7 loses optima),
 * silent. stops(self), which may be NULL, is asked before and at every node; where it says so the code is GLP_ESTOP.
 * Else that of glp_intopt(). */
struct glp_prob;
int glpk_branch_and_cut(struct glp_prob *program, int time_limit_ms, bool (*stops)(void *self), void *self);
/* Whether the code says that it was ended, by the limit or stops(), with nothing proven. */
bool glpk_ended(int code);
#endif
