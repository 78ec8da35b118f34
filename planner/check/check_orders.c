#include "planner/check/check_orders.h"
#include <stdlib.h>
#include <string.h>

/* Which layers come before each in all orders: (layers, words). */
struct before {
    int words;
    uint64_t *bits;
};

static bool comes_before(const struct before *b, int layer, int other)
{
    return b->bits[(size_t)other * (size_t)b->words + (size_t)(layer / 64)] >> (layer % 64) & 1;
}

static bool deal_out(struct orders *o, struct arena *arena, const struct before *before)
{
    size_t layers = (size_t)o->layer_count;
    int *column = arena_alloc(arena, layers, sizeof *column), *depth = arena_alloc(arena, layers, sizeof *depth),
        *first = arena_alloc(arena, layers + 1, sizeof *first), *layer = arena_alloc(arena, layers, sizeof *layer),
        *lowest = arena_alloc(arena, layers, sizeof *lowest);
    if (arena_failed(arena))
        return false;
    for (int l = 0; l < o->layer_count; l++) {
        int found = -1; /* the column whose lowest layer is latest of those that come before the layer */
        for (int i = 0; i < o->column_count; i++)
            if (comes_before(before, lowest[i], l) && (found < 0 || lowest[i] > lowest[found]))
                found = i;
        column[l] = found < 0 ? o->column_count++ : found;
        depth[l] = found < 0 ? 0 : depth[lowest[found]] + 1;
        lowest[column[l]] = l;
    }
    for (int i = 0; i < o->column_count; i++)
        first[i + 1] = first[i] + depth[lowest[i]] + 1;
    for (int l = 0; l < o->layer_count; l++)
        layer[first[column[l]] + depth[l]] = l;
    o->column = column;
    o->depth = depth;
    o->column_first = first;
    o->column_layer = layer;
    return true;
}

/* Counts for each layer how many can come before it: all but itself and those that it comes before. */
static bool find_most_before(struct orders *o, struct arena *arena, const struct before *before)
{
    int *most = arena_alloc(arena, (size_t)o->layer_count, sizeof *most);
    for (int l = 0; most && l < o->layer_count; l++)
        for (int other = 0; other < o->layer_count; other++)
            most[l] += other != l && !comes_before(before, l, other);
    o->most_before = most;
    return most != NULL;
}

/* While sets are listed. */
struct list {
    const struct orders *orders;
    const struct graph *graph;
    int count, capacity;
    int *height;
    int *last; /* the set's last layer in the file's order, -1 */
};

static bool grow(struct list *list)
{
    if (list->count < list->capacity)
        return true;
    int capacity = 2 * list->capacity + 256;
    size_t columns = (size_t)list->orders->column_count;
    int *height = realloc(list->height, (size_t)capacity * columns * sizeof *height);
    list->height = height ? height : list->height;
    int *last = realloc(list->last, (size_t)capacity * sizeof *last);
    list->last = last ? last : list->last;
    list->capacity = height && last ? capacity : list->capacity;
    return height && last;
}

/* Adds the set with one layer more; layer -1: the empty one. */
static bool add(struct list *list, int set, int layer)
{
    size_t columns = (size_t)list->orders->column_count;
    if (!grow(list))
        return false;
    int *to = &list->height[(size_t)list->count * columns];
    memset(to, 0, columns * sizeof *to);
    if (layer >= 0) {
        memcpy(to, &list->height[(size_t)set * columns], columns * sizeof *to);
        to[list->orders->column[layer]]++;
    }
    list->last[list->count++] = layer;
    return true;
}

static bool reads_within(const struct list *list, int set, int layer)
{
    const struct orders *o = list->orders;
    const int *height = &list->height[(size_t)set * (size_t)o->column_count];
    const struct graph_layer *l = &list->graph->layers[layer];
    for (int i = 0; i < l->input_count; i++)
        if (height[o->column[l->input_layers[i]]] <= o->depth[l->input_layers[i]])
            return false;
    return true;
}

/* Lists sets: nobody before the last layer of a set, in the file's order, reads it, so each set comes once, from the
 * one without it. What may come next is next in its column. */
static bool list_sets(struct list *list, int most)
{
    const struct orders *o = list->orders;
    if (!add(list, -1, -1))
        return false;
    for (int set = 0; set < list->count && list->count <= most; set++)
        for (int i = 0; i < o->column_count && list->count <= most; i++) {
            int at = o->column_first[i] + list->height[(size_t)set * (size_t)o->column_count + (size_t)i];
            int layer = at < o->column_first[i + 1] ? o->column_layer[at] : -1;
            if (layer > list->last[set] && reads_within(list, set, layer) && !add(list, set, layer))
                return false;
        }
    return true;
}

bool orders_list(struct orders *out, struct arena *arena, const struct graph *graph, int most, struct error *err)
{
    struct before before = { .words = graph->layer_count / 64 + 1 };
    struct list list = { .orders = out, .graph = graph };
    *out = (struct orders){ .layer_count = graph->layer_count };
    before.bits = arena_alloc(arena, (size_t)graph->layer_count * (size_t)before.words, sizeof *before.bits);
    bool good = before.bits != NULL;
    /* a layer has its inputs before it, and all that come before these */
    for (int l = 0; good && l < graph->layer_count; l++)
        for (int i = 0; i < graph->layers[l].input_count; i++) {
            int from = graph->layers[l].input_layers[i];
            uint64_t *own = &before.bits[(size_t)l * (size_t)before.words];
            for (int w = 0; w < before.words; w++)
                own[w] |= before.bits[(size_t)from * (size_t)before.words + (size_t)w];
            own[from / 64] |= UINT64_C(1) << (from % 64);
        }
    good = good && deal_out(out, arena, &before) && list_sets(&list, most);
    out->count = list.count;
    if (good && list.count <= most) {
        size_t heights = (size_t)list.count * (size_t)out->column_count;
        int *height = arena_alloc(arena, heights, sizeof *height);
        if (height)
            memcpy(height, list.height, heights * sizeof *height);
        out->height = height;
        good = height && (list.count == graph->layer_count + 1 || find_most_before(out, arena, &before));
    }
    free(list.height);
    free(list.last);
    return good || fail_memory(err);
}
