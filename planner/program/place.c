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
struct gap {
    int64_t low, high;
};
enum { SPAN_LEVELS = 3, SPAN_COUNT = 1 + 4 + 16 };

/* The spans in which a life lies, by level, as numbers among all spans. */
struct reach {
    unsigned char first[SPAN_LEVELS], last[SPAN_LEVELS];
};

struct work {
    struct arena arena;
    const struct place_item *items;
    int count;
    struct ranked *order;
    int64_t *offset, *best;          /* (count) */
    struct spots placed[SPAN_COUNT]; /* by span of time */
    struct reach *reach;             /* (count) of items, then of their second lives */
    struct gap *gaps; /* (count + 1) of the sweep: free bytes below the top, by address, never adjacent */
    int gap_count;
    int64_t top; /* of the sweep: the end of the highest living item */
    int *ends;   /* (count) items by last use */
    int end;     /* after the last item's last use */
    bool any_held, any_again;
    /* Interval tree: leaves are items by first use, each node knows the latest end of the placed items below it, -1
     * none. */
    struct ranked *starts; /* (count) */
    int *leaf, *latest;    /* (count), (2 * leaf_count) */
    int leaf_count;
    struct ranked *beside; /* (count) placed items of the same time as the one at hand */
    int beside_count;
};

/* Items by their first or last moment, equal ones by number. before: (end + 1), all 0. */
static void sort_by_moment(const struct work *w, bool last, int *before, int *out)
{
    for (int i = 0; i < w->count; i++)
        before[(last ? w->items[i].last : w->items[i].first) + 1]++;
    for (int moment = 1; moment <= w->end; moment++)
        before[moment] += before[moment - 1];
    for (int i = 0; i < w->count; i++)
        out[before[last ? w->items[i].last : w->items[i].first]++] = i;
}

static bool sort_moments(struct work *w)
{
    int *before = arena_alloc(&w->arena, 2 * ((size_t)w->end + 1), sizeof *before);
    int *by_start = arena_alloc(&w->arena, (size_t)w->count, sizeof *by_start);
    if (!before || !by_start)
        return false;
    sort_by_moment(w, false, before, by_start);
    sort_by_moment(w, true, before + w->end + 1, w->ends);
    for (int i = 0; i < w->count; i++) {
        w->starts[i] = (struct ranked){ w->items[by_start[i]].first, 0, by_start[i] };
        w->leaf[by_start[i]] = i;
    }
    return true;
}

static struct reach reach_of(const struct work *w, int first, int last)
{
    static const int before[SPAN_LEVELS] = { 0, 1, 5 };
    struct reach reach;
    for (int level = 0; level < SPAN_LEVELS; level++) {
        reach.first[level] = (unsigned char)(before[level] + ((int64_t)first << 2 * level) / w->end);
        reach.last[level] = (unsigned char)(before[level] + ((int64_t)last << 2 * level) / w->end);
    }
    return reach;
}

static bool find_reaches(struct work *w)
{
    w->reach = arena_alloc(&w->arena, 2 * (size_t)w->count, sizeof *w->reach);
    for (int i = 0; i < w->count && w->reach; i++) {
        const struct place_item *it = &w->items[i];
        w->reach[i] = reach_of(w, it->first, it->last);
        if (it->again_last > 0)
            w->reach[w->count + i] = reach_of(w, it->again_first, it->again_last);
    }
    return w->reach != NULL;
}

static bool work_open(struct work *w, const struct place_item *items, int count)
{
    size_t n = (size_t)count;
    *w = (struct work){ .items = items, .count = count };
    w->order = arena_alloc(&w->arena, n, sizeof *w->order);
    w->offset = arena_alloc(&w->arena, n, sizeof *w->offset);
    w->best = arena_alloc(&w->arena, n, sizeof *w->best);
    for (int i = 0; i < count; i++)
        w->any_again = w->any_again || items[i].again_last > 0;
    for (int span = 0; span < SPAN_COUNT; span++) {
        w->placed[span].list = arena_alloc(&w->arena, w->any_again ? 2 * n : n, sizeof *w->placed[span].list);
        if (!w->placed[span].list)
            return false;
    }
    w->starts = arena_alloc(&w->arena, n, sizeof *w->starts);
    w->leaf = arena_alloc(&w->arena, n, sizeof *w->leaf);
    w->beside = arena_alloc(&w->arena, n, sizeof *w->beside);
    w->gaps = arena_alloc(&w->arena, n + 1, sizeof *w->gaps);
    w->ends = arena_alloc(&w->arena, n, sizeof *w->ends);
    for (w->leaf_count = 1; w->leaf_count < count;)
        w->leaf_count *= 2;
    w->latest = arena_alloc(&w->arena, 2 * (size_t)w->leaf_count, sizeof *w->latest);
    if (!w->order || !w->offset || !w->best || !w->starts || !w->leaf || !w->beside || !w->gaps || !w->ends ||
        !w->latest)
        return false;
    for (int i = 0; i < count; i++) {
        w->end = items[i].last >= w->end ? items[i].last + 1 : w->end;
        w->end = items[i].again_last >= w->end ? items[i].again_last + 1 : w->end;
        w->any_held = w->any_held || items[i].held;
    }
    return find_reaches(w) && sort_moments(w);
}

/* The shortest span that holds the item's whole life. */
static const struct spots *spots_around(const struct work *w, int item)
{
    const struct reach *reach = &w->reach[item];
    int level = w->items[item].again_last > 0 ? 0 : SPAN_LEVELS - 1;
    while (reach->first[level] != reach->last[level])
        level--;
    return &w->placed[reach->first[level]];
}

static void insert_at(struct work *w, struct spots *spots, int item, int first, int last)
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
    spots->list[low] = (struct spot){ w->offset[item], w->offset[item] + it->bytes, first, last };
    spots->count++;
}

static void insert_life(struct work *w, int item, const struct reach *reach, int first, int last)
{
    for (int level = 0; level < SPAN_LEVELS; level++)
        for (int span = reach->first[level]; span <= reach->last[level]; span++)
            insert_at(w, &w->placed[span], item, first, last);
}

static void insert_everywhere(struct work *w, int item)
{
    const struct place_item *it = &w->items[item];
    insert_life(w, item, &w->reach[item], it->first, it->last);
    if (it->again_last > 0)
        insert_life(w, item, &w->reach[w->count + item], it->again_first, it->again_last);
}

/* The tightest gap between the placed items that live beside the item; else on top of them. */
static int64_t find_gap(const struct work *w, const struct spots *spots, int item)
{
    const struct place_item want = w->items[item];
    int64_t top = 0, best = -1, best_size = INT64_MAX;
    for (const struct spot *at = spots->list, *end = at + spots->count; at < end; at++) {
        bool beside = (at->first <= want.last) & (at->last >= want.first); /* no branch: nothing foretells it */
        int64_t gap = beside ? at->low - top : -1;
        if (gap >= want.bytes && gap < best_size) {
            best = top;
            best_size = gap;
        }
        top = max_i64(top, beside ? at->high : 0);
    }
    return best >= 0 ? best : top;
}

/* The same for an item with two lives. */
static int64_t find_gap_twice(const struct work *w, const struct spots *spots, int item)
{
    const struct place_item want = w->items[item];
    int64_t top = 0, best = -1, best_size = INT64_MAX;
    for (const struct spot *at = spots->list, *end = at + spots->count; at < end; at++) {
        bool beside = (at->first <= want.last && at->last >= want.first) ||
                      (at->first <= want.again_last && at->last >= want.again_first);
        int64_t gap = beside ? at->low - top : -1;
        if (gap >= want.bytes && gap < best_size) {
            best = top;
            best_size = gap;
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

/* The end of the highest item; ends early, with what it found, above `most`. */
static int64_t place_in_order(struct work *w, bool dense, int64_t most)
{
    int64_t total = 0;
    memset(w->latest, -1, 2 * (size_t)w->leaf_count * sizeof *w->latest);
    for (int span = 0; span < SPAN_COUNT; span++)
        w->placed[span].count = 0;
    for (int i = 0; i < w->count && total <= most; i++) {
        int item = w->order[i].item;
        if (dense) { /* most items live together: passing over all of them is cheaper than finding and sorting */
            w->offset[item] = w->items[item].again_last > 0 ? find_gap_twice(w, spots_around(w, item), item)
                                                            : find_gap(w, spots_around(w, item), item);
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
static int64_t count_pairs(const struct work *w)
{
    int64_t pairs = (int64_t)w->count * (w->count - 1) / 2;
    int end = 0;
    for (int i = 0; i < w->count; i++) {
        while (end < w->count && w->items[w->ends[end]].last < w->starts[i].key)
            end++;
        pairs -= end;
    }
    return pairs;
}

/* ---- the sweep in time ---- */
/* The first gap that begins at or behind the address. */
static int gap_behind(const struct work *w, int64_t address)
{
    int low = 0, high = w->gap_count;
    while (low < high) {
        int middle = low + (high - low) / 2;
        if (w->gaps[middle].low < address)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static void drop_gap(struct work *w, int gap)
{
    memmove(&w->gaps[gap], &w->gaps[gap + 1], (size_t)(--w->gap_count - gap) * sizeof *w->gaps);
}

/* Bytes of an item whose life is over join the gaps beside them, or the top sinks. */
static void give_back(struct work *w, int64_t low, int64_t high)
{
    int next = gap_behind(w, low);
    if (low == high)
        return;
    if (next > 0 && w->gaps[next - 1].high == low) {
        low = w->gaps[--next].low;
        drop_gap(w, next);
    }
    if (next < w->gap_count && w->gaps[next].low == high) {
        high = w->gaps[next].high;
        drop_gap(w, next);
    }
    if (high == w->top) {
        w->top = low;
        return;
    }
    memmove(&w->gaps[next + 1], &w->gaps[next], (size_t)(w->gap_count++ - next) * sizeof *w->gaps);
    w->gaps[next] = (struct gap){ low, high };
}

/* The tightest gap, with `lowest` the first; else the top. */
static int64_t take_bytes(struct work *w, int64_t bytes, bool lowest)
{
    int best = -1;
    for (int i = 0; i < w->gap_count; i++) {
        int64_t size = w->gaps[i].high - w->gaps[i].low;
        if (size < bytes || (best >= 0 && size >= w->gaps[best].high - w->gaps[best].low))
            continue;
        best = i;
        if (lowest)
            break;
    }
    int64_t offset = best >= 0 ? w->gaps[best].low : w->top;
    if (best < 0)
        w->top += bytes;
    else if ((w->gaps[best].low += bytes) == w->gaps[best].high)
        drop_gap(w, best);
    return offset;
}

/* As an allocator would: items come in the order of their first use and leave after their last. */
static int64_t place_in_time(struct work *w, bool lowest)
{
    int64_t total = 0;
    int end = 0;
    w->gap_count = 0;
    w->top = 0;
    for (int i = 0; i < w->count; i++) {
        int item = w->order[i].item;
        for (; w->items[w->ends[end]].last < w->items[item].first; end++)
            give_back(w, w->offset[w->ends[end]], w->offset[w->ends[end]] + w->items[w->ends[end]].bytes);
        w->offset[item] = take_bytes(w, w->items[item].bytes, lowest);
        total = max_i64(total, w->top);
    }
    return total;
}

/* As they are tried: what is cheap first, then what mostly suffices. */
enum order_kind {
    ORDER_TIME_TIGHT,
    ORDER_TIME_LOW,
    ORDER_HELD, /* without held items the one by area */
    ORDER_SIZE,
    ORDER_AREA,
    ORDER_LENGTH,
    ORDER_KIND_COUNT
};

/* By first use, the longest first. */
static void sort_in_time(struct work *w)
{
    for (int i = 0, first = 0; i < w->count; i++) {
        int item = w->starts[i].item;
        w->order[i] =
            (struct ranked){ w->items[item].first, (int64_t)w->items[item].first - w->items[item].last - 1, item };
        if (i + 1 < w->count && w->starts[i + 1].key == w->starts[i].key)
            continue;
        if (i > first)
            qsort(&w->order[first], (size_t)(i + 1 - first), sizeof *w->order, compare_ranked);
        first = i + 1;
    }
}

/* Those with two lives first, in the order of time too. */
static void sort_again_first(struct work *w)
{
    int at = 0;
    for (int again = 1; again >= 0; again--)
        for (int i = 0; i < w->count; i++)
            if ((w->items[w->order[i].item].again_last > 0) == again)
                w->beside[at++] = w->order[i];
    memcpy(w->order, w->beside, (size_t)w->count * sizeof *w->order);
}

static void sort_items(struct work *w, enum order_kind kind)
{
    if (kind == ORDER_TIME_TIGHT || kind == ORDER_TIME_LOW) {
        sort_in_time(w);
        if (w->any_again && kind == ORDER_TIME_LOW)
            sort_again_first(w);
        return;
    }
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
    if (2 * looks > REPAIR_LIMIT)
        return;
    sort_items(w, w->any_held ? ORDER_HELD : ORDER_AREA);
    int64_t present = place_in_order(w, dense, INT64_MAX);
    for (int64_t spent = 2 * looks; *best > good && spent <= REPAIR_LIMIT; spent += looks) {
        draw = mix64(draw);
        struct ranked *a = &w->order[draw % (uint64_t)widest], *b = &w->order[(draw >> 32) % (uint64_t)widest];
        struct ranked kept_a = *a, kept_b = *b;
        *a = kept_b;
        *b = kept_a;
        int64_t top = place_in_order(w, dense, present);
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
    int64_t pairs = count_pairs(w), looks, spent = 0, best = INT64_MAX, good = bound + bound / GOOD_ENOUGH;
    bool dense = w->any_again || pairs * DENSE > (int64_t)w->count * w->count;
    looks = dense ? (int64_t)w->count * w->count / 4 : pairs;
    for (int kind = 0; kind < ORDER_KIND_COUNT && best > good; kind++) {
        if (kind == ORDER_HELD && !w->any_held)
            continue;
        bool in_time = kind == ORDER_TIME_TIGHT || kind == ORDER_TIME_LOW;
        in_time = in_time && !w->any_again; /* an allocator gives bytes back once */
        if (!in_time && (spent += looks) > LOOK_LIMIT && best < INT64_MAX)
            break;
        sort_items(w, (enum order_kind)kind);
        keep_best(w, in_time ? place_in_time(w, kind == ORDER_TIME_LOW) : place_in_order(w, dense, best - 1), &best);
    }
    if (best > good)
        repair(w, dense, looks, good, &best);
    return best;
}

bool place_bound(const struct place_item *items, int count, int64_t *bound, struct error *err)
{
    int end = 0;
    for (int i = 0; i < count; i++) {
        end = items[i].last >= end ? items[i].last + 1 : end;
        end = items[i].again_last >= end ? items[i].again_last + 1 : end;
    }
    int64_t *come = calloc(2 * ((size_t)end + 1), sizeof *come), *go = come ? come + end + 1 : NULL; /* by moment */
    if (!come)
        return fail_kind(err, ERROR_ENVIRONMENT, "layout: out of memory for %d lifetimes", count);
    int64_t live = 0, most = 0;
    bool fits = true;
    for (int i = 0; i < count && fits; i++)
        fits = items[i].again_last == 0 ||
               (add_i64(&come[items[i].again_first], come[items[i].again_first], items[i].bytes) &&
                add_i64(&go[items[i].again_last + 1], go[items[i].again_last + 1], items[i].bytes));
    for (int i = 0; i < count && fits; i++) /* what goes at one moment has lived together, and so has what comes */
        fits = add_i64(&come[items[i].first], come[items[i].first], items[i].bytes) &&
               add_i64(&go[items[i].last + 1], go[items[i].last + 1], items[i].bytes);
    for (int moment = 0; moment <= end && fits; moment++) {
        live -= go[moment];
        fits = add_i64(&live, live, come[moment]);
        most = max_i64(most, live);
    }
    free(come);
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
