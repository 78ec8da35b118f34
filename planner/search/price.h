/* What one layer costs under one strategy: the search's integers, all from lowering that very layer. */
#ifndef CLEAVE_SEARCH_PRICE_H
#define CLEAVE_SEARCH_PRICE_H
#include "planner/cost/cost.h"

struct model;

/* A choice that every layer makes for itself. */
struct strategy {
    int8_t zero, recompute;
};

/* ns of one micro-batch on one rank. Compute is the path through kernels and tensor-parallel collectives; the
 * data-parallel lane runs beside it. */
struct layer_price {
    int64_t forward_ns, backward_ns;               /* compute path; recomputation is part of backward */
    int64_t gather_forward_ns, gather_backward_ns; /* dp lane, every micro-batch: ZeRO-3 gathers */
    int64_t reduce_ns;                             /* dp lane, every micro-batch: ZeRO-2 and 3 reductions */
    int64_t reduce_last_ns;                        /* dp lane, once: after the last backward */
    int64_t step_ns;                               /* once: optimizer, and gathers after it */
    int64_t weight_bytes;                          /* persistent: weights, accumulators, states */
    int64_t tied_bytes;      /* persistent too, unless the stage holds the weight's first user as well */
    int64_t saved_bytes;     /* per micro-batch in flight */
    int64_t transient_bytes; /* largest extra need while the layer runs */
};

struct price_table {
    int class_count, strategy_count;
    const struct strategy *strategies; /* (strategy_count) */
    struct layer_price *prices;        /* (class_count, strategy_count) */
    int64_t send_ns;                   /* one boundary value to the next stage */
    int64_t base_bytes;                /* of every stage: workspace */
};
static inline const struct layer_price *price_at(const struct price_table *table, int class_index, int strategy)
{
    return &table->prices[class_index * table->strategy_count + strategy];
}

/* What a price depends on beside the strategy. */
struct price_key {
    int tensor, data;     /* degrees */
    int tensor_dimension; /* enum dimension_index of the tensor atom */
    int64_t micro;        /* sequences of one micro-batch on one data-parallel rank */
    int64_t vocab_multiple;
    int prefetch;
    bool bound_only; /* times only, and those without the waits that memory brings: enough for a lower bound */
    bool without_send;
};
/**
 * Prices every class of the model under every strategy, and one send between neighbouring stages.
 *
 * class_count is that of the unfolded graph. strategies and the table's arrays are borrowed from the caller and the
 * arena. Fails when lowering does.
 */
bool price_layers(struct price_table *out, struct arena *arena, const struct model *model, int class_count,
                  int64_t sequence, enum dtype dtype, const struct price_key *key, const struct strategy *strategies,
                  int strategy_count, int64_t bucket_bytes, const struct facts *facts, struct error *err);
/* z + r - n, field by field: the change from n to z on top of r. */
struct layer_price price_combine(const struct layer_price *z, const struct layer_price *r, const struct layer_price *n);
#endif
