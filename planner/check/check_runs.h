/* Stages whose layers have several layouts, as the checker sees them. */
#ifndef CLEAVE_CHECK_RUNS_H
#define CLEAVE_CHECK_RUNS_H
#include "planner/check/check_cut.h"

/* Layers [at[0], end) in runs of one layout each. */
struct stretch {
    int end, count;
    int at[MOST_RUNS];
    int8_t layout[MOST_RUNS];
};
static inline struct stretch stretch_plain(int first, int end)
{
    return (struct stretch){ .end = end, .count = 1, .at = { first } };
}
static inline int stretch_end(const struct stretch *s, int run)
{
    return run + 1 < s->count ? s->at[run + 1] : s->end;
}
/* What the stretch holds; counts: (layouts, classes), borrowed by out. */
void stretch_content(const struct cut_problem *p, const struct stretch *s, int *counts, struct stage_content *out);
/* Handovers of the stretch: paths taken together. */
int64_t stretch_handover_ns(const struct cut_problem *p, const struct stretch *s);
/* body() for every stretch that consists of the runs of `begun`, whose last has no end yet, and what may follow, with
 * an end from `from` to `to`, where layers that share a weight have one layout. False when body() is. */
struct stretch_visit {
    const struct cut_problem *problem;
    void *self;
    bool (*body)(void *self, const struct stretch *s);
    int layouts, run_count, from, to;
};
bool stretch_visit(const struct stretch_visit *v, struct stretch begun);

/* Numbers of equal stages of one kind: the same layers of each layout and class, the same handovers. */
struct run_table {
    int count, capacity, size, *slot; /* slot: (size) 1 + a number; 0: free */
    struct stretch *sample;           /* (count) */
    int seen_count, seen_size;
    struct seen_stretch *seen; /* (seen_size) those that were asked for, by their runs */
};
/* The stretch's number, a new one where there is none; -1: out of memory. */
int run_table_number(struct run_table *t, const struct cut_problem *p, const struct stretch *s);
void run_table_free(struct run_table *t);
#endif
