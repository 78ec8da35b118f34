/* A schedule is the order in which one stage runs forward and backward of its micro-batches. */
#ifndef CLEAVE_PROGRAM_SCHEDULE_H
#define CLEAVE_PROGRAM_SCHEDULE_H
#include "planner/plan/plan.h"

enum action_kind { ACTION_FORWARD, ACTION_BACKWARD, ACTION_BACKWARD_INPUT, ACTION_BACKWARD_WEIGHT };
struct action {
    enum action_kind kind;
    int micro;
};
struct schedule {
    const char *name, *doc;
    bool asynchronous;                                         /* other mathematics: stale weights */
    bool (*legal)(const struct plan *plan, struct error *err); /* may be NULL: always */
    /* Writes the order of one stage, returns the number of actions. With out NULL it only counts. micro_count and
     * extra_in_flight are at most PLAN_MAX_MICRO_BATCHES. */
    int (*order)(int stages, int stage, int micro_count, int extra_in_flight, struct action *out);
};
extern const struct schedule *const schedules[]; /* from schedules.def, NULL-terminated */
int schedule_find(const char *name);             /* index, or -1 */
/* Largest prefix of FORWARD minus BACKWARD(_INPUT) of the stage's order: micro-batches whose activations are alive at
 * once. */
int schedule_in_flight(const struct schedule *schedule, int stages, int stage, int micro_count, int extra_in_flight);
#endif
