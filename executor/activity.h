/* What ran on a device beside the spans of its instructions: whose it is, and how much of the lanes' overlap is real.
 */
#ifndef CLEAVE_EXECUTOR_ACTIVITY_H
#define CLEAVE_EXECUTOR_ACTIVITY_H
#include "planner/sim/timeline.h"

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
