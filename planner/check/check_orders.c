#include "planner/check/check_orders.h"
#include <stdlib.h>
#include <string.h>

/* While sets are listed. */
struct list {
    const struct graph *graph;
    int count, capacity, words;
    uint64_t *sets;
    int *below, *added;
};

static bool grow(struct list *list)
{
    if (list->count < list->capacity)
        return true;
    int capacity = 2 * list->capacity + 256;
    uint64_t *sets = realloc(list->sets, (size_t)capacity * (size_t)list->words * sizeof *sets);
    list->sets = sets ? sets : list->sets;
    int *below = realloc(list->below, (size_t)capacity * sizeof *below);
    list->below = below ? below : list->below;
    int *added = realloc(list->added, (size_t)capacity * sizeof *added);
    list->added = added ? added : list->added;
    list->capacity = sets && below && added ? capacity : list->capacity;
    return sets && below && added;
}

static bool may_add(const struct list *list, int set, int layer)
{
    const uint64_t *bits = &list->sets[(size_t)set * (size_t)list->words];
    const struct graph_layer *l = &list->graph->layers[layer];
    for (int i = 0; i < l->input_count; i++)
        if (!(bits[l->input_layers[i] / 64] >> (l->input_layers[i] % 64) & 1))
            return false;
    return true;
}

static bool add(struct list *list, int below, int layer)
{
    if (!grow(list))
        return false;
    uint64_t *to = &list->sets[(size_t)list->count * (size_t)list->words];
    memset(to, 0, (size_t)list->words * sizeof *to);
    if (below >= 0) {
        memcpy(to, &list->sets[(size_t)below * (size_t)list->words], (size_t)list->words * sizeof *to);
        to[layer / 64] |= UINT64_C(1) << (layer % 64);
    }
    list->below[list->count] = below;
    list->added[list->count++] = layer;
    return true;
}

/* Nobody before the last layer of a set, in the file's order, reads it: each set comes once, from the one without it.
 */
static bool list_sets(struct list *list, int most)
{
    if (!add(list, -1, -1))
        return false;
    for (int set = 0; set < list->count && list->count <= most; set++)
        for (int layer = list->added[set] + 1; layer < list->graph->layer_count && list->count <= most; layer++)
            if (may_add(list, set, layer) && !add(list, set, layer))
                return false;
    return true;
}

static void *keep(struct arena *arena, const void *from, size_t bytes)
{
    void *to = arena_alloc(arena, bytes, 1);
    if (to)
        memcpy(to, from, bytes);
    return to;
}

bool orders_list(struct orders *out, struct arena *arena, const struct graph *graph, int most, struct error *err)
{
    struct list list = { .graph = graph, .words = graph->layer_count / 64 + 1 };
    bool good = list_sets(&list, most);
    size_t count = (size_t)list.count;
    *out = (struct orders){ .layer_count = graph->layer_count, .count = list.count, .words = list.words };
    if (good && list.count <= most) {
        out->sets = keep(arena, list.sets, count * (size_t)list.words * sizeof *list.sets);
        out->below = keep(arena, list.below, count * sizeof *list.below);
        out->added = keep(arena, list.added, count * sizeof *list.added);
        good = out->sets && out->below && out->added;
    }
    free(list.sets);
    free(list.below);
    free(list.added);
    return good || fail_kind(err, ERROR_ENVIRONMENT, "check: out of memory");
}

static bool holds(const struct orders *o, int larger, int smaller)
{
    const uint64_t *a = &o->sets[(size_t)larger * (size_t)o->words], *b = &o->sets[(size_t)smaller * (size_t)o->words];
    for (int w = 0; w < o->words; w++)
        if (b[w] & ~a[w])
            return false;
    return true;
}

static bool find_most_before(struct orders *o, struct arena *arena)
{
    int *size = arena_alloc(arena, (size_t)o->count, sizeof *size),
        *most = arena_alloc(arena, (size_t)o->layer_count, sizeof *most);
    for (int set = 0; size && most && set < o->count; set++) {
        size[set] = set > 0 ? size[o->below[set]] + 1 : 0;
        for (int l = 0; l < o->layer_count; l++)
            if (!orders_has(o, set, l) && size[set] > most[l])
                most[l] = size[set];
    }
    o->most_before = most;
    return size && most;
}

bool orders_pair(struct orders *o, struct arena *arena, struct error *err)
{
    int64_t *first = arena_alloc(arena, (size_t)o->count + 1, sizeof *first), count = 0, capacity = 0;
    int *larger = NULL;
    bool good = first && find_most_before(o, arena);
    for (int a = 0; good && a < o->count; a++) {
        first[a] = count;
        for (int b = a + 1; good && b < o->count; b++) {
            if (!holds(o, b, a))
                continue;
            if (count == capacity) {
                capacity = 2 * capacity + 1024;
                int *grown = realloc(larger, (size_t)capacity * sizeof *grown);
                good = grown != NULL;
                larger = good ? grown : larger;
            }
            if (good)
                larger[count++] = b;
        }
    }
    if (good) {
        first[o->count] = count;
        o->first = first;
        o->larger = keep(arena, larger, (size_t)count * sizeof *larger);
        good = o->larger != NULL;
    }
    free(larger);
    return good || fail_kind(err, ERROR_ENVIRONMENT, "check: out of memory");
}

int64_t orders_find(const struct orders *o, int first, int end)
{
    int64_t from = o->first[first], to = o->first[first + 1];
    while (to - from > 1) {
        int64_t middle = from + (to - from) / 2;
        if (o->larger[middle] <= end)
            from = middle;
        else
            to = middle;
    }
    return from;
}
