/* Work that only touches memory and of which the model's own steps show too little. */
#ifndef CLEAVE_PROFILER_MEMORY_WORK_H
#define CLEAVE_PROFILER_MEMORY_WORK_H
#include "profiler/crew.h"
#include "profiler/harvest.h"

/* Adds samples of "zero", "add", "copy" and "norm" over all sizes for those of them of which the harvest has seen
 * nothing large and `existing` (may be NULL) knows nothing. */
bool memory_work_measure(struct harvest *harvest, const struct crew *crew, const struct profile *existing,
                         struct error *err);
#endif
