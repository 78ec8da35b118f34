/* Layout by things. A step repeats: the same value of the same layer comes again with every micro-batch, the same
 * weight is gathered again for every pass. What comes again gets the bytes that it had, so that a long step packs like
 * a short one; as many of a thing as live side by side get bytes of their own, in turn. */
#include "planner/layout/place_work.h"
#include "base/num.h"
#include <stdlib.h>

enum { MOST_TURNS = 64 }; /* a thing of which more live side by side is not taken together */

struct groups {
    int *of;           /* (items) its group */
    int *first, *next; /* of a group the first item, of an item the next of its group, -1 none */
    int count;
    struct ranked *order; /* (count) as they are placed */
};

static bool is_alike(const struct place_work *w, const struct ranked *a, const struct ranked *b)
{
    return a->key == b->key && w->items[a->item].bytes == w->items[b->item].bytes;
}

/* Whether no two items that are so many places apart live at once. list: of one thing, by first use. */
static bool take_turns(const struct place_work *w, const struct ranked *list, int count, int turns)
{
    for (int i = 0; i < turns; i++)
        for (int k = i, last = -1; k < count; k += turns) {
            if (w->items[list[k].item].first <= last)
                return false;
            last = w->items[list[k].item].last;
        }
    return true;
}

/* The count where they are too many. */
static int turns_of(const struct place_work *w, const struct ranked *list, int count)
{
    for (int turns = 1; turns < count && turns <= MOST_TURNS; turns++)
        if (take_turns(w, list, count, turns))
            return turns;
    return count;
}

/* Items by what they are, in w->order; what is alike is a run of it. */
static void sort_alike(struct place_work *w)
{
    for (int i = 0; i < w->count; i++)
        w->order[i] = (struct ranked){ w->things->of(w->things->self, &w->items[i]), w->items[i].first, i };
    qsort(w->order, (size_t)w->count, sizeof *w->order, place_compare_ranked);
}

static int run_length(const struct place_work *w, int first)
{
    int end = first + 1;
    while (end < w->count && is_alike(w, &w->order[first], &w->order[end]))
        end++;
    return end - first;
}

static void add_group(const struct place_work *w, struct groups *g, const struct ranked *list, int count, int turns,
                      bool by_area)
{
    int64_t longest = 0, area, bytes = w->items[list[0].item].bytes;
    int *into = &g->first[g->count];
    for (int k = 0; k < count; k += turns) {
        int item = list[k].item;
        g->of[item] = g->count;
        *into = item;
        into = &g->next[item];
        longest = max_i64(longest, (int64_t)w->items[item].last - w->items[item].first + 1);
    }
    *into = -1;
    if (!mul_i64(&area, bytes, longest))
        area = INT64_MAX;
    g->order[g->count] = (struct ranked){ by_area ? -area : -bytes, by_area ? -bytes : -longest, g->count };
    g->count++;
}

static void form_groups(struct place_work *w, struct groups *g, bool by_area)
{
    sort_alike(w);
    for (int first = 0, length; first < w->count; first += length) {
        length = run_length(w, first);
        int turns = turns_of(w, &w->order[first], length);
        for (int i = 0; i < turns && i < length; i++)
            add_group(w, g, &w->order[first + i], length - i, turns, by_area);
    }
    qsort(g->order, (size_t)g->count, sizeof *g->order, place_compare_ranked);
}

static int64_t place_group(struct place_work *w, const struct groups *g, int group)
{
    int64_t bytes = w->items[g->first[group]].bytes;
    w->beside_count = 0;
    w->now++;
    for (int item = g->first[group]; item >= 0; item = g->next[item])
        place_tree_beside(w, item);
    int64_t offset = place_tree_gap(w, bytes);
    for (int item = g->first[group]; item >= 0; item = g->next[item]) {
        w->offset[item] = offset;
        place_tree_add(w, item);
    }
    return offset + bytes;
}

int64_t place_alike(struct place_work *w, bool by_area, int64_t most)
{
    size_t n = (size_t)w->count;
    struct arena scratch = { 0 };
    struct groups g = { .of = arena_alloc(&scratch, n, sizeof *g.of),
                        .first = arena_alloc(&scratch, n, sizeof *g.first),
                        .next = arena_alloc(&scratch, n, sizeof *g.next),
                        .order = arena_alloc(&scratch, n, sizeof *g.order) };
    int64_t total = INT64_MAX;
    w->met = arena_alloc(&scratch, n, sizeof *w->met);
    if (g.of && g.first && g.next && g.order && w->met) {
        form_groups(w, &g, by_area);
        place_tree_clear(w);
        w->group = g.of;
        w->now = 0;
        total = 0;
        for (int i = 0; i < g.count && total <= most; i++)
            total = max_i64(total, place_group(w, &g, g.order[i].item));
    }
    w->group = NULL;
    arena_free(&scratch);
    return total;
}
