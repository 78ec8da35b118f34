#include "planner/layout/place_work.h"
#include "base/num.h"
#include <string.h>

int place_compare_ranked(const void *left, const void *right)
{
    const struct ranked *a = left, *b = right;
    if (a->key != b->key)
        return a->key < b->key ? -1 : 1;
    if (a->second != b->second)
        return a->second < b->second ? -1 : 1;
    return a->item < b->item ? -1 : a->item > b->item;
}

/* Sorts items by their first or last moment, equal ones by number. before: (end + 1), all 0. */
static void sort_by_moment(const struct place_work *w, bool last, int *before, int *out)
{
    for (int i = 0; i < w->count; i++)
        before[(last ? w->items[i].last : w->items[i].first) + 1]++;
    for (int moment = 1; moment <= w->end; moment++)
        before[moment] += before[moment - 1];
    for (int i = 0; i < w->count; i++)
        out[before[last ? w->items[i].last : w->items[i].first]++] = i;
}

static bool sort_moments(struct place_work *w)
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

static struct reach reach_of(const struct place_work *w, int first, int last)
{
    static const int before[SPAN_LEVELS] = { 0, 1, 5, 21 };
    struct reach reach;
    for (int level = 0; level < SPAN_LEVELS; level++) {
        reach.first[level] = (unsigned char)(before[level] + ((int64_t)first << 2 * level) / w->end);
        reach.last[level] = (unsigned char)(before[level] + ((int64_t)last << 2 * level) / w->end);
    }
    return reach;
}

bool place_work_open(struct place_work *w, const struct place_item *items, int count)
{
    size_t n = (size_t)count;
    *w = (struct place_work){ .items = items, .count = count };
    w->order = arena_alloc(&w->arena, n, sizeof *w->order);
    w->offset = arena_alloc(&w->arena, n, sizeof *w->offset);
    w->best = arena_alloc(&w->arena, n, sizeof *w->best);
    for (int i = 0; i < count; i++)
        w->any_again = w->any_again || items[i].again_last > 0;
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
    return sort_moments(w);
}

bool place_lists_open(struct place_work *w)
{
    w->levels = w->count > FEW_ITEMS ? SPAN_LEVELS : SPAN_LEVELS - 1;
    w->reach = arena_alloc(&w->arena, w->any_again ? 2 * (size_t)w->count : (size_t)w->count, sizeof *w->reach);
    for (int i = 0; i < w->count && w->reach; i++) {
        const struct place_item *it = &w->items[i];
        w->reach[i] = reach_of(w, it->first, it->last);
        if (it->again_last > 0)
            w->reach[w->count + i] = reach_of(w, it->again_first, it->again_last);
    }
    return w->reach;
}

/* Counts all pairs without those that are apart, which for each start are the ends before it. */
int64_t place_count_pairs(const struct place_work *w)
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

/* ---- lists ---- */
/* Gives the spans that hold the item's whole life: one or two of the finest level on which there are no more. */
static void spans_around(const struct place_work *w, int item, int *first, int *last)
{
    const struct reach *reach = &w->reach[item];
    int level = w->items[item].again_last > 0 ? 0 : w->levels - 1;
    while (reach->last[level] - reach->first[level] > 1)
        level--;
    *first = reach->first[level];
    *last = reach->last[level];
}

/* Inserts a spot. What always lives joins its like on either side: nothing else has bytes of theirs. */
static void insert_spot(struct place_work *w, struct spots *spots, struct spot spot)
{
    int at; /* from there on addresses are above its own */
    BISECT(at, spots->count, k, spots->list[k].low <= spot.low);
    struct spot *list = spots->list, *next = at < spots->count ? &list[at] : NULL;
    bool always = spot.last == ALWAYS;
    bool joins_next = always && next && next->last == ALWAYS && next->low == spot.high;
    if (always && at > 0 && list[at - 1].last == ALWAYS && list[at - 1].high == spot.low) {
        list[at - 1].high = joins_next ? next->high : spot.high;
        if (joins_next)
            memmove(next, next + 1, (size_t)(--spots->count - at) * sizeof *next);
        return;
    }
    if (joins_next) {
        next->low = spot.low;
        return;
    }
    list = arena_more(&w->arena, list, spots->count, &spots->capacity, sizeof *list);
    w->failed = w->failed || !list;
    if (!list)
        return;
    spots->list = list;
    memmove(&list[at + 1], &list[at], (size_t)(spots->count++ - at) * sizeof *list);
    list[at] = spot;
}

static void insert_life(struct place_work *w, int turn, const struct reach *reach, struct spot spot)
{
    const struct spot always = { spot.low, spot.high, 0, ALWAYS };
    for (int level = 0; level < w->levels; level++)
        for (int span = reach->first[level]; span <= reach->last[level]; span++)
            if (w->asked[span] > turn)
                insert_spot(w, &w->placed[span],
                            span > reach->first[level] && span < reach->last[level] ? always : spot);
}

void place_lists_add(struct place_work *w, int turn)
{
    int item = w->order[turn].item;
    const struct place_item *it = &w->items[item];
    int64_t low = w->offset[item], high = low + it->bytes;
    if (low == high) /* nobody's bytes keep nobody off */
        return;
    insert_life(w, turn, &w->reach[item], (struct spot){ low, high, it->first, it->last });
    if (it->again_last > 0)
        insert_life(w, turn, &w->reach[w->count + item], (struct spot){ low, high, it->again_first, it->again_last });
}

static inline bool pass_spot(struct passed *p, const struct place_item *want, const struct spot *at)
{
    return pass_placed(p, want->bytes, (at->first <= want->last) & (at->last >= want->first), at->low, at->high);
}

/* Finds the tightest gap between placed items that live beside the item; else their top. b: another list, or a. */
static int64_t find_gap(const struct spots *a, const struct spots *b, const struct place_item *want)
{
    struct passed passed = nothing_passed;
    const struct spot *x = a->list, *x_end = a->count > 0 ? x + a->count : x, *y = b->list,
                      *y_end = a == b || b->count == 0 ? y : y + b->count; /* without any there is no list */
    bool looks = true;
    while (looks && x < x_end && y < y_end)
        looks = pass_spot(&passed, want, x->low <= y->low ? x++ : y++);
    while (looks && x < x_end)
        looks = pass_spot(&passed, want, x++);
    while (looks && y < y_end)
        looks = pass_spot(&passed, want, y++);
    return gap_passed(&passed);
}

/* Finds the tightest gap for an item with two lives. */
static int64_t find_gap_twice(const struct spots *spots, const struct place_item *want)
{
    struct passed passed = nothing_passed;
    for (const struct spot *at = spots->list, *end = spots->count > 0 ? at + spots->count : at; at < end; at++) {
        bool beside = (at->first <= want->last && at->last >= want->first) ||
                      (at->first <= want->again_last && at->last >= want->again_first);
        if (!pass_placed(&passed, want->bytes, beside, at->low, at->high))
            break;
    }
    return gap_passed(&passed);
}

void place_lists_clear(struct place_work *w)
{
    for (int span = 0; span < SPAN_COUNT; span++) {
        w->placed[span].count = 0;
        w->asked[span] = 0;
    }
    for (int turn = 0; turn < w->count; turn++) {
        int first, last;
        spans_around(w, w->order[turn].item, &first, &last);
        w->asked[first] = w->asked[last] = turn;
    }
}

int64_t place_lists_gap(const struct place_work *w, int item)
{
    int first, last;
    spans_around(w, item, &first, &last);
    return w->items[item].again_last > 0 ? find_gap_twice(&w->placed[first], &w->items[item])
                                         : find_gap(&w->placed[first], &w->placed[last], &w->items[item]);
}

/* ---- a tree over time ---- */
void place_tree_add(struct place_work *w, int item)
{
    for (int node = w->leaf_count + w->leaf[item]; node && w->latest[node] < w->items[item].last; node /= 2)
        w->latest[node] = w->items[item].last;
}

/* Collects the placed items below the node that begin by `last` and end no earlier than `first`. */
static void collect_beside(struct place_work *w, int node, int low, int size, int first, int last)
{
    if (w->latest[node] < first || low >= w->count || w->starts[low].key > last)
        return;
    if (size == 1) {
        int item = w->starts[low].item;
        w->beside[w->beside_count++] = (struct gap){ w->offset[item], w->offset[item] + w->items[item].bytes };
        return;
    }
    collect_beside(w, 2 * node, low, size / 2, first, last);
    collect_beside(w, 2 * node + 1, low + size / 2, size / 2, first, last);
}

/* Sorts by address, as Shell did it: of the dozens that most items have beside them nothing is faster. Which of several
 * at one address comes first is all the same. */
static void sort_beside(struct gap *list, int count)
{
    static const int strides[] = { 1750, 701, 301, 132, 57, 23, 10, 4, 1 }; /* Ciura 2001 */
    for (size_t k = 0; k < sizeof strides / sizeof *strides; k++) {
        int stride = strides[k];
        for (int i = stride; i < count; i++) {
            struct gap moved = list[i];
            int at = i;
            for (; at >= stride && list[at - stride].low > moved.low; at -= stride)
                list[at] = list[at - stride];
            list[at] = moved;
        }
    }
}

int64_t place_tree_gap(struct place_work *w, int64_t bytes)
{
    struct passed passed = nothing_passed;
    sort_beside(w->beside, w->beside_count);
    for (int i = 0; i < w->beside_count; i++)
        if (!pass_placed(&passed, bytes, true, w->beside[i].low, w->beside[i].high))
            break;
    return gap_passed(&passed);
}

void place_tree_clear(struct place_work *w)
{
    memset(w->latest, -1, 2 * (size_t)w->leaf_count * sizeof *w->latest);
}

void place_tree_beside(struct place_work *w, int item)
{
    collect_beside(w, 1, 0, w->leaf_count, w->items[item].first, w->items[item].last);
}

void place_keep_best(struct place_work *w, int64_t top, int64_t *best)
{
    if (top < *best) {
        *best = top;
        memcpy(w->best, w->offset, (size_t)w->count * sizeof *w->best);
    }
}
