/* Between the parts of the partition: partition.c falls from one cap to the next, partition_cut.c finds the best cut
 * under a cap, partition_level.c knows what stages cost at their places, partition_stage.c bounds and solves single
 * ones. */
#ifndef CLEAVE_SEARCH_PARTITION_PARTS_H
#define CLEAVE_SEARCH_PARTITION_PARTS_H
#include "planner/search/knapsack.h"
#include "planner/search/partition.h"

enum { TIE_BITS = 16 };
enum { ROW_MEMORY = 0, ROW_PATH, ROW_LAST, ROW_LANE, ROW_COUNT };
/* VECTORS: multipliers that bound every stage. BINS: ranges of the transient bytes. RECORDS: answers kept of a stage.
 */
enum { VECTORS = 6, BINS = 6, RECORDS = 8 };

/* How closely a stage is solved: its relaxation, with a beam for a good answer, to the end. */
enum effort { EFFORT_RELAX, EFFORT_BEAM, EFFORT_END };

/* One answer about a stage's content: proven of every cap up to the one it was asked with. */
struct record {
    int64_t asked, lower; /* Y asked with; bound of C, INT64_MAX: nothing fits */
    int64_t path, high;   /* C and Y of a solution; INT64_MAX: none */
    int *count;           /* (class_count, strategy_count) of the solution */
};
/* One stage content with one number in flight. */
struct cell {
    int record_count;
    struct record *records;   /* (RECORDS) oldest overwritten first */
    int64_t empty_cap;        /* nothing fits, or nothing was found, up to this cap */
    int64_t cap, lower;       /* what is proven at the present cap */
    int seen;                 /* of its level's vectors, so many of all are in that */
    int solution;             /* the shortest that fits under it, index of a record; -1: none */
    enum effort effort;       /* already spent at the present cap */
    bool tried;               /* effort is set */
    double slope;             /* of the bound when the cap falls, from the last relaxation */
    int64_t whole;            /* proven of C + Y, whatever the cap */
    enum effort whole_effort; /* already spent on that */
    bool whole_tried;
};
/* Long chains have very many intervals, of which few are looked at. */
enum { CHUNK_CELLS = 128 };
struct cell_chunk {
    struct cell *at[CHUNK_CELLS];
};
/* Multipliers, with the sums of each layer's least price at one level: they bound any stage in a few operations. */
struct vector {
    int64_t multiplier[ROW_COUNT]; /* times 2^-30, cost per unit of each row */
    int64_t peak_part[BINS];       /* what a bin's peak adds */
    int64_t *sum;                  /* (layers + 1, BINS) */
    int64_t cap_part;              /* what the caps take off, at the present cap */
};
struct vectors { /* of one level, the oldest replaced first: the i-th of all is at[i % VECTORS] */
    int count, next, total;
    struct vector at[VECTORS];
};
struct solver {
    const struct partition_problem *problem;
    struct arena *arena; /* as long as the solver works */
    struct arena *kept;  /* the caller's: plans */
    int classes, strategies, layers, stages;
    /* Where a stage begins: the stages before it; with turns the meshes that they take, and where the number of stages
     * is given both, (stage, meshes). */
    int row_count, turn_count;
    int level_count, *level;           /* (rows, turns) index of the distinct in-flight count and price table */
    const struct price_table **tables; /* (level_count) */
    int64_t *period_ns, *in_flight, *micro_batches; /* (level_count) p, n, m */
    /* made when the level is first asked for: */
    struct cell_chunk ***cells; /* (level_count) of (interval_count / CHUNK_CELLS + 1), all made on demand */
    struct knapsack_option *
        *options; /* (level_count, 2) of (class_count, strategy_count); the second: tied layers joined */
    int64_t *least_path_ns, *least_step_ns; /* (layers + 1) sums of each layer's smallest C, O */
    int64_t *most_path_ns;                  /* of its largest C of any table */
    int64_t most_high_ns;                   /* no plan's Y is larger */
    int64_t **least_bytes;                  /* (level_count) of (layers + 1); may be less than the least */
    int *first_from, *first_to;             /* (rows) where a stage can begin under the present cap */
    struct vectors *vectors;                /* (level_count) */
    int vector_level;                       /* that got the latest vector; -1: none */
    int64_t *class_price;                   /* (class_count, BINS) */
    int64_t bin_peak[BINS + 1];             /* a bin's largest transient bytes are above [i], at most [i + 1] */
    int64_t cap_ns;                         /* Y */
    bool stopped;
    bool vectors_only; /* cells are bounded by vectors alone, which are every level's: for partition_prove() */
    int64_t *best_ns, *best_high; /* (rows, layers + 1) */
    int *cut;                     /* (rows, layers + 1): end of the stage */
    int8_t *cut_turn;             /* (rows, layers + 1): index of its number of replicas */
    struct knapsack_group *groups;
    int *group_class, *counts, *class_count;
    struct partition_result *result;
    struct error *err;
};

static inline int64_t path_ns(const struct layer_price *p)
{
    return p->forward_ns + p->backward_ns;
}

/* All sends of a micro-batch, there and back. */
int64_t stage_send_total_ns(const struct partition_problem *problem);
/* What each cut adds to the sum of C: where their number is free, sends are not in stage_send_total_ns(). */
int64_t stage_cut_ns(const struct partition_problem *problem);
/* C, Y and bytes of given counts, (class_count, strategy_count). joined: both users of the tied weight are there. */
struct stage_sums {
    int64_t path_ns, high_ns, bytes;
};
struct stage_sums stage_sum(const struct price_table *table, int64_t m, int64_t in_flight, int64_t period_ns,
                            bool joined, const int *count);
/* The level's options; false: out of memory. */
bool stage_set_options(struct solver *s, int level);
/* What one layer adds to the rows of its stage's knapsack, of m micro-batches. joined: the stage holds both layers that
 * share a weight. */
void stage_rows(int64_t row[ROW_COUNT], const struct layer_price *p, int64_t m, int64_t in_flight, bool joined);
/* p of the closed form: what of its sends' latency a stage with n micro-batches of m in flight cannot hide. */
int64_t stage_period_ns(const struct price_table *table, int64_t n, int64_t m);
/* Levels, bins; false: out of memory. */
bool stage_start(struct solver *s);
/* What no choice of strategies can undercut: the stage does not fit under the cap. */
bool stage_too_long(const struct solver *s, int level, int first, int end);
/* To be called when s->cap_ns has changed. */
void stage_cap_changed(struct solver *s);
/* The cell with its bound and best solution at the present cap; NULL: out of memory. */
struct cell *stage_cell(struct solver *s, int level, int first, int end);
/* Whether more effort can change what is known of the cell. */
bool stage_open(const struct solver *s, const struct cell *cell, enum effort effort);
/* Solves the cell at the present cap. */
bool stage_solve(struct solver *s, int level, int first, int end, enum effort effort);

/* The same for C + Y of the stage alone, whatever the cap: cell->whole. *record: its solution, -1: none. */
bool stage_solve_whole(struct solver *s, int level, int first, int end, enum effort effort, int *record);

/* A row's meshes, of all before it. */
static inline int row_meshes(const struct solver *s, int row)
{
    return s->problem->mesh_count > 0 ? row % (s->problem->mesh_count + 1) : row;
}
/* The row behind a stage with that number of replicas; -1: there are not so many meshes, or no more stages. */
static inline int row_after(const struct solver *s, int row, int turn)
{
    int meshes = s->problem->mesh_count, after;
    if (meshes == 0)
        return row + 1;
    if (row_meshes(s, row) + s->problem->turns[turn] > meshes)
        return -1;
    after = row + s->problem->turns[turn] + (s->stages > 0 ? meshes + 1 : 0);
    return after < s->row_count ? after : -1;
}
/* A stage of the best cut. */
struct spot {
    int stage, row, turn, level, first, end;
};
static inline struct spot cut_spot(const struct solver *s, int stage, int row, int first)
{
    struct spot at = { .stage = stage, .row = row, .first = first, .end = first };
    if (first == s->layers)
        return at;
    at.end = s->cut[row * (s->layers + 1) + first];
    at.turn = s->cut_turn[row * (s->layers + 1) + first];
    at.level = s->level[row * s->turn_count + at.turn];
    return at;
}
/* for (struct spot at = cut_first(s); at.first < s->layers; at = cut_next(s, at)) */
static inline struct spot cut_first(const struct solver *s)
{
    return cut_spot(s, 0, 0, 0);
}
static inline struct spot cut_next(const struct solver *s, struct spot at)
{
    return cut_spot(s, at.stage + 1, row_after(s, at.row, at.turn), at.end);
}

/* The least sum of C of all stages under the present cap, as far as is proven (INT64_MAX: nothing fits); its cut in
 * s->cut. */
bool cut_sweep(struct solver *s, int64_t *sum);
/* Sweeps and solves the stages of the best cut until none of them is open, or all their bounds together rise by no more
 * than slack_ns. *sum is proven in any case. */
bool cut_refine(struct solver *s, enum effort effort, int64_t slack_ns, int64_t *sum);
/* Looks for better solutions of the stages on the best cut. */
bool cut_polish(struct solver *s);
/* The solutions on the best cut, but for one stage another record of its cell. */
struct choice {
    int stage, record; /* stage -1: the solutions of all */
};
/* Sums of the solutions and the slope of the cut's bound; false where a stage has none. */
bool cut_solution(struct solver *s, struct choice choice, int64_t *sum, int64_t *high, double *slope);
bool cut_keep_plan(struct solver *s, struct choice choice, int64_t step_ns);
#endif
