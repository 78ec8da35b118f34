/* All orders of a model's layers at once: the sets of layers that can come first, as the checker lists them. Cutting in
 * some order is going from the empty set to all layers by sets that hold each other. */
#ifndef CLEAVE_CHECK_ORDERS_H
#define CLEAVE_CHECK_ORDERS_H
#include "models/graph.h"

/* Sets by number of layers: 0 is empty, count - 1 has all. In an arena. */
struct orders {
    int layer_count, count, words;
    const uint64_t *sets;     /* (count, words) */
    const int *below, *added; /* (count) the set is `below` with the layer `added` */
    const int64_t *first;     /* (count + 1) sets that hold another one, by that: */
    const int *larger;        /* ascending */
    const int *most_before;   /* (layers) so many at most can come before the layer */
};
/**
 * Lists the sets, but no more than `most`: above it out->count is most + 1 and nothing else is set. Whether the file's
 * order is the only one: then there is one set more than layers. Fails for want of memory.
 */
bool orders_list(struct orders *out, struct arena *arena, const struct graph *graph, int most, struct error *err);
/* The pairs of sets that hold each other, and most_before. Fails for want of memory. */
bool orders_pair(struct orders *orders, struct arena *arena, struct error *err);
/* Index in `larger` of one of the sets that hold `first`; of a set that does not, the nearest one before it, if any. */
int64_t orders_find(const struct orders *orders, int first, int end);
static inline bool orders_has(const struct orders *orders, int set, int layer)
{
    return orders->sets[(size_t)set * (size_t)orders->words + (size_t)(layer / 64)] >> (layer % 64) & 1;
}
#endif
