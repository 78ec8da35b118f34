/* A model's layers as what is cut into stages: places where a stage can begin and end, and sums over the layers between
 * two of them. Of layers in one order, place i has the first i before it. */
#ifndef CLEAVE_CUT_CHAIN_H
#define CLEAVE_CUT_CHAIN_H
#include "base/arena.h"
#include "planner/cut/ideals.h"

/* The places where a model with branches can be cut: its order ideals. Place 0 has no layer before it, the last one
 * all. Any stages that follow each other are a chain of ideals, and intervals of some topological order.
 *
 * Towers cover the layers, each a sequence of layers of which every one comes after the one before it: what is before a
 * place is a number of layers of each tower. */
struct branches {
    int tower_count, words;         /* words: of one place, PLACE_TOWERS towers each */
    const int *tower_of, *tower_at; /* (layers) a layer's tower, and how many of it come before */
    const int *tower_first;         /* (towers + 1) index of its first sum */
    const int *sum_layer;           /* (layers + towers) the layer that a sum adds; -1: a tower's first, 0 */
    const uint64_t *at;             /* (places, words) layers of each tower before the place, PLACE_BITS each */
    const int64_t *first_up;        /* (places + 1) */
    const int *up_place, *up_layer; /* the places with one layer more before them, and that layer */
    const int *prefix;              /* (layers + 1) the place behind so many layers of the file's order */
    const int *crossing;            /* (places) layers before it that one behind it reads */
};
/* Leaves the uppermost of a tower's bits free, so that comparing places borrows from no other tower. */
enum { PLACE_BITS = 16, PLACE_TOWERS = 64 / PLACE_BITS, PLACE_LAYERS = (1 << (PLACE_BITS - 1)) - 1 };

/* The layers, and the intervals of the chain that hold equal multisets of classes. */
struct chain {
    int layer_count, class_count, place_count;
    const struct branches *branches; /* NULL: cut in the file's order only */
    bool orders_left_out;            /* there are others than the file's, but no branches */
    const int *cut;                  /* (stages) where each begins, by hand; NULL: anywhere. Then without branches */
    const int *class_of;             /* (layer_count) */
    const int *layers_of;            /* (class_count) how many are of it */
    int tied_first, tied_second;     /* layers that share a weight, -1 none: a stage with both holds it once */
    const bool *tied;                /* (layer_count) all that share it, if more than those may; NULL: those two */
    int interval_count;              /* distinct ones */
    const int *interval;             /* (layer_count, layer_count + 1): index of [first, end), without branches */
    const uint64_t *key;             /* (chain_sums()) of the classes of the layers that are summed */
    const struct graph *graph; /* whose layers these are, for what crosses cuts; NULL: each reads the one before */
};
bool chain_build(struct chain *out, struct arena *arena, int layer_count, const int *class_of, int class_count,
                 int tied_first, int tied_second, struct error *err);
/* More ideals than these are too many to enumerate. */
enum { CHAIN_IDEALS = 1 << 20 };
/* Lets the chain be cut in all topological orders of its layers, unless it has but one, or more than most_ideals
 * ideals. edges: from a layer to those that read it. */
bool chain_add_branches(struct chain *chain, struct arena *arena, const struct dag_edge *edges, int edge_count,
                        int most_ideals, struct error *err);
/* Gives what a certificate says of the orders (struct certificate). */
static inline int64_t chain_ideals(const struct chain *chain)
{
    return chain->branches ? chain->place_count : chain->orders_left_out ? 0 : -1;
}
static inline int chain_last(const struct chain *chain)
{
    return chain->place_count - 1;
}
/* Gives the place behind so many layers of the file's order. */
static inline int chain_prefix(const struct chain *chain, int layers)
{
    return chain->branches ? chain->branches->prefix[layers] : layers;
}
/* Gives the place that has `layer` before it, beside what is before `place`, where nothing that it reads is missing. */
int chain_extend(const struct chain *chain, int place, int layer);
/* Lists the layers of a stage in the file's order; out has room for all. Returns their number. */
int chain_list(const struct chain *chain, int first, int end, int *out);

/* Gives how many of the tower's layers are before the place. */
static inline int branches_at(const struct branches *b, int place, int tower)
{
    return (int)(b->at[(size_t)place * (size_t)b->words + (size_t)(tower / PLACE_TOWERS)] >>
                 (PLACE_BITS * (tower % PLACE_TOWERS))) &
           PLACE_LAYERS;
}
/* True when all that is before one place is before another, tower by tower: the free bits are left where nothing is
 * borrowed. Both are (words). */
static inline bool branches_within(const struct branches *b, const uint64_t *first, const uint64_t *end)
{
    const uint64_t free_bits = UINT64_C(0x8000800080008000);
    for (int w = 0; w < b->words; w++)
        if ((((end[w] | free_bits) - first[w]) & free_bits) != free_bits)
            return false;
    return true;
}
static inline bool chain_holds(const struct chain *chain, int first, int end, int layer)
{
    const struct branches *b = chain->branches;
    if (b)
        return branches_at(b, end, b->tower_of[layer]) > b->tower_at[layer] &&
               branches_at(b, first, b->tower_of[layer]) <= b->tower_at[layer];
    return layer >= first && layer < end;
}
static inline bool chain_is_tied(const struct chain *chain, int layer)
{
    return chain->tied_first >= 0 &&
           (chain->tied ? chain->tied[layer] : layer == chain->tied_first || layer == chain->tied_second);
}
/* True when one stage would hold both layers that share a weight. */
static inline bool chain_holds_both(const struct chain *chain, int first, int end)
{
    return chain->tied_first >= 0 && chain_holds(chain, first, end, chain->tied_first) &&
           chain_holds(chain, first, end, chain->tied_second);
}

/* ---- sums ---- */

/* Gives how many sums there are: one for each place of a chain; with branches for each layer of each tower, and one
 * before. Each is the one before it and what its layer adds. */
static inline int chain_sums(const struct chain *chain)
{
    return chain->layer_count + (chain->branches ? chain->branches->tower_count : 1);
}
/* Gives the layer that the sum adds; -1: it is 0, whatever is before it. */
static inline int chain_sum_layer(const struct chain *chain, int sum)
{
    return chain->branches ? chain->branches->sum_layer[sum] : sum - 1;
}
/* Sums up over the layers between two places. */
static inline int64_t chain_between(const struct chain *chain, const int64_t *sums, int first, int end)
{
    const struct branches *b = chain->branches;
    int64_t sum = 0;
    if (!b)
        return sums[end] - sums[first];
    for (int t = 0; t < b->tower_count; t++)
        sum += sums[b->tower_first[t] + branches_at(b, end, t)] - sums[b->tower_first[t] + branches_at(b, first, t)];
    return sum;
}
bool chain_set_keys(struct chain *chain, struct arena *arena);
/* Gives a key of the multiset of classes between two places, and of whether it has both layers that share a weight: 64
 * bits, so that two different ones do not meet by chance. */
uint64_t chain_key(const struct chain *chain, int first, int end);
/* Gives the index of these in a chain without branches. */
static inline int chain_interval(const struct chain *chain, int first, int end)
{
    return chain->interval[first * (chain->layer_count + 1) + end];
}
#endif
