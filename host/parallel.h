/* Independent pieces of work on several threads. */
#ifndef CLEAVE_HOST_PARALLEL_H
#define CLEAVE_HOST_PARALLEL_H

enum { PARALLEL_MOST_JOBS = 256 };

/**
 * Calls body(context, i) once for every i in 0..count-1, on up to `jobs` threads, the caller's among them; returns when
 * all are done. Which thread runs which i is left open. Cannot fail: a thread that cannot be started is not missed.
 */
void parallel_for(int jobs, int count, void (*body)(void *context, int index), void *context);
#endif
