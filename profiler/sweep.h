/* The times of transfers over sizes, through the transport and the collectives that run steps. */
#ifndef CLEAVE_PROFILER_SWEEP_H
#define CLEAVE_PROFILER_SWEEP_H
#include "base/arena.h"
#include "planner/facts/profile.h"
#include "profiler/crew.h"
#include "profiler/samples.h"

/* One curve to measure: groups of `ranks`, `concurrent` of them at once, the other ranks idle. SEND: ranks is 2, and
 * `concurrent` ranks of one stage send to as many of the next. */
struct sweep_case {
    enum op op;
    int ranks, concurrent;
};
/* All that plans of rank_count ranks on one host can have. The caller frees *out with free(). */
bool sweep_cases(struct sweep_case **out, int *count, int rank_count, struct error *err);
/* The sizes of a curve in bytes of the larger buffer on one rank, ascending: the smallest possible, powers of four from
 * 1 KiB to 64 MiB, and largest_bytes if it is more. All divide as the operation needs. Returns their number. */
enum { SWEEP_MAX_SIZES = 16 };
int sweep_sizes(const struct sweep_case *c, int64_t largest_bytes, int64_t bytes[SWEEP_MAX_SIZES]);

struct sweep_options {
    const struct profile *existing; /* curves that it holds are not measured again; may be NULL */
    int64_t largest_bytes; /* of what whole gradients can be: reductions and gathers are measured up to there */
    int64_t most_bytes;    /* larger sizes are left out; 0: none */
    double budget_s;
    void *context;
    void (*on_progress)(void *context, const char *what, int done, int count);
};
struct sweep_result {
    struct arena arena;
    struct collective_curve *curves;
    int curve_count, known_count;
};
/**
 * A time is that of the whole group, from the moment at which its last rank is ready on the compute lane to the moment
 * at which the last one can go on there: the hand-over between lanes is part of it. On processes without rank 0 the
 * result stays empty.
 */
bool sweep_measure(struct sweep_result *out, const struct crew *crew, const struct sweep_options *options,
                   struct error *err);
/* Points and fit of a curve from the samples of each size. */
bool sweep_curve(struct collective_curve *out, struct arena *arena, const struct sweep_case *c, const int64_t *bytes,
                 int size_count, struct series *const *series, struct error *err);
#endif
