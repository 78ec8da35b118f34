/* Order ideals: the sets of nodes that hold, with each node, all nodes before it. What has been placed after any number
 * of contiguous stages is an ideal, so that ideals are the states of every program over stages. */
#ifndef CLEAVE_CUT_IDEALS_H
#define CLEAVE_CUT_IDEALS_H
#include "planner/cut/dag.h"

/* All ideals of a graph with their covers, sorted by size: an ideal stands after all its subsets, 0 is the empty set
 * and count - 1 is everything. Whoever built them frees them: ideals_free(). */
struct ideals {
    int node_count, words, count;
    uint64_t *bits;          /* (count, words) */
    int64_t *first_up;       /* (count + 1) */
    int *up_ideal, *up_node; /* the ideals with one node more, and that node */
    bool complete;           /* false: more than the limit; then nothing else is set */
};

/* Enumerates at most `limit` ideals, level by level; sets are found again by hash. Fails for want of memory. */
bool ideals_build(struct ideals *out, const struct dag *dag, int64_t limit, struct error *err);
void ideals_free(struct ideals *ideals); /* accepts NULL and what failed to build */

/* Reallocates an array for so many elements; false when out of memory. */
bool ideals_grow(void *pointer_to_array, int64_t count, size_t size);
static inline const uint64_t *ideal_bits(const struct ideals *ideals, int index)
{
    return ideals->bits + (size_t)index * (size_t)ideals->words;
}
static inline bool ideal_has(const struct ideals *ideals, int index, int node)
{
    return ideal_bits(ideals, index)[node / 64] >> (node % 64) & 1;
}
#endif
