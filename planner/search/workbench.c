#include "planner/search/workbench.h"
#include "base/num.h"
#include "models/model.h"
#include "planner/program/schedule.h"
#include "planner/search/estimate.h"
#include <string.h>

/* Layers that share a weight: the first and the last user. More than one such pair does not occur in the zoo; the
 * widest counts. */
static void find_tied(const struct graph *graph, int *weight_first, int *tied_first, int *tied_second)
{
    *tied_first = *tied_second = -1;
    for (int w = 0; w < graph->weight_count; w++)
        weight_first[w] = -1;
    for (int s = 0; s < graph->segment_count; s++)
        for (int i = 0; i < graph->segments[s].weight_count; i++) {
            int weight = graph->segments[s].weight[i].id, layer = graph->segments[s].layer;
            if (weight_first[weight] < 0) {
                weight_first[weight] = layer;
            } else if (weight_first[weight] != layer) {
                *tied_first = weight_first[weight];
                *tied_second = layer;
            }
        }
}

static bool build_chain(struct workbench *bench, struct error *err)
{
    const struct graph *graph = bench->graph;
    int first = -1, second = -1, *class_of = arena_alloc(&bench->arena, (size_t)graph->layer_count, sizeof *class_of);
    int *weight_first = arena_alloc(&bench->arena, (size_t)graph->weight_count, sizeof *weight_first);
    if (!class_of || !weight_first)
        return fail_kind(err, ERROR_ENVIRONMENT, "search: out of memory");
    for (int l = 0; l < graph->layer_count; l++)
        class_of[l] = graph->layers[l].class_index;
    find_tied(graph, weight_first, &first, &second);
    return chain_build(&bench->chain, &bench->arena, graph->layer_count, class_of, graph->class_count, first, second,
                       err);
}

static bool list_strategies(struct workbench *bench, struct error *err)
{
    bench->strategies = arena_alloc(&bench->arena, 4 * RECOMPUTE_COUNT, sizeof *bench->strategies);
    if (!bench->strategies)
        return fail_kind(err, ERROR_ENVIRONMENT, "search: out of memory");
    for (int zero = 0; zero <= 3; zero++)
        for (int recompute = 0; recompute < RECOMPUTE_COUNT; recompute++)
            if (allows(&bench->space->zero, zero) && allows(&bench->space->recompute, recompute))
                bench->strategies[bench->strategy_count++] = (struct strategy){ (int8_t)zero, (int8_t)recompute };
    if (bench->strategy_count == 0)
        return fail(err, "plan: the space allows no ZeRO stage or no recomputation mode; zero is 0 to 3, recompute "
                         "none, selective or full");
    return true;
}

bool workbench_open(struct workbench *bench, const struct model *model, const struct facts *facts,
                    const struct space *space, struct error *err)
{
    *bench = (struct workbench){ .model = model, .facts = facts, .space = space };
    int64_t multiple = model->opaque ? 1 : 128;
    if (graph_build(&bench->graph, model, space->batch, space->sequence, multiple, err) && build_chain(bench, err) &&
        list_strategies(bench, err))
        return true;
    workbench_close(bench);
    return false;
}

void workbench_close(struct workbench *bench)
{
    graph_free(bench->graph);
    arena_free(&bench->arena);
    *bench = (struct workbench){ 0 };
}

static struct price_key key_of(const struct workbench *bench, const struct config *config, bool bound_only)
{
    struct price_key key = { .tensor = config->tensor,
                             .data = config->data,
                             .tensor_dimension = config->tensor_dimension,
                             .micro = config->micro,
                             .vocab_multiple = config_vocab_multiple(bench->graph, config),
                             .prefetch = config->prefetch };
    if (bound_only) { /* the compute path does not depend on these */
        key.data = config->data > 1 ? 2 : 1;
        key.prefetch = 1;
        key.bound_only = true;
    }
    return key;
}

static bool same_key(const struct price_key *a, const struct price_key *b)
{
    return a->tensor == b->tensor && a->data == b->data && a->tensor_dimension == b->tensor_dimension &&
           a->micro == b->micro && a->vocab_multiple == b->vocab_multiple && a->prefetch == b->prefetch &&
           a->bound_only == b->bound_only;
}

static struct priced *new_priced(struct workbench *bench)
{
    if (bench->priced_count == bench->priced_capacity) {
        int capacity = bench->priced_capacity ? 2 * bench->priced_capacity : 64;
        struct priced **grown = arena_alloc(&bench->arena, (size_t)capacity, sizeof *grown);
        if (!grown)
            return NULL;
        if (bench->priced_count > 0)
            memcpy(grown, bench->priced, (size_t)bench->priced_count * sizeof *grown);
        bench->priced = grown;
        bench->priced_capacity = capacity;
    }
    struct priced *priced = arena_alloc(&bench->arena, 1, sizeof *priced);
    if (priced)
        bench->priced[bench->priced_count++] = priced;
    return priced;
}

static struct priced *find_priced(const struct workbench *bench, const struct price_key *key)
{
    for (int i = 0; i < bench->priced_count; i++)
        if (same_key(&bench->priced[i]->key, key))
            return bench->priced[i];
    return NULL;
}

static int find_strategy(const struct price_table *table, int zero, int recompute)
{
    for (int i = 0; i < table->strategy_count; i++)
        if (table->strategies[i].zero == zero && table->strategies[i].recompute == recompute)
            return i;
    return -1;
}

/* Without prefetch only ZeRO-3 differs: one program instead of all, where the prefetching table is there. *done false:
 * it is not. */
static bool from_prefetching(struct workbench *bench, struct priced *priced, bool *done, struct error *err)
{
    static const struct strategy sharded[] = { { 3, RECOMPUTE_NONE } };
    struct price_key like = priced->key, key = priced->key;
    struct price_table one;
    like.prefetch = 1;
    key.without_send = true;
    const struct priced *other =
        priced->key.prefetch == 0 && !priced->key.bound_only ? find_priced(bench, &like) : NULL;
    int plain = other && !other->refused ? find_strategy(&other->table, 3, RECOMPUTE_NONE) : -1;
    *done = plain >= 0;
    if (plain < 0)
        return true;
    priced->table = other->table;
    size_t prices = (size_t)(other->table.class_count * other->table.strategy_count);
    priced->table.prices = arena_alloc(&bench->arena, prices, sizeof *priced->table.prices);
    if (!priced->table.prices)
        return fail_kind(err, ERROR_ENVIRONMENT, "search: out of memory");
    memcpy(priced->table.prices, other->table.prices, prices * sizeof *priced->table.prices);
    if (!price_layers(&one, &bench->arena, bench->model, bench->chain.class_count, bench->graph->sequence,
                      bench->space->dtype, &key, sharded, 1, bench->space->bucket_bytes, bench->facts, err))
        return false;
    for (int c = 0; c < priced->table.class_count; c++)
        for (int i = 0; i < priced->table.strategy_count; i++)
            if (priced->table.strategies[i].zero == 3)
                priced->table.prices[c * priced->table.strategy_count + i] = price_combine(
                    price_at(&one, c, 0), price_at(&other->table, c, i), price_at(&other->table, c, plain));
    return true;
}

/* Sharding changes the compute path a little (accumulation in place or not), so a bound looks at both ends. */
static bool fill_priced(struct workbench *bench, struct priced *priced, struct error *err)
{
    static const struct strategy ends[] = { { 0, RECOMPUTE_NONE }, { 3, RECOMPUTE_NONE } };
    const struct strategy *strategies = priced->key.bound_only ? ends : bench->strategies;
    int count = priced->key.bound_only ? (priced->key.data > 1 ? 2 : 1) : bench->strategy_count;
    if (!priced->key.bound_only && priced->key.data == 1) { /* nothing to shard: the first ZeRO stage speaks for all */
        for (count = 0; count < bench->strategy_count && bench->strategies[count].zero == bench->strategies[0].zero;)
            count++;
    }
    struct error why = { 0 };
    bool done = false;
    if (!from_prefetching(bench, priced, &done, &why))
        return fail_kind(err, why.kind, "%s", why.message);
    if (done || price_layers(&priced->table, &bench->arena, bench->model, bench->chain.class_count,
                             bench->graph->sequence, bench->space->dtype, &priced->key, strategies, count,
                             bench->space->bucket_bytes, bench->facts, &why))
        return true;
    if (why.kind != ERROR_INPUT)
        return fail_kind(err, why.kind, "%s", why.message);
    priced->refused = true;
    return true;
}

bool workbench_table(struct workbench *bench, const struct config *config, bool bound_only,
                     const struct price_table **out, struct error *err)
{
    struct price_key key = key_of(bench, config, bound_only);
    struct priced *priced = find_priced(bench, &key);
    if (!priced) {
        priced = new_priced(bench);
        if (!priced)
            return fail_kind(err, ERROR_ENVIRONMENT, "search: out of memory");
        priced->key = key;
        if (!fill_priced(bench, priced, err))
            return false;
    }
    *out = priced->refused ? NULL : &priced->table;
    return true;
}

int *config_in_flight(struct arena *arena, const struct config *config)
{
    int *in_flight = arena_alloc(arena, (size_t)config->stages, sizeof *in_flight);
    for (int k = 0; in_flight && k < config->stages; k++)
        in_flight[k] = schedule_in_flight(schedules[config->schedule], config->stages, k, config->micro_batch_count, 0);
    return in_flight;
}

struct partition_problem workbench_problem(const struct workbench *bench, const struct config *config,
                                           const struct price_table *table, const int *in_flight)
{
    return (struct partition_problem){ .chain = &bench->chain,
                                       .table = table,
                                       .stage_count = config->stages,
                                       .micro_batch_count = config->micro_batch_count,
                                       .in_flight = in_flight,
                                       .capacity_bytes = available_bytes(bench->facts),
                                       .below_ns = INT64_MAX };
}
