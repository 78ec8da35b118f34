/* Most configurations that their first bound does not rule out are ruled out by their memory: what they recompute to
 * fit takes too long. To see that, the paths of the first bound and what layers keep are enough, and these do not
 * depend on how far ahead weights are gathered, nor on what the data-parallel lane does meanwhile. */
#include "planner/tables/loose.h"
#include "base/num.h"

struct loosened {
    struct loosened *next;
    const struct price_table *from;
    int shards, turn_count;
    struct price_table table;
};

/* Of one decision, by the strategies that differ in ZeRO alone: the first has all weights. */
static struct layer_price loose_price(const struct layer_price *whole, const struct layer_price *sharded, int shards)
{
    return (struct layer_price){
        .forward_ns = min_i64(whole->forward_ns, sharded->forward_ns),
        .backward_ns = min_i64(whole->backward_ns, sharded->backward_ns),
        .step_ns = min_i64(whole->step_ns, sharded->step_ns),
        .saved_bytes = min_i64(whole->saved_bytes, sharded->saved_bytes),
        .weight_bytes = ceil_div(whole->weight_bytes, shards),
        .tied_bytes = ceil_div(whole->tied_bytes, shards),
    };
}

/* Whose backward gathers come before the forward pass is over, the passes of all layers behind are in between: what
 * these save lives in passing there. */
static int passing_layers(const struct space *space)
{
    int most = 1;
    for (int i = 0; i < space->prefetch.count; i++)
        most = most > space->prefetch.values[i] ? most : space->prefetch.values[i];
    return most - 1;
}

/* All layers of the class are among those. */
static bool lives_in_passing(const struct workbench *bench, int class_index)
{
    int first = 0, count = bench->chain.layer_count;
    while (first < count && bench->chain.class_of[first] != class_index)
        first++;
    return first >= count - passing_layers(bench->space);
}

/* A stage of any number of meshes has the same. */
static bool add_turns(struct price_table *table, struct arena *arena, const struct config *config)
{
    const struct price_table **by_turns = arena_alloc(arena, (size_t)config->turn_count + 1, sizeof *by_turns);
    for (int i = 0; by_turns && i < config->turn_count; i++)
        by_turns[i] = table;
    table->turn_count = config->turn_count;
    table->turns = config->turns;
    table->by_turns = config->turn_count > 0 ? by_turns : NULL;
    return by_turns;
}

static bool loosen(struct price_table *out, struct workbench *bench, const struct price_table *from, int shards)
{
    int ends = from->strategies[from->strategy_count - 1].layer.zero > 0 ? 2 : 1, count = from->strategy_count / ends;
    *out = (struct price_table){ .class_count = from->class_count,
                                 .strategy_count = count,
                                 .strategies = from->strategies,
                                 .base_bytes = from->base_bytes };
    out->prices = arena_alloc(&bench->arena, (size_t)(from->class_count * count), sizeof *out->prices);
    for (int c = 0; out->prices && c < from->class_count; c++) {
        bool passes = lives_in_passing(bench, c);
        for (int i = 0; i < count; i++) {
            struct layer_price *price = &out->prices[c * count + i];
            *price = loose_price(price_at(from, c, i), price_at(from, c, i + (ends - 1) * count), shards);
            price->saved_bytes = passes ? 0 : price->saved_bytes;
        }
    }
    return out->prices;
}

/* Whether paths are sums: a round of a ring may be hidden by waiting for a reduction, which is not looked at here. A
 * server's ranks do not hold alike. */
static bool has_plain_paths(const struct mesh *mesh)
{
    for (int i = 0; i < mesh->atom_count; i++)
        if (mesh->size[i] > 1 && (dimensions[mesh->dim[i]]->ring || dimensions[mesh->dim[i]]->server))
            return false;
    return true;
}

/* And all stages have one table. */
static bool applies(const struct workbench *bench, const struct config *config)
{
    return !bench->type_facts && !schedules[config->schedule]->asynchronous && has_plain_paths(&config->mesh);
}

bool loose_table(struct workbench *bench, const struct config *config, const struct price_table **out,
                 struct error *err)
{
    const struct price_table *from = NULL;
    int shards = mesh_shards(&config->mesh), turns = config->turn_count;
    *out = NULL;
    if (!applies(bench, config))
        return true;
    if (!workbench_kept_table(bench, config, &from, err))
        return false;
    struct loosened *known = from ? bench->loosened : NULL;
    while (known && !(known->from == from && known->shards == shards && known->turn_count == turns))
        known = known->next;
    if (known)
        *out = &known->table;
    if (known || !from)
        return true;
    struct loosened *made = arena_alloc(&bench->arena, 1, sizeof *made);
    if (!made || !loosen(&made->table, bench, from, shards) || !add_turns(&made->table, &bench->arena, config))
        return fail_kind(err, ERROR_ENVIRONMENT, "search: out of memory");
    made->next = bench->loosened;
    made->from = from;
    made->shards = shards;
    made->turn_count = turns;
    bench->loosened = made;
    *out = &made->table;
    return true;
}
