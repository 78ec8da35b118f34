#include "planner/sim/timeline.h"
#include "base/num.h"
#include "planner/facts/profile.h"
#include <stdlib.h>

const char *const time_kind_names[TIME_KIND_COUNT + 1] = {
    [TIME_COMPUTE] = "compute",
    [TIME_RECOMPUTE] = "recompute",
    [TIME_TP] = "tp",
    [TIME_DP] = "dp",
    [TIME_CP] = "cp",
    [TIME_EP] = "ep",
    [TIME_PP] = "pp",
    [TIME_BUBBLE] = "bubble",
    [TIME_OPTIMIZER] = "optimizer",
    [TIME_HOST] = "host",
    [TIME_ISSUE] = "issue",
};

const char *const activity_kind_names[ACTIVITY_KIND_COUNT + 1] = {
    [ACTIVITY_KERNEL] = "kernel",
    [ACTIVITY_COPY] = "copy",
    [ACTIVITY_FILL] = "fill",
};

void timeline_free(struct timeline *timeline)
{
    if (!timeline)
        return;
    arena_free(&timeline->arena);
    free(timeline);
}

bool timeline_is_counted(int64_t step_ns, struct error *err)
{
    return step_ns < MAX_TIME_NS ||
           fail(err, "a step takes 52 days or longer (2^52 ns), which is more than is counted; look at the cluster's "
                     "bandwidths and latencies, and at the batch");
}

int timeline_last_rank(const struct timeline *timeline)
{
    int last = 0;
    int64_t latest = -1;
    for (int r = 0; r < timeline->rank_count; r++)
        for (int s = 0; s < timeline->ranks[r].span_count; s++)
            if (timeline->ranks[r].spans[s].finish_ns > latest) {
                latest = timeline->ranks[r].spans[s].finish_ns;
                last = r;
            }
    return last;
}

/* Lists lanes in the order in which they claim a moment: compute first, then what holds compute up most directly. */
static const enum lane claim_order[] = { LANE_COMPUTE, LANE_TP,      LANE_CP,      LANE_EP,      LANE_DP,
                                         LANE_SEND,    LANE_RECEIVE, LANE_COPY_IN, LANE_COPY_OUT };
enum { CLAIM_COUNT = sizeof claim_order / sizeof *claim_order };

enum time_kind timeline_kind(const struct instr *instr)
{
    switch (instr->lane) {
    case LANE_COMPUTE:
        break;
    case LANE_TP: /* on which the ranks exchange tokens where they share out experts */
        return instr->op == OP_ALL_TO_ALL ? TIME_EP : TIME_TP;
    case LANE_DP:
        return TIME_DP;
    case LANE_CP:
        return TIME_CP;
    case LANE_EP:
        return TIME_EP;
    case LANE_SEND:
    case LANE_RECEIVE:
        return TIME_PP;
    case LANE_COPY_IN:
    case LANE_COPY_OUT:
        return TIME_HOST;
    case LANE_COUNT:
        return TIME_BUBBLE;
    }
    if (instr->op == OP_UPDATE || instr->op == OP_NORM || instr->op == OP_NORM_REDUCE || instr->phase == PHASE_STEP)
        return TIME_OPTIMIZER;
    return instr->again ? TIME_RECOMPUTE : TIME_COMPUTE;
}

void timeline_breakdown_between(const struct program *program, const struct timeline *timeline, int rank_index,
                                int64_t from_ns, int64_t to_ns, int64_t ns[TIME_KIND_COUNT])
{
    const struct rank_timeline *rank = &timeline->ranks[rank_index];
    const struct stage_program *list = &program->stages[rank->stage];
    int at[CLAIM_COUNT], host = 0;
    unsigned lanes = 0;
    for (int i = 0; i < rank->span_count; i++)
        lanes |= 1u << list->instrs[i].lane;
    for (int i = 0; i < CLAIM_COUNT; i++) /* of a lane that nothing runs on there is nothing to look for */
        at[i] = lanes >> claim_order[i] & 1 ? 0 : rank->span_count;
    for (int kind = 0; kind < TIME_KIND_COUNT; kind++)
        ns[kind] = 0;
    for (int64_t now = from_ns, next; now < to_ns; now = next) {
        enum time_kind kind = TIME_BUBBLE;
        bool claimed = false;
        next = to_ns;
        for (int i = 0; i < CLAIM_COUNT; i++) {
            while (at[i] < rank->span_count &&
                   (list->instrs[at[i]].lane != claim_order[i] || rank->spans[at[i]].finish_ns <= now))
                at[i]++;
            if (at[i] == rank->span_count)
                continue;
            const struct span *span = &rank->spans[at[i]];
            bool busy = span->start_ns <= now;
            next = min_i64(next, busy ? span->finish_ns : span->start_ns);
            if (busy && !claimed)
                kind = timeline_kind(&list->instrs[at[i]]);
            claimed |= busy;
        }
        while (rank->issued && host < rank->span_count && rank->issued[host].finish_ns <= now)
            host++;
        if (!claimed && rank->issued && at[0] < rank->span_count && host <= at[0]) { /* computing waits for the host */
            const struct span *issued = &rank->issued[host];
            bool issuing = issued->start_ns <= now;
            kind = issuing ? TIME_ISSUE : kind;
            next = min_i64(next, issuing ? issued->finish_ns : issued->start_ns);
        }
        ns[kind] += next - now;
    }
}

void timeline_breakdown(const struct program *program, const struct timeline *timeline, int rank_index,
                        int64_t ns[TIME_KIND_COUNT])
{
    timeline_breakdown_between(program, timeline, rank_index, 0, timeline->step_ns, ns);
}
