/* The intervals of a chain of layers, named by the multiset of classes that they hold: equal stages are solved once. */
#include "base/num.h"
#include "planner/search/partition.h"

struct slot {
    uint64_t key;
    int index;
    bool used;
};
struct table {
    struct slot *slots;
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
        table->slots[at] = (struct slot){ .key = key, .index = (*count)++, .used = true };
    return table->slots[at].index;
}

bool chain_build(struct chain *out, struct arena *arena, int layer_count, const int *class_of, int class_count,
                 int tied_first, int tied_second, struct error *err)
{
    struct chain chain = { .layer_count = layer_count,
                           .class_count = class_count,
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
