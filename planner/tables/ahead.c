#include "planner/tables/ahead.h"
#include "planner/facts/cluster.h"

bool ahead_open(struct ahead *out, struct workbench *bench)
{
    *out = (struct ahead){ .bench = bench };
    return workers_at_once(&bench->book.workers) > 1;
}

void ahead_add(struct ahead *ahead, enum made_table made, const struct price_key *key,
               const struct strategy *strategies, int count)
{
    bool known;
    int64_t words[1 + PRICE_KEY_WORDS] = { made };
    bool *seen = memo_place(&ahead->seen, words, 1 + (size_t)price_key_words(key, &words[1]), sizeof *seen, &known);
    if (!seen || known || ahead->count == AHEAD_MOST)
        return;
    ahead->orders[ahead->count++] = (struct price_order){ .key = *key,
                                                          .facts = workbench_type_facts(ahead->bench, key->type),
                                                          .strategies = strategies,
                                                          .count = count };
}

/* Gives the types of devices, as bits, on which the configuration's stages lie. */
static unsigned types_of(const struct workbench *bench, const struct config *config)
{
    unsigned types = 0;
    if (!bench->type_facts)
        return 1;
    if (config->meshes > 0)
        return (1u << bench->facts->cluster->type_count) - 1;
    for (int k = 0; k < config->stages; k++)
        types |= cluster_types(bench->facts->cluster, config_first_rank(config, k), mesh_ranks(&config->mesh));
    return types;
}

void ahead_table(struct ahead *ahead, const struct config *config, bool bound_only)
{
    unsigned types = types_of(ahead->bench, config);
    for (int type = 0; types >> type; type++) {
        struct price_key key = workbench_key(ahead->bench, config, type, bound_only);
        struct strategy *strategies;
        int count;
        if ((types >> type & 1) && !workbench_was_asked(ahead->bench, &key) &&
            workbench_strategies(ahead->bench, &ahead->scratch, &key, &strategies, &count))
            ahead_add(ahead, MADE_PRICES, &key, strategies, count);
    }
}

void ahead_price(struct ahead *ahead)
{
    price_ahead(&ahead->bench->book, ahead->orders, ahead->count);
    memo_free(&ahead->seen);
    arena_free(&ahead->scratch);
}
