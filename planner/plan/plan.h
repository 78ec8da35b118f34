/* The room of plans: the decisions, and nothing else.
 *
 * It answers what a plan is (struct plan: stages, what each layer decides, micro-batches and their schedule), in which
 * words its parallel dimensions are named (dim.h, a file of dims/ each), and whether a plan is legal for its model,
 * with the first reason against it (plan_check()). Plain data built by one function, then const.
 *
 * It uses models/ and the names of lanes and schedules, and knows nothing of JSON, costs or programs.
 * Tested by tests/test_plan.c and test_rules.c, and by whatever makes plans and has them checked. */
#ifndef CLEAVE_PLAN_PLAN_H
#define CLEAVE_PLAN_PLAN_H
#include "base/arena.h"
#include "base/error.h"
#include "models/graph.h"
#include "models/operators.h"
#include "models/optimizer.h"
#include "planner/plan/dim.h"

struct model;

enum {
    MAX_ATOMS = 4,
    PLAN_MAX_CHUNKS = 64,
    PLAN_MAX_MICRO_BATCHES = 1 << 20,
    PLAN_MAX_PREFETCH = 1 << 16,
    PLAN_MAX_LOSS_CHUNKS = 1 << 12,
    PLAN_MAX_SLICES = 1 << 14
};

/* Says what of a layer is forgotten forward and computed again before its backward pass: what kernels make that are
 * cheap; what does not leave the layer, of which what backward reads is made; or all of the copy of a repeated block
 * that the layer belongs to but what enters the block, and then its whole forward pass runs again, as training
 * frameworks do it (Chen et al. 2016). */
enum recompute { RECOMPUTE_NONE, RECOMPUTE_SELECTIVE, RECOMPUTE_FULL, RECOMPUTE_BLOCK, RECOMPUTE_COUNT };
extern const char *const recompute_names[RECOMPUTE_COUNT + 1];

/* Says what a layer keeps in host memory while nobody reads it, a bit each: activations from their last reader forward
 * until backward, the optimizer's state between updates, parameters between their uses. */
enum offload {
    OFFLOAD_NONE,
    OFFLOAD_ACTIVATIONS = 1,
    OFFLOAD_OPTIMIZER = 2,
    OFFLOAD_BOTH = OFFLOAD_ACTIVATIONS | OFFLOAD_OPTIMIZER,
    OFFLOAD_PARAMETERS = 4,
    OFFLOAD_ALL = OFFLOAD_BOTH | OFFLOAD_PARAMETERS,
    OFFLOAD_COUNT
};
extern const char *const offload_names[OFFLOAD_COUNT + 1];

/* Says when what ZeRO-3 gathered goes back to shards (FSDP: reshard_after_forward): after each pass of its layer,
 * "true", or after the last pass of the step, "false". */
enum reshard { RESHARD_EACH_PASS, RESHARD_EACH_STEP, RESHARD_COUNT };
extern const char *const reshard_names[RESHARD_COUNT + 1];

/* A stage is a mesh of atoms (factors of its rank count). Rank first_rank + mixed-radix coordinate; the LAST atom is
 * the innermost (neighbouring ranks).
 *
 * A rank is a place in the cluster: rank r computes on its r-th device. Stages take neighbouring ranks each, in any
 * order, since which type of device comes where in the pipeline is a decision.
 *
 * More ranks for the same layers mean one of two things. Slices: a larger atom, so that each rank takes its slice of
 * every micro-batch (Fan et al. 2021, DAPPLE). Turns: replicas of the whole mesh that take whole micro-batches in turn,
 * replica r of d the micro-batches r, r + d, ... (Narayanan et al. 2019, PipeDream). Replicas are stages of their own
 * that follow each other and hold the same layers. */
struct plan_stage {
    int first_layer, layer_count; /* contiguous in the plan's order; of its first chunk where there are several */
    int first_rank;               /* the stages' ranges of ranks tile 0 .. rank_count - 1 */
    int atom[MAX_ATOMS];          /* sizes; unused ones are 1 */
    int turn;                     /* which of the replicas that take turns; 0: the first, or the only one */
};
struct layer_range {
    int first, count;
};
/* Says by which clock stages order their receives where messages may overtake each other (planner/program/clock.h):
 * passes of a kind all take the same, or as long as their floating-point operations say. */
enum plan_clock { CLOCK_EVEN, CLOCK_WORK, CLOCK_COUNT };
extern const char *const plan_clock_names[CLOCK_COUNT + 1];
/* It has no padding, as the compiler sees to: two are equal when their bytes are. */
#pragma GCC diagnostic push
#pragma GCC diagnostic error "-Wpadded"
struct plan_layer {
    int8_t dim[MAX_ATOMS]; /* enum dimension_index of each mesh atom in this layer */
    int8_t zero;           /* 0..3, over the atoms whose dimension shards */
    int8_t recompute;      /* enum recompute */
    int8_t offload;        /* enum offload */
    int8_t reshard;        /* enum reshard; without shards of ZeRO-3 it has no effect */
    uint32_t replicate;    /* operators (models/operators.h) that are not sharded though the layer is */
    int slices;            /* rounds in which the layer's sliceable operators run; 1: whole */
    uint64_t excepted;     /* operators whose outputs are kept though the layer's would be forgotten, and forgotten
                              though they would be kept (Megatron-Core's recompute_modules; PyTorch's selective
                              checkpoints) */
};
#pragma GCC diagnostic pop

struct plan {
    struct arena arena;
    int64_t batch, sequence; /* sequences per step over all ranks, tokens per sequence */
    int64_t vocab_multiple;  /* graph_build(..., vocab_multiple) */
    enum dtype dtype;
    struct optimizer optimizer;
    int schedule;          /* index into schedules[] (planner/program/schedule.h) */
    int micro_batch_count; /* m; a micro-batch holds batch / m sequences, split over the batch-splitting atoms */
    int extra_in_flight;   /* warm-up micro-batches beyond the schedule's own; shared out over replicas in turn */
    int atom_count;        /* the same for all stages; sizes may differ by stage */
    int64_t bucket_bytes;  /* gradients are reduced in buckets of about this size; 0: one collective per weight */
    int prefetch;          /* ZeRO-3 gathers are issued this many layers ahead; 0: where they are used */
    int clock;             /* enum plan_clock: in which order stages post receives that may overtake each other */
    int loss_chunks;       /* the last product and the loss run in at most so many chunks of tokens, each forward and
                              backward; 1: at once (planner/program/loss_walk.h) */
    double clip_norm;      /* global gradient-norm clipping; 0: off */
    bool whole_blocks;     /* its layers are those of a graph whose blocks are whole (models/whole_blocks.h) */
    int stage_count, layer_count, rank_count;
    int chunk_count; /* pieces of the model that each stage holds; 1 unless the schedule interleaves */
    int chunk_group; /* micro-batches that go through a chunk before the stage's next one; 0: schedule_least_group() */
    struct plan_stage *stages;
    struct layer_range *later_chunks; /* [(chunk - 1) * stage_count + stage], of chunk 1 and up; NULL: none */
    struct plan_layer *layers;        /* by place in the order */
    int *order; /* (layer_count) which layer of the file stands where: a topological order of the model, of which
                   stages are intervals; NULL: the file's */
};

/* Unfolds the model for the plan: its batch, sequence and padding, its order of the layers. */
bool plan_graph(struct graph **out, const struct model *model, const struct plan *plan, struct error *err);
/* Unfolds as plan_graph() does; where it fails, *key is the decision at fault, as the plan file names it. */
bool plan_graph_at(struct graph **out, const char **key, const struct model *model, const struct plan *plan,
                   struct error *err);
/* Gives the file's index of the layer at that place of the plan's order. */
static inline int plan_layer_at(const struct plan *plan, int place)
{
    return plan->order ? plan->order[place] : place;
}
/* Takes a copy of the order, (layer_count); of the file's own, none. False: out of memory. */
bool plan_set_order(struct plan *plan, const int *order);

/* Gives where the stage's ranks begin when stages lie in order: behind those of the stage before. */
int plan_stage_next_rank(const struct plan *plan, int stage);
int plan_stage_rank_count(const struct plan *plan, int stage);
int plan_stage_of_rank(const struct plan *plan, int rank);
/* Copies of the whole model that the stages' chunks hold; micro-batch i goes through copy i % copies. 1 unless the
 * schedule runs several. */
int plan_copies(const struct plan *plan);
/* Gives the stage that holds the layer in the first copy; of replicas that take turns the first. */
int plan_stage_of_layer(const struct plan *plan, int layer);
/* Gives the stage that holds it in another copy. */
int plan_stage_of_copy(const struct plan *plan, int layer, int copy);
/* Counts the replicas of the stage that take turns; 1: it takes every micro-batch. */
int plan_stage_turns(const struct plan *plan, int stage);
/* Gives the stage that runs the layer for the micro-batch. */
int plan_stage_of_work(const struct plan *plan, int layer, int micro);
/* Gives the sequences of a micro-batch on one replica, as most layers of each stage share out the batch; 0: stages
 * differ, or it does not divide. */
int64_t plan_micro_batch_size(const struct plan *plan);
/* Counts the micro-batches that the stage runs in a step: all, or its share where replicas take turns. */
int plan_stage_micro_batches(const struct plan *plan, int stage);
struct layer_range plan_stage_chunk(const struct plan *plan, int stage, int chunk);
/* Adds the stage to a list of different ones, ascending, unless it is there. False: there is no room for it. */
bool plan_add_stages(int *stages, int *count, int most, int stage);
bool plan_stage_holds(const struct plan *plan, int stage, int layer);
/* Gives the coordinate along an atom of the stage's local rank (global rank - first_rank). */
int plan_atom_coordinate(const struct plan *plan, int stage, int local_rank, int atom);
/* Makes a plan with `stages` stages and `layers` layers, all fields zero but slices and loss_chunks 1, dims none, atoms
 * 1. NULL when out of memory. */
struct plan *plan_new(int stage_count, int layer_count);
/* Makes room for `chunks` chunks on every stage; later ones are empty until they are set. False when out of memory. */
bool plan_set_chunks(struct plan *plan, int chunks);
void plan_set_chunk(struct plan *plan, int stage, int chunk, struct layer_range range);
struct plan *plan_copy(const struct plan *plan); /* NULL: out of memory */
void plan_free(struct plan *plan);               /* accepts NULL */
/* Joins neighbouring atoms that split the batch and that no layer tells apart: the same plan with a simpler mesh. */
void plan_join_atoms(struct plan *plan);
/* Splits atoms back to these sizes (atom_count), of which one or more that follow each other make up each of the
 * plan's. False, and the plan unchanged, when they do not. */
bool plan_split_atoms(struct plan *plan, int atom_count, const int *size);
/* True when the layer keeps what the bits name, any of them, in host memory. */
static inline bool plan_layer_offloads(const struct plan_layer *layer, enum offload what)
{
    return layer->offload & (int)what;
}
/* True when weights that it gathers stay gathered until their last use in the step. */
bool plan_layer_keeps_gathered(const struct plan_layer *layer);
/* Gives the ZeRO stage of one of its segments' weights: some operators may be replicated (Jiang et al. 2023, OSDP). */
int plan_layer_zero_of(const struct plan_layer *layer, const struct segment *segment);
/* Gives the ZeRO stage of a layer as it takes effect on a stage: 0 where no two ranks share out its shards. */
int plan_zero_on(const struct plan *plan, const struct plan_stage *stage, int layer);
bool plan_layer_equal(const struct plan_layer *a, const struct plan_layer *b);
/**
 * Refuses whatever makes a plan illegal for this graph: layers not covered, ranks not contiguous, a batch that does not
 * divide (the message gives the nearest valid sizes), dims out of range, schedules' own rules, zero without a sharding
 * atom is allowed and has no effect. Lowering trusts a plan that passed.
 */
bool plan_check(const struct plan *plan, const struct graph *graph, struct error *err);
/* Checks as plan_check() does; where it refuses, *key is the decision at fault, as the plan file names it. */
bool plan_check_at(const char **key, const struct plan *plan, const struct graph *graph, struct error *err);
/* Gives a 64-bit hash of all decisions. */
uint64_t plan_hash(const struct plan *plan);
#endif
