/* Verdicts ahead of their turn (ahead.c). */
#ifndef CLEAVE_POOL_AHEAD_H
#define CLEAVE_POOL_AHEAD_H
#include "planner/pool/run.h"

/* judge_simulate() of next[0], and beside it, where there are threads for them, of the others, whose verdicts wait for
 * their turn. The caller frees *out. Fails when the first one does. */
bool ahead_simulate(struct run *run, struct candidate *const *next, int count, int64_t worth_ns, struct estimate **out,
                    int64_t *spent);
/* The candidate's verdict waits. */
bool ahead_has(const struct run *run, const struct candidate *c);
void ahead_drop(struct run *run); /* all that wait */
#endif
