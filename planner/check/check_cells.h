/* What stages of a configuration need at least, as far as that was looked into: one cell for all stages of one kind
 * with one content. And what a sweep over cuts knows of the best one. */
#ifndef CLEAVE_CHECK_CHECK_CELLS_H
#define CLEAVE_CHECK_CHECK_CELLS_H
#include "planner/check/check_cut_parts.h"

enum refinement { PLAIN, RELAXED, SOLVED };

/* What stages of one kind with one content need at least. */
struct cutter_cell {
    int64_t least, cost; /* cost, ends: of the choice that was found, when SOLVED; cost INT64_MAX: none */
    struct stage_ends ends;
    enum refinement refinement;
    int64_t total;      /* of path and longest time together, whatever the cap */
    int64_t total_most; /* if more than that were enough, solving would not show it */
    bool total_relaxed;
};
/* For each place where a stage can begin (rows, width): what is least from there on, and by which stage. */
struct way {
    int64_t best;   /* INT64_MAX: none */
    int end, shape; /* the stage's */
};
/* A stage of the best cut. */
struct part {
    int kind, first, end;
    struct cutter_cell *cell;
    int64_t ends_ns;   /* sends at its ends */
    int64_t behind_ns; /* paths of what follows, at least, in this cut or another */
};
struct cutter {
    const struct cut_problem *p;
    struct arena arena;
    struct error *err;
    int width;                  /* places where stages begin and end */
    int *sum;                   /* (width, classes) layers of a class before */
    int *content;               /* (layers, layers + 1) index of the multiset of [first, end) */
    int content_count, *sample; /* (contents, 2) */
    int kind_count, *kind;      /* (kinds of the problem) index of the first of the same kind */
    struct cutter_cell **cells; /* (kinds) of (contents), by kind */
    int64_t **least_use;        /* (kinds, LIMIT_COUNT + 1) prefix sums of each layer's least use; last: path */
    int *counts;                /* (classes) */
    int row_count;              /* where a stage begins: stages before it; with meshes those, and if need be both */
    struct way *path;           /* by the sum of paths */
    struct way *step;           /* by a bound of paths and longest time */
    int64_t **known;            /* (kinds) multipliers that proved a total */
    struct part *part;          /* (rows) */
    int part_count;
    int *nearest, *farthest; /* (rows) where a stage can begin there, under the present cap */
    int64_t cap_ns, bound_ns;
    bool eager; /* relaxations are solved as soon as a stage seems to be the best from a place on */
};

/* Fails only for want of memory. */
bool cutter_open(struct cutter *c, const struct cut_problem *p, struct error *err);
void cutter_close(struct cutter *c);
/* Gives what the stage holds; it borrows c->counts. */
struct stage_content cutter_content(struct cutter *c, int first, int end);
/* Gives what layers take at least of a limit, or of USE_PATH, each by the strategy that takes least. */
int64_t cutter_least(const struct cutter *c, int kind, int what, int first, int end);
/* Gives the cell of stages like that one; NULL when out of memory. */
struct cutter_cell *cell_at(struct cutter *c, int kind, int first, int end);
/* Bounds the cell's path more closely under the present cap. */
bool cell_refine(struct cutter *c, struct cutter_cell *cell, int kind, int first, int end);
/* Bounds path and longest time together more closely, if that comes to enough_ns; of the relaxation also below. solve:
 * by whole counts. */
bool cell_refine_total(struct cutter *c, struct cutter_cell *cell, int kind, int first, int end, bool solve,
                       int64_t enough_ns);
/* True when the cell's solution is one under the present cap too. */
bool cell_settled(const struct cutter *c, int kind, const struct cutter_cell *cell);
#endif
