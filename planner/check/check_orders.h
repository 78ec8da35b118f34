/* All orders of a model's layers at once: the sets of layers that can come first, as the checker lists them. Cutting in
 * some order is going from the empty set to all layers by sets that hold each other. */
#ifndef CLEAVE_CHECK_CHECK_ORDERS_H
#define CLEAVE_CHECK_CHECK_ORDERS_H
#include "models/graph.h"

/* Sets by number of layers: 0 is empty, count - 1 has all. In an arena.
 *
 * The layers are dealt out to columns, in each of which every layer comes after the one above it in all orders: a set
 * has the upper part of each column. */
struct orders {
    int layer_count, count;
    int column_count;
    const int *column, *depth; /* (layers) a layer's column, and how many are above it there */
    const int *column_first;   /* (columns + 1) index of its first layer */
    const int *column_layer;   /* (layers) */
    const int *height;         /* (count, columns) how many of a column the set has */
    const int *most_before;    /* (layers) so many at most can come before the layer */
};
/**
 * Lists the sets, but no more than `most`: above it out->count is most + 1 and the sets are not kept. Whether the
 * file's order is the only one: then there is one set more than layers, and most_before is NULL. Fails for want of
 * memory.
 */
bool orders_list(struct orders *out, struct arena *arena, const struct graph *graph, int most, struct error *err);
static inline const int *orders_heights(const struct orders *o, int set)
{
    return &o->height[(size_t)set * (size_t)o->column_count];
}
static inline bool orders_has(const struct orders *o, int set, int layer)
{
    return orders_heights(o, set)[o->column[layer]] > o->depth[layer];
}
/* True when `larger` has all that `smaller` has. */
static inline bool orders_hold(const struct orders *o, int smaller, int larger)
{
    const int *a = orders_heights(o, smaller), *b = orders_heights(o, larger);
    for (int i = 0; i < o->column_count; i++)
        if (a[i] > b[i])
            return false;
    return true;
}
/* Sums down each column stand one after the other, each from 0 on: (layers + columns). Their difference over the layers
 * that `end` has and `first` has not. */
static inline int orders_sum(const struct orders *o, int column, int height)
{
    return o->column_first[column] + column + height;
}
static inline int64_t orders_between(const struct orders *o, const int64_t *sums, int first, int end)
{
    const int *a = orders_heights(o, first), *b = orders_heights(o, end);
    int64_t sum = 0;
    for (int i = 0; i < o->column_count; i++)
        sum += sums[orders_sum(o, i, b[i])] - sums[orders_sum(o, i, a[i])];
    return sum;
}
#endif
