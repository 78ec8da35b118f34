/* Prices that a book keeps: of one strategy, for one key, under facts that have a number. */
#include "planner/price/known.h"
#include <string.h>

struct known_price {
    int64_t workspace_bytes;
    struct layer_price prices[]; /* by class */
};

enum { LAYER_WORDS = sizeof(struct plan_layer) / sizeof(int64_t), KNOWN_WORDS = 1 + LAYER_WORDS + PRICE_KEY_WORDS };

static size_t words_of(int64_t out[KNOWN_WORDS], const struct price_book *book, const struct price_key *key,
                       const struct plan_layer *layer)
{
    _Static_assert(sizeof *layer % sizeof *out == 0, "a layer's decisions are whole words");
    out[0] = (int64_t)book->rates;
    memcpy(&out[1], layer, sizeof *layer);
    return 1 + LAYER_WORDS + (size_t)price_key_words(key, &out[1 + LAYER_WORDS]);
}

bool price_known(struct price_table *table, int strategy, struct price_book *book, const struct price_key *key)
{
    int64_t words[KNOWN_WORDS];
    if (book->rates == 0)
        return false;
    size_t count = words_of(words, book, key, &table->strategies[strategy].layer);
    const struct known_price *known = memo_find(&book->known, words, count);
    if (!known)
        return false;
    for (int c = 0; c < table->class_count; c++)
        table->prices[c * table->strategy_count + strategy] = known->prices[c];
    table->workspace_bytes[strategy] = known->workspace_bytes;
    return true;
}

void price_know(struct price_book *book, const struct price_key *key, const struct price_table *table, int strategy)
{
    enum { ROOM_BYTES = 1 << 25 };
    int64_t words[KNOWN_WORDS];
    bool known;
    if (book->rates == 0)
        return;
    if (arena_bytes(&book->known.arena) > ROOM_BYTES) /* of models with thousands of different layers */
        memo_free(&book->known);
    size_t count = words_of(words, book, key, &table->strategies[strategy].layer);
    struct known_price *own =
        memo_place(&book->known, words, count, sizeof *own + (size_t)table->class_count * sizeof *own->prices, &known);
    if (!own)
        return; /* then it is priced again */
    own->workspace_bytes = table->workspace_bytes[strategy];
    for (int c = 0; c < table->class_count; c++)
        own->prices[c] = *price_at(table, c, strategy);
}
