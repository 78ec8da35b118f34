/* One strategy for all layers of a folded model, lowered once and taken apart into prices as often as sizes change. */
#ifndef CLEAVE_PRICE_SAMPLE_H
#define CLEAVE_PRICE_SAMPLE_H
#include "planner/price/price.h"

/* What decides which instructions there are. Of atoms that split the batch it only counts whether they have more than
 * one rank. */
struct sample_shape {
    struct mesh mesh;
    struct plan_layer layer;
    int stages;        /* 1; 2 to see what crosses: the first layer alone on the first */
    int micro_batches; /* 2; 1 where only the compute path of what is not sharded is asked for */
    int prefetch, loss_chunks;
    int64_t vocab_multiple, bucket_bytes;
    enum dtype dtype;
    struct optimizer optimizer; /* of all that are compared */
    bool clips;                 /* gradients by their global norm */
};
/* PATH: nothing that waits for the data-parallel lane, no temporary memory, and of the step what it takes however many
 * ranks share it. PATH_AND_BYTES: the same with all memory. BYTES: that alone. */
enum sample_part { SAMPLE_WHOLE, SAMPLE_PATH, SAMPLE_PATH_AND_BYTES, SAMPLE_BYTES };
struct sample;
/* Lowers a sample; graph: of the shape's micro-batches on its mesh. Fails when lowering does. */
bool sample_open(struct sample **out, const struct graph *graph, const struct sample_shape *shape, struct error *err);
void sample_free(struct sample *sample); /* accepts NULL */
/* Writes what the instructions depend on as words (memo.h), and gives their number. */
enum { SAMPLE_SHAPE_WORDS = 5 + MAX_ATOMS + sizeof(struct plan_layer) / sizeof(int64_t) };
int sample_shape_words(const struct sample_shape *shape, int64_t out[SAMPLE_SHAPE_WORDS]);
/* Makes it the program of a mesh of the same shape and of the graph's batch; false: lowering must say (a new sample).
 * The graph is borrowed until the next call. */
bool sample_resize(struct sample *sample, const struct graph *graph, const struct mesh *mesh);
/**
 * Gives prices by layer of the folded graph, in the sample's memory until the next call, and the workspace; NULL: out
 * of memory. known: what samples before it cost, for samples behind it; may be NULL. first_rank: of the stage.
 * accumulates: of a micro-batch that is not the first.
 */
const struct layer_price *sample_prices(struct sample *sample, const struct facts *facts, struct kernel_costs *known,
                                        int first_rank, bool accumulates, enum sample_part part,
                                        int64_t *workspace_bytes);
/* Makes the weights in the last prices those of all ranks over which ZeRO may shard: each has whole, without it, what
 * it does not share out as experts. */
void sample_join_shards(struct sample *sample);
/* Times what price_sent_layer() sends for one micro-batch, from whole to whole; of that what cutting and gathering
 * it take, where it goes in parts, and the bytes of one of its ranks. */
int64_t sample_send_ns(const struct sample *sample, const struct facts *facts, int64_t *ends_ns, int64_t *bytes);
size_t sample_bytes(const struct sample *sample);
#endif
