/* GLPK ends the process when it meets an error of its own; behind this guard that is a failure like any other. */
#ifndef CLEAVE_CHECK_GLPK_GUARD_H
#define CLEAVE_CHECK_GLPK_GUARD_H
#include "base/error.h"

/**
 * body(context, err), silent, on this thread. When GLPK fails inside it, the rest of it does not run, GLPK's
 * environment of the thread is made anew (all its problems are dead), and the failure is ERROR_BUG, or for want of
 * memory ERROR_ENVIRONMENT; so what the body itself holds must be the context's, to be freed after.
 */
bool glpk_guard(bool (*body)(void *context, struct error *err), void *context, struct error *err);
#endif
