/* The lanes of one rank: threads with first-in-first-out queues, what streams are on a GPU. Issuing never waits; a lane
 * resolves the waits of its next instruction, runs it, and signals. */
#ifndef CLEAVE_EXECUTOR_LANES_H
#define CLEAVE_EXECUTOR_LANES_H
#include "planner/program/program.h"
#include "planner/sim/timeline.h"

struct lanes;
/* Runs one instruction on the lane's thread. span->start_ns is when it could begin: what it waits for and its lane's
 * last one had finished. A function that imitates time sets span->finish_ns to when it would have ended, so that being
 * woken late does not add up; left 0, both times are taken from the clock. */
typedef bool lane_run_function(void *context, int index, const struct instr *instr, struct span *span,
                               struct error *err);

/* Starts one thread for each lane that the stage uses. on_failure (may be NULL) is called once, by the thread that
 * fails first, so that partners elsewhere stop waiting. */
bool lanes_new(struct lanes **out, const struct stage_program *stage, lane_run_function *run,
               void (*on_failure)(void *context, const struct error *error), void *context, struct error *err);
void lanes_free(struct lanes *lanes); /* ends the threads; accepts NULL */

/* Forgets what was done in the last step; nothing may be under way. The first `done` instructions stand done. */
void lanes_begin_step(struct lanes *lanes, int done);
/* The next instruction of its lane. Each lane gets its instructions in program order. */
void lanes_issue(struct lanes *lanes, int index);
/* Sleeps until all that was issued is done. False: an instruction failed; the rest was dropped. */
bool lanes_finish(struct lanes *lanes, struct error *err);
/* Makes every lane stop at its next wait; safe from any thread. */
void lanes_abort(struct lanes *lanes);
/* (instr_count) of the last step, by instruction. A device that queues may put its own times there once all is done. */
struct span *lanes_spans(struct lanes *lanes);
#endif
