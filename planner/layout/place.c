#include "planner/layout/place_work.h"
#include "base/num.h"
#include <stdlib.h>
#include <string.h>

enum {
    GOOD_ENOUGH = 200, /* the search ends at 1/200 above the bound */
    NEAR = 20, /* 1/20 above: a search ends with offsets with which nobody is fuller than others are already (the second
                * stage of llama-3-70b is told 74.7 GiB where it has 73.3, beside a first one of 75.0) */
    WIDEST = 40,            /* after that, the order of so many of the widest items is tried anew */
    REPAIR_LIMIT = 1000000, /* looks that those trials may take: small programs, where single buffers matter */
    DENSE = 300,            /* above 1/300 of all pairs of items living together an item is taken to look at a fourth of
                               all, else at those beside it alone */
    SCANNED = 1000 /* above 1/1000 lists are scanned, else a tree is searched: stages with 1/300 to 1/960 take 1.4
                      in place of 2.2 to 4.9 ms, 1/3000 would be as good */
};

/* Places items in their order, and gives the end of the highest; it ends early, with what it found, above `most`. */
static int64_t place_in_order(struct place_work *w, bool dense, int64_t most)
{
    int64_t total = 0;
    if (dense && !w->reach && !place_lists_open(w))
        w->failed = true;
    if (w->failed)
        return INT64_MAX;
    if (dense)
        place_lists_clear(w);
    else
        place_tree_clear(w);
    for (int i = 0; i < w->count && total <= most; i++) {
        int item = w->order[i].item;
        if (dense) { /* most items live together: passing over all of them is cheaper than finding and sorting */
            w->offset[item] = place_lists_gap(w, item);
            place_lists_add(w, i);
        } else {
            w->beside_count = 0;
            place_tree_beside(w, item);
            w->offset[item] = place_tree_gap(w, w->items[item].bytes);
            place_tree_add(w, item);
        }
        total = max_i64(total, w->offset[item] + w->items[item].bytes);
    }
    return total;
}

/* Orders stand as they are tried: what is cheap comes first, then what mostly suffices. */
enum order_kind {
    ORDER_TIME_TIGHT,
    ORDER_TIME_LOW,
    ORDER_HELD,
    ORDER_SIZE,
    ORDER_AREA,
    ORDER_LENGTH,
    ORDER_SIZE_TIME,
    ORDER_KIND_COUNT
};

static void sort_items(struct place_work *w, enum order_kind kind)
{
    if (kind == ORDER_TIME_TIGHT || kind == ORDER_TIME_LOW) {
        /* items come by first use, of equals the longest first */
        for (int i = 0, first = 0; i < w->count; i++) {
            int item = w->starts[i].item;
            w->order[i] =
                (struct ranked){ w->items[item].first, (int64_t)w->items[item].first - w->items[item].last - 1, item };
            if (i + 1 < w->count && w->starts[i + 1].key == w->starts[i].key)
                continue;
            if (i > first)
                qsort(&w->order[first], (size_t)(i + 1 - first), sizeof *w->order, place_compare_ranked);
            first = i + 1;
        }
        if (w->any_again && kind == ORDER_TIME_LOW) {
            /* those with two lives come first, in the order of time too */
            for (int i = 0; i < w->count; i++) {
                const struct place_item *item = &w->items[w->order[i].item];
                w->order[i].key = ((int64_t)(item->again_last == 0) << 32) + item->first;
            }
            qsort(w->order, (size_t)w->count, sizeof *w->order, place_compare_ranked);
        }
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
        case ORDER_SIZE_TIME: /* what is equally wide in the order of time: of one width alone the best there is */
            *r = (struct ranked){ -item->bytes, item->first, i };
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
    qsort(w->order, (size_t)w->count, sizeof *w->order, place_compare_ranked);
}

/* Swaps two of the widest items in the order and keeps what is no worse. Fixed draws make layouts repeat. */
static void repair(struct place_work *w, bool dense, int64_t looks, int64_t good, int64_t *best)
{
    int widest = min_int(w->count, WIDEST);
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
        place_keep_best(w, top, best);
    }
}

int64_t place_good_bytes(int64_t live_bytes)
{
    return live_bytes + live_bytes / GOOD_ENOUGH;
}

static int64_t search_orders(struct place_work *w, int64_t bound, const struct place_effort *effort)
{
    int64_t pairs = place_count_pairs(w), looks, spent = 0, best = INT64_MAX;
    int64_t good = max_i64(place_good_bytes(bound), min_i64(bound + bound / PLACE_FAIR, effort->enough));
    good = max_i64(good, min_i64(bound + bound / NEAR, effort->plenty));
    int64_t square = (int64_t)w->count * w->count;
    bool dense = w->any_again || pairs * SCANNED > square;
    looks = w->any_again || pairs * DENSE > square ? square / 4 : pairs;
    for (int kind = 0; kind < ORDER_KIND_COUNT && best > good; kind++) {
        if (kind == ORDER_HELD && !w->any_held)
            continue; /* the one by area */
        bool in_time = kind == ORDER_TIME_TIGHT || kind == ORDER_TIME_LOW;
        in_time = in_time && !w->any_again; /* an allocator gives bytes back once */
        if (!in_time && (spent += looks) > effort->looks && best < INT64_MAX)
            break;
        sort_items(w, (enum order_kind)kind);
        place_keep_best(w, in_time ? place_in_time(w, kind == ORDER_TIME_LOW) : place_in_order(w, dense, best - 1),
                        &best);
    }
    if (best > good)
        repair(w, dense, looks, good, &best);
    if (!w->any_again && looks > PLACE_LOOKS && pairs <= PLACE_LOOKS) {
        /* This is for a step so long that the sweep in time alone was tried: of shorter ones the orders pack no worse,
         * in a fifth of the time (of 160 stages of the golden jobs one would have gained by this). Bytes that are used
         * again at once make whoever comes next wait, so it is tried only where that gains something. */
        best = place_alike(w, max_i64(bound + bound / PLACE_FAIR, good), best);
    }
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

bool place_items(struct place_item *items, int count, const struct place_things *things,
                 const struct place_effort *effort, int64_t *total, struct error *err)
{
    int64_t bound = 0, best = 0, sum = 0;
    for (int i = 0; i < count; i++) /* no offset can pass the sum */
        if (!add_i64(&sum, sum, items[i].bytes))
            return fail(err, "layout: the buffers do not fit in 63 bits of bytes");
    if (!place_bound(items, count, &bound, err))
        return false;
    struct place_work w;
    if (!place_work_open(&w, items, count)) {
        arena_free(&w.arena);
        return fail_kind(err, ERROR_ENVIRONMENT, "layout: out of memory for %d lifetimes", count);
    }
    w.things = things;
    if (count > 0)
        best = search_orders(&w, bound, effort);
    for (int i = 0; i < count; i++)
        items[i].offset = w.best[i];
    bool failed = w.failed;
    arena_free(&w.arena);
    *total = best;
    return !failed || fail_kind(err, ERROR_ENVIRONMENT, "layout: out of memory for %d lifetimes", count);
}
