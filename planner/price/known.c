/* Prices that a book keeps: of one strategy, for one key, under facts that have a number. */
#include "planner/price/known.h"
#include <string.h>

struct known_price {
    struct known_price *next; /* of its bucket */
    uint64_t rates;
    struct price_key key;
    struct plan_layer layer;
    int64_t workspace_bytes;
    struct layer_price prices[]; /* by class */
};

static struct known_price **bucket_of(struct price_book *book, const struct price_key *key,
                                      const struct plan_layer *layer)
{
    size_t buckets = sizeof book->known / sizeof *book->known;
    uint64_t hash = hash_i64(hash_i64(price_key_hash(key), layer->zero), layer->recompute);
    return &book->known[mix64(hash_i64(hash, (int64_t)book->rates)) % buckets];
}

bool price_known(struct price_table *table, int strategy, struct price_book *book, const struct price_key *key)
{
    const struct plan_layer *layer = &table->strategies[strategy].layer;
    if (book->rates == 0)
        return false;
    for (const struct known_price *k = *bucket_of(book, key, layer); k; k = k->next) {
        if (k->rates != book->rates || !plan_layer_equal(&k->layer, layer) || !price_key_equal(&k->key, key))
            continue;
        for (int c = 0; c < table->class_count; c++)
            table->prices[c * table->strategy_count + strategy] = k->prices[c];
        table->workspace_bytes[strategy] = k->workspace_bytes;
        return true;
    }
    return false;
}

void price_know(struct price_book *book, const struct price_key *key, const struct price_table *table, int strategy)
{
    enum { ROOM_BYTES = 1 << 25 };
    if (book->rates == 0)
        return;
    if (arena_bytes(&book->known_arena) > ROOM_BYTES) { /* of models with thousands of different layers */
        arena_free(&book->known_arena);
        memset(book->known, 0, sizeof book->known);
    }
    size_t prices = (size_t)table->class_count * sizeof(struct layer_price);
    struct known_price *known = arena_alloc(&book->known_arena, 1, sizeof *known + prices);
    if (!known)
        return; /* then it is priced again */
    const struct plan_layer *layer = &table->strategies[strategy].layer;
    struct known_price **bucket = bucket_of(book, key, layer);
    *known = (struct known_price){ *bucket, book->rates, *key, *layer, table->workspace_bytes[strategy] };
    for (int c = 0; c < table->class_count; c++)
        known->prices[c] = *price_at(table, c, strategy);
    *bucket = known;
}
