#include "planner/program/place.h"
#include "base/arena.h"
#include "base/num.h"
#include <stdlib.h>
#include <string.h>

enum {
    LOOK_LIMIT = 100000000, /* looks at a placed item that the orders other than the sweep in time may take */
    GOOD_ENOUGH = 200,      /* the search ends at 1/200 above the bound */
    WIDEST = 40,            /* after that, the order of so many of the widest items is tried anew */
    REPAIR_LIMIT = 1000000, /* looks that those trials may take: small programs, where single buffers matter */
    DENSE = 300             /* above 1/300 of all pairs of items living together, lists are scanned and not searched */
};

/* A sort key beside the item's index; ties fall back to the index, so that the order is total. */
struct ranked {
    int64_t key, second;
    int item;
};

static int compare_ranked(const void *left, const void *right)
{
    const struct ranked *a = left, *b = right;
    if (a->key != b->key)
        return a->key < b->key ? -1 : 1;
    if (a->second != b->second)
        return a->second < b->second ? -1 : 1;
    return a->item < b->item ? -1 : a->item > b->item;
}

/* A placed item, with all that a scan over them asks. */
struct spot {
    int64_t low, high;
    int first, last;
};

/* Placed items that live within a span of time, by address, ascending. */
struct spots {
    struct spot *list; /* (count) */
    int count;
};
/* Span 0 is all time, then come its quarters and its sixteenths. */
enum { SPAN_LEVELS = 3, SPAN_COUNT = 1 + 4 + 16 };

struct work {
    struct arena arena;
    const struct place_item *items;
    int count;
    struct ranked *order;
    int64_t *offset, *best;          /* (count) */
    struct spots placed[SPAN_COUNT]; /* by span of time; of the sweep, only [0]: the living items */
    int end;                         /* after the last item's last use */
    bool any_held;
    /* Interval tree: leaves are items by first use, each node knows the latest end of the placed items below it, -1
     * none. */
    struct ranked *starts; /* (count) */
    int *leaf, *latest;    /* (count), (2 * leaf_count) */
    int leaf_count;
    struct ranked *beside; /* (count) placed items of the same time as the one at hand */
    int beside_count;
};

static bool work_open(struct work *w, const struct place_item *items, int count)
{
    size_t n = (size_t)count;
    *w = (struct work){ .items = items, .count = count };
    w->order = arena_alloc(&w->arena, n, sizeof *w->order);
    w->offset = arena_alloc(&w->arena, n, sizeof *w->offset);
    w->best = arena_alloc(&w->arena, n, sizeof *w->best);
    for (int span = 0; span < SPAN_COUNT; span++) {
        w->placed[span].list = arena_alloc(&w->arena, n, sizeof *w->placed[span].list);
        if (!w->placed[span].list)
            return false;
    }
    w->starts = arena_alloc(&w->arena, n, sizeof *w->starts);
    w->leaf = arena_alloc(&w->arena, n, sizeof *w->leaf);
    w->beside = arena_alloc(&w->arena, n, sizeof *w->beside);
    for (w->leaf_count = 1; w->leaf_count < count;)
        w->leaf_count *= 2;
    w->latest = arena_alloc(&w->arena, 2 * (size_t)w->leaf_count, sizeof *w->latest);
    if (!w->order || !w->offset || !w->best || !w->starts || !w->leaf || !w->beside || !w->latest)
        return false;
    for (int i = 0; i < count; i++) {
        w->end = items[i].last >= w->end ? items[i].last + 1 : w->end;
        w->any_held = w->any_held || items[i].held;
        w->starts[i] = (struct ranked){ items[i].first, 0, i };
    }
    qsort(w->starts, n, sizeof *w->starts, compare_ranked);
    for (int i = 0; i < count; i++)
        w->leaf[w->starts[i].item] = i;
    return true;
}

/* Number of the span of the level in which the moment lies. */
static int span_at(const struct work *w, int level, int moment)
{
    static const int before[SPAN_LEVELS] = { 0, 1, 5 };
    return before[level] + (int)((int64_t)moment * (1 << 2 * level) / w->end);
}

/* The shortest span that holds the item's whole life. */
static const struct spots *spots_around(const struct work *w, int item)
{
    int level = SPAN_LEVELS - 1;
    while (span_at(w, level, w->items[item].first) != span_at(w, level, w->items[item].last))
        level--;
    return &w->placed[span_at(w, level, w->items[item].first)];
}

static void insert_at(struct work *w, struct spots *spots, int item)
{
    const struct place_item *it = &w->items[item];
    int low = 0, high = spots->count;
    while (low < high) {
        int middle = low + (high - low) / 2;
        if (spots->list[middle].low <= w->offset[item])
            low = middle + 1;
        else
            high = middle;
    }
    memmove(&spots->list[low + 1], &spots->list[low], (size_t)(spots->count - low) * sizeof *spots->list);
    spots->list[low] = (struct spot){ w->offset[item], w->offset[item] + it->bytes, it->first, it->last };
    spots->count++;
}

static void insert_everywhere(struct work *w, int item)
{
    for (int level = 0; level < SPAN_LEVELS; level++)
        for (int span = span_at(w, level, w->items[item].first); span <= span_at(w, level, w->items[item].last); span++)
            insert_at(w, &w->placed[span], item);
}

/* The tightest gap between the placed items that live beside the item; else on top of them. With `lowest`, the first
 * gap. */
static int64_t find_gap(const struct work *w, const struct spots *spots, int item, bool lowest)
{
    const struct place_item want = w->items[item];
    int64_t top = 0, best = -1, best_size = INT64_MAX;
    for (const struct spot *at = spots->list, *end = at + spots->count; at < end; at++) {
        bool beside = (at->first <= want.last) & (at->last >= want.first); /* no branch: nothing foretells it */
        int64_t gap = beside ? at->low - top : -1;
        if (gap >= want.bytes && gap < best_size) {
            best = top;
            best_size = lowest ? 0 : gap;
        }
        top = max_i64(top, beside ? at->high : 0);
    }
    return best >= 0 ? best : top;
}

/* ---- orders other than time ---- */
static void mark_placed(struct work *w, int item)
{
    for (int node = w->leaf_count + w->leaf[item]; node && w->latest[node] < w->items[item].last; node /= 2)
        w->latest[node] = w->items[item].last;
}

/* Placed items below the node that begin by `last` and end no earlier than `first`. */
static void collect_beside(struct work *w, int node, int low, int size, int first, int last)
{
    if (w->latest[node] < first || low >= w->count || w->starts[low].key > last)
        return;
    if (size == 1) {
        int item = w->starts[low].item;
        w->beside[w->beside_count++] = (struct ranked){ w->offset[item], w->offset[item] + w->items[item].bytes, item };
        return;
    }
    collect_beside(w, 2 * node, low, size / 2, first, last);
    collect_beside(w, 2 * node + 1, low + size / 2, size / 2, first, last);
}

static int64_t tightest_gap(const struct work *w, int64_t bytes)
{
    int64_t top = 0, best = -1, best_size = INT64_MAX;
    for (int i = 0; i < w->beside_count; i++) {
        int64_t gap = w->beside[i].key - top;
        if (gap >= bytes && gap < best_size) {
            best = top;
            best_size = gap;
        }
        top = max_i64(top, w->beside[i].second);
    }
    return best >= 0 ? best : top;
}

static int64_t place_in_order(struct work *w, bool dense)
{
    int64_t total = 0;
    memset(w->latest, -1, 2 * (size_t)w->leaf_count * sizeof *w->latest);
    for (int span = 0; span < SPAN_COUNT; span++)
        w->placed[span].count = 0;
    for (int i = 0; i < w->count; i++) {
        int item = w->order[i].item;
        if (dense) { /* most items live together: passing over all of them is cheaper than finding and sorting */
            w->offset[item] = find_gap(w, spots_around(w, item), item, false);
            insert_everywhere(w, item);
        } else {
            w->beside_count = 0;
            collect_beside(w, 1, 0, w->leaf_count, w->items[item].first, w->items[item].last);
            qsort(w->beside, (size_t)w->beside_count, sizeof *w->beside, compare_ranked);
            w->offset[item] = tightest_gap(w, w->items[item].bytes);
            mark_placed(w, item);
        }
        total = max_i64(total, w->offset[item] + w->items[item].bytes);
    }
    return total;
}

/* Pairs of items that live at the same time: of all pairs, those apart are the ends before a start. */
static int64_t count_pairs(const struct work *w, struct ranked *ends)
{
    int64_t pairs = (int64_t)w->count * (w->count - 1) / 2;
    int end = 0;
    for (int i = 0; i < w->count; i++)
        ends[i] = (struct ranked){ w->items[i].last, 0, i };
    qsort(ends, (size_t)w->count, sizeof *ends, compare_ranked);
    for (int i = 0; i < w->count; i++) {
        while (end < w->count && ends[end].key < w->starts[i].key)
            end++;
        pairs -= end;
    }
    return pairs;
}

/* ---- the sweep in time ---- */
/* As an allocator would: items come in the order of their first use and leave after their last. */
static int64_t place_in_time(struct work *w, bool lowest)
{
    int64_t total = 0;
    struct spots *living = &w->placed[0];
    living->count = 0;
    for (int i = 0; i < w->count; i++) {
        int item = w->order[i].item;
        int kept = 0; /* drop the dead in one pass: the list holds only what may be alive */
        for (int k = 0; k < living->count; k++)
            if (living->list[k].last >= w->items[item].first)
                living->list[kept++] = living->list[k];
        living->count = kept;
        w->offset[item] = find_gap(w, living, item, lowest);
        insert_at(w, living, item);
        total = max_i64(total, w->offset[item] + w->items[item].bytes);
    }
    return total;
}

enum order_kind {
    ORDER_TIME_TIGHT,
    ORDER_TIME_LOW,
    ORDER_SIZE,
    ORDER_LENGTH,
    ORDER_AREA,
    ORDER_HELD,
    ORDER_KIND_COUNT
};

static void sort_items(struct work *w, enum order_kind kind)
{
    for (int i = 0; i < w->count; i++) {
        const struct place_item *item = &w->items[i];
        int64_t length = (int64_t)item->last - item->first + 1, area;
        if (!mul_i64(&area, item->bytes, length))
            area = INT64_MAX;
        struct ranked *r = &w->order[i];
        switch (kind) {
        case ORDER_SIZE:
            *r = (struct ranked){ -item->bytes, -length, i };
            break;
        case ORDER_LENGTH:
            *r = (struct ranked){ -length, -item->bytes, i };
            break;
        case ORDER_AREA:
            *r = (struct ranked){ -area, -length, i };
            break;
        case ORDER_HELD: /* a class of its own ahead of all others */
            *r = (struct ranked){ -(area / 2) - (item->held ? INT64_MAX / 2 : 0), -length, i };
            break;
        case ORDER_TIME_TIGHT:
        case ORDER_TIME_LOW:
        case ORDER_KIND_COUNT:
            *r = (struct ranked){ item->first, -length, i };
            break;
        }
    }
    qsort(w->order, (size_t)w->count, sizeof *w->order, compare_ranked);
}

static void keep_best(struct work *w, int64_t top, int64_t *best)
{
    if (top < *best) {
        *best = top;
        memcpy(w->best, w->offset, (size_t)w->count * sizeof *w->best);
    }
}

/* Swaps two of the widest items in the order and keeps what is no worse. The draws are fixed, so that layouts repeat.
 */
static void repair(struct work *w, bool dense, int64_t looks, int64_t good, int64_t *best)
{
    int widest = w->count < WIDEST ? w->count : WIDEST;
    uint64_t draw = (uint64_t)w->count;
    sort_items(w, w->any_held ? ORDER_HELD : ORDER_AREA);
    int64_t present = place_in_order(w, dense);
    for (int64_t spent = 2 * looks; *best > good && spent <= REPAIR_LIMIT; spent += looks) {
        draw = mix64(draw);
        struct ranked *a = &w->order[draw % (uint64_t)widest], *b = &w->order[(draw >> 32) % (uint64_t)widest];
        struct ranked kept_a = *a, kept_b = *b;
        *a = kept_b;
        *b = kept_a;
        int64_t top = place_in_order(w, dense);
        if (top > present) {
            *a = kept_a;
            *b = kept_b;
            continue;
        }
        present = top;
        keep_best(w, top, best);
    }
}

static int64_t search_orders(struct work *w, int64_t bound)
{
    int64_t pairs = count_pairs(w, w->beside), looks, spent = 0, best = INT64_MAX, good = bound + bound / GOOD_ENOUGH;
    bool dense = pairs * DENSE > (int64_t)w->count * w->count;
    looks = dense ? (int64_t)w->count * w->count / 4 : pairs;
    int kinds = w->any_held ? ORDER_KIND_COUNT : ORDER_HELD; /* without held items the last is the one by area */
    for (int kind = 0; kind < kinds && best > good; kind++) {
        bool in_time = kind == ORDER_TIME_TIGHT || kind == ORDER_TIME_LOW;
        if (!in_time && (spent += looks) > LOOK_LIMIT)
            break;
        sort_items(w, (enum order_kind)kind);
        keep_best(w, in_time ? place_in_time(w, kind == ORDER_TIME_LOW) : place_in_order(w, dense), &best);
    }
    if (best > good)
        repair(w, dense, looks, good, &best);
    return best;
}

bool place_bound(const struct place_item *items, int count, int64_t *bound, struct error *err)
{
    struct ranked *ends = malloc(((size_t)count * 2 + 1) * sizeof *ends);
    if (!ends)
        return fail_kind(err, ERROR_ENVIRONMENT, "layout: out of memory for %d lifetimes", count);
    for (int i = 0; i < count; i++) { /* at one moment the ends come before the starts */
        ends[2 * i] = (struct ranked){ (int64_t)items[i].first, 1, i };
        ends[2 * i + 1] = (struct ranked){ (int64_t)items[i].last + 1, 0, i };
    }
    qsort(ends, (size_t)count * 2, sizeof *ends, compare_ranked);
    int64_t live = 0, most = 0;
    bool fits = true;
    for (int i = 0; i < 2 * count && fits; i++) {
        int64_t bytes = items[ends[i].item].bytes;
        fits = add_i64(&live, live, ends[i].second ? bytes : -bytes);
        most = max_i64(most, live);
    }
    free(ends);
    if (!fits)
        return fail(err, "layout: the buffers alive at once do not fit in 63 bits of bytes");
    *bound = most;
    return true;
}

bool place_items(struct place_item *items, int count, int64_t *total, struct error *err)
{
    int64_t bound = 0, best = 0, sum = 0;
    for (int i = 0; i < count; i++) /* no offset can pass the sum */
        if (!add_i64(&sum, sum, items[i].bytes))
            return fail(err, "layout: the buffers do not fit in 63 bits of bytes");
    if (!place_bound(items, count, &bound, err))
        return false;
    struct work w;
    if (!work_open(&w, items, count)) {
        arena_free(&w.arena);
        return fail_kind(err, ERROR_ENVIRONMENT, "layout: out of memory for %d lifetimes", count);
    }
    if (count > 0)
        best = search_orders(&w, bound);
    for (int i = 0; i < count; i++)
        items[i].offset = w.best[i];
    arena_free(&w.arena);
    *total = best;
    return true;
}
