/* Calls of kernels that look at positions, one for each run of tokens that follow each other. */
#ifndef CLEAVE_EXECUTOR_KERNELS_RUNS_H
#define CLEAVE_EXECUTOR_KERNELS_RUNS_H
#include "executor/kernel.h"

/* Visits the parts of the call, with their shifts, in an order in which results may begin and then fold; false: one
 * failed. */
bool kernel_each_run(const struct kernel_call *call, bool (*run)(void *context, const struct kernel_call *part),
                     void *context);
#endif
