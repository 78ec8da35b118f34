/* Places of a chain of layers and what lies between two of them, named by the multiset of classes that it holds: equal
 * stages are solved once. */
#include "base/num.h"
#include "planner/search/partition.h"
#include <stdlib.h>
#include <string.h>

struct table {
    struct interval_slot *slots;
    size_t size;
};

/* Sums of mixed class numbers do not depend on the order: 64 bits, so that two different multisets do not meet by
 * chance. */
static uint64_t interval_key(const uint64_t *sum, const struct chain *chain, int first, int end)
{
    return mix64(sum[end] - sum[first]) + (chain_holds_both(chain, first, end) ? 1 : 0);
}

static int find(struct table *table, uint64_t key, int *count)
{
    size_t at = key & (table->size - 1);
    while (table->slots[at].used && table->slots[at].key != key)
        at = (at + 1) & (table->size - 1);
    if (!table->slots[at].used)
        table->slots[at] = (struct interval_slot){ .key = key, .index = (*count)++, .used = true };
    return table->slots[at].index;
}

bool chain_build(struct chain *out, struct arena *arena, int layer_count, const int *class_of, int class_count,
                 int tied_first, int tied_second, struct error *err)
{
    struct chain chain = { .layer_count = layer_count,
                           .class_count = class_count,
                           .place_count = layer_count + 1,
                           .class_of = class_of,
                           .tied_first = tied_first,
                           .tied_second = tied_second };
    size_t layers = (size_t)layer_count, pairs = layers * (layers + 1) / 2;
    struct table table = { .size = 16 };
    while (table.size < 2 * pairs)
        table.size *= 2;
    uint64_t *sum = arena_alloc(arena, layers + 1, sizeof *sum);
    int *interval = arena_alloc(arena, layers * (layers + 1), sizeof *interval),
        *sample = arena_alloc(arena, pairs, 2 * sizeof *sample);
    struct arena scratch = { 0 };
    table.slots = arena_alloc(&scratch, table.size, sizeof *table.slots);
    bool good = sum && interval && sample && table.slots;
    for (int l = 0; good && l < layer_count; l++)
        sum[l + 1] = sum[l] + mix64((uint64_t)class_of[l] + 1);
    for (int first = 0; good && first < layer_count; first++)
        for (int end = first + 1; end <= layer_count; end++) {
            int before = chain.interval_count,
                index = find(&table, interval_key(sum, &chain, first, end), &chain.interval_count);
            interval[first * (layer_count + 1) + end] = index;
            if (index == before) {
                sample[2 * index] = first;
                sample[2 * index + 1] = end;
            }
        }
    arena_free(&scratch);
    if (!good)
        return fail_kind(err, ERROR_ENVIRONMENT, "search: out of memory for a chain of %d layers", layer_count);
    chain.interval = interval;
    chain.sample = sample;
    *out = chain;
    return true;
}

int branches_interval(const struct chain *chain, int first, int end)
{
    const struct branches *b = chain->branches;
    uint64_t key = interval_key(b->key, chain, first, end);
    size_t at = key & (b->slot_count - 1);
    while (b->slots[at].key != key || !b->slots[at].used)
        at = (at + 1) & (b->slot_count - 1);
    return b->slots[at].index;
}

int chain_extend(const struct chain *chain, int place, int layer)
{
    if (!chain->branches)
        return place + 1;
    const struct ideals *ideals = &chain->branches->ideals;
    int64_t up = ideals->first_up[place];
    while (ideals->up_node[up] != layer)
        up++;
    return ideals->up_ideal[up];
}

int chain_list(const struct chain *chain, int first, int end, int *out)
{
    int count = 0;
    for (int l = chain->branches ? 0 : first; l < (chain->branches ? chain->layer_count : end); l++)
        if (chain_holds(chain, first, end, l))
            out[count++] = l;
    return count;
}

/* ---- branches ---- */

/* All stages that may begin at one place after the other. */
struct listing {
    const struct ideals *ideals;
    int64_t *first; /* (places + 1) */
    int *end;       /* (capacity) */
    int64_t count, capacity;
    struct step {
        int place, layer; /* the last one of the stage's layers, by number */
        int64_t cover;    /* which of the place's comes next */
    } * path;             /* (layers + 1) */
};

static bool add_stage(struct listing *list, int end)
{
    if (list->count == list->capacity) {
        int64_t capacity = 2 * list->capacity + 1024;
        int *grown = realloc(list->end, (size_t)capacity * sizeof *grown);
        if (!grown)
            return false;
        list->end = grown;
        list->capacity = capacity;
    }
    list->end[list->count++] = end;
    return true;
}

static int ascending(const void *a, const void *b)
{
    int x = *(const int *)a, y = *(const int *)b;
    return (x > y) - (x < y);
}

/* A stage's layers are added in the order of their numbers, so that each stage comes once. False: out of memory, or
 * more than CHAIN_PAIRS in all, then with a count above it. */
static bool list_stages_from(struct listing *list, int place)
{
    const struct ideals *ideals = list->ideals;
    int depth = 0;
    list->path[depth++] = (struct step){ place, -1, ideals->first_up[place] };
    while (depth > 0) {
        struct step *at = &list->path[depth - 1];
        if (at->cover == ideals->first_up[at->place + 1]) {
            depth--;
            continue;
        }
        int64_t cover = at->cover++;
        if (ideals->up_node[cover] <= at->layer)
            continue;
        int above = ideals->up_ideal[cover];
        if (list->count > CHAIN_PAIRS || !add_stage(list, above))
            return false;
        list->path[depth++] = (struct step){ above, ideals->up_node[cover], ideals->first_up[above] };
    }
    int64_t first = list->first[place];
    list->first[place + 1] = list->count;
    if (list->count > first)
        qsort(&list->end[first], (size_t)(list->count - first), sizeof *list->end, ascending);
    return true;
}

static bool list_stages(struct listing *list)
{
    list->path = malloc(((size_t)list->ideals->node_count + 1) * sizeof *list->path);
    list->first = calloc((size_t)list->ideals->count + 1, sizeof *list->first);
    bool good = list->path && list->first;
    for (int place = 0; good && place < list->ideals->count; place++)
        good = list_stages_from(list, place);
    return good;
}

static void free_listing(struct listing *list)
{
    free(list->path);
    free(list->first);
    free(list->end);
}

static void *keep(struct arena *arena, const void *from, size_t count, size_t size)
{
    void *to = arena_alloc(arena, count, size);
    if (to && count > 0)
        memcpy(to, from, count * size);
    return to;
}

/* The sets themselves, in the arena. */
static bool keep_ideals(struct ideals *out, struct arena *arena, const struct ideals *from)
{
    size_t places = (size_t)from->count, ups = (size_t)from->first_up[from->count];
    *out = *from;
    out->bits = keep(arena, from->bits, places * (size_t)from->words, sizeof *out->bits);
    out->first_up = keep(arena, from->first_up, places + 1, sizeof *out->first_up);
    out->up_ideal = keep(arena, from->up_ideal, ups, sizeof *out->up_ideal);
    out->up_node = keep(arena, from->up_node, ups, sizeof *out->up_node);
    return out->bits && out->first_up && out->up_ideal && out->up_node;
}

/* Ideals first appear as covers in the order of their numbers, so that what is below a place is known before it. */
static bool set_steps(struct branches *b, struct arena *arena, int layer_count)
{
    const struct ideals *ideals = &b->ideals;
    int *below = arena_alloc(arena, (size_t)ideals->count, sizeof *below),
        *added = arena_alloc(arena, (size_t)ideals->count, sizeof *added),
        *prefix = arena_alloc(arena, (size_t)layer_count + 1, sizeof *prefix), next = 1;
    if (!below || !added || !prefix)
        return false;
    for (int i = 0; i < ideals->count; i++)
        for (int64_t k = ideals->first_up[i]; k < ideals->first_up[i + 1]; k++)
            if (ideals->up_ideal[k] == next) {
                below[next] = i;
                added[next++] = ideals->up_node[k];
            }
    for (int l = 0; l < layer_count; l++) {
        int64_t up = ideals->first_up[prefix[l]];
        while (ideals->up_node[up] != l)
            up++;
        prefix[l + 1] = ideals->up_ideal[up];
    }
    b->below = below;
    b->added = added;
    b->prefix = prefix;
    return true;
}

static bool grow_table(struct table *table)
{
    struct table grown = { .size = 2 * table->size };
    grown.slots = calloc(grown.size, sizeof *grown.slots);
    for (size_t i = 0; grown.slots && i < table->size; i++) {
        size_t at = table->slots[i].key & (grown.size - 1);
        while (grown.slots[at].used && table->slots[i].used)
            at = (at + 1) & (grown.size - 1);
        if (table->slots[i].used)
            grown.slots[at] = table->slots[i];
    }
    free(table->slots);
    *table = grown;
    return grown.slots != NULL;
}

/* Numbers the stages by what they hold. */
static bool number_stages(struct chain *chain, struct branches *b, struct arena *arena)
{
    struct table table = { .size = 1024 };
    int places = b->ideals.count, count = 0;
    uint64_t *key = arena_alloc(arena, (size_t)places, sizeof *key);
    table.slots = calloc(table.size, sizeof *table.slots);
    bool good = key && table.slots;
    for (int i = 1; good && i < places; i++)
        key[i] = key[b->below[i]] + mix64((uint64_t)chain->class_of[b->added[i]] + 1);
    for (int first = 0; good && first < places; first++)
        for (int64_t k = b->first_stage[first]; good && k < b->first_stage[first + 1]; k++) {
            find(&table, interval_key(key, chain, first, b->stage_end[k]), &count);
            good = 2 * (size_t)count < table.size || grow_table(&table);
        }
    b->key = key;
    b->slots = good ? keep(arena, table.slots, table.size, sizeof *table.slots) : NULL;
    b->slot_count = table.size;
    free(table.slots);
    chain->interval_count = count;
    return b->slots != NULL;
}

static bool set_crossing(struct branches *b, struct arena *arena, const struct dag *dag)
{
    int *crossing = arena_alloc(arena, (size_t)b->ideals.count, sizeof *crossing);
    for (int place = 0; crossing && place < b->ideals.count; place++)
        for (int l = 0; l < dag->node_count; l++) {
            bool read = false;
            for (int k = dag->first_out[l]; k < dag->first_out[l + 1]; k++)
                read = read || !ideal_has(&b->ideals, place, dag->out[k]);
            crossing[place] += read && ideal_has(&b->ideals, place, l);
        }
    b->crossing = crossing;
    return crossing != NULL;
}

static bool take_branches(struct chain *chain, struct arena *arena, const struct dag *dag, const struct ideals *ideals,
                          const struct listing *list)
{
    struct branches *b = arena_alloc(arena, 1, sizeof *b);
    size_t places = (size_t)ideals->count;
    if (!b || !keep_ideals(&b->ideals, arena, ideals) || !set_steps(b, arena, chain->layer_count) ||
        !set_crossing(b, arena, dag))
        return false;
    b->first_stage = keep(arena, list->first, places + 1, sizeof *list->first);
    b->stage_end = keep(arena, list->end, (size_t)list->count, sizeof *list->end);
    if (!b->first_stage || !b->stage_end)
        return false;
    chain->branches = b;
    chain->place_count = ideals->count;
    return number_stages(chain, b, arena);
}

bool chain_add_branches(struct chain *chain, struct arena *arena, const struct dag_edge *edges, int edge_count,
                        int most_ideals, struct error *err)
{
    struct dag dag;
    struct ideals ideals;
    struct listing list = { .ideals = &ideals };
    if (!dag_build(&dag, arena, chain->layer_count, edges, edge_count, NULL, err) ||
        !ideals_build(&ideals, &dag, most_ideals, err))
        return false;
    if (ideals.complete && ideals.count == chain->layer_count + 1) {
        ideals_free(&ideals);
        return true;
    }
    bool good = !ideals.complete || list_stages(&list);
    chain->orders_left_out = !ideals.complete || list.count > CHAIN_PAIRS;
    good = chain->orders_left_out || (good && take_branches(chain, arena, &dag, &ideals, &list));
    free_listing(&list);
    ideals_free(&ideals);
    return good || fail_kind(err, ERROR_ENVIRONMENT, "search: out of memory for a model with branches");
}
