/* From measured timelines to samples: the times of computations by the names under which costs ask for them, and of
 * work that is linear in its elements. */
#ifndef CLEAVE_PROFILER_HARVEST_H
#define CLEAVE_PROFILER_HARVEST_H
#include "planner/sim/timeline.h"
#include "profiler/samples.h"

struct harvest {
    struct samples compute; /* by segment_work_name() */
    struct samples linear;  /* by "<work> <pairs> <elements>" */
};
void harvest_free(struct harvest *harvest);
/* Adds every span of the step. */
bool harvest_timeline(struct harvest *harvest, const struct program *program, const struct timeline *timeline,
                      struct error *err);
/* The work name of a COMPUTE on local rank 0, as costs ask for it. */
void harvest_work_name(const struct program *program, int stage, const struct instr *instr, char out[WORK_NAME_BYTES]);
/* The linear entry of a work ("adamw") from all its samples; false where there are none. out->work is the argument. */
bool harvest_linear(struct linear_entry *out, struct samples *linear, const char *work, int loaded);
/* The most elements in one sample of the work; -1 without any. */
double harvest_linear_reach(const struct samples *linear, const char *work);
/* The names of work that is linear in its elements, NULL-terminated: all that cost_local_work() gives. */
extern const char *const linear_works[];
#endif
