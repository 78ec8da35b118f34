/* Overlap by one walk over all begins and ends: between two of them nothing changes, so that stretch belongs to each
 * sum or does not. */
#include "executor/activity.h"
#include "base/num.h"
#include <stdlib.h>

/* ---- whose it is ---- */
/* What shares no time lies apart by less than none. */
static int owner_of(const struct activity *a, const struct stage_program *stage, const struct span *spans, int first,
                    int64_t error_ns)
{
    int best = -1;
    int64_t most_ns = -error_ns - 1;
    for (int i = first; i < stage->instr_count; i++) {
        if ((int)stage->instrs[i].lane != a->lane)
            continue;
        if (spans[i].start_ns > a->finish_ns + error_ns)
            break;
        int64_t shared_ns = min_i64(a->finish_ns, spans[i].finish_ns) - max_i64(a->start_ns, spans[i].start_ns);
        if (shared_ns > most_ns)
            most_ns = shared_ns, best = i;
    }
    return best;
}

void activity_attribute(struct rank_activity *activity, const struct stage_program *stage, const struct span *spans)
{
    const int64_t error_ns = activity->counts.clock_error_ns;
    int at[LANE_COUNT] = { 0 };
    for (int64_t k = 0; k < activity->counts.count; k++) {
        struct activity *a = &activity->list[k];
        a->instr = -1;
        if (a->lane >= LANE_COUNT)
            continue;
        int *next = &at[a->lane]; /* the first of the lane whose span ends then or later; instr_count: none */
        while (*next < stage->instr_count &&
               ((int)stage->instrs[*next].lane != a->lane || spans[*next].finish_ns < a->start_ns - error_ns))
            ++*next;
        a->instr = owner_of(a, stage, spans, at[a->lane], error_ns);
    }
}

/* ---- overlap ---- */
/* Where a row's spans or activity begin or end. Rows: each lane's spans, each lane's activity, the step. */
enum { ROW_ACTIVITY = LANE_COUNT, ROW_STEP = ROW_ACTIVITY + ACTIVITY_LANE_COUNT, ROW_COUNT };
struct edge {
    int64_t at_ns;
    int row, change;
};

static int by_moment(const void *a, const void *b)
{
    const struct edge *x = a, *y = b;
    return (x->at_ns > y->at_ns) - (x->at_ns < y->at_ns);
}

static void add_edges(struct edge **end, int row, int64_t start_ns, int64_t finish_ns)
{
    *(*end)++ = (struct edge){ start_ns, row, 1 };
    *(*end)++ = (struct edge){ finish_ns, row, -1 };
}

static bool beside(const int *open, int count, int lane)
{
    bool any = false;
    for (int other = 0; other < count; other++)
        any = any || (other != lane && open[other] > 0);
    return any;
}

/* A stretch of time: open[row] is how many of the row's spans it lies in. */
static void add_stretch(struct activity_overlap *out, const int open[ROW_COUNT], int64_t ns)
{
    const int *running = open + ROW_ACTIVITY;
    for (int lane = 0; lane < LANE_COUNT; lane++) {
        struct lane_overlap *o = &out->lane[lane];
        const bool span = open[lane] > 0, ran = running[lane] > 0;
        o->ran_ns += ran ? ns : 0;
        o->ran_beside_ns += ran && beside(running, ACTIVITY_LANE_COUNT, lane) ? ns : 0;
        o->spans_ns += span ? ns : 0;
        o->spans_beside_ns += span && beside(open, LANE_COUNT, lane) ? ns : 0;
        if (lane == LANE_COMPUTE || running[LANE_COMPUTE] > 0)
            continue;
        o->alone_ns += ran && span ? ns : 0;
        o->early_ns += ran && !span ? ns : 0;
        o->without_ns += span && !ran ? ns : 0;
    }
    out->idle_ns += open[ROW_STEP] > 0 && !beside(running, ACTIVITY_LANE_COUNT, -1) ? ns : 0;
}

bool activity_overlap(struct activity_overlap *out, const struct program *program, const struct timeline *timeline,
                      int rank_index, struct error *err)
{
    const struct rank_timeline *rank = &timeline->ranks[rank_index];
    const size_t most = 2 * ((size_t)rank->span_count + (size_t)rank->activity.counts.count + 1);
    struct edge *edges = malloc(most * sizeof *edges), *end = edges;
    int open[ROW_COUNT] = { 0 };
    if (!edges)
        return fail_kind(err, ERROR_ENVIRONMENT, "no memory to compare %zu begins and ends", most);
    for (int i = 0; i < rank->span_count; i++)
        add_edges(&end, (int)program->stages[rank->stage].instrs[i].lane, rank->spans[i].start_ns,
                  rank->spans[i].finish_ns);
    for (int64_t i = 0; i < rank->activity.counts.count; i++) {
        const struct activity *a = &rank->activity.list[i];
        add_edges(&end, ROW_ACTIVITY + a->lane, a->start_ns, a->finish_ns);
    }
    add_edges(&end, ROW_STEP, 0, timeline->step_ns);
    qsort(edges, most, sizeof *edges, by_moment);
    *out = (struct activity_overlap){ .idle_ns = 0 };
    for (size_t i = 0; i < most; i++) {
        if (i > 0)
            add_stretch(out, open, edges[i].at_ns - edges[i - 1].at_ns);
        open[edges[i].row] += edges[i].change;
    }
    free(edges);
    return true;
}

/* ---- counts ---- */
int64_t activity_of_kind(const struct rank_activity *activity, enum activity_kind kind)
{
    int64_t count = 0;
    for (int64_t i = 0; i < activity->counts.count; i++)
        count += activity->list[i].kind == (int32_t)kind;
    return count;
}

int64_t activity_elsewhere(const struct rank_activity *activity)
{
    int64_t count = 0;
    for (int64_t i = 0; i < activity->counts.count; i++)
        count += activity->list[i].lane == ACTIVITY_ELSEWHERE;
    return count;
}

int64_t activity_between(const struct rank_activity *activity)
{
    int64_t count = 0;
    for (int64_t i = 0; i < activity->counts.count; i++)
        count += activity->list[i].lane != ACTIVITY_ELSEWHERE && activity->list[i].instr < 0;
    return count;
}
