/* A launch: what somebody tells a framework so that it trains by a plan, without the names that the framework has for
 * it. What stands between plans and the arguments, recipes and configuration files of targets: an exporter writes one
 * (targets/target.h), an importer reads one, and both ways a launch says the same.
 *
 * A launch knows decoders: an embedding, blocks that repeat, and a head with its loss; stages hold whole blocks, and
 * all blocks are treated alike. */
#ifndef CLEAVE_TARGETS_LAUNCH_H
#define CLEAVE_TARGETS_LAUNCH_H
#include "models/model.h"
#include "planner/plan/plan.h"
#include "planner/space/choice.h"

struct launch {
    /* Degrees; 1 where there is none. data counts all ranks that have other sequences, so that
     * tensor x context x pipeline x data is the number of devices. */
    int64_t tensor, context, pipeline, data;
    int64_t expert;          /* ranks that share out the experts: those of context first, then of data; 1: none do */
    bool experts_whole;      /* with the tensor degree: its ranks are the first of those, and split no expert */
    int64_t shard_group;     /* of the data ranks those over which ZeRO shards, the groups replicate; 0: all */
    bool sequence_parallel;  /* with the tensor degree */
    int context_dimension;   /* enum dimension_index: DIM_cp_gather, DIM_cp_ring or DIM_cp_ulysses */
    int schedule;            /* index into schedules[] */
    int64_t chunks;          /* of each stage; 1: one */
    int64_t chunk_group;     /* micro-batches that go through one before the next; 0: as many as stages */
    int64_t micro_batch;     /* sequences of one data rank */
    int64_t batch, sequence; /* sequences of a step over all ranks; tokens of a sequence */
    enum dtype dtype;
    struct optimizer optimizer;
    int64_t zero;            /* 0 to 3 */
    int64_t reshard;         /* enum reshard, of ZeRO 3 */
    int64_t recompute;       /* enum recompute, of all blocks: none, block (all of it), or selective */
    uint64_t excepted;       /* operators (models/operators.h) that are kept where a block is computed again, and
                                computed again where none is */
    int64_t recompute_first; /* blocks of each piece that are computed again, the first ones; 0: all, where any are */
    int64_t offload;         /* enum offload */
    int64_t prefetch, loss_chunks, bucket_bytes;
    double clip_norm; /* 0: gradients are not clipped */
    /* Blocks of each piece of the model, chunk by chunk: pieces i, i + pipeline, ... are stage i's. The first piece has
     * the embedding too, the last one the head. NULL: nobody said it, as many each. */
    int piece_count;
    const int *piece_blocks;
    /* Blocks behind the trunk that predict further tokens, and which piece has them all: none of piece_blocks. */
    int further, further_piece;
};
/* One of one device, without anything that a target would have to be told; sizes are 0. */
extern const struct launch launch_plain;

/**
 * What the plan says, in the arena. Fails where a launch cannot say it, naming the layer or stage: other cuts than
 * between blocks, layers that are treated unlike, replicas in turn, another order of layers or of devices.
 */
bool launch_of_plan(struct launch *out, struct arena *arena, const struct plan *plan, const struct graph *graph,
                    struct error *err);
struct launch_context;
struct text;
/* Bytes of scores that a block keeps of a micro-batch on a device, by whatever runs it; 0: attention is fused. */
int64_t launch_score_bytes(const struct launch *launch, const struct launch_context *context);
/* Rules of targets: that the model is a causal decoder of tokens; what it is instead. */
bool launch_is_causal(const struct launch *launch, const struct launch_context *context);
void launch_causal_detail(struct text *out, const struct launch *launch, const struct launch_context *context);
/* That nothing is frozen. */
bool launch_trains_all(const struct launch *launch, const struct launch_context *context);
/* That AdamW keeps all in 32 bit, with gradients as the framework has them; what it is instead. */
bool launch_optimizer_is_usual(const struct launch *launch, const struct launch_context *context);
void launch_optimizer_detail(struct text *out, const struct launch *launch, const struct launch_context *context);
/* Whether launches differ in the choice at all. */
bool launch_says(enum space_choice choice);
/* What stands in the launch for the choice. False: it says so otherwise, or not at all. */
bool launch_choice(int64_t *value, const struct launch *launch, enum space_choice choice);
bool launch_set_choice(struct launch *launch, enum space_choice choice, int64_t value);
/* Which ranks share out the experts; enum experts_over (planner/space/choice.h). */
int launch_experts_over(const struct launch *launch);
bool launch_equal(const struct launch *a, const struct launch *b);
/* Blocks of the piece that has most, of so many in all. */
int64_t launch_most_blocks(const struct launch *launch, int64_t blocks);
/* In a plan whose blocks are all computed again those behind recompute_first of each piece are kept, and those that
 * predict further tokens. */
void launch_keep_others(const struct launch *launch, struct plan *plan, const struct graph *graph);
#endif
