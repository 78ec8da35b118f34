/* A configuration's cuts and strategies as one integer linear program for GLPK: a second opinion on the whole of
 * partition.h, for problems of few layers. */
#ifndef TESTS_ILP_PARTITION_H
#define TESTS_ILP_PARTITION_H
#include "planner/cut/partition.h"

/* More arcs, (stage, first layer, end), than this are not tried. */
enum { ILP_ARCS = 4000 };

/**
 * Binary arcs z from layer to layer, one of each stage, and counts n of strategies by stage and class:
 *
 *     minimise  sum C n + Y          sum_s n = sum_arcs (layers of the class) z          arcs end where the next begin
 *     Y >= each of the three terms of each stage,   bytes n + p - w <= cap,   p >= peak b,   n <= layers b
 *
 * w <= what tied weights take, and 0 unless the stage's arc holds both layers. The answer is evaluated in integers by
 * partition_evaluate(). *proven: it is the optimum, or there is none below below_ns; result->bound_ns is then exact
 * where all sums stay below 2^26, else a thousand-millionth lower, since GLPK works in doubles. Not proven (too many
 * arcs, no time, an answer that breaks the memory by rounding): nothing else is set. Replicas in
 * turn are not stated: mesh_count must be 0. Fails for want of memory, or with ERROR_BUG when GLPK does.
 */
bool ilp_partition(const struct partition_problem *problem, int time_limit_ms, struct arena *arena,
                   struct partition_result *result, bool *proven, struct error *err);
#endif
