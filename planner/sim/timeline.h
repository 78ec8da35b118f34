/* Spans by rank and instruction, simulated or measured: one type, so that joining two gives the errors by op kind. */
#ifndef CLEAVE_SIM_TIMELINE_H
#define CLEAVE_SIM_TIMELINE_H
#include "planner/program/program.h"
#include "planner/sim/activity.h"

enum timeline_origin { TIMELINE_SIMULATED, TIMELINE_MEASURED };
struct span {
    int64_t start_ns, finish_ns;
};
struct rank_timeline {
    int rank, stage, span_count;
    struct span *spans;  /* (span_count) of each instruction of the stage */
    struct span *issued; /* (span_count) simulated: since when the host issued without a wait, until it had issued it */
    int64_t peak_bytes;
    struct rank_activity activity; /* borrowed from the timeline's arena; where nobody looked: nothing */
};
struct timeline {
    struct arena arena;
    enum timeline_origin origin;
    int64_t step_ns;
    int rank_count; /* simulated: one representative per stage, or all ranks */
    /* Simulated: some durations hang on what runs beside, since a rank's compute and communication slow each other down
     * or since links are shared. */
    bool slows, shares;
    struct rank_timeline *ranks;
};
void timeline_free(struct timeline *timeline);
/* False, with what to look at, for a step that takes MAX_TIME_NS or longer, which is the end of what is counted. */
bool timeline_is_counted(int64_t step_ns, struct error *err);
/* Gives the index of the rank whose last span ends last; 0 when there are no spans. */
int timeline_last_rank(const struct timeline *timeline);
/* Says where the step's time goes on one rank: categories sum to the step. Compute lane busy time is by kind; exposed
 * communication is time in which no compute runs and a lane of that kind does; bubble is the rest. */
enum time_kind {
    TIME_COMPUTE,
    TIME_RECOMPUTE,
    TIME_TP,
    TIME_DP,
    TIME_CP,
    TIME_EP,
    TIME_PP,
    TIME_BUBBLE,
    TIME_OPTIMIZER,
    TIME_HOST,  /* a copy to or from host memory */
    TIME_ISSUE, /* nothing runs, as the host has not issued the next computation yet */
    TIME_KIND_COUNT
};
/* Tells what the time of an instruction counts as. */
enum time_kind timeline_kind(const struct instr *instr);
extern const char *const time_kind_names[TIME_KIND_COUNT + 1];
void timeline_breakdown(const struct program *program, const struct timeline *timeline, int rank_index,
                        int64_t ns[TIME_KIND_COUNT]);
/* Breaks down likewise what lies between two moments. */
void timeline_breakdown_between(const struct program *program, const struct timeline *timeline, int rank_index,
                                int64_t from_ns, int64_t to_ns, int64_t ns[TIME_KIND_COUNT]);
#endif
