/* Offsets for things with a size and a lifetime, so that what lives at the same time does not overlap. */
#ifndef CLEAVE_LAYOUT_PLACE_H
#define CLEAVE_LAYOUT_PLACE_H
#include "base/error.h"
#include <stdbool.h>
#include <stdint.h>

struct place_item {
    int64_t bytes;               /* a multiple of the alignment */
    int first, last;             /* lifetime, both included */
    int again_first, again_last; /* a second one, after the first; again_last 0: none */
    int64_t offset;              /* out */
    int owner;                   /* whoever lists the items says what it is */
    bool held;                   /* kept beyond its use, as transfers ask: one of the orders puts these first */
};
/* Tells what items are: those of equal size and number are very likely the same thing at different times. */
struct place_things {
    int64_t (*of)(const void *self, const struct place_item *item);
    const void *self;
};
/**
 * Assigns offsets from 0 on; *total is the top. The general problem is NP-hard (dynamic storage allocation, Garey and
 * Johnson SR2). Several orders are tried, each placing an item into the tightest gap that its contemporaries leave (the
 * greedy orders of Pisarchyk and Lee 2020, "Efficient memory management for deep neural net inference"), and the lowest
 * total wins; so are orders in which what comes again gets the bytes that it had. The search ends close to the most
 * bytes that live at once, below which no total can be. Orders that would look at too many pairs of contemporaries are
 * skipped in favour of a sweep in time. things are asked for only where packing is bad. Deterministic.
 */
struct place_effort {
    int64_t looks;  /* how many pairs all orders together may look at */
    int64_t enough; /* with so high a top the search is content, if it is near the fewest bytes; 0: of no other */
    int64_t plenty; /* likewise, if it is not far from them: another stage is as full; 0: of no other */
};
bool place_items(struct place_item *items, int count, const struct place_things *things,
                 const struct place_effort *effort, int64_t *total, struct error *err);
/* Looks of a search for offsets with which a plan is told, and of one that only compares plans: `explain` of 70 billion
 * parameters took 7.5 s of processor with 15 million and 9.7 with the former; its stages have 0.3 % more bytes. With 5
 * million in place of 15 it takes 0.95 of that, and of its 62 lines three say 1 to 15 ms more. */
enum { PLACE_LOOKS = 100000000, PLACE_FEW_LOOKS = 10000000 };
/* Packing that loses 1/50 is fair: a search ends there if that is enough for whoever asks, and what is joined is placed
 * apart as well above it (the second stage of llama-3-70b has 73.3 GiB; with 1/20 it was told 74.7, for 0.03 s less of
 * `plan`). */
enum { PLACE_FAIR = 50 };
/* Gives with how many bytes the search for offsets is content where so many live at once. */
int64_t place_good_bytes(int64_t live_bytes);
/* Finds the most bytes that live at once; no assignment is lower. */
bool place_bound(const struct place_item *items, int count, int64_t *bound, struct error *err);
#endif
