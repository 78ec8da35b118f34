/* What this process and processor are like beyond what a host is: for provenance and sanity. */
#ifndef CLEAVE_PROFILER_RESIDENT_H
#define CLEAVE_PROFILER_RESIDENT_H
#include "base/error.h"
#include "models/graph.h"

/* Bytes of this process in memory; 0 where the system does not say. */
int64_t resident_bytes(void);
/* A product of two square matrices: out[row][column] = sum over k of in[row][k] weight[column][k]; axes row, k, column.
 */
struct segment square_product(int64_t size);
/* The shortest of `repeats` times of one product of two square matrices of `size`, on the calling thread: how fast the
 * processor is now. */
bool reference_matmul_ns(int64_t *out, int64_t size, int repeats, struct error *err);
#endif
