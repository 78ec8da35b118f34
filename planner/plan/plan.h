/* The decisions, and nothing else. A plan knows nothing of JSON, costs or programs. Plain data built by one function,
 * then const. */
#ifndef CLEAVE_PLAN_PLAN_H
#define CLEAVE_PLAN_PLAN_H
#include "base/arena.h"
#include "base/error.h"
#include "models/graph.h"
#include "planner/plan/dim.h"

enum { MAX_ATOMS = 4, PLAN_MAX_MICRO_BATCHES = 1 << 20, PLAN_MAX_PREFETCH = 1 << 16 };

enum recompute { RECOMPUTE_NONE, RECOMPUTE_SELECTIVE, RECOMPUTE_FULL, RECOMPUTE_COUNT };
extern const char *const recompute_names[RECOMPUTE_COUNT + 1];

/* A stage is a mesh of atoms (factors of its rank count). Rank first_rank + mixed-radix coordinate; the LAST atom is
 * the innermost (neighbouring ranks).
 *
 * A rank is a place in the cluster: rank r computes on its r-th device. Stages take neighbouring ranks each, in any
 * order, since which type of device comes where in the pipeline is a decision. */
struct plan_stage {
    int first_layer, layer_count; /* contiguous in graph->layers */
    int first_rank;               /* the stages' ranges of ranks tile 0 .. rank_count - 1 */
    int atom[MAX_ATOMS];          /* sizes; unused ones are 1 */
};
struct plan_layer {
    int8_t dim[MAX_ATOMS]; /* enum dimension_index of each mesh atom in this layer */
    int8_t zero;           /* 0..3, over the atoms whose dimension shards */
    int8_t recompute;      /* enum recompute */
    int16_t slices;        /* rounds in which the layer's sliceable operators run; 1: whole */
};

struct plan {
    struct arena arena;
    int64_t batch, sequence; /* sequences per step over all ranks, tokens per sequence */
    int64_t vocab_multiple;  /* graph_build(..., vocab_multiple) */
    enum dtype dtype;
    int schedule;          /* index into schedules[] (planner/program/schedule.h) */
    int micro_batch_count; /* m; a micro-batch holds batch / m sequences, split over the batch-splitting atoms */
    int extra_in_flight;   /* warm-up micro-batches beyond the schedule's own */
    int atom_count;        /* the same for all stages; sizes may differ by stage */
    int64_t bucket_bytes;  /* gradients are reduced in buckets of about this size; 0: one collective per weight */
    int prefetch;          /* ZeRO-3 gathers are issued this many layers ahead; 0: where they are used */
    double clip_norm;      /* global gradient-norm clipping; 0: off */
    int stage_count, layer_count, rank_count;
    struct plan_stage *stages;
    struct plan_layer *layers; /* by graph layer */
};

/* Where the stage's ranks begin when stages lie in order: behind those of the stage before. */
int stage_next_rank(const struct plan *plan, int stage);
int stage_rank_count(const struct plan *plan, int stage);
int stage_of_rank(const struct plan *plan, int rank);
int stage_of_layer(const struct plan *plan, int layer);
/* Coordinate along an atom of the stage's local rank (global rank - first_rank). */
int atom_coordinate(const struct plan *plan, int stage, int local_rank, int atom);
/* A plan with `stages` stages and `layers` layers, all fields zero but slices = 1, dims none, atoms 1. NULL: out of
 * memory. */
struct plan *plan_new(int stage_count, int layer_count);
struct plan *plan_copy(const struct plan *plan); /* NULL: out of memory */
void plan_free(struct plan *plan);               /* accepts NULL */
/* Whether two layers were decided alike. */
bool plan_layer_equal(const struct plan_layer *a, const struct plan_layer *b);
/**
 * Everything that makes a plan illegal for this graph: layers not covered, ranks not contiguous, a batch that does not
 * divide (the message gives the nearest valid sizes), dims out of range, schedules' own rules, zero without a sharding
 * atom is allowed and has no effect. Lowering trusts a plan that passed.
 */
bool plan_check(const struct plan *plan, const struct graph *graph, struct error *err);
/* 64-bit hash of all decisions. */
uint64_t plan_hash(const struct plan *plan);
#endif
