#include "planner/tables/workbench.h"
#include "base/num.h"
#include "models/model.h"
#include "planner/program/schedule.h"
#include "planner/tables/cuts.h"
#include "planner/tables/turns.h"
#include "planner/tables/types.h"

/* Finds layers that share a weight: the first and the last user; -1: none do. Of several such weights the widest
 * counts. Returns it, -1: none. */
static int find_tied(const struct graph *graph, int *weight_first, int *tied_first, int *tied_second)
{
    int64_t widest = 0;
    int found = -1;
    for (int w = 0; w < graph->weight_count; w++)
        weight_first[w] = -1;
    for (int s = 0; s < graph->segment_count; s++)
        for (int i = 0; i < graph->segments[s].weight_count; i++) {
            int weight = graph->segments[s].weight[i].id, layer = graph->segments[s].layer;
            if (weight_first[weight] < 0) {
                weight_first[weight] = layer;
            } else if (weight_first[weight] != layer && weight_elements(&graph->weights[weight]) >= widest) {
                widest = weight_elements(&graph->weights[weight]);
                *tied_first = weight_first[weight];
                *tied_second = layer;
                found = weight;
            }
        }
    return found;
}

/* Puts layers into one class when they are alike and the same rules count for them. */
static bool build_classes(struct workbench *bench, int *class_of)
{
    const struct graph *graph = bench->graph;
    bench->class_layer = arena_alloc(&bench->arena, (size_t)graph->layer_count, sizeof *bench->class_layer);
    if (!bench->class_layer)
        return false;
    if (bench->space->rule_count == 0)
        bench->class_count = graph->class_count;
    for (int l = 0; l < graph->layer_count; l++) {
        class_of[l] = graph->layers[l].class_index;
        if (bench->space->rule_count == 0)
            continue;
        class_of[l] = 0;
        while (class_of[l] < bench->class_count) {
            int like = bench->class_layer[class_of[l]];
            if (graph->layers[like].class_index == graph->layers[l].class_index &&
                space_rules_of(bench->space, like) == space_rules_of(bench->space, l))
                break;
            class_of[l]++;
        }
        if (class_of[l] == bench->class_count)
            bench->class_layer[bench->class_count++] = l;
    }
    return true;
}

static bool add_branches(struct workbench *bench, struct error *err)
{
    const struct graph *graph = bench->graph;
    struct dag_edge *edges = arena_alloc(&bench->arena, (size_t)graph->layer_count, MAX_LAYER_INPUTS * sizeof *edges);
    int count = 0;
    if (!edges)
        return fail_memory(err);
    for (int l = 0; l < graph->layer_count; l++)
        for (int i = 0; i < graph->layers[l].input_count; i++)
            edges[count++] = (struct dag_edge){ graph->layers[l].input_layers[i], l };
    /* asynchronous schedules refuse values that skip stages, and other orders have more */
    return chain_add_branches(&bench->chain, &bench->arena, edges, count,
                              space_asynchronous(bench->space, false) ? graph->layer_count + 1 : CHAIN_IDEALS, err);
}

static bool build_chain(struct workbench *bench, struct error *err)
{
    const struct graph *graph = bench->graph;
    int first = -1, second = -1, *class_of = arena_alloc(&bench->arena, (size_t)graph->layer_count, sizeof *class_of);
    int *weight_first = arena_alloc(&bench->arena, (size_t)graph->weight_count, sizeof *weight_first);
    if (!class_of || !weight_first || !build_classes(bench, class_of))
        return fail_memory(err);
    int weight = find_tied(graph, weight_first, &first, &second);
    if (!chain_build(&bench->chain, &bench->arena, graph->layer_count, class_of, bench->class_count, first, second,
                     err))
        return false;
    bench->chain.graph = graph;
    bench->chain.cut = bench->space->cut.first;
    bool *users = arena_alloc(&bench->arena, (size_t)graph->layer_count, sizeof *users);
    for (int s = 0; users && s < graph->segment_count; s++)
        for (int i = 0; i < graph->segments[s].weight_count; i++)
            users[graph->segments[s].layer] |= graph->segments[s].weight[i].id == weight;
    bench->chain.tied = users;
    if (!bench->chain.tied)
        return fail_memory(err);
    bench->line = bench->chain;
    return graph_is_chain(graph) || bench->chain.cut || add_branches(bench, err);
}

static bool check_choices(const struct space *space, struct error *err)
{
    bool zero = false, recompute = false;
    for (int i = 0; i <= 3; i++)
        zero = zero || allowed_has(&space->zero, i);
    for (int i = 0; i < RECOMPUTE_COUNT; i++)
        recompute = recompute || allowed_has(&space->recompute, i);
    if (space->bucket_bytes.count == 0)
        return fail(err, "plan: bucket: expected the size of buckets of gradients, such as --fix bucket=4MiB, found "
                         "none");
    return (zero && recompute) || fail(err, "plan: the space allows no ZeRO stage or no recomputation mode; zero is 0 "
                                            "to 3, recompute none, selective, full or block");
}

static bool check_offload(const struct space *space, const struct cluster *cluster, struct error *err)
{
    struct allowed offloads = space_any_layer(space, CHOICE_OFFLOAD);
    const struct schedule *versioned = space_asynchronous(space, false);
    for (int offload = OFFLOAD_NONE; offload < OFFLOAD_COUNT; offload++) {
        if (!allowed_has(&offloads, offload))
            continue;
        if (versioned && offload >= OFFLOAD_PARAMETERS)
            return fail(err,
                        "plan: schedule %s keeps versions of the weights, which stay on the device: expected another "
                        "one, or offload none, activations, optimizer or both, found %s",
                        versioned->name, offload_names[offload]);
        if (!cost_host_link(cluster, (enum offload)offload, err))
            return false;
    }
    return true;
}

static bool check_rules(const struct space *space, const struct graph *graph, struct error *err)
{
    for (int i = 0; i < space->rule_count; i++)
        if (space->rules[i].last >= graph->layer_count)
            return fail(err, "plan: layer[%d-%d].%s: model %s has layers 0 to %d", space->rules[i].first,
                        space->rules[i].last, choice_facts[space->rules[i].choice].name, graph->model_name,
                        graph->layer_count - 1);
    for (int k = 0; k < space->cut.count; k++)
        if (space->cut.first[k] < k || space->cut.first[k] >= graph->layer_count ||
            space->cut.first[k] <= (k > 0 ? space->cut.first[k - 1] : -1) || space->cut.first[0] != 0)
            return fail(err, "plan: stages by hand: model %s has layers 0 to %d, and each stage begins behind another",
                        graph->model_name, graph->layer_count - 1);
    return true;
}

bool workbench_open_from(struct workbench *bench, struct price_shelf *shelf, uint64_t rates, const struct model *model,
                         const struct facts *facts, const struct space *space, struct error *err)
{
    *bench = (struct workbench){ .model = model, .facts = facts, .space = space, .shelf = shelf };
    int64_t multiple = model->opaque ? 1 : 128;
    if (check_choices(space, err) && check_offload(space, facts->cluster, err) &&
        graph_build(&bench->graph, model, space->batch, space->sequence, multiple, err) &&
        check_rules(space, bench->graph, err) && build_chain(bench, err) &&
        price_shelf_take(&bench->book, shelf, model, facts, bench->graph->class_count, bench->graph->sequence,
                         space->dtype, &space->optimizer, space->clip_norm > 0, err) &&
        types_open(bench, err)) {
        bench->book.rates = rates != 0 ? (int64_t)rates : -++bench->book.nameless;
        return true;
    }
    workbench_close(bench);
    return false;
}

bool workbench_open(struct workbench *bench, const struct model *model, const struct facts *facts,
                    const struct space *space, struct error *err)
{
    return workbench_open_from(bench, NULL, 0, model, facts, space, err);
}

void workbench_close(struct workbench *bench)
{
    types_close(bench);
    price_shelf_give(bench->shelf, &bench->book);
    memo_free(&bench->made);
    graph_free(bench->graph);
    arena_free(&bench->arena);
    *bench = (struct workbench){ 0 };
}

struct price_key workbench_key(const struct workbench *bench, const struct config *config, int type, bool bound_only)
{
    struct price_key key = { .type = type,
                             .mesh = config->mesh,
                             .micro = config->micro,
                             .vocab_multiple = config_vocab_multiple(config, bench->graph),
                             .prefetch = config->prefetch,
                             .bucket_bytes = config->bucket_bytes,
                             .loss_chunks = config_loss_chunks(config),
                             .accumulates = config->micro_batch_count > 1 };
    if (!bound_only)
        return key;
    key.prefetch = 1; /* the compute path depends neither on it, nor on buckets or the number of data-parallel ranks */
    key.bucket_bytes = space_bucket_bytes(bench->space);
    key.bound_only = true;
    /* but where links are each between two devices, groups whose ranks are further apart may have more of them */
    bool meshed = false;
    for (int t = 0; t < bench->facts->cluster->type_count; t++)
        meshed = meshed || bench->facts->cluster->types[t].device.link_mesh_devices > 0;
    for (int i = 0; i < key.mesh.atom_count && !meshed; i++)
        if (dimension_deals_batch(dimensions[key.mesh.dim[i]]) && key.mesh.size[i] > 2)
            key.mesh.size[i] = 2;
    return mesh_shards(&key.mesh) > 1 ? key : price_key_alone(&key);
}

/* The table of a key. */
struct priced_strategy {
    bool refused; /* by lowering */
    bool nothing; /* rules leave a layer no strategy */
    struct price_table table;
};

enum { PRICED_WORDS = 1 + PRICE_KEY_WORDS };

static size_t words_of(const struct price_key *key, int64_t out[PRICED_WORDS])
{
    out[0] = MADE_PRICES;
    return 1 + (size_t)price_key_words(key, &out[1]);
}

bool workbench_was_asked(const struct workbench *bench, const struct price_key *key)
{
    int64_t words[PRICED_WORDS];
    return memo_find(&bench->made, words, words_of(key, words)) != NULL;
}

const struct price_table *workbench_known(const struct workbench *bench, const struct price_key *key)
{
    int64_t words[PRICED_WORDS];
    const struct priced_strategy *priced = memo_find(&bench->made, words, words_of(key, words));
    return priced && !priced->refused && !priced->nothing ? &priced->table : NULL;
}

/* Gives a price with more bytes than any device has, and than any other strategy of the layer. */
static struct layer_price forbidden(const struct workbench *bench, const struct price_table *table, int class_index)
{
    struct layer_price price = *price_at(table, class_index, 0);
    for (int i = 1; i < table->strategy_count; i++)
        price_merge(&price, price_at(table, class_index, i), true);
    price.weight_bytes += facts_most_bytes(bench->facts) + 1;
    return price;
}

/* Goes from the graph's classes to the chain's, where rules tell layers apart: what one may not choose does not fit. */
static bool apply_rules(struct workbench *bench, const struct price_key *key, struct priced_strategy *priced,
                        struct error *err)
{
    struct price_table *table = &priced->table, plain = priced->table;
    size_t count = (size_t)bench->class_count * (size_t)table->strategy_count;
    if (bench->space->rule_count == 0)
        return true;
    table->class_count = bench->class_count;
    table->prices = arena_alloc(&bench->arena, count, sizeof *table->prices);
    if (!table->prices)
        return fail_memory(err);
    for (int c = 0; c < bench->class_count; c++) {
        int layer = bench->class_layer[c], like = bench->graph->layers[layer].class_index;
        bool any = false;
        for (int i = 0; i < table->strategy_count; i++) {
            bool legal =
                key->bound_only || space_layer_allows(bench->space, layer, &key->mesh, &table->strategies[i].layer);
            any = any || legal;
            table->prices[c * table->strategy_count + i] =
                legal ? *price_at(&plain, like, i) : forbidden(bench, &plain, like);
        }
        priced->nothing = priced->nothing || !any;
    }
    return true;
}

bool workbench_strategies(const struct workbench *bench, struct arena *arena, const struct price_key *key,
                          struct strategy **out, int *count)
{
    int (*list)(const struct space *, const struct mesh *, struct strategy *) =
        key->bound_only ? space_ends : space_strategies;
    *count = list(bench->space, &key->mesh, NULL);
    *out = arena_alloc(arena, (size_t)*count, sizeof **out);
    if (*out)
        list(bench->space, &key->mesh, *out);
    return *out != NULL;
}

const struct facts *workbench_type_facts(const struct workbench *bench, int type)
{
    return bench->type_facts ? &bench->type_facts[type] : bench->facts;
}

static bool fill_priced(struct workbench *bench, const struct price_key *key, struct priced_strategy *priced,
                        struct error *err)
{
    struct error why = { 0 };
    struct strategy *strategies;
    int count;
    if (!workbench_strategies(bench, &bench->arena, key, &strategies, &count))
        return fail_memory(err);
    bench->book.facts = workbench_type_facts(bench, key->type);
    if (price_layers(&priced->table, &bench->arena, &bench->book, key, strategies, count, &why))
        return apply_rules(bench, key, priced, err);
    if (why.kind != ERROR_INPUT)
        return fail_with(err, &why);
    priced->refused = true;
    return true;
}

/* Gives the prices of the key, made when first asked for. */
static bool want_priced(struct workbench *bench, const struct price_key *key, struct priced_strategy **out,
                        struct error *err)
{
    int64_t words[PRICED_WORDS];
    bool known;
    struct priced_strategy *priced = *out =
        memo_place(&bench->made, words, words_of(key, words), sizeof *priced, &known);
    if (known)
        return true;
    if (!priced)
        return fail_memory(err);
    if (!fill_priced(bench, key, priced, err))
        return false;
    priced->table.base_bytes += facts_most_bytes(bench->facts) - facts_available_bytes(bench->facts, key->type);
    return true;
}

bool workbench_type_table(struct workbench *bench, const struct config *config, int type, int first_rank,
                          bool bound_only, const struct price_table **out, struct error *err)
{
    struct price_key key = workbench_key(bench, config, type, bound_only);
    key.first_rank = first_rank;
    struct priced_strategy *priced = NULL;
    bool good = want_priced(bench, &key, &priced, err);
    *out = good && !priced->refused && !priced->nothing ? &priced->table : NULL;
    return good;
}

bool workbench_table(struct workbench *bench, const struct config *config, bool bound_only,
                     const struct price_table **out, struct error *err)
{
    if (config->meshes > 0)
        return turns_table(bench, config, bound_only, out, err);
    bool good = types_table(bench, config, bound_only, out, err);
    if (!good || bound_only || !*out)
        return good;
    if (!cuts_table(bench, config, out, err))
        return false;
    return !schedules[config->schedule]->asynchronous || workbench_versions(bench, config, out, err);
}

/* Gives a chunk's number in flight from its stage's: chunks share what that holds, which is as many times a chunk as it
 * holds of the stage's own when they are full; what is left over is of the first chunks, which the next group of
 * micro-batches enters first. */
int *workbench_in_flight(struct arena *arena, const struct config *config)
{
    if (config->meshes > 0)
        return turns_in_flight(arena, config);
    int pieces = config_pieces(config), chunks = config_chunks(config);
    int *in_flight = arena_alloc(arena, (size_t)pieces, sizeof *in_flight);
    int *held = arena_alloc(arena, (size_t)config->stages, sizeof *held);
    for (int s = 0; held && s < config->stages; s++) {
        struct schedule_place place = schedule_place_even(config->stages, s, config->micro_batch_count, config->extra);
        place.chunks = chunks;
        if (!schedule_find_held(schedules[config->schedule], &place, &held[s]))
            return NULL;
    }
    for (int k = 0; held && in_flight && k < pieces; k++) {
        int all = held[config_stage(config, k)], chunk = k / config->stages;
        in_flight[k] = all / chunks + (chunk < all % chunks);
    }
    return held ? in_flight : NULL;
}

/* States the problem of chunks, which are like stages that share a device: each has its part of the memory, and each
 * micro-batch keeps the device once for each; once alone where they are copies, of which it goes through one. */
struct partition_problem workbench_problem(const struct workbench *bench, const struct config *config,
                                           const struct price_table *table, const int *in_flight)
{
    int pieces = config_pieces(config);
    return (struct partition_problem){ .chain = &bench->chain,
                                       .table = table,
                                       .stage_count = pieces,
                                       .micro_batch_count = config->micro_batch_count *
                                                            (config->meshes > 0 ? 1 : pieces / config->stages),
                                       .in_flight = in_flight,
                                       .phases = config->stages != 1 && schedules[config->schedule]->phases,
                                       .mesh_count = config->meshes,
                                       .shape_count = config->shape_count,
                                       .turns = config->turns,
                                       .capacity_bytes = facts_most_bytes(bench->facts) / config_chunks(config),
                                       .below_ns = INT64_MAX };
}
