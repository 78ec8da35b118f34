/* Layout by things. A step repeats: the same value of the same layer comes again with every micro-batch, the same
 * weight is gathered again for every pass. What comes again gets the bytes that it had, so that a long step packs like
 * a short one; as many of a thing as live side by side get bytes of their own, in turn. */
#include "planner/layout/place_work.h"
#include "base/num.h"
#include "base/sort.h"
#include <stdlib.h>
#include <string.h>

enum { SPANS = 1024, SPAN_WORDS = SPANS / 64, COARSE = SPANS / 64 };

struct item_life {
    int first, last;
};
/* Groups have the same bytes, one item after the other. */
struct groups {
    int *item;               /* (items) by group, each group's by first use */
    struct item_life *lives; /* (items) of these */
    int *first;              /* (count + 1) where a group begins there */
    /* (items) by group: the bit of each of SPANS equal spans of time in which something of it lives. Most pairs of
     * groups share no span, which is told in a twentieth of the time that going through their lives takes. */
    uint64_t (*spans)[SPAN_WORDS];
    uint64_t *coarse; /* (items) by group: the same of 64 spans, which tells most pairs apart already */
    int count;
    struct ranked *order;  /* (count) as they are placed */
    struct placed *placed; /* (turns so far) by address */
};
struct placed {
    int64_t low, high;
    uint64_t coarse;
    int group;
};

/* Gives the fewest turns in which no item begins before the one that had its bytes has ended: begins are in order, so
 * that who is late enough for one is late enough for those before it. list: of one thing, by first use. */
static int turns_of(const struct place_work *w, const struct ranked *list, int count)
{
    int turns = 1;
    for (int i = 0; i + turns < count; i++)
        while (i + turns < count && w->items[list[i + turns].item].first <= w->items[list[i].item].last)
            turns++;
    return turns;
}

/* Sorts items by what they are into w->order, where what is alike is a run, by first use. keyed: room for each. */
static void sort_alike(struct place_work *w, struct keyed *keyed)
{
    for (int i = 0; i < w->count; i++)
        keyed[i] = (struct keyed){ w->things->of(w->things->self, &w->items[w->starts[i].item]), i };
    qsort(keyed, (size_t)w->count, sizeof *keyed, keyed_compare);
    for (int i = 0; i < w->count; i++) {
        int item = w->starts[keyed[i].index].item;
        w->order[i] = (struct ranked){ keyed[i].key, w->items[item].first, item };
    }
}

static void add_group(const struct place_work *w, struct groups *g, const struct ranked *list, int count, int turns)
{
    int at = g->first[g->count];
    memset(g->spans[g->count], 0, sizeof *g->spans);
    g->coarse[g->count] = 0;
    for (int k = 0; k < count; k += turns, at++) {
        const struct place_item *item = &w->items[list[k].item];
        int64_t span = (int64_t)item->first * SPANS / w->end, last = (int64_t)item->last * SPANS / w->end;
        g->item[at] = list[k].item;
        g->lives[at] = (struct item_life){ item->first, item->last };
        for (; span <= last; span++) {
            g->spans[g->count][span / 64] |= UINT64_C(1) << span % 64;
            g->coarse[g->count] |= UINT64_C(1) << span / COARSE;
        }
    }
    g->first[++g->count] = at;
}

static void form_groups(struct place_work *w, struct groups *g, struct keyed *keyed)
{
    sort_alike(w, keyed);
    for (int first = 0, length; first < w->count; first += length) {
        length = 1;
        while (first + length < w->count && w->order[first + length].key == w->order[first].key &&
               w->items[w->order[first + length].item].bytes == w->items[w->order[first].item].bytes)
            length++;
        int turns = turns_of(w, &w->order[first], length);
        for (int i = 0; i < turns && i < length; i++)
            add_group(w, g, &w->order[first + i], length - i, turns);
    }
}

static void sort_groups(const struct place_work *w, const struct groups *g, bool by_area)
{
    for (int i = 0; i < g->count; i++) {
        int64_t longest = 0, area, bytes = w->items[g->item[g->first[i]]].bytes;
        for (int k = g->first[i]; k < g->first[i + 1]; k++)
            longest = max_i64(longest, (int64_t)g->lives[k].last - g->lives[k].first + 1);
        if (!mul_i64(&area, bytes, longest))
            area = INT64_MAX;
        g->order[i] = (struct ranked){ by_area ? -area : -bytes, by_area ? -bytes : -longest, i };
    }
    qsort(g->order, (size_t)g->count, sizeof *g->order, place_compare_ranked);
}

/* True when items of the two live at once; spans soon tell it of things that both come again. */
static bool meet(const struct groups *g, int a, int b)
{
    const struct item_life *x = &g->lives[g->first[a]], *x_end = &g->lives[g->first[a + 1]];
    const struct item_life *y = &g->lives[g->first[b]], *y_end = &g->lives[g->first[b + 1]];
    uint64_t shared = 0;
    if (x_end - x + (y_end - y) > SPAN_WORDS) { /* else going through their lives is as short */
        for (int i = 0; i < SPAN_WORDS; i++)
            shared |= g->spans[a][i] & g->spans[b][i];
        if (shared == 0)
            return false;
    }
    while (x < x_end && y < y_end) {
        if (x->last < y->first)
            x++;
        else if (y->last < x->first)
            y++;
        else
            return true;
    }
    return false;
}

/* Places the group that comes at the turn beside those before it, of which few are asked whether they meet it: those
 * below what was passed have no say, and the very gap that is wanted ends the search. Returns where its bytes end. */
static int64_t place_group(struct place_work *w, const struct groups *g, int turn)
{
    int group = g->order[turn].item;
    int64_t bytes = w->items[g->item[g->first[group]]].bytes;
    struct passed passed = nothing_passed;
    bool looks = true;
    for (struct placed *at = g->placed, *end = at + turn; at < end && looks; at++)
        if (at->high > passed.top && (at->coarse & g->coarse[group]) && meet(g, group, at->group))
            looks = pass_placed(&passed, bytes, true, at->low, at->high);
    int64_t low = gap_passed(&passed);
    for (int i = g->first[group]; i < g->first[group + 1]; i++)
        w->offset[g->item[i]] = low;
    for (; turn > 0 && g->placed[turn - 1].low > low; turn--)
        g->placed[turn] = g->placed[turn - 1];
    g->placed[turn] = (struct placed){ low, low + bytes, g->coarse[group], group };
    return low + bytes;
}

int64_t place_alike(struct place_work *w, int64_t fair, int64_t best)
{
    size_t n = (size_t)w->count;
    struct arena scratch = { 0 };
    struct groups g = { .item = arena_alloc(&scratch, n, sizeof *g.item),
                        .lives = arena_alloc(&scratch, n, sizeof *g.lives),
                        .first = arena_alloc(&scratch, n + 1, sizeof *g.first),
                        .spans = arena_alloc(&scratch, n, sizeof *g.spans),
                        .coarse = arena_alloc(&scratch, n, sizeof *g.coarse),
                        .placed = arena_alloc(&scratch, n, sizeof *g.placed),
                        .order = arena_alloc(&scratch, n, sizeof *g.order) };
    struct keyed *keyed = arena_alloc(&scratch, n, sizeof *keyed);
    bool formed = best > fair && !arena_failed(&scratch);
    if (formed)
        form_groups(w, &g, keyed);
    for (int by_area = 0; by_area < 2 && formed && best > fair; by_area++) {
        int64_t total = 0;
        sort_groups(w, &g, by_area);
        for (int i = 0; i < g.count && total < best; i++)
            total = max_i64(total, place_group(w, &g, i));
        place_keep_best(w, total, &best);
    }
    arena_free(&scratch);
    return best;
}
