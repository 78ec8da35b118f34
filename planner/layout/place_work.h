/* What the ways to place items share: the items in several orders, and those that are placed already. */
#ifndef CLEAVE_LAYOUT_PLACE_WORK_H
#define CLEAVE_LAYOUT_PLACE_WORK_H
#include "base/arena.h"
#include "base/num.h"
#include "planner/layout/place.h"
#include <limits.h>

/* A sort key beside the item's index; ties fall back to the index, so that the order is total. */
struct ranked {
    int64_t key, second;
    int item;
};

int place_compare_ranked(const void *left, const void *right);

/* A placed item, with all that a scan over them asks; or neighbours that all live through a whole span, which lie side
 * by side and are one spot that always lives. */
struct spot {
    int64_t low, high;
    int first, last;
};
enum { ALWAYS = INT_MAX }; /* the last moment of whatever lives through its span, whose first is 0 */

/* Lists what is placed and lives within a span of time, by address, ascending. */
struct spots {
    struct spot *list; /* (count) */
    int count, capacity;
};
/* Span 0 is all time, then come its quarters, its sixteenths and, of more than FEW_ITEMS, their quarters: 4,000 lists
 * of 700 items are placed in 4.5 s by 3 levels and in 5.6 by 4; 200 of 7,000 in 3.9 and 3.6. */
enum { SPAN_LEVELS = 4, SPAN_COUNT = 1 + 4 + 16 + 64, FEW_ITEMS = 2000 };

/* Tells the spans in which a life lies, by level, as numbers among all spans. */
struct reach {
    unsigned char first[SPAN_LEVELS], last[SPAN_LEVELS];
};

struct gap {
    int64_t low, high;
};

/* Keeps the tightest of the gaps that were passed, and how high what was passed reaches. */
struct passed {
    int64_t top, best, best_size;
};

/* Passes a placed item. False when the gap before it is as wide as is wanted, and none is tighter. Few gaps are wide
 * enough: that is the one branch that can be foretold, whoever lives beside. */
static inline bool pass_placed(struct passed *p, int64_t bytes, bool beside, int64_t low, int64_t high)
{
    int64_t gap = low - p->top;
    if (__builtin_expect(beside & (gap >= bytes), false) && gap < p->best_size) {
        p->best = p->top;
        p->best_size = gap;
        if (gap == bytes)
            return false;
    }
    p->top = max_i64(p->top, high & -(int64_t)beside); /* 0 of whoever does not */
    return true;
}

static inline int64_t gap_passed(const struct passed *p)
{
    return p->best >= 0 ? p->best : p->top;
}

static const struct passed nothing_passed = { .best = -1, .best_size = INT64_MAX };

struct place_work {
    struct arena arena;
    const struct place_item *items;
    const struct place_things *things;
    int count;
    struct ranked *order;
    int64_t *offset, *best;          /* (count) */
    int levels;                      /* of spans in use */
    struct spots placed[SPAN_COUNT]; /* by span of time */
    int asked[SPAN_COUNT];           /* the last turn in the order that asks for the span: later ones are not noted */
    struct reach *reach;             /* (count) of items, then of their second lives; NULL before place_lists_open() */
    bool failed;                     /* for want of memory */
    struct gap *gaps; /* (count + 1) of the sweep: free bytes below the top, by address, never adjacent */
    int gap_count;
    int64_t top; /* of the sweep: the end of the highest living item */
    int *ends;   /* (count) items by last use */
    int end;     /* after the last item's last use */
    bool any_held, any_again;
    /* An interval tree: leaves are items by first use, each node knows the latest end of the placed items below it, -1
     * none. */
    struct ranked *starts; /* (count) */
    int *leaf, *latest;    /* (count), (2 * leaf_count) */
    int leaf_count;
    struct gap *beside; /* (count) bytes of placed items of the same time as the one at hand */
    int beside_count;
};

/* Opens the work on items that are borrowed; false when out of memory. The caller frees the arena in either case. */
bool place_work_open(struct place_work *w, const struct place_item *items, int count);
/* Counts pairs of items that live at the same time. */
int64_t place_count_pairs(const struct place_work *w);

/* What is placed is known in two ways: as a tree over time ... */
void place_tree_clear(struct place_work *w);
void place_tree_add(struct place_work *w, int item);
/* Adds to `beside` those that live beside the item. */
void place_tree_beside(struct place_work *w, int item);
/* Gives the tightest gap between those in `beside`, which it sorts; else the top of them. */
int64_t place_tree_gap(struct place_work *w, int64_t bytes);
/* ... and as lists by address, which suits items of which most live together. */
bool place_lists_open(struct place_work *w);  /* before the first use; false: no memory */
void place_lists_clear(struct place_work *w); /* once the order is there */
void place_lists_add(struct place_work *w, int turn);
int64_t place_lists_gap(const struct place_work *w, int item);

/* Places as an allocator would: items come in the order of their first use and leave after their last. Fills `offset`,
 * returns the top. lowest: into the first gap that is wide enough, else the tightest. */
int64_t place_in_time(struct place_work *w, bool lowest);
/* Gives things that come again the bytes that they had, the largest sizes first, and, if that is not fair enough, the
 * largest products of size and life first. Returns the best top so far; one below `best` is kept as place_keep_best()
 * does. No item lives twice. */
int64_t place_alike(struct place_work *w, int64_t fair, int64_t best);
/* Keeps the offsets in `best` where their top is lower than that of those which are there. */
void place_keep_best(struct place_work *w, int64_t top, int64_t *best);
#endif
