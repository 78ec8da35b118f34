/* Decides what check_cut_parts.h does for layers that may come in any order: stages lie between sets of layers. */
#ifndef CLEAVE_CHECK_CHECK_IDEALS_H
#define CLEAVE_CHECK_CHECK_IDEALS_H
#include "planner/check/check_cut_parts.h"

/* Decides what cut_check_kinds() does for a problem with orders and several stages. */
bool ideals_check(const struct cut_problem *problem, int64_t bound_ns, enum cut_verdict *verdict,
                  struct cut_witness *witness, struct error *err);
#endif
