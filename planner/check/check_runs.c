#include "planner/check/check_runs.h"
#include "base/num.h"
#include <assert.h>
#include <stdlib.h>
#include <string.h>

void stretch_content(const struct cut_problem *p, const struct stretch *s, int *counts, struct stage_content *out)
{
    memset(counts, 0, (size_t)(p->class_count * cut_layouts(p)) * sizeof *counts);
    for (int r = 0; r < s->count; r++)
        for (int l = s->at[r]; l < stretch_end(s, r); l++)
            counts[s->layout[r] * p->class_count + p->class_of[l]]++;
    *out = (struct stage_content){ .count = counts,
                                   .holds_both = cut_holds_both(p, s->at[0], s->end),
                                   .handover_count = s->count - 1 };
    for (int r = 1; r < s->count; r++)
        out->handover[r - 1] =
            price_handover(p->stages[0].table, p->class_of[s->at[r] - 1], s->layout[r - 1], s->layout[r]);
}

int64_t stretch_handover_ns(const struct cut_problem *p, const struct stretch *s)
{
    int64_t sum = 0;
    for (int r = 1; r < s->count; r++)
        sum += stage_layer_path_ns(
            price_handover(p->stages[0].table, p->class_of[s->at[r] - 1], s->layout[r - 1], s->layout[r]));
    return sum;
}

static int layout_at(const struct stretch *s, int layer)
{
    int layout = 0;
    for (int r = 0; r < s->count; r++)
        if (layer >= s->at[r])
            layout = s->layout[r];
    return layout;
}

static bool legal(const struct cut_problem *p, const struct stretch *s)
{
    return !cut_holds_both(p, s->at[0], s->end) || layout_at(s, p->tied_first) == layout_at(s, p->tied_second);
}

bool stretch_visit(const struct stretch_visit *v, struct stretch begun)
{
    int last = begun.at[begun.count - 1];
    for (begun.end = last + 1; begun.end <= v->to; begun.end++) {
        if (begun.end >= v->from && legal(v->problem, &begun) && !v->body(v->self, &begun))
            return false;
        for (int layout = 0; layout < v->layouts && begun.count < v->run_count; layout++) {
            struct stretch longer = begun;
            longer.at[longer.count] = begun.end;
            longer.layout[longer.count++] = (int8_t)layout;
            if (layout != begun.layout[begun.count - 1] && !stretch_visit(v, longer))
                return false;
        }
    }
    return true;
}

/* ---- equal stages ---- */

/* Layers by layout and class, which sum up to the hash, and handovers, in any order. */
static uint64_t hash_of(const struct cut_problem *p, const struct stretch *s)
{
    uint64_t hash = cut_holds_both(p, s->at[0], s->end);
    for (int r = 0; r < s->count; r++) {
        for (int l = s->at[r]; l < stretch_end(s, r); l++)
            hash += mix64((uint64_t)(p->class_of[l] * MOST_LAYOUTS + s->layout[r]) + 1);
        if (r > 0)
            hash += mix64(~(uint64_t)((p->class_of[s->at[r] - 1] * MOST_LAYOUTS + s->layout[r - 1]) * MOST_LAYOUTS +
                                      s->layout[r]));
    }
    return mix64(hash);
}

static int compare_pointers(const void *a, const void *b)
{
    const struct layer_price *x = *(const struct layer_price *const *)a, *y = *(const struct layer_price *const *)b;
    return (x > y) - (x < y);
}

static bool same_stage(const struct cut_problem *p, const struct stretch *a, const struct stretch *b)
{
    size_t groups = (size_t)(p->class_count * cut_layouts(p));
    int *counts = malloc(2 * groups * sizeof *counts);
    struct stage_content x, y;
    if (!counts)
        return false; /* a number of its own is no mistake */
    stretch_content(p, a, counts, &x);
    stretch_content(p, b, counts + groups, &y);
    qsort(x.handover, (size_t)x.handover_count, sizeof *x.handover, compare_pointers);
    qsort(y.handover, (size_t)y.handover_count, sizeof *y.handover, compare_pointers);
    bool same = x.holds_both == y.holds_both && x.handover_count == y.handover_count &&
                !memcmp(x.count, y.count, groups * sizeof *counts) &&
                !memcmp(x.handover, y.handover, (size_t)x.handover_count * sizeof *x.handover);
    free(counts);
    return same;
}

static bool make_room(struct run_table *t, const struct cut_problem *p)
{
    if (t->count < t->capacity)
        return true;
    int capacity = t->capacity ? 2 * t->capacity : 256, size = 4 * capacity;
    struct stretch *sample = realloc(t->sample, (size_t)capacity * sizeof *sample);
    if (sample)
        t->sample = sample;
    int *slot = sample ? calloc((size_t)size, sizeof *slot) : NULL;
    if (!slot)
        return false;
    for (int i = 0; i < t->count; i++) {
        uint64_t at = hash_of(p, &t->sample[i]) & (uint64_t)(size - 1);
        while (slot[at])
            at = (at + 1) & (uint64_t)(size - 1);
        slot[at] = i + 1;
    }
    free(t->slot);
    t->slot = slot;
    t->size = size;
    t->capacity = capacity;
    return true;
}

static int number_anew(struct run_table *t, const struct cut_problem *p, const struct stretch *s)
{
    if (!make_room(t, p))
        return -1;
    uint64_t at = hash_of(p, s) & (uint64_t)(t->size - 1);
    while (t->slot[at] && !same_stage(p, &t->sample[t->slot[at] - 1], s))
        at = (at + 1) & (uint64_t)(t->size - 1);
    if (!t->slot[at]) {
        t->sample[t->count] = *s;
        t->slot[at] = ++t->count;
    }
    return t->slot[at] - 1;
}

/* ---- stretches that were asked for before ---- */

struct seen_stretch {
    uint64_t key; /* 0: free */
    int number;
};

/* Its runs in one word, or 0: they have no room there. */
static uint64_t key_of(const struct stretch *s)
{
    enum { PLACE_BITS = 13, LAYOUT_BITS = 2 };
    static_assert(MOST_RUNS * (PLACE_BITS + LAYOUT_BITS) + PLACE_BITS <= 64 && MOST_LAYOUTS <= 1 << LAYOUT_BITS,
                  "runs in one word");
    uint64_t key = (uint64_t)s->end;
    for (int r = 0; r < MOST_RUNS; r++) {
        bool used = r < s->count;
        key = key << PLACE_BITS | (used ? (uint64_t)s->at[r] : (uint64_t)s->end);
        key = key << LAYOUT_BITS | (used ? (uint64_t)s->layout[r] : 0);
    }
    return s->end < 1 << PLACE_BITS ? key : 0;
}

static struct seen_stretch *seen_at(struct seen_stretch *seen, int size, uint64_t key)
{
    uint64_t at = mix64(key) & (uint64_t)(size - 1);
    while (seen[at].key && seen[at].key != key)
        at = (at + 1) & (uint64_t)(size - 1);
    return &seen[at];
}

static bool make_room_to_see(struct run_table *t)
{
    if (2 * t->seen_count < t->seen_size)
        return true;
    int size = t->seen_size ? 2 * t->seen_size : 1024;
    struct seen_stretch *seen = calloc((size_t)size, sizeof *seen);
    if (!seen)
        return false;
    for (int i = 0; i < t->seen_size; i++)
        if (t->seen[i].key)
            *seen_at(seen, size, t->seen[i].key) = t->seen[i];
    free(t->seen);
    t->seen = seen;
    t->seen_size = size;
    return true;
}

int run_table_number(struct run_table *t, const struct cut_problem *p, const struct stretch *s)
{
    uint64_t key = key_of(s);
    if (key == 0)
        return number_anew(t, p, s);
    if (!make_room_to_see(t))
        return -1;
    struct seen_stretch *seen = seen_at(t->seen, t->seen_size, key);
    if (!seen->key) {
        *seen = (struct seen_stretch){ key, number_anew(t, p, s) };
        t->seen_count++;
    }
    return seen->number;
}

void run_table_free(struct run_table *t)
{
    free(t->sample);
    free(t->slot);
    free(t->seen);
    *t = (struct run_table){ 0 };
}
