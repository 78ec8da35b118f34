/* What really ran on a rank's device in a step, as a library of the device recorded it: kernels, copies, fills. Beside
 * the spans of its instructions they tell how much of the lanes' overlap is real. */
#ifndef CLEAVE_SIM_ACTIVITY_H
#define CLEAVE_SIM_ACTIVITY_H
#include "planner/program/program.h"

enum activity_kind { ACTIVITY_KERNEL, ACTIVITY_COPY, ACTIVITY_FILL, ACTIVITY_KIND_COUNT };
extern const char *const activity_kind_names[ACTIVITY_KIND_COUNT + 1];
/* ACTIVITY_ELSEWHERE stands in place of a lane: the stream is of no lane. */
enum { ACTIVITY_ELSEWHERE = LANE_COUNT, ACTIVITY_LANE_COUNT, ACTIVITY_NAME_BYTES = 100 };
struct activity {
    int64_t start_ns, finish_ns;
    int32_t lane;  /* below ACTIVITY_LANE_COUNT */
    int32_t instr; /* in whose time it ran; -1: in that of none */
    int32_t kind;  /* enum activity_kind */
    char name[ACTIVITY_NAME_BYTES];
};
/* Counts of one rank in one step. They are plain, since ranks send them to each other. */
struct activity_counts {
    int64_t recorded;       /* 1: somebody looked; else all here is 0 */
    int64_t count;          /* of the list */
    int64_t dropped;        /* records that the library had no room for */
    int64_t untimed;        /* records without times: not in the list */
    int64_t clock_error_ns; /* these times and those of spans are off by so much at most, as far as is known */
};
struct rank_activity {
    struct activity_counts counts;
    struct activity *list; /* (counts.count) by their start */
};
#endif
