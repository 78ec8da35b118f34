/* Pieces of work in processes of their own, so that one that takes too long can be ended. */
#ifndef CLEAVE_HOST_APART_H
#define CLEAVE_HOST_APART_H
#include "base/error.h"
#include <stddef.h>

/* Answers go through pipes in one piece. */
enum { APART_MOST_BYTES = 4096 };
enum apart_end { APART_ANSWERED, APART_LATE, APART_DIED };
/**
 * Calls body(context, i, answer) once for every i in 0..count-1, each in a child, as many at once as jobs. What body
 * fills in, answer_bytes of zeroes before (at most APART_MOST_BYTES, without pointers), is in answers, (count), where
 * ends, (count), says that it answered; a child that takes longer than the limit is killed. Only from a process of one
 * thread. Fails where no child can be started.
 */
bool apart_for(int jobs, double limit_s, int count, void (*body)(void *context, int index, void *answer), void *context,
               void *answers, size_t answer_bytes, enum apart_end *ends, struct error *err);
#endif
