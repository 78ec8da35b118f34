/* A stage on one type is priced as if the whole cluster were of that type: exact but for what it shares with others. A
 * stage across types waits for the slowest, so that it gets the dearest price of each layer; the links on which types
 * meet are left to the judge. Less memory than the cluster's largest devices have counts as taken. */
#include "planner/tables/types.h"
#include "base/num.h"
#include <string.h>

enum { BUCKETS = 1024 };

/* The table of stages across a set of types, or of a whole configuration. */
struct mixture {
    uint64_t key;
    const struct price_table *table; /* NULL: refused */
    struct mixture *next;
};
struct mixed {
    struct mixture *bucket[BUCKETS];
};

bool types_open(struct workbench *bench, struct error *err)
{
    const struct cluster *cluster = bench->facts->cluster;
    if (cluster->type_count == 1)
        return true;
    bench->type_facts = arena_alloc(&bench->arena, (size_t)cluster->type_count, sizeof *bench->type_facts);
    bench->mixed = arena_alloc(&bench->arena, 1, sizeof *bench->mixed);
    if (!bench->type_facts || !bench->mixed)
        return fail_kind(err, ERROR_ENVIRONMENT, "search: out of memory");
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

static uint64_t hash_config(const struct config *config, bool bound_only)
{
    uint64_t hash = hash_i64(hash_i64(hash_i64(HASH_START, config->micro), bound_only), config->prefetch);
    hash = hash_i64(hash, config->bucket_bytes);
    hash = hash_i64(hash, config_loss_chunks(config));
    hash = hash_i64(hash, config->micro_batch_count > 1); /* whether gradients are added to */
    for (int i = 0; i < config->mesh.atom_count; i++)
        hash = hash_i64(hash_i64(hash, config->mesh.size[i]), config->mesh.dim[i]);
    return hash;
}

/* The place of the key; its table is not known when *known is false. NULL: out of memory. */
static struct mixture *find(struct workbench *bench, uint64_t key, bool *known)
{
    struct mixture **at = &bench->mixed->bucket[mix64(key) % BUCKETS];
    while (*at && (*at)->key != key)
        at = &(*at)->next;
    *known = *at != NULL;
    if (!*at && (*at = arena_alloc(&bench->arena, 1, sizeof **at)))
        (*at)->key = key;
    return *at;
}

static bool out_of_memory(struct error *err)
{
    return fail_kind(err, ERROR_ENVIRONMENT, "search: out of memory for prices of several types of devices");
}

/* The most, or the least, of a set of types. *out stays NULL where they cannot be lowered. */
static bool join_types(struct workbench *bench, const struct config *config, unsigned types, bool bound_only, bool most,
                       const struct price_table **out, struct error *err)
{
    struct price_table *joined = NULL;
    for (int type = 0; types >> type; type++) {
        const struct price_table *table = NULL;
        if (!(types >> type & 1))
            continue;
        if (!workbench_type_table(bench, config, type, bound_only, &table, err))
            return false;
        if (!table)
            return true; /* what cannot be lowered, cannot on any type */
        if (!price_join_table(&joined, &bench->arena, table, most))
            return out_of_memory(err);
    }
    *out = joined;
    return true;
}

bool types_stage_table(struct workbench *bench, const struct config *config, unsigned types, bool bound_only,
                       const struct price_table **out, struct error *err)
{
    bool known;
    *out = NULL;
    if ((types & (types - 1)) == 0)
        return workbench_type_table(bench, config, __builtin_ctz(types), bound_only, out, err);
    struct mixture *mixture = find(bench, hash_i64(hash_config(config, bound_only), -(int64_t)types), &known);
    if (!mixture)
        return out_of_memory(err);
    if (!known && !join_types(bench, config, types, bound_only, true, &mixture->table, err))
        return false;
    *out = mixture->table;
    return true;
}

bool types_least_table(struct workbench *bench, const struct config *config, bool bound_only,
                       const struct price_table **out, struct error *err)
{
    bool known;
    unsigned all = (1u << bench->facts->cluster->type_count) - 1;
    struct mixture *mixture = find(bench, hash_i64(hash_config(config, bound_only), INT64_MAX), &known);
    *out = NULL;
    if (!mixture)
        return out_of_memory(err);
    if (!known && !join_types(bench, config, all, bound_only, false, &mixture->table, err))
        return false;
    *out = mixture->table;
    return true;
}

static bool mix(struct workbench *bench, const struct config *config, bool bound_only, const struct price_table **out,
                struct error *err)
{
    int pieces = config_pieces(config);
    const struct price_table **stages = arena_alloc(&bench->arena, (size_t)pieces, sizeof *stages);
    struct price_table *least = NULL;
    if (!stages)
        return out_of_memory(err);
    for (int k = 0; k < config->stages; k++) {
        int ranks = mesh_ranks(&config->mesh);
        unsigned types = cluster_types(bench->facts->cluster, config_first_rank(config, k), ranks);
        if (!types_stage_table(bench, config, types, bound_only, &stages[k], err))
            return false;
        if (!stages[k])
            return true;
        if ((k == 0 || stages[k] != stages[k - 1]) && !price_join_table(&least, &bench->arena, stages[k], false))
            return out_of_memory(err);
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
    bool known;
    uint64_t key = hash_i64(hash_i64(hash_config(config, bound_only), config->stages), 1 + config->order.index);
    key = hash_i64(hash_i64(key, config_pieces(config)), schedules[config->schedule]->folded);
    struct mixture *mixture = find(bench, key, &known);
    if (!mixture)
        return out_of_memory(err);
    if (!known && !mix(bench, config, bound_only, &mixture->table, err))
        return false;
    *out = mixture->table;
    return true;
}
