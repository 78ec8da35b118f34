/* Places of a chain of layers and what lies between two of them, named by the multiset of classes that it holds: equal
 * stages are solved once. */
#include "base/num.h"
#include "planner/cut/chain.h"

struct chain_table {
    struct interval_slot {
        uint64_t key;
        int index;
        bool used;
    } * slots;
    size_t size;
};

/* Sums of mixed class numbers do not depend on the order. */
uint64_t chain_key(const struct chain *chain, int first, int end)
{
    const struct branches *b = chain->branches;
    uint64_t sum = b ? 0 : chain->key[end] - chain->key[first];
    for (int t = 0; b && t < b->tower_count; t++)
        sum += chain->key[b->tower_first[t] + branches_at(b, end, t)] -
               chain->key[b->tower_first[t] + branches_at(b, first, t)];
    return mix64(sum) + (chain_holds_both(chain, first, end) ? 1 : 0);
}

bool chain_set_keys(struct chain *chain, struct arena *arena)
{
    uint64_t *key = arena_alloc(arena, (size_t)chain_sums(chain), sizeof *key);
    for (int i = 1; key && i < chain_sums(chain); i++) {
        int layer = chain_sum_layer(chain, i);
        key[i] = layer < 0 ? 0 : key[i - 1] + mix64((uint64_t)chain->class_of[layer] + 1);
    }
    chain->key = key;
    return key != NULL;
}

static int find(struct chain_table *table, uint64_t key, int *count)
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
    struct chain_table table = { .size = 16 };
    while (table.size < 2 * pairs)
        table.size *= 2;
    int *interval = arena_alloc(arena, layers * (layers + 1), sizeof *interval),
        *sample = arena_alloc(arena, pairs, 2 * sizeof *sample),
        *layers_of = arena_alloc(arena, (size_t)class_count + 1, sizeof *layers_of);
    struct arena scratch = { 0 };
    table.slots = arena_alloc(&scratch, table.size, sizeof *table.slots);
    bool good = !arena_failed(arena) && table.slots && chain_set_keys(&chain, arena);
    for (int first = 0; good && first < layer_count; first++)
        for (int end = first + 1; end <= layer_count; end++) {
            int before = chain.interval_count,
                index = find(&table, chain_key(&chain, first, end), &chain.interval_count);
            interval[first * (layer_count + 1) + end] = index;
            if (index == before) {
                sample[2 * index] = first;
                sample[2 * index + 1] = end;
            }
        }
    arena_free(&scratch);
    if (!good)
        return fail_kind(err, ERROR_ENVIRONMENT, "search: out of memory for a chain of %d layers", layer_count);
    for (int l = 0; l < layer_count; l++)
        layers_of[class_of[l]]++;
    chain.layers_of = layers_of;
    chain.interval = interval;
    chain.sample = sample;
    *out = chain;
    return true;
}
