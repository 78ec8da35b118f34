/* A stage of several meshes that share each micro-batch is priced as a stage of one mesh with so many times the data
 * ranks, each with its part of the sequences. All tables have the strategies of the largest mesh: where a smaller one
 * has nothing to shard, all ZeRO stages cost and decide what none does. */
#include "planner/search/spread.h"
#include "base/num.h"
#include "planner/plan/plan.h"
#include <string.h>

struct spread {
    struct spread *next;
    const struct price_table *narrowest, *widest;
    int ranks, last; /* of one mesh; the most meshes */
    const struct price_table *table;
};

/* ---- sends ---- */

/* A boundary value from a stage of so many meshes to one like it, if there were room for both side by side; the first
 * rank stands for all. */
static int64_t send_ns(const struct facts *facts, const struct config *stage, int64_t bytes)
{
    struct plan *plan = plan_new(2, 1);
    int ranks = mesh_ranks(&stage->mesh), behind = (int)min_i64(ranks, facts->cluster->device_count - ranks);
    int64_t ns = 0;
    for (int k = 0; plan && k < 2; k++)
        memcpy(plan->stages[k].atom, stage->mesh.size, sizeof stage->mesh.size);
    if (plan) {
        plan->stages[1].first_rank = behind;
        plan->rank_count = 2 * ranks;
        plan->atom_count = stage->mesh.atom_count;
        ns = cost_between_stages(facts, plan, 0, 1, bytes).ns;
    }
    plan_free(plan);
    return ns;
}

/* ---- tables ---- */

/* The table's strategy that decides like that of a larger mesh; where nothing is sharded, but for its ZeRO stage, and
 * for slices unless they are listed. -1: none. */
static int like(const struct price_table *table, bool shards, const struct plan_layer *layer)
{
    for (int pass = 0; pass < (shards ? 1 : 2); pass++)
        for (int i = 0; i < table->strategy_count; i++) {
            struct plan_layer own = table->strategies[i].layer;
            own.zero = shards ? own.zero : layer->zero;
            own.slices = pass == 0 ? own.slices : layer->slices;
            if (plan_layer_equal(&own, layer))
                return i;
        }
    return -1;
}

/* The table with the strategies of a larger mesh. NULL: out of memory, or *missing: it has not got one of them. */
static struct price_table *with_strategies(struct arena *arena, const struct price_table *table, bool shards,
                                           const struct price_table *of, bool *missing)
{
    size_t count = (size_t)of->strategy_count;
    struct price_table *own = arena_alloc(arena, 1, sizeof *own);
    struct strategy *strategies = arena_alloc(arena, count, sizeof *strategies);
    struct layer_price *prices = arena_alloc(arena, count * (size_t)of->class_count, sizeof *prices);
    if (!own || !strategies || !prices)
        return NULL;
    *own = *table;
    own->strategy_count = of->strategy_count;
    own->strategies = strategies;
    own->prices = prices;
    own->workspace_bytes = NULL; /* base_bytes has the largest */
    for (int i = 0; i < of->strategy_count; i++) {
        int at = like(table, shards, &of->strategies[i].layer);
        *missing = *missing || at < 0;
        if (at < 0)
            return NULL;
        strategies[i] = table->strategies[at];
        for (int c = 0; c < of->class_count; c++)
            prices[c * of->strategy_count + i] = *price_at(table, c, at);
    }
    return own;
}

/* Every number the least of all. */
static struct price_table *least_of(struct arena *arena, const struct price_table *const *tables, int count)
{
    struct price_table *least = price_copy_table(arena, tables[count - 1]);
    for (int i = 0; least && i < count - 1; i++)
        price_merge_tables(least, tables[i], false);
    return least;
}

/* The tables of all numbers of meshes; *refused: one has no program. */
static bool list_tables(struct workbench *bench, const struct config *config, bool bound_only,
                        const struct price_table **tables, bool *refused, struct error *err)
{
    for (int i = 0; i < config->turn_count && !*refused; i++) {
        struct config own = config_of_spread(config, config->turns[i]);
        if (!workbench_type_table(bench, &own, 0, bound_only, &tables[i], err))
            return false;
        *refused = !tables[i];
    }
    return true;
}

static const struct price_table *make(struct workbench *bench, const struct config *config, bool bound_only,
                                      const struct price_table *const *from, bool *missing)
{
    int count = config->turn_count;
    const struct price_table *widest = from[count - 1], **own = arena_alloc(&bench->arena, (size_t)count, sizeof *own);
    for (int i = 0; own && i < count; i++) {
        struct config stage = config_of_spread(config, config->turns[i]);
        struct price_table *table =
            with_strategies(&bench->arena, from[i], mesh_shards(&stage.mesh) > 1, widest, missing);
        own[i] = table;
        if (!table)
            return NULL;
        if (!bound_only) {
            table->send_bytes = from[0]->send_bytes * config->turns[0] / config->turns[i];
            table->send_ns = send_ns(bench->facts, &stage, table->send_bytes);
        }
    }
    struct price_table *table = own ? least_of(&bench->arena, own, count) : NULL;
    if (!table)
        return NULL;
    table->turn_count = count;
    table->turns = config->turns;
    table->by_turns = own;
    table->spread_ranks = mesh_ranks(&config->mesh);
    return table;
}

bool spread_table(struct workbench *bench, const struct config *config, bool bound_only, const struct price_table **out,
                  struct error *err)
{
    const struct price_table *tables[SPACE_VALUES];
    int count = config->turn_count, last = config->turns[count - 1], ranks = mesh_ranks(&config->mesh);
    bool refused = false;
    *out = NULL;
    if (!list_tables(bench, config, bound_only, tables, &refused, err) || refused)
        return refused;
    for (const struct spread *s = bench->spread; s; s = s->next)
        if (s->narrowest == tables[0] && s->widest == tables[count - 1] && s->ranks == ranks && s->last == last) {
            *out = s->table;
            return true;
        }
    bool missing = false;
    struct spread *made = arena_alloc(&bench->arena, 1, sizeof *made);
    const struct price_table *table = made ? make(bench, config, bound_only, tables, &missing) : NULL;
    if (!table && !missing)
        return fail_kind(err, ERROR_ENVIRONMENT, "search: out of memory for stages of several meshes");
    *made = (struct spread){ bench->spread, tables[0], tables[count - 1], ranks, last, table };
    bench->spread = made;
    *out = table;
    return true;
}
