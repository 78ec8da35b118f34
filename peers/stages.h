/* Contiguous stages of a graph, placed one after the other: the exact program over order ideals x what has been used of
 * the devices. What a stage costs is a plug-in's business; which objective, the caller's:
 *
 *   stages_bottleneck   minimise  max_k load_k
 *   stages_latency      minimise  sum_k load_k + (m - 1) max_k load_k
 *
 * Both are sweeps of one pass: "is there a placement with every load below a limit?" A pass keeps, per ideal, the
 * labels (used of each axis, value) that no other label dominates. It prunes by the limit, so that passes near the
 * optimum are short; a pass that finds nothing proves that its limit is a bound. */
#ifndef CLEAVE_PEERS_STAGES_H
#define CLEAVE_PEERS_STAGES_H
#include "planner/cut/ideals.h"

enum { STAGE_AXES = 2 };
struct stage_choice { /* a way to place a stage: replicas, tensor degree, kind of device ... */
    int use[STAGE_AXES];
};
/**
 * What a stage costs. A stage is above \ below, two ideals by index. Loads are not negative. Every function may assume
 * that prepare() saw the ideals that the indices count. All but load and choices may be NULL.
 */
struct stage_model {
    const char *name;
    void *self;
    int axis_limit[STAGE_AXES];  /* what there is of each axis: at most 32767 */
    bool axis_exact[STAGE_AXES]; /* all of it must be used */
    int choice_count;
    const struct stage_choice *choices;
    double bound;              /* no placement has a smaller largest load; proven without looking at the ideals */
    const int64_t *inner_work; /* stages looked at inside enter(), if stages hold stages */

    /* Once per set of ideals: tables by index. */
    bool (*prepare)(void *self, const struct ideals *ideals, struct error *err);
    /* The stages that begin at `below` come next. room: what is left of each axis at most. */
    bool (*enter)(void *self, int below, const int room[STAGE_AXES], double limit, struct error *err);
    /* The stage in hand grows by a node or is the one before again: for costs that are kept up step by step. load() is
     * then asked for the stage in hand only. */
    void (*add)(void *self, int node);
    void (*drop)(void *self, int node);
    /* False only if no choice gives a load below limit for this stage or any larger one from the same `below`.
     */
    bool (*may_grow)(void *self, int below, int above, const int room[STAGE_AXES], double limit);
    /* The stage's load, INFINITY when it does not fit; any value >= limit will do for what is not below limit.
     * used: what the stages before it use, which matters only if context is true. */
    double (*load)(void *self, int below, int above, int choice, const int used[STAGE_AXES], double limit);
    bool context; /* the load depends on used[], and is not smaller where more of axis 1 is used */
    /* With context: (choice_count) loads that are not smaller than these, whatever is used. NULL: nothing is known. */
    const double *(*least_loads)(void *self, int below, int above);
    /* What is not in `above` can be placed on what is left only if the largest load so far is below this: limit when
     * that does not matter, -INFINITY when it cannot be placed below limit at all. Not larger for subsets, nor where
     * more is used. */
    double (*finish_below)(void *self, int above, const int used[STAGE_AXES], double limit);

    /* What the plan says of a stage that it has chosen, in the arena; *out is kept in struct stage. *load may be
     * lowered where load() did not look further than the limit. */
    bool (*detail)(void *self, int below, int above, int choice, const int used[STAGE_AXES], struct arena *arena,
                   void **out, double *load, struct error *err);

    /* Loads that are differences of potentials: for every stage but those that begin where the walk starts
     *   load = max(entry(below), key(above) - key(below), exit(above)),  all per choice.
     * Then stages that span a set through which every chain of ideals passes are found in logarithmic time each. Axis
     * 1 must be unused, enter NULL and context false. */
    double (*key)(void *self, int ideal, int choice);
    double (*entry)(void *self, int below, int choice);
    double (*exit)(void *self, int above, int choice);
};

struct stage_limits {
    int64_t ideals; /* more than this: a narrower graph, and no proof; 0: STAGE_IDEALS */
    int64_t work;   /* stages looked at in all; 0: STAGE_WORK. Counts and not seconds: same answer everywhere */
    bool (*stops)(void *self); /* asked now and then; true ends the search with the best so far. May be NULL */
    void *self;
};
enum { STAGE_IDEALS = 1000000, STAGE_WORK = 200000000 };

struct stage {
    uint64_t *nodes; /* (words) bit set */
    int choice;
    int used[STAGE_AXES]; /* by the stages before it */
    double load;
    void *detail; /* of model->detail */
};
struct stage_plan {
    bool feasible;
    bool optimal;   /* value is proven smallest, to one part in 10^12 */
    bool exhausted; /* all ideals were considered and the search came to its end: with feasible false, nothing fits */
    double value, bound; /* of the objective; bound <= optimum. INFINITY when not feasible */
    int stage_count, words;
    struct stage *stages; /* in the order of placement, in the arena */
    int64_t ideals, work; /* ideals of the graph, or of the narrower one; stages looked at */
};

/* What numbers of 64 bits tell of a graph's loads: these are differences of sums over its nodes, which lose a part of
 * what is summed up. */
struct graph_sums {
    double time;  /* no less than any such sum, in the objective's unit */
    double bytes; /* the same of memory; 0: its sums are no differences */
    int terms;    /* of a sum at most */
};

/* Fails for want of memory, or when the plug-in fails. Nothing fits: feasible is false, and exhausted says whether that
 * is proven. Deterministic unless stops() is not. */
bool stages_bottleneck(const struct stage_model *model, const struct dag *dag, const struct stage_limits *limits,
                       struct arena *arena, struct stage_plan *out, struct error *err);
/* micro_batches: m. model->bound still bounds the largest load. */
bool stages_latency(const struct stage_model *model, const struct dag *dag, const struct stage_limits *limits,
                    int64_t micro_batches, struct arena *arena, struct stage_plan *out, struct error *err);

/* ---- one pass, for plug-ins whose stages hold stages ---- */
enum stage_value { VALUE_MAX, VALUE_SUM }; /* what a pass keeps small: the largest load, the sum of loads */
struct stage_walk;
bool stage_walk_make(struct stage_walk **out, const struct stage_model *model, const struct ideals *ideals,
                     enum stage_value objective, struct error *err);
void stage_walk_free(struct stage_walk *walk);
/* Whether the ideal holds the one below. */
static inline bool stages_within(const struct ideals *ideals, int below, int above)
{
    const uint64_t *a = ideal_bits(ideals, below), *b = ideal_bits(ideals, above);
    for (int w = 0; w < ideals->words; w++)
        if (a[w] & ~b[w])
            return false;
    return true;
}
/* Places from ideal `start` on, loads below limit. value: (count) smallest largest load of all that lies between start
 * and each ideal on exactly the limits of the axes; INFINITY where there is none below limit, and from ideal
 * `end` on. The axes must be exact. */
bool stage_walk_from(struct stage_walk *walk, int start, int end, double limit, double *value, struct error *err);
/* When limits->stops() says so a pass ends early, and its values are not to be used. NULL: never. */
void stage_walk_stop_with(struct stage_walk *walk, const struct stage_limits *limits);
/* Stages looked at by all walks so far; goes on counting. */
const int64_t *stage_walk_work(const struct stage_walk *walk);
/* Of the last walk: the best label of `above` that uses all of every axis, or -1; and its stages, in the arena. */
int stage_walk_best(const struct stage_walk *walk, int above);
bool stage_walk_stages(const struct stage_walk *walk, int label, struct arena *arena, struct stage **out, int *count,
                       struct error *err);
#endif
