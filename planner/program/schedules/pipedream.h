/* What both forms of PipeDream share. */
#ifndef CLEAVE_PROGRAM_SCHEDULES_PIPEDREAM_H
#define CLEAVE_PROGRAM_SCHEDULES_PIPEDREAM_H
#include "planner/program/schedules/steady.h"

/* The global norm of one micro-batch is known when its gradient has come back to the first stage: the last stage would
 * idle until then before every update. */
static inline bool pipedream_legal(const struct plan *plan, struct error *err)
{
    if (plan->clip_norm > 0)
        return fail(err,
                    "plan: clip_norm %g: schedule %s updates after each micro-batch, before the other stages know "
                    "their part of the norm; expected 0, or schedule pipedream-2bw",
                    plan->clip_norm, schedules[plan->schedule]->name);
    return steady_legal(plan, err);
}
#endif
