/* A schedule is the order of one rank over (phase, chunk, replica, micro-batch, weight version), and where chunks are placed. */
#ifndef CLEAVE_PROGRAM_SCHEDULE_H
#define CLEAVE_PROGRAM_SCHEDULE_H
#include "planner/plan/plan.h"

enum action_kind { ACTION_FORWARD, ACTION_BACKWARD, ACTION_BACKWARD_INPUT, ACTION_BACKWARD_WEIGHT };
struct action {
    enum action_kind kind;
    int chunk, replica, micro, version;
};
struct schedule {
    const char *name, *doc;
    bool asynchronous; /* other mathematics: stale weights */
    int chunks_per_stage; /* 1; interleaved schedules read it from the plan later */
    bool (*legal)(const struct plan *plan, struct error *err); /* may be NULL: always */
    int (*stage_of_chunk)(int stages, int chunk, int replica);
    /* Writes the order of one stage, returns the number of actions. With out NULL it only counts. */
    int (*order)(int stages, int stage, int micro_count, int extra_in_flight, struct action *out);
};
extern const struct schedule *const schedules[]; /* from schedules.def, NULL-terminated */
int schedule_find(const char *name);             /* index, or -1 */
/* Largest prefix of FORWARD minus BACKWARD(_INPUT) of the stage's order: micro-batches whose activations are alive at once. */
int schedule_in_flight(const struct schedule *schedule, int stages, int stage, int micro_count, int extra_in_flight);
#endif
