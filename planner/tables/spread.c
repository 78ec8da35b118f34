/* A stage of several meshes that share each micro-batch is priced as a stage of one mesh with so many times the data
 * and tensor-parallel ranks, each with its part of the sequences; on a cluster of several types by those on which its
 * ranks lie. All tables have the strategies of the mesh that shards most: where another one has nothing to shard, all
 * ZeRO stages and both kinds of resharding cost and decide what none does. */
#include "planner/tables/spread.h"
#include "base/num.h"
#include "planner/plan/plan.h"
#include "planner/tables/several.h"
#include "planner/tables/types.h"
#include <string.h>

/* Narrowest and widest have the micro-batch and the prefetch in them, `ranks` says how many meshes there are in all. Of
 * the number of stages nothing depends. */
struct spread {
    struct spread *next;
    const struct price_table *narrowest, *widest; /* of the cluster's first type */
    int ranks;                                    /* of one mesh */
    int shape_count;
    const int *meshes, *tensor_times; /* (shape_count) */
    int order;                        /* of the groups: its number */
    const struct price_table *table;
};
static bool same_shapes(const struct spread *s, const struct config *config)
{
    size_t bytes = (size_t)config->turn_count * sizeof *s->meshes;
    return s->shape_count == config->turn_count && !memcmp(s->meshes, config->turns, bytes) &&
           !memcmp(s->tensor_times, config->tensor_times, bytes);
}

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

/* The slowest type's. */
static int64_t send_over(const struct workbench *bench, const struct config *stage, unsigned types, int64_t bytes)
{
    int64_t most = 0;
    for (int type = 0; types >> type; type++)
        if (types >> type & 1)
            most = max_i64(most, send_ns(bench->type_facts ? &bench->type_facts[type] : bench->facts, stage, bytes));
    return most;
}

/* ---- the table of one stage ---- */

/* The table's strategy that decides like that of a larger mesh; where nothing is sharded, but for its ZeRO stage,
 * resharding and what it replicates, and for slices unless they are listed. -1: none. */
static int like(const struct price_table *table, bool shards, const struct plan_layer *layer)
{
    for (int pass = 0; pass < (shards ? 1 : 2); pass++)
        for (int i = 0; i < table->strategy_count; i++) {
            struct plan_layer own = table->strategies[i].layer;
            own.zero = shards ? own.zero : layer->zero;
            own.reshard = shards ? own.reshard : layer->reshard;
            own.replicate = shards ? own.replicate : layer->replicate;
            own.slices = pass == 0 ? own.slices : layer->slices;
            if (plan_layer_equal(&own, layer))
                return i;
        }
    return -1;
}

/* The table with the strategies of the mesh that shards most; refused where it has not got one of them. NULL then, and
 * when out of memory. */
static struct price_table *with_strategies(struct several *s, const struct price_table *table, bool shards)
{
    const struct price_table *of = s->widest;
    struct arena *arena = &s->bench->arena;
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
        s->refused = s->refused || at < 0;
        if (at < 0)
            return NULL;
        strategies[i] = table->strategies[at];
        for (int c = 0; c < of->class_count; c++)
            prices[c * of->strategy_count + i] = *price_at(table, c, at);
    }
    return own;
}

/* Ranks of such a stage that share out the value at its boundary. */
static int64_t boundary_ranks(const struct config *config, int turn)
{
    struct config stage = config_of_spread(config, turn);
    return mesh_sequence_parallel(&stage.mesh) ? mesh_ranks(&stage.mesh)
                                               : mesh_ranks(&stage.mesh) / mesh_tensor(&stage.mesh);
}

static struct price_table *own_table(struct several *s, const struct several_place *place,
                                     const struct price_table *from)
{
    struct config stage = config_of_spread(s->config, place->turn);
    struct price_table *table = with_strategies(s, from, mesh_shards(&stage.mesh) > 1);
    if (!table || s->bound_only)
        return table;
    /* of the narrowest, which has room for another beside it and is made first */
    const struct price_table *narrowest = s->made_count > 0 ? s->made[0].table : from;
    table->send_bytes = narrowest->send_bytes * boundary_ranks(s->config, 0) / boundary_ranks(s->config, place->turn);
    table->send_ns = send_over(s->bench, &stage, place->types, table->send_bytes);
    return table;
}

/* ---- all of them ---- */

/* The turn whose stages have the most ranks to shard over. */
static int most_sharded(const struct config *config)
{
    int most = 0;
    for (int i = 1; i < config->turn_count; i++) {
        struct config own = config_of_spread(config, i), best = config_of_spread(config, most);
        most = mesh_shards(&own.mesh) >= mesh_shards(&best.mesh) ? i : most;
    }
    return most;
}

bool spread_table(struct workbench *bench, const struct config *config, bool bound_only, const struct price_table **out,
                  struct error *err)
{
    int ranks = mesh_ranks(&config->mesh);
    struct config narrow = config_of_spread(config, 0), wide = config_of_spread(config, most_sharded(config));
    const struct price_table *narrowest = NULL, *widest = NULL;
    *out = NULL;
    if (!workbench_type_table(bench, &narrow, 0, bound_only, &narrowest, err) ||
        !workbench_type_table(bench, &wide, 0, bound_only, &widest, err))
        return false;
    if (!narrowest || !widest)
        return true;
    for (const struct spread *s = bench->spread; s; s = s->next)
        if (s->narrowest == narrowest && s->widest == widest && s->ranks == ranks && s->order == config->order.index &&
            same_shapes(s, config)) {
            *out = s->table;
            return true;
        }
    struct several several = {
        .bench = bench, .config = config, .bound_only = bound_only, .widest = widest, .own_table = own_table, .err = err
    };
    struct spread *kept = arena_alloc(&bench->arena, 1, sizeof *kept);
    if (!kept)
        return fail_kind(err, ERROR_ENVIRONMENT, "search: out of memory for stages of several meshes");
    if (!several_table(&several, out))
        return false;
    *kept =
        (struct spread){ bench->spread,        narrowest,           widest, ranks, config->turn_count, config->turns,
                         config->tensor_times, config->order.index, *out };
    bench->spread = kept;
    return true;
}
