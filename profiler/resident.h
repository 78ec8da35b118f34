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
/* How fast the processor is now: a product of two square matrices on each of `ranks` threads at once, by the same
 * kernel as in a step, so by BLAS where the build has it (the program's own products are for other shapes). As many as
 * the ranks of a step: what slows down one core slows down the step. No more than there are cores. */
enum { REFERENCE_EDGE = 1024 };
struct reference {
    int64_t ns;   /* the median of the slowest */
    double share; /* processor time over time, of all repeats: below 1 where other programs took some of a core */
};
/* Products for so many seconds, at least five of each. A virtual processor's speed changes several times in a second:
 * what is to tell how fast a step was takes REFERENCE_S, what only notes that something is amiss REFERENCE_SHORT_S. */
static const double REFERENCE_S = 1, REFERENCE_SHORT_S = 0.1;
bool reference_measure(struct reference *out, int ranks, double seconds, struct error *err);
#endif
