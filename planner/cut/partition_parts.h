/* Between the parts of the partition: partition.c falls from one cap to the next, partition_cut.c finds the best cut
 * under a cap, partition_level.c knows what stages cost at their places, partition_vectors.c bounds single ones and
 * partition_stage.c solves them. A `shape` is the index of a stage's number of meshes. */
#ifndef CLEAVE_CUT_PARTITION_PARTS_H
#define CLEAVE_CUT_PARTITION_PARTS_H
#include "base/num.h"
#include "planner/knapsack/knapsack.h"
#include "planner/cut/partition.h"

enum { TIE_BITS = 16 };
#define NOTHING_FITS (INT64_MAX / 4) /* as a bound of C + Y */
enum { ROW_MEMORY = 0, ROW_FORWARD, ROW_PATH, ROW_LAST, ROW_LANE, ROW_COUNT };
/* VECTORS: multipliers that bound every stage. BINS: ranges of the transient bytes. RECORDS: answers kept of a stage.
 * VECTOR_SUM_BITS: fraction of a nanosecond in a vector's sums. */
enum { VECTORS = 6, BINS = 6, RECORDS = 8, VECTOR_SUM_BITS = 8 };

/* How closely a stage is solved: its relaxation, with a beam for a good answer, to the end. */
enum effort { EFFORT_RELAX, EFFORT_BEAM, EFFORT_END };

/* What a stage adds to the longest: X, the longer of both ends behind it, and the lane's; or of all stages the longest
 * of each. Where passes are not in phases X is 0 and all is in the ends. */
struct stage_times {
    int64_t forward_ns, rest_ns, lane_ns;
};
static inline int64_t stage_times_ns(const struct stage_times *times)
{
    return max_i64(times->forward_ns + times->rest_ns, times->lane_ns);
}
static inline bool stage_times_within(const struct stage_times *a, const struct stage_times *b)
{
    return a->forward_ns <= b->forward_ns && a->rest_ns <= b->rest_ns && a->lane_ns <= b->lane_ns;
}
static inline struct stage_times stage_longer(const struct stage_times *a, const struct stage_times *b)
{
    return (struct stage_times){ max_i64(a->forward_ns, b->forward_ns), max_i64(a->rest_ns, b->rest_ns),
                                 max_i64(a->lane_ns, b->lane_ns) };
}

/* One answer about a stage's content, which is proven of all caps within those that it was asked with. */
struct record {
    struct stage_times asked;
    int64_t lower;                  /* bound of C, INT64_MAX: nothing fits */
    int64_t path;                   /* C of a solution; INT64_MAX: none */
    struct stage_times rows, times; /* of it, as the rows have it, and by the formula */
    struct layer_count *counts;     /* list, of the solution */
};
/* One stage content with one number in flight. */
struct cell {
    int record_count;
    struct record *records;   /* (RECORDS) oldest overwritten first */
    struct stage_times empty; /* nothing fits, or nothing was found, within these caps */
    struct stage_times caps;  /* the present ones when it was last looked at: */
    int64_t lower;            /* what is proven then */
    int seen;                 /* of its level's vectors, so many of all are in that */
    int solution;             /* the shortest that fits under it, index of a record; -1: none */
    enum effort effort;       /* already spent at the present cap */
    bool tried;               /* effort is set */
    double slope;             /* of the bound when the cap falls, from the last relaxation */
    int64_t whole;            /* proven of C + Y, whatever the cap */
    enum effort whole_effort; /* already spent on that */
    bool whole_tried;
};
/* What a cell's `lower` was under a cap when so many vectors were seen: it stands by that of neighbouring cells for
 * sweeps, to which it is mostly enough to go on. Without a solution it is one more: the cell's Y may be the whole cap,
 * so that it is not better than what takes as long. */
struct lower_seen {
    int64_t cap_ns, lower;
    int seen;
};
/* Long chains have very many intervals, of which few are looked at, so cells come in chunks. */
enum { CHUNK_CELLS = 128 };
struct cell_chunk {
    struct lower_seen lower[CHUNK_CELLS];
    struct cell *at[CHUNK_CELLS];
};
/* Multipliers, with the sums of each layer's least price at one level, which bound any stage in a few operations. */
struct vector {
    int64_t multiplier[ROW_COUNT]; /* times 2^-30, cost per unit of each row */
    int64_t peak_part[BINS];       /* what a bin's peak adds */
    int64_t *sum;                  /* (sums, BINS) */
    int64_t cap_part;              /* what the caps take off, at the present cap */
};
struct vectors { /* of one level, the oldest replaced first: the i-th of all is at[i % VECTORS] */
    int count, next, total;
    struct vector at[VECTORS];
};
/* A range of X where passes are in phases: only plans with X in it are solved, whose Y all begin with from_ns; forward
 * passes have a row of their own, and none in the other times' rows. Without `apart` X is free, and rows of both passes
 * underestimate. */
struct forward_span {
    bool apart;
    int64_t from_ns, to_ns;
    int64_t rest_ns; /* of the longest stage's other passes, at least */
};
/* One way to go on from a row: a stage with that number of meshes, which ends within the row behind it. */
struct leg {
    int shape, after, level;
    int first_end, last_end;
    int64_t cut_ns; /* level_end_ns() */
};
/* The farthest end of a level's stages from one layer on, as of one pass. */
struct stage_reach {
    int64_t pass;
    int level, end;
};
/* A cell of a chain with branches, by a key of the layers that the stage holds. */
struct keyed_cell {
    uint64_t key;
    struct cell *cell; /* NULL: free */
};
struct keyed_cells {
    size_t size, used; /* size: a power of two */
    struct keyed_cell *slots;
};
/* What stages share that differ in their layers alone: one number in flight, of micro-batches, and one price table. */
struct stage_level {
    const struct price_table *table;
    int64_t period_ns, in_flight, micro_batches; /* p, n, m */
    /* made when the level is first asked for: */
    struct cell_chunk **cells;          /* (interval_count / CHUNK_CELLS + 1), all made on demand */
    struct knapsack_option *options[2]; /* (class_count, strategy_count); the second: tied layers joined */
    int64_t *path_ns, *step_ns;         /* (sums) of each layer's smallest C and O by the level's own table */
    int64_t *least_bytes;               /* (sums); may be less than the least */
    struct vectors vectors;
    bool solved;   /* a stage of it has a solution */
    int *dead_end; /* (places) ends from which on stages that begin there have no solution at this cap; or NULL */
    int64_t dead_cap_ns;
};
/* The best cut under the present cap, from each place behind the stages before it. */
struct cutting {
    int64_t *best_ns, *best_high; /* (rows, places) */
    int *end;                     /* (rows, places) of the stage; with branches (rows), of the best cut alone */
    int8_t *shape;                /* (rows, places) index of its number of meshes */
    int *first_from, *first_to;   /* (rows) places where a stage can begin */
    struct stage_reach *reach;    /* (shapes, places) */
    int *near;                    /* (shapes) scratch: where the row before led to */
    struct leg *legs;             /* (shapes) scratch: of one row */
};
/* What one knapsack at a time is stated in. */
struct knapsack_scratch {
    struct knapsack_group *groups;
    int *group_first, *counts, *class_count; /* group_first: index of its first option */
    int64_t *class_price;                    /* (class_count, BINS), at the start of other sums too */
};
struct solver {
    const struct partition_problem *problem;
    struct partition_result *result;
    struct error *err;
    struct arena *arena; /* as long as the solver works */
    struct arena *kept;  /* the caller's: plans */
    struct forward_span span;
    int64_t nearest_ns, nearest_forward_ns; /* of the plans met: the shortest by the rows, and its X */
    int classes, strategies, layers, stages;
    int places, last, sums; /* of the chain; last: behind all layers; sums: chain_sums() */
    /* Rows say where a stage begins: by the stages before it; with meshes by those that they take, and where the number
     * of stages is given by both, (stage, meshes). */
    int row_count, shape_count;
    int level_count, *level;    /* (rows, shapes) index of the stage's level */
    struct stage_level *levels; /* (level_count) */
    bool turns_alike;           /* replicas that take turns cost the same wherever they are, but for their exchange */
    struct keyed_cells keyed;   /* of all levels */
    int vector_level;           /* that got the latest vector; -1: none */
    int64_t bin_peak[BINS + 1]; /* a bin's largest transient bytes are above [i], at most [i + 1] */
    int64_t *least_path_ns, *least_step_ns; /* (sums) of each layer's smallest C, O */
    int64_t *most_path_ns;                  /* (sums) of its largest C of any table */
    int64_t least_ns, most_high_ns;         /* least C of all layers; no plan's Y is larger */
    int64_t cap_ns;                         /* Y */
    int64_t most_sum_ns, open_sum_ns;       /* with branches: larger sums of C are not looked for; the least left out */
    bool stopped, exhausted;                /* exhausted: by the work of ideals_sweep() */
    struct cutting cutting;
    struct ideal_cut *ideal_cut; /* of a chain with branches, in place of the best: partition_ideals.c */
    struct knapsack_scratch scratch;
};

static inline int64_t path_ns(const struct layer_price *p)
{
    return p->forward_ns + p->backward_ns;
}

/* Gives the most replicas that a stage can have. */
static inline int64_t most_replicas(const struct partition_problem *problem)
{
    return min_i64(problem->turns[problem->shape_count - 1], problem->mesh_count);
}

/* Gives what the longest stage with turns over the G meshes takes at least beyond its first micro-batch, of least
 * passes that come to `sum` and O to step_ns: a stage of r replicas takes Y >= (m/r - 1) C + O, and so G Y >= sum r Y
 * >= sum (m - r) C + O. */
static inline int64_t mean_of_turns(const struct partition_problem *problem, int64_t sum, int64_t step_ns)
{
    int64_t rest = max_i64(0, problem->micro_batch_count - most_replicas(problem)) * sum;
    return ceil_div(rest + step_ns, problem->mesh_count);
}

/* Gives what a stage's times may be under the present cap. */
static inline struct stage_times stage_caps(const struct solver *s)
{
    return (struct stage_times){ s->span.to_ns, s->cap_ns - s->span.from_ns, s->cap_ns };
}
/* Gives Y of a record's solution, as the rows have it. */
static inline int64_t record_high_ns(const struct solver *s, const struct record *record)
{
    return max_i64(s->span.from_ns + record->rows.rest_ns, record->rows.lane_ns);
}
/* Gives what a stage's Y has beside its layers: sends that are not hidden, and the span's beginning. */
static inline int64_t level_waiting_ns(const struct solver *s, int level)
{
    return (s->levels[level].micro_batches - 1) * s->levels[level].period_ns + s->span.from_ns;
}
/* Gives by how much (m-1)(C + p) + O of a stage may exceed the cap on Y. */
static inline int64_t stage_slack_ns(const struct solver *s)
{
    return s->span.to_ns - s->span.from_ns;
}
/* Gives how much above the bound is good enough: of a step, or of a part of it. */
static inline int64_t step_tolerance(const struct solver *s, int64_t step_ns)
{
    return partition_gap_ns(s->problem->gap_ppm, step_ns);
}
/* Gives what a step has once: the sends of a micro-batch, there and back, and the norm's exchange. */
int64_t partition_once_ns(const struct partition_problem *problem);
/* Gives what the cuts at a stage's ends, or at one of them, add to it where the number of cuts is free, or what they
 * cost: the stage's half. before: meshes of the stages before it. */
int64_t level_end_ns(const struct partition_problem *problem, int before, int shape);
int64_t level_ends_ns(const struct partition_problem *problem, int before, int shape, int first, int end);
/* C, times and bytes of a stage of given counts. */
struct stage_sums {
    int64_t path_ns, bytes;
    struct stage_times times;
};
/* What a stage's prices depend on beside its layers. */
struct stage_place {
    const struct price_table *table;
    int64_t micro_batches, in_flight;
};
/* Gives the place, with meshes that of a stage of turns[shape] meshes, from which on so many are left. */
struct stage_place stage_place_of(const struct partition_problem *problem, int stage, int shape, int meshes_left);
struct stage_sums level_sums(const struct stage_place *place, bool phases, const struct chain *chain, int first,
                             int end, const struct layer_count *counts);
/* partition_counts.c: true when both are of the same solution, in the same order. */
bool counts_equal(const struct layer_count *a, const struct layer_count *b);
struct layer_count *counts_copy(struct arena *arena, const struct layer_count *counts);
/* Makes the level's options, unless it has them; false: out of memory. */
bool level_set_options(struct solver *s, int level);
/* Gives what one layer adds to the rows of its stage's knapsack, of m micro-batches. joined: the stage holds both
 * layers that share a weight. apart: forward passes have a row of their own. */
void level_rows(int64_t row[ROW_COUNT], const struct layer_price *p, int64_t m, int64_t in_flight, bool joined,
                bool apart);
/* Gives what a layer holds of the stage's memory while any other is at work; joined as above. */
static inline int64_t stage_layer_bytes(const struct layer_price *p, int64_t in_flight, bool joined)
{
    return p->weight_bytes + (joined ? 0 : p->tied_bytes) + in_flight * p->saved_bytes - p->freed_bytes;
}
/* Gives the least of any strategy, its tied weights held by another layer. */
static inline int64_t stage_least_bytes(const struct price_table *table, int class_index, int64_t in_flight)
{
    int64_t least = INT64_MAX;
    for (int i = 0; i < table->strategy_count; i++)
        least = min_i64(least, stage_layer_bytes(price_at(table, class_index, i), in_flight, true));
    return least;
}
/* Gives p of the closed form: the latency of sends that a stage with n micro-batches of m in flight cannot hide. */
int64_t level_period_ns(const struct price_table *table, int64_t n, int64_t m);
/* Sets levels and bins; false when out of memory. */
bool levels_start(struct solver *s);
/* True when the stage does not fit under the cap, whatever strategies its layers choose. */
static inline bool stage_too_long(const struct solver *s, int level, int first, int end)
{
    const struct chain *chain = s->problem->chain;
    int64_t m = s->levels[level].micro_batches, path = chain_between(chain, s->levels[level].path_ns, first, end);
    int64_t bytes = chain_between(chain, s->levels[level].least_bytes, first, end) + s->levels[level].table->base_bytes;
    int64_t step = chain_between(chain, s->levels[level].step_ns, first, end);
    int64_t high = (m - 1) * (path + s->levels[level].period_ns) + step;
    return bytes > s->problem->capacity_bytes || high > s->cap_ns + stage_slack_ns(s);
}
/* partition_vectors.c: gives the caps of a level's rows; of C + Y, where Y counts from nothing. (ROW_COUNT) */
void vectors_row_caps(const struct solver *s, int level, int64_t *cap);
void vectors_whole_caps(const struct solver *s, int level, int64_t *cap);
/* Gives the best bound of the vectors that came after the first `seen` of the level, and are still there. It stops at a
 * bound of `enough`. */
int64_t vectors_bound(const struct solver *s, int level, int first, int end, int seen, int64_t enough);
/* Adds a vector to a level; one that ended a relaxation goes to levels that have none yet as well. False: no memory. */
bool vectors_put(struct solver *s, int level, const int64_t multiplier[ROW_COUNT]);
bool vectors_add(struct solver *s, int level, const double *multipliers);
/* Makes a vector of one row alone, where already its least is too much, so that nothing was relaxed. */
void vectors_single_row(const struct knapsack *knapsack, double *multipliers);
/* Must be called when s->cap_ns has changed, since vectors' bounds hold the cap. */
void vectors_cap_changed(struct solver *s);
/* Gives the cell with its bound and best solution at the present cap; NULL when out of memory. */
struct cell *stage_cell(struct solver *s, int level, int first, int end);
/* True when the bound of a cell seen under the present cap is above `most`; for a chain without branches. */
static inline bool stage_is_above(const struct solver *s, int level, int first, int end, int64_t most)
{
    const struct stage_level *own = &s->levels[level];
    int index = chain_interval(s->problem->chain, first, end);
    const struct cell_chunk *chunk = own->cells ? own->cells[index / CHUNK_CELLS] : NULL;
    const struct lower_seen *seen = chunk ? &chunk->lower[index % CHUNK_CELLS] : NULL;
    return seen && seen->cap_ns == s->cap_ns && seen->seen == own->vectors.total && seen->lower > most;
}
/* Finds the cell of a chain with branches, but makes none: *cell is NULL where there is none. *lower: what is proven at
 * the present cap, there no more than is enough. False when out of memory. */
bool stage_known(struct solver *s, int level, int first, int end, int64_t enough, struct cell **cell, int64_t *lower);
/* True when more effort can change what is known of the cell. */
bool stage_open(const struct solver *s, const struct cell *cell, enum effort effort);
/* Notes that nothing fits the cell under the present cap. */
void stage_set_empty(const struct solver *s, struct cell *cell);
/* Solves the cell at the present cap. */
bool stage_solve(struct solver *s, int level, int first, int end, enum effort effort);

/* Solves for C + Y of the stage alone, whatever the cap: cell->whole. *record: its solution, -1: none. */
bool stage_solve_whole(struct solver *s, int level, int first, int end, enum effort effort, int *record);

/* Gives the meshes of all stages before the row. */
static inline int row_meshes(const struct solver *s, int row)
{
    return s->problem->mesh_count > 0 ? row % (s->problem->mesh_count + 1) : row;
}
/* Gives the row behind a stage with that number of meshes; -1 where there are not so many, or no more stages. */
static inline int row_after(const struct solver *s, int row, int shape)
{
    int meshes = s->problem->mesh_count, after;
    if (meshes == 0)
        return row + 1;
    if (row_meshes(s, row) + s->problem->turns[shape] > meshes)
        return -1;
    after = row + s->problem->turns[shape] + (s->stages > 0 ? meshes + 1 : 0);
    return after < s->row_count ? after : -1;
}
/* A stage of the best cut. */
struct stage_spot {
    int stage, row, shape, level, first, end;
};
static inline size_t spot_index(const struct solver *s, int row, int first)
{
    if (s->problem->chain->branches)
        return (size_t)row;
    return (size_t)row * (size_t)s->places + (size_t)first;
}
static inline struct stage_spot cut_spot(const struct solver *s, int stage, int row, int first)
{
    struct stage_spot at = { .stage = stage, .row = row, .first = first, .end = first };
    if (first == s->last)
        return at;
    size_t index = spot_index(s, row, first);
    at.end = s->cutting.end[index];
    at.shape = s->cutting.shape[index];
    at.level = s->level[row * s->shape_count + at.shape];
    return at;
}
static inline bool spot_ends(const struct solver *s, const struct stage_spot *at)
{
    return at->first == s->last;
}
/* Begins the walk: for (struct stage_spot at = cut_first(s); !spot_ends(s, &at); at = cut_next(s, at)). */
static inline struct stage_spot cut_first(const struct solver *s)
{
    return cut_spot(s, 0, 0, 0);
}
static inline struct stage_spot cut_next(const struct solver *s, struct stage_spot at)
{
    return cut_spot(s, at.stage + 1, row_after(s, at.row, at.shape), at.end);
}

/* Sweeps like cut_sweep() a chain with branches (partition_ideals.c); s->stopped where that is too much work. */
bool ideals_sweep(struct solver *s, int64_t *sum);
/* Gives what is proven of the sum without looking at single stages; INT64_MAX where nothing fits. */
bool ideals_rest(struct solver *s, int64_t *sum);
void bands_close(struct solver *s); /* frees what the sweeps have made (partition_bands.c) */
/* Sweeps and solves the stages of the best cut until none of them is open, or all their bounds together rise by no more
 * than slack_ns. *sum is proven in any case. */
bool cut_refine(struct solver *s, enum effort effort, int64_t slack_ns, int64_t *sum);
/* Looks for better solutions of the stages on the best cut. */
bool cut_polish(struct solver *s);
/* The solutions on the best cut, but for one stage another record of its cell. */
struct spot_choice {
    int stage, record; /* stage -1: the solutions of all */
};
/* Sums of the solutions and the slope of the cut's bound; false where a stage has none. */
bool cut_solution(struct solver *s, struct spot_choice choice, int64_t *sum, int64_t *high, struct stage_times *times,
                  double *slope);
/* Gives the step of the best plan so far; without one, what plans must be below. */
static inline int64_t best_known_ns(const struct partition_problem *problem, const struct partition_result *result)
{
    return result->plan_count > 0 ? result->plans[0].step_ns : problem->below_ns;
}
/* True when such a bound is all that is wanted. */
static inline bool good_enough(const struct partition_problem *problem, const struct partition_result *result,
                               int64_t bound_ns)
{
    int64_t best = best_known_ns(problem, result);
    return bound_ns >= best - partition_gap_ns(problem->gap_ppm, best) ||
           (problem->enough_ns > 0 && bound_ns >= problem->enough_ns);
}
/* What is known of the plans of a span. */
struct solved_span {
    int64_t bound_ns;   /* none is shorter, unless it is not below the problem's below_ns */
    int64_t forward_ns; /* X of the shortest by the rows; INT64_MIN: none was met */
    bool stopped;
};
/* Adds its plans to *result. Of a span that is apart below_ns is given. */
bool partition_span(const struct partition_problem *problem, struct forward_span span, struct arena *arena,
                    struct partition_result *result, struct solved_span *out, struct error *err);
/* Closes what the rows left open where passes are in phases, after all plans were solved at once. */
bool phases_solve(const struct partition_problem *problem, struct arena *arena, struct partition_result *result,
                  const struct solved_span *all, struct error *err);
bool cut_keep_plan(struct solver *s, struct spot_choice choice, int64_t step_ns);
#endif
