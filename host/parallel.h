/* Threads, and independent pieces of work on several of them. */
#ifndef CLEAVE_HOST_PARALLEL_H
#define CLEAVE_HOST_PARALLEL_H
#include "base/error.h"
#include <pthread.h>

enum { PARALLEL_MOST_JOBS = 256 };

/**
 * Calls body(context, i) once for every i in 0..count-1, on up to `jobs` threads, the caller's among them; returns when
 * all are done. Which thread runs which i is left open. Cannot fail: a thread that cannot be started is not missed.
 */
void parallel_for(int jobs, int count, void (*body)(void *context, int index), void *context);

/* Starts a thread, whose work the error names: "cannot start a thread for WORK". The system tells no more than that
 * memory, or threads, are out. */
bool thread_start(pthread_t *out, void *(*body)(void *), void *argument, const char *work, struct error *err);
#endif
