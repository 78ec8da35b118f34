/* Places of a chain of layers and what lies between two of them, named by the multiset of classes that it holds: equal
 * stages are solved once. */
#include "base/memo.h"
#include "base/num.h"
#include "planner/cut/chain.h"

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

bool chain_build(struct chain *out, struct arena *arena, int layer_count, const int *class_of, int class_count,
                 int tied_first, int tied_second, struct error *err)
{
    struct chain chain = { .layer_count = layer_count,
                           .class_count = class_count,
                           .place_count = layer_count + 1,
                           .class_of = class_of,
                           .tied_first = tied_first,
                           .tied_second = tied_second };
    size_t layers = (size_t)layer_count;
    int *interval = arena_alloc(arena, layers * (layers + 1), sizeof *interval),
        *layers_of = arena_alloc(arena, (size_t)class_count + 1, sizeof *layers_of);
    struct memo met = { 0 };
    bool good = !arena_failed(arena) && chain_set_keys(&chain, arena);
    for (int first = 0; good && first < layer_count; first++)
        for (int end = first + 1; good && end <= layer_count; end++) {
            int64_t key = (int64_t)chain_key(&chain, first, end);
            bool known;
            int *index = memo_place(&met, &key, 1, sizeof *index, &known);
            good = index != NULL;
            if (good && !known)
                *index = chain.interval_count++;
            interval[first * (layer_count + 1) + end] = good ? *index : 0;
        }
    memo_free(&met);
    if (!good)
        return fail_kind(err, ERROR_ENVIRONMENT, "search: out of memory for a chain of %d layers", layer_count);
    for (int l = 0; l < layer_count; l++)
        layers_of[class_of[l]]++;
    chain.layers_of = layers_of;
    chain.interval = interval;
    *out = chain;
    return true;
}
