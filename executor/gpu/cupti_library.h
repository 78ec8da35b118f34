/* NVIDIA's CUPTI, as much of it as records of kernels and copies need, opened when it is asked for: it is no part of
 * CUDA's runtime, and is missed by nobody who does not look. Opening it needs no GPU. */
#ifndef CLEAVE_EXECUTOR_GPU_CUPTI_LIBRARY_H
#define CLEAVE_EXECUTOR_GPU_CUPTI_LIBRARY_H
#include "base/error.h"
#include <cupti.h>

#define CUPTI_FUNCTIONS(FUNCTION)                                                                                      \
    FUNCTION(cuptiGetVersion)                                                                                          \
    FUNCTION(cuptiGetResultString)                                                                                     \
    FUNCTION(cuptiGetTimestamp)                                                                                        \
    FUNCTION(cuptiGetDeviceId)                                                                                         \
    FUNCTION(cuptiGetStreamIdEx)                                                                                       \
    FUNCTION(cuptiActivityRegisterCallbacks)                                                                           \
    FUNCTION(cuptiActivityEnable)                                                                                      \
    FUNCTION(cuptiActivityDisable)                                                                                     \
    FUNCTION(cuptiActivityFlushAll)                                                                                    \
    FUNCTION(cuptiActivityGetNextRecord)                                                                               \
    FUNCTION(cuptiActivityGetNumDroppedRecords)

/* Members have the functions' own names. */
struct cupti_library {
#define FUNCTION(symbol) __typeof__(symbol) *symbol;
    CUPTI_FUNCTIONS(FUNCTION)
#undef FUNCTION
};
/* Fails where it is absent, or has not all of this. It stays open: its threads do not bear being unloaded. */
bool cupti_library_open(struct cupti_library *out, struct error *err);
#endif
