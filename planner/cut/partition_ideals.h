/* Between the two parts of partition_ideals.c: bands of places, in partition_bands.c, and the search for a cut. */
#ifndef CLEAVE_CUT_PARTITION_IDEALS_H
#define CLEAVE_CUT_PARTITION_IDEALS_H
#include "planner/cut/partition_parts.h"

#define OUT_OF_REACH (INT64_MAX / 4)

/* Places where stages of a row can begin, in ascending order. */
struct band {
    int count;
    int *place;
    uint64_t *at;  /* (count, words) what branches say of them, one after the other */
    int64_t *rest; /* the sum of C from there on is no less; OUT_OF_REACH: no way from there on */
};
/* What was found of all stages from a row and place on. */
struct known {
    uint64_t key; /* 0: free */
    int64_t ns, high_ns;
    int end, shape, crossing;
    int sweep; /* in this one it is the least; in later ones a bound, as it is when 0 */
};
/* A stage to go on with. */
struct option {
    int64_t ns, stage_ns, high_ns; /* ns: with all that follows, at least */
    int end, shape, crossing;
    int index; /* of the end, in its band */
    bool solved;
};
/* Sums over the stages before a row: what all of them can hold under the cap; or over layers: what they need. */
struct room {
    int64_t high_ns, bytes;
};
struct ideal_cut {
    int64_t cap_ns, known_cap_ns; /* of the bands; of what is known */
    int64_t work, next_stop, work_limit;
    bool given_up; /* work_limit was met */
    int sweep;
    int64_t *least_bytes; /* (sums) of each layer at any level */
    struct room *before;  /* (rows) */
    struct room *need;    /* (places) of the layers before, at least */
    struct band *band;    /* (rows) */
    uint64_t *at;
    int64_t *rest, *own, *better, *least;
    int *place;
    int64_t at_capacity, rest_capacity, own_capacity, better_capacity, least_capacity, place_capacity;
    struct known *known; /* (known_size, a power of two) */
    size_t known_size, known_used;
    struct option *options;
    int64_t option_count, option_capacity;
};

/* Grows an array of *capacity elements to at least so many; false when out of memory. */
bool bands_reserve(void *array, int64_t *capacity, int64_t count, size_t size);
/* Opens s->ideal_cut; false when out of memory. */
bool bands_open(struct solver *s);
/* Finds where stages can begin under the present cap. *any: in each row somewhere. False: out of memory. */
bool bands_set(struct solver *s, bool *any);
/* Bounds what is left from each place on, closely. False: out of memory. */
bool bands_bound(struct solver *s);
#endif
