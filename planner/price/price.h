/* The room of prices: what one layer costs under one strategy, in the integers that the search adds up.
 *
 * It answers with a table of layer prices for a key (mesh, micro-batch, schedule's needs): price_layers(). Each price
 * is a layer's share of a program that lowering made of the folded model (sample.h), so that nothing of collectives,
 * lifetimes or costs is written a second time. A book keeps the samples, which are resized where only sizes differ.
 *
 * It uses space/ (meshes, strategies), lower/, layout/ and cost/, and knows nothing of cuts or stages.
 * Tested by tests/test_price.c and test_price_bounds.c, against the programs of whole plans, and by test_formula.c,
 * which holds sums of prices against the simulator. */
#ifndef CLEAVE_PRICE_PRICE_H
#define CLEAVE_PRICE_PRICE_H
#include "base/memo.h"
#include "base/workers.h"
#include "planner/cost/cost.h"
#include "planner/space/mesh.h"

struct model;

/* The kernels that any schedule has to run for the layer, whatever stands around it, for bounds of the simulated step:
 * ns of one rank and the first micro-batch, without recomputation; backward by input and by weight. */
struct least_price {
    int64_t forward_ns, input_ns, weight_ns;
};

/* Compute is the path through kernels and the collectives that they wait for; the data-parallel lane runs beside it. */
struct layer_price {
#define PRICE(member, kind) int64_t member;
#include "planner/price/prices.def"
#undef PRICE
};

/* Takes number by number the larger, or the smaller. */
void price_merge(struct layer_price *into, const struct layer_price *price, bool largest);
/* Gives the hash of a price, from that of what came before it. */
uint64_t price_hash(uint64_t hash, const struct layer_price *price);

struct price_table {
    int class_count, strategy_count;
    const struct strategy *strategies; /* (strategy_count) */
    struct layer_price *prices;        /* (class_count, strategy_count) */
    int64_t *workspace_bytes;          /* (strategy_count) of base_bytes */
    int64_t send_ns;          /* one boundary value to the next stage: the mean over a configuration's cuts (cuts.h) */
    int64_t send_ends_ns;     /* of that, cutting it into parts and gathering them, where they go so */
    int64_t send_bytes;       /* price_sent_layer()'s value, as one rank sends it; 0: not known */
    int64_t norm_exchange_ns; /* once, between all ranks of the cluster; 0: nothing is clipped */
    int64_t base_bytes; /* of every stage: workspace, and what its devices have less than the largest of the cluster */
    /* (pieces) The table of each stage where these live on different types of devices. All have the same strategies,
     * and every number here is the least of theirs. NULL: this table is every stage's. */
    const struct price_table *const *by_stage;
    /* (shape_count) The tables of stages with turns[i] meshes, where they may have several; each has the exchange of
     * gradients of its replicas. Every number here is the least of them. NULL: none do, or it is a table for bounds. */
    int shape_count;
    const int *turns;
    const struct price_table *const *by_turns;
    int mesh_ranks, mesh_count; /* of one mesh; of all stages together */
    bool reversed;              /* the pipeline begins at the cluster's end */
    /* (mesh_count, shape_count) On a cluster of several types, the tables of stages with so many meshes before them in
     * the pipeline, by the types on which theirs lie; by_turns has the least of them. NULL where there are not so many
     * meshes left. Else NULL: by_turns has all. */
    const struct price_table *const *by_place;
};
static inline const struct price_table *price_of_stage(const struct price_table *table, int stage)
{
    return table->by_stage ? table->by_stage[stage] : table;
}
/* Gives the table of a stage with turns[shape] meshes, wherever it lies; with one mesh each all have that. */
static inline const struct price_table *price_of_shape(const struct price_table *table, int shape)
{
    return table->by_turns ? table->by_turns[shape] : table;
}
/* Gives the table of a stage with so many meshes before it and turns[shape] of its own. */
static inline const struct price_table *price_of_meshes(const struct price_table *table, int before, int shape)
{
    return table->by_place ? table->by_place[before * table->shape_count + shape] : price_of_shape(table, shape);
}
/* These tell what a stage's table depends on: its number, the meshes before it, how many it has. Where it is none of
 * them, all stages have the table's own prices. */
static inline bool price_is_by_stage(const struct price_table *table)
{
    return table->by_stage != NULL;
}
static inline bool price_is_by_place(const struct price_table *table)
{
    return table->by_place != NULL;
}
static inline int price_shapes(const struct price_table *table)
{
    return table->by_turns ? table->shape_count : 1;
}
static inline bool price_is_one(const struct price_table *table)
{
    return !table->by_stage && !table->by_turns && !table->by_place;
}
/* Counts the tables of which it consists for so many pieces, itself the first. price_part() is NULL where none is. */
int price_part_count(const struct price_table *table, int pieces);
const struct price_table *price_part(const struct price_table *table, int pieces, int number);
/* Gives what layers of the plan's stage cost. */
const struct price_table *price_of_plan_stage(const struct price_table *table, const struct plan *plan, int stage);
/* Gives the layer whose value is priced as what a stage sends: one of those that repeat, since an embedding's value may
 * leave as a sum that is whole on each rank, where blocks hand on parts of the sequence. */
static inline int price_sent_layer(const struct graph *graph)
{
    return graph->layer_count > 2 ? 1 : 0;
}
/* Gives what a boundary value takes from the stage to the next, by the slower end. */
static inline int64_t price_send_ns(const struct price_table *table, int stage)
{
    int64_t here = price_of_stage(table, stage)->send_ns, there = price_of_stage(table, stage + 1)->send_ns;
    return here > there ? here : there;
}
static inline const struct layer_price *price_at(const struct price_table *table, int class_index, int strategy)
{
    return &table->prices[class_index * table->strategy_count + strategy];
}
/* Makes a copy with prices of its own; NULL when out of memory. */
struct price_table *price_copy_table(struct arena *arena, const struct price_table *table);
/* Makes a copy with such tables of its stages, (pieces), or none of its own (NULL). NULL when out of memory. */
struct price_table *price_with_stages(struct arena *arena, const struct price_table *table,
                                      const struct price_table *const *by_stage);
/* Makes a copy of the table and of those of its shapes, in which change() rewrites the prices of each, (class_count,
 * strategy_count). NULL when out of memory. */
struct price_table *price_changed(struct arena *arena, const struct price_table *table,
                                  void (*change)(struct price_table *copy, const void *context), const void *context);
/* Makes *into the least or the most of both, number by number; a copy, where there is none yet. False: no memory. */
bool price_join_table(struct price_table **into, struct arena *arena, const struct price_table *table, bool most);
/* Gives numbers each of which is the least of all strategies, and no more than most_ns. */
struct least_price price_least(const struct price_table *table, int class_index, int64_t most_ns);
/* Bounds by kernels count no more of one than so much: what all layers take in all micro-batches then fits 63 bits, as
 * does what comes before each of as many stages. */
static inline int64_t price_most_least_ns(int64_t layers, int64_t micro_batches)
{
    return (INT64_C(1) << 58) / layers / (layers + micro_batches);
}
/* Gives the strategy that decides as the layer does, or -1. */
int price_strategy(const struct price_table *table, const struct plan_layer *layer);

/* What a price depends on beside the strategy. */
struct price_key {
    int type;       /* of the cluster's: the devices are taken to be all of it */
    int first_rank; /* of the stage; 0 stands for all that lie in the hierarchy of links as the first one does */
    struct mesh mesh;
    int64_t micro; /* sequences of one micro-batch on one data-parallel rank */
    int64_t vocab_multiple;
    int prefetch, loss_chunks;
    int64_t bucket_bytes; /* gradients are reduced in buckets of so much */
    bool accumulates; /* there are several micro-batches: all but the first add to gradients, and so are all priced */
    bool bound_only;  /* nothing that waits for the data-parallel lane, and no send: enough for a lower bound */
    bool alone;       /* with it: ranks with sequences of their own share nothing */
    bool bytes;       /* memory alone; of a bound beside the path, and each strategy on the key's own mesh */
};

/* Writes the key as words (memo.h), and gives their number. */
enum { PRICE_KEY_WORDS = 6 + MAX_ATOMS };
int price_key_words(const struct price_key *key, int64_t out[PRICE_KEY_WORDS]);
/* Gives, for a bound, the key of ranks that share nothing: one speaks for all outside of other dimensions. */
struct price_key price_key_alone(const struct price_key *key);

/* Remembers what kernels and collectives took last: strategies share most of them, and meshes that differ in their
 * data-parallel ranks the kernels. */
struct kernel_costs {
    const struct facts *facts;
    uint64_t of_rank, of_mesh; /* the present sizes: of one rank, which decide kernels; of groups of ranks */
    struct kernel_cost {
        uint64_t key; /* 0: none */
        int64_t ns;
    } at[1 << 12];
};
/* Keeps lowered programs of a folded model, each for one strategy and one shape of mesh: made when first asked for,
 * then only resized. Not for several threads, but its workers price strategies at once (columns.h). */
struct price_book {
    struct arena arena;
    const struct model *model; /* borrowed, as facts */
    const struct facts *facts;
    int class_count; /* of the unfolded graph */
    int64_t sequence;
    enum dtype dtype;
    struct optimizer optimizer;
    bool clips; /* gradients by their global norm */
    struct model *folded;
    struct kept_graph {
        struct graph *graph;
        int64_t vocab_multiple, batch; /* batch: the last one that looked it up */
    } kept[32];         /* the folded model for the batches and paddings last asked for, the newest first */
    struct memo shapes; /* the first place of each, for samples */
    struct sample_place {
        struct sample_place *next, *alike; /* of all; of one shape, whose samples differ in what no resizing changes */
        struct sample *sample;             /* NULL: it had to go */
        bool listed;                       /* among all */
        size_t bytes;
        int64_t used; /* by which of all uses it was last */
    } * places;
    int64_t uses, batches;
    size_t sample_bytes, sample_room_bytes; /* what samples take together, and before the longest unused go */
    struct workers workers; /* borrowed, of who opened it; without them one strategy is priced after the other */
    struct kernel_costs *kernels[WORKERS_MOST_AT_ONCE]; /* by lane, in the arena; NULL: none yet */
    int64_t rates;     /* the number of the facts; those with the same one differ in memory alone */
    int64_t nameless;  /* facts so far that had no number, and were given one below 0 */
    struct memo known; /* columns.h */
};
bool price_book_open(struct price_book *book, const struct model *model, const struct facts *facts, int class_count,
                     int64_t sequence, enum dtype dtype, const struct optimizer *optimizer, bool clips,
                     struct error *err);
void price_book_close(struct price_book *book);
/* Strategies that are to be priced for a key, on devices of these facts. All is borrowed. */
struct price_order {
    struct price_key key;
    const struct facts *facts;
    const struct strategy *strategies; /* (count) */
    int count;
};
/* Prices what such tables are made of on the book's workers, all at once, so that price_layers() finds it. What fails
 * is left to price_layers(), which says why. */
void price_ahead(struct price_book *book, const struct price_order *orders, int count);
/**
 * Prices every class of the model under every strategy, and one send between neighbouring stages. strategies and the
 * table's arrays are borrowed from the caller and the arena. Fails when lowering does.
 */
bool price_layers(struct price_table *out, struct arena *arena, struct price_book *book, const struct price_key *key,
                  const struct strategy *strategies, int strategy_count, struct error *err);
#endif
