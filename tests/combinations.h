/* Rows that a plan combines (dimensions, schedules, models, ZeRO stages, ...), one of each column, on 2 to 8 ranks:
 * which pairs of them the planner takes, and a covering array in which each of those stands at least once. Rows come
 * from the project's lists, so that a new one joins by itself. The same comes out each time. */
#ifndef CLEAVE_TESTS_COMBINATIONS_H
#define CLEAVE_TESTS_COMBINATIONS_H
#include "tests/check.h"
#include "tests/tiny_models.h"

enum column {
    COLUMN_DIMENSION, /* of the mesh's first atom; the last row: there is none */
    COLUMN_INNER,     /* of its second atom; likewise */
    COLUMN_OTHER,     /* of its second atom in every other layer; likewise */
    COLUMN_SCHEDULE,  /* schedules[] */
    COLUMN_MODEL,     /* tiny_models[], and one of layers with given costs */
    COLUMN_ZERO,      /* 0 to 3 */
    COLUMN_RECOMPUTE, /* enum recompute */
    COLUMN_OFFLOAD,   /* enum offload */
    COLUMN_RESHARD,   /* enum reshard */
    COLUMN_REPLICATE, /* none, or every other operator */
    COLUMN_EXCEPT,    /* none, or every other operator is recomputed otherwise */
    COLUMN_STAGES,    /* 1, 2, 4 */
    COLUMN_REPLICAS,  /* equal stages, replicas that take turns, meshes that differ by stage */
    COLUMN_SLICES,    /* 1, 2 */
    COLUMN_BUCKETS,   /* none, 4 KiB */
    COLUMN_PREFETCH,  /* 0, 1 */
    COLUMN_CLIPPING,  /* none, at 1 */
    COLUMN_EXTRA,     /* extra_in_flight 0, 1 */
    COLUMN_LOSS,      /* loss_chunks 1, 4 */
    COLUMN_COUNT
};
struct combination {
    int row[COLUMN_COUNT];
};
enum { COMBINATION_OPAQUE = TINY_MODELS + 1, COMBINATION_PLANNED, COMBINATION_MODELS, ROW_NAME_BYTES = 64 };
/* Of all rows of COLUMN_MODEL. */
struct combination_graphs {
    struct graph *of[COMBINATION_MODELS];
};
void combination_graphs_open(struct combination_graphs *graphs);
void combination_graphs_close(struct combination_graphs *graphs);
const char *combination_model(int row); /* its description */

const char *column_name(enum column column);
int row_count(enum column column);
/* What the table calls the row. */
void row_name(const struct combination_graphs *graphs, enum column column, int row, char name[ROW_NAME_BYTES]);
/* For messages of tests. Valid until the next call. */
const char *combination_name(const struct combination_graphs *graphs, const struct combination *c);

/* The caller frees it. */
struct plan *combination_plan(const struct combination_graphs *graphs, const struct combination *c);
/* NOT_MADE: no such plan is made here, legal or not (more than 8 ranks, an absent atom that has a dimension). */
enum legality { PLAN_LEGAL, PLAN_REFUSED, PLAN_NOT_MADE };
enum legality combination_verdict(const struct combination_graphs *graphs, const struct combination *c,
                                  struct error *err);

/* Two rows of different columns. LEGAL: some plan has both, `example` is one. REFUSED: plan_check() refuses all that
 * were tried; `example` is one of which the message names both rows, if there is one (names_both). */
struct pair_verdict {
    enum legality verdict;
    bool names_both;
    struct combination example;
    struct error error;
};
struct combination_pairs {
    int first[COLUMN_COUNT + 1]; /* rows of all columns, numbered through */
    struct pair_verdict *of;     /* [a * all + b] of rows a < b of different columns */
};
void combination_pairs_open(struct combination_pairs *pairs, const struct combination_graphs *graphs);
void combination_pairs_close(struct combination_pairs *pairs);
/* a < b. */
const struct pair_verdict *pair_of(const struct combination_pairs *pairs, enum column a, int row_a, enum column b,
                                   int row_b);

/* Legal combinations in which each legal pair stands at least once, found greedily. The caller frees them. */
struct combination *covering_array(const struct combination_graphs *graphs, const struct combination_pairs *pairs,
                                   int *count);
#endif
