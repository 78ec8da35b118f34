/* What really ran on a rank's device in a step, as a library of the device recorded it: kernels, copies, fills. Beside
 * the spans of its instructions they tell how much of the lanes' overlap is real. */
#ifndef CLEAVE_SIM_ACTIVITY_H
#define CLEAVE_SIM_ACTIVITY_H
#include "planner/program/program.h"

struct span;
struct timeline;

enum activity_kind { ACTIVITY_KERNEL, ACTIVITY_COPY, ACTIVITY_FILL, ACTIVITY_KIND_COUNT };
extern const char *const activity_kind_names[ACTIVITY_KIND_COUNT + 1];
/* In place of a lane: the stream is of no lane. */
enum { ACTIVITY_ELSEWHERE = LANE_COUNT, ACTIVITY_LANE_COUNT, ACTIVITY_NAME_BYTES = 100 };
struct activity {
    int64_t start_ns, finish_ns;
    int32_t lane;  /* below ACTIVITY_LANE_COUNT */
    int32_t instr; /* in whose time it ran; -1: in that of none */
    int32_t kind;  /* enum activity_kind */
    char name[ACTIVITY_NAME_BYTES];
};
/* Of one rank and step. Plain: ranks send it to each other. */
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

/**
 * Gives each the instruction of its lane whose span it shares most time with, or is nearest to but for the clocks'
 * error, the first of several; else -1. spans: (instr_count) as measured. The list is by start, spans of a lane in
 * order.
 */
void activity_attribute(struct rank_activity *activity, const struct stage_program *stage, const struct span *spans);

/* Times in which something ran; two things at once count once. */
struct lane_overlap {
    int64_t ran_ns, ran_beside_ns;     /* activity of the lane; of it while some of another lane ran */
    int64_t spans_ns, spans_beside_ns; /* the same of its instructions' spans */
    /* While none of the compute lane ran; of other lanes alone. */
    int64_t alone_ns;   /* activity of the lane, within a span of it */
    int64_t early_ns;   /* activity of the lane outside of its spans: before the last partner came */
    int64_t without_ns; /* a span of the lane, without activity of it */
};
struct activity_overlap {
    struct lane_overlap lane[LANE_COUNT];
    int64_t idle_ns; /* of the step: nothing at all ran */
};
/**
 * Of one rank. Spans of transfers begin when the last partner came where the timeline is settled (timeline_settle()).
 * Fails without memory alone.
 */
bool activity_overlap(struct activity_overlap *out, const struct program *program, const struct timeline *timeline,
                      int rank_index, struct error *err);
/* Of the list: how many are of this kind, on streams of no lane, and in no instruction's time on those of lanes. */
int64_t activity_of_kind(const struct rank_activity *activity, enum activity_kind kind);
int64_t activity_elsewhere(const struct rank_activity *activity);
int64_t activity_between(const struct rank_activity *activity);
#endif
