/* A timeline for the trace viewers of browsers: the Trace Event Format (JSON) that Perfetto and chrome://tracing open.
 */
#ifndef CLEAVE_FORMATS_TRACE_H
#define CLEAVE_FORMATS_TRACE_H
#include "planner/sim/timeline.h"

/**
 * One process per rank, one thread per lane, one complete event per span; times in microseconds with nanosecond digits.
 * Each event names what it does and carries its instruction, layer, micro-batch and bytes on the wire. What ran on the
 * device, where it was recorded, has a thread beneath each lane ("dp kernels") and one for streams of no lane; its
 * events carry the instruction as of_instr. The caller frees the text with free(); NULL when memory is short.
 */
char *trace_write(const struct program *program, const struct timeline *timeline, size_t *length);
#endif
