/* Says why a program stalls: which instructions wait for each other in a circle. */
#ifndef CLEAVE_PROGRAM_STALL_H
#define CLEAVE_PROGRAM_STALL_H
#include "planner/program/pairing.h"

/* Fills err (a bug: ERROR_BUG) with the cycle of instructions that wait for one another, given what has finished.
 * finished(self, stage, index). Always returns false. */
bool stall_fail(const struct program *program, const struct pairing *pairing,
                bool (*finished)(const void *self, int stage, int index), const void *self, struct error *err);
#endif
