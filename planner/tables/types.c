/* A stage on one type is priced as if the whole cluster were of that type: exact but for what it shares with others. A
 * stage across types waits for the slowest, so that it gets the dearest price of each layer; the links on which types
 * meet are left to the judge. Less memory than the cluster's largest devices have counts as taken. */
#include "planner/tables/types.h"

bool types_open(struct workbench *bench, struct error *err)
{
    const struct cluster *cluster = bench->facts->cluster;
    if (cluster->type_count == 1)
        return true;
    bench->type_facts = arena_alloc(&bench->arena, (size_t)cluster->type_count, sizeof *bench->type_facts);
    if (!bench->type_facts)
        return fail_memory(err);
    for (int t = 0; t < cluster->type_count; t++) {
        struct cluster *alone = NULL;
        if (!cluster_of_type(&alone, cluster, t, err))
            return false;
        bench->type_facts[t] = facts_of_type(bench->facts, t, alone);
    }
    return true;
}

void types_close(struct workbench *bench)
{
    for (int t = 0; bench->type_facts && t < bench->facts->cluster->type_count; t++)
        cluster_free((struct cluster *)(uintptr_t)bench->type_facts[t].cluster); /* made in types_open() */
}

/* ---- tables, made once ---- */

enum { MOST_MORE = 5 };

/* Gives the place of a table that depends on the configuration's key, whatever the type, and on `more`; it holds NULL
 * where lowering refuses it. The place is NULL when out of memory. */
static const struct price_table **place_of(struct workbench *bench, enum made_table made, const struct config *config,
                                           bool bound_only, const int64_t *more, int more_count, bool *known)
{
    int64_t words[1 + PRICE_KEY_WORDS + MOST_MORE];
    struct price_key key = workbench_key(bench, config, 0, bound_only);
    int count = 1 + price_key_words(&key, &words[1]);
    words[0] = made;
    for (int i = 0; i < more_count; i++)
        words[count++] = more[i];
    return memo_place(&bench->made, words, (size_t)count, sizeof(const struct price_table *), known);
}

/* Joins the most, or the least, of a set of types. *out is NULL where they cannot be lowered. */
static bool join_types(struct workbench *bench, const struct config *config, unsigned types, bool bound_only, bool most,
                       const struct price_table **out, struct error *err)
{
    bool known;
    struct price_table *joined = NULL;
    const struct price_table **made = place_of(bench, most ? MADE_STAGE_OF_TYPES : MADE_LEAST_OF_TYPES, config,
                                               bound_only, &(int64_t){ types }, 1, &known);
    if (!made)
        return fail_memory(err);
    *out = *made;
    for (int type = 0; !known && types >> type; type++) {
        const struct price_table *table = NULL;
        if (!(types >> type & 1))
            continue;
        if (!workbench_type_table(bench, config, type, 0, bound_only, &table, err))
            return false;
        if (!table)
            return true; /* what cannot be lowered, cannot on any type */
        if (!price_join_table(&joined, &bench->arena, table, most))
            return fail_memory(err);
    }
    if (!known)
        *out = *made = joined;
    return true;
}

bool types_stage_table(struct workbench *bench, const struct config *config, unsigned types, bool bound_only,
                       const struct price_table **out, struct error *err)
{
    *out = NULL;
    return (types & (types - 1)) == 0
               ? workbench_type_table(bench, config, __builtin_ctz(types), 0, bound_only, out, err)
               : join_types(bench, config, types, bound_only, true, out, err);
}

bool types_least_table(struct workbench *bench, const struct config *config, const struct price_table **out,
                       struct error *err)
{
    *out = NULL;
    return join_types(bench, config, (1u << bench->facts->cluster->type_count) - 1, true, false, out, err);
}

/* Gives a rank from which a stage lies in the hierarchy of links as from this one: 0, unless a unit of some level holds
 * a part of it and of another stage. */
static int place_of_stage(const struct cluster *cluster, int ranks, int first_rank)
{
    for (int level = 0; level + 1 < cluster->level_count; level++) {
        int unit = cluster_unit(cluster, 0, level), place = first_rank % unit;
        if (place > 0 && place + ranks > unit)
            return first_rank % cluster_unit(cluster, 0, cluster->level_count - 2);
    }
    return 0;
}

static bool mix(struct workbench *bench, const struct config *config, bool bound_only, const struct price_table **out,
                struct error *err)
{
    int pieces = config_pieces(config);
    const struct cluster *cluster = bench->facts->cluster;
    const struct price_table **stages = arena_alloc(&bench->arena, (size_t)pieces, sizeof *stages);
    struct price_table *least = NULL;
    if (!stages)
        return fail_memory(err);
    for (int k = 0; k < config->stages; k++) {
        int ranks = mesh_ranks(&config->mesh);
        int first = config_first_rank(config, k);
        unsigned types = cluster_types(cluster, first, ranks);
        if (!(bench->type_facts ? types_stage_table(bench, config, types, bound_only, &stages[k], err)
                                : workbench_type_table(bench, config, 0, place_of_stage(cluster, ranks, first), false,
                                                       &stages[k], err)))
            return false;
        if (!stages[k])
            return true;
        if ((k == 0 || stages[k] != stages[k - 1]) && !price_join_table(&least, &bench->arena, stages[k], false))
            return fail_memory(err);
    }
    for (int k = config->stages; k < pieces; k++)
        stages[k] = stages[config_stage(config, k)];
    least->by_stage = stages;
    *out = least;
    return true;
}

bool types_table(struct workbench *bench, const struct config *config, bool bound_only, const struct price_table **out,
                 struct error *err)
{
    const int ranks = mesh_ranks(&config->mesh);
    bool known, apart = bench->type_facts != NULL;
    for (int k = 1; k < config->stages && !bound_only && !apart; k++) /* the first stage's bound is the least */
        apart = place_of_stage(bench->facts->cluster, ranks, config_first_rank(config, k)) > 0;
    if (!apart)
        return workbench_type_table(bench, config, 0, 0, bound_only, out, err);
    const int64_t more[] = { ranks, config->stages, config_pieces(config), config->order.index,
                             schedules[config->schedule]->folded };
    const struct price_table **made =
        place_of(bench, MADE_BY_STAGE, config, bound_only, more, sizeof more / sizeof *more, &known);
    if (!made)
        return fail_memory(err);
    if (!known && !mix(bench, config, bound_only, made, err))
        return false;
    *out = *made;
    return true;
}
