/* Galvatron's profiles (JSON) and problem: layers that are alike on a power of two of devices, each
 * with a tensor and a data degree, ZeRO-2 or ZeRO-3, checkpointed or not; even stages; embedding and head beside them.
 * Times are milliseconds and sizes MB (2^20 bytes) as in its files, for one micro-batch of b samples on a data rank:
 *
 *   forward    f = m b / t + c, fitted to the measured times;  backward g = 2 f, 3 f when checkpointed
 *   tensor     6 (checkpointed 9) halves of a measured all-reduce of b sequence hidden values, exposed
 *   gradient   2 (d - 1)/d P/t MB of fp32, halved in bf16, hidden behind g, each slowed by the other by the measured
 *              factor;  ZeRO-3 adds one exposed gather of half the message
 *   others     3 (m' b' + c'); ZeRO-3: a quarter of their message beside forward and one beside backward, which are
 *              slowed; TP of the vocabulary where it is not `vsp`
 *
 * With C a stage's time without gradients and S with them (layers only), p stages and k micro-batches:
 *
 *   step = max( sum C + (k - 1) C_last,  max(min(p - 1, k - 1) C_first, sum of later C) + max(0, k + 1 - p) C_first )
 *          + max(0, max over i of (S_i - sum of C_j, j <= i))
 *
 * Memory of a layer: 4 P/t ratio + activations of the micro-batches in flight; ratios are in galvatron.c. The formula
 * is that of the released search engine (github.com/PKU-DAIR/Hetu-Galvatron, Apache-2.0); where its versions differ,
 * its third, which gives its published answers. */
#ifndef CLEAVE_PEERS_GALVATRON_H
#define CLEAVE_PEERS_GALVATRON_H
#include "base/arena.h"
#include "base/error.h"
#include <stddef.h>
#include <stdint.h>

enum { GALVATRON_DEGREES = 8, GALVATRON_POINTS = 64, GALVATRON_LAYERS = 1024, GALVATRON_STAGES = 128 };

struct galvatron_series { /* one measured time over a size, ascending; and its line by least squares */
    int count;
    double size[GALVATRON_POINTS], ms[GALVATRON_POINTS];
    double ms_per_unit, fixed_ms;
};
struct galvatron_others { /* embedding and head; index: log2 of the vocabulary's tensor degree; -1: not measured */
    double states_mb[GALVATRON_DEGREES], activation_mb[GALVATRON_DEGREES]; /* activations per sample */
};
/* Index of every array: log2 of the degree, -1 where nothing was measured. */
struct galvatron_profile {
    int64_t sequence;
    struct galvatron_series layer, other; /* forward over samples per device */
    double parameter_mb;                  /* P of a layer, fp32 */
    double activation_mb[GALVATRON_DEGREES], checkpoint_mb;
    struct galvatron_others whole, first, last; /* without a pipeline; in its first and last stage */
    double gb_per_s[2][GALVATRON_DEGREES];      /* all-reduce: [1] neighbouring ranks, [0] not */
    double p2p_gb_per_s[GALVATRON_DEGREES];     /* by stages */
    double overlap;                             /* how both slow each other */
    struct galvatron_series allreduce[GALVATRON_DEGREES], all_to_all[GALVATRON_DEGREES]; /* over MB; count 0: none */
};
/* The texts of one folder. Names appear in messages. */
enum galvatron_file {
    GALVATRON_COMPUTATION,
    GALVATRON_MEMORY,
    GALVATRON_ALLREDUCE,
    GALVATRON_P2P,
    GALVATRON_OVERLAP,
    GALVATRON_SP_TIME,
    GALVATRON_FILES
};
/* How the names of such files begin; NULL past the last. */
const char *galvatron_file_prefix(int file);
struct galvatron_text {
    const char *name, *text;
    size_t length;
};
/* sequence 0: the only one in the files. Keys that nothing here needs are ignored. Everything in *out. */
bool galvatron_read_profile(struct galvatron_profile *out, const struct galvatron_text texts[GALVATRON_FILES],
                            int64_t sequence, struct error *err);

struct galvatron_layer {
    int tensor;
    bool zero3, checkpoint; /* zero3: otherwise ZeRO-2. The ranks of a tensor group are neighbours */
};
struct galvatron_plan {
    int stage_count, layer_count, chunks; /* chunks: micro-batches */
    int64_t batch;
    struct galvatron_layer *layers; /* (layer_count) */
    int *stage_layers;              /* (stage_count) */
    int vocabulary_tensor;
    bool vocabulary_sequence; /* vsp: the vocabulary's group splits the sequence and not the weights */
    bool embedding_zero3;
};

struct galvatron_problem {
    const struct galvatron_profile *profile;
    int device_count; /* a power of two */
    int64_t hidden;   /* width of what tensor parallelism sums, 2 bytes each */
    double memory_gb; /* of a device: above 20 GB its search holds a fifth back */
    int layer_count;  /* of galvatron_solve() */
    int64_t batch;    /* of galvatron_solve() */
};
struct galvatron_price {
    double step_s;
    double memory_mb; /* of the fullest stage */
    double limit_mb;
};
/* Fails when the profile lacks what the plan needs, or the plan does not fit the problem's devices. */
/* Which part of it a layer has, in milliseconds of one micro-batch and MB. */
struct galvatron_cost {
    double quiet_ms, exposed_ms;     /* without its gradient's reduction; what that adds after the last micro-batch */
    double states_mb, activation_mb; /* activations of one micro-batch */
};
bool galvatron_layer_cost(const struct galvatron_problem *problem, const struct galvatron_plan *plan,
                          const struct galvatron_layer *layer, struct galvatron_cost *out, struct error *err);
/* Embedding and head in a stage: exposed_ms is 0, activation_mb that of all micro-batches in flight. */
bool galvatron_others_cost(const struct galvatron_problem *problem, const struct galvatron_plan *plan, int stage,
                           struct galvatron_cost *out, struct error *err);
/* The step for (stage_count) times in one unit: C without gradients and with all that a stage does, and what its
 * layers' gradients expose. *floor: never more, and no falling function of any of the times. */
double galvatron_step(const double *quiet, const double *exposed, const double *others, int stage_count, int chunks,
                      double *floor);
int galvatron_in_flight(const struct galvatron_plan *plan, int stage);
double galvatron_limit_mb(const struct galvatron_problem *problem);
bool galvatron_evaluate(const struct galvatron_problem *problem, const struct galvatron_plan *plan,
                        struct galvatron_price *out, struct error *err);

struct galvatron_answer {
    bool feasible; /* false: proven that nothing fits */
    bool optimal;  /* proven, in whole nanoseconds and bytes */
    double step_s, bound_s;
    int64_t knapsacks;
    struct galvatron_plan plan; /* in the arena */
};
/* The best plan of its space: stages a power of two and even, micro-batches that divide the batch, per layer tensor
 * degree x ZeRO-2 or 3 x checkpoint, the vocabulary's tensor degree, vsp and ZeRO. */
bool galvatron_solve(const struct galvatron_problem *problem, struct arena *arena, struct galvatron_answer *out,
                     struct error *err);
#endif
