#include "planner/search/baseline.h"
#include "base/num.h"
#include "planner/estimate/assemble.h"
#include "planner/tables/workbench.h"
#include <stdio.h>
#include <string.h>

struct uniform uniform_unset(void)
{
    return (struct uniform){ .pipeline = -1,
                             .tensor = -1,
                             .data = -1,
                             .zero = -1,
                             .recompute = -1,
                             .offload = -1,
                             .reshard = -1,
                             .schedule = -1,
                             .prefetch = -1,
                             .chunks = -1,
                             .context = 1,
                             .context_dimension = -1,
                             .data_dimension = -1,
                             .tensor_dimension = -1,
                             .micro = -1 };
}

static bool fill_degrees(struct uniform *u, int devices, struct error *err)
{
    int64_t known = u->context = (int)max_i64(1, u->context);
    int *degrees[] = { &u->pipeline, &u->tensor, &u->data }, *missing = NULL;
    for (int i = 0; i < 3; i++) {
        if (*degrees[i] >= 1)
            known *= *degrees[i];
        else if (i == 2 || missing == NULL)
            missing = degrees[i];
    }
    if (known > devices || devices % known != 0 || (!missing && known != devices))
        return fail(err,
                    "plan: the degrees multiply to %lld, which is not%s the cluster's %d devices; expected pp x tp x "
                    "cp x dp = %d",
                    (long long)known, missing ? " a divisor of" : "", devices, devices);
    for (int i = 0; i < 3; i++)
        if (*degrees[i] < 1)
            *degrees[i] = degrees[i] == missing ? devices / (int)known : 1;
    return true;
}

static bool wrong_batch(int64_t batch, int64_t unit, int data, int64_t micro, struct error *err)
{
    int64_t below = batch / unit * unit, above = round_up(batch, unit);
    char nearest[128];
    if (below > 0)
        snprintf(nearest, sizeof nearest, "the nearest valid sizes are %lld and %lld", (long long)below,
                 (long long)above);
    else
        snprintf(nearest, sizeof nearest, "the smallest valid size is %lld", (long long)above);
    return fail(err,
                "plan: batch %lld: expected a multiple of %lld (data-parallel degree %d times micro-batch %lld); %s",
                (long long)batch, (long long)unit, data, (long long)micro, nearest);
}

static int first_context_dimension(void)
{
    int dimension = 0;
    while (dimensions[dimension]->lane != LANE_CP)
        dimension++;
    return dimension;
}

static bool cannot_share(const struct uniform *u, const struct dimension *by, const struct graph *graph,
                         struct error *err)
{
    if (graph->image_value >= 0)
        return fail(err,
                    "plan: %d context-parallel ranks by %s cannot share model %s: the positions of every layer's image "
                    "or patches, or the heads that are left, must be multiples of the degree",
                    u->context, by->name, graph->model_name);
    return fail(
        err,
        "plan: %d context-parallel ranks by %s cannot share model %s: the sequence of %lld tokens, or the heads "
        "that are left, must be multiples of the degree",
        u->context, by->name, graph->model_name, (long long)graph->sequence);
}

static enum dimension_index tensor_dimension_of(const struct uniform *u)
{
    if (u->sequence_parallel && u->tensor > 1)
        return DIM_tp_sp;
    return u->tensor_dimension < 0 ? DIM_tp : (enum dimension_index)u->tensor_dimension;
}

static bool make_mesh(struct mesh *out, const struct uniform *u, const struct graph *graph, struct error *err)
{
    int context = u->context_dimension < 0 ? first_context_dimension() : u->context_dimension;
    struct degrees degrees = { .tensor = u->tensor,
                               .context = u->context,
                               .data = u->data,
                               .expert = u->expert,
                               .data_dimension = u->data_dimension < 0 ? DIM_dp : u->data_dimension,
                               .tensor_dimension = tensor_dimension_of(u),
                               .context_dimension = (enum dimension_index)context };
    int group = u->shard_group < 1 ? u->data : u->shard_group;
    if (u->data % group != 0)
        return fail(err,
                    "plan: groups of %d ranks that hold all shards (hsdp), but there are %d data-parallel ranks; "
                    "expected a divisor of them",
                    group, u->data);
    if (u->expert > 1 && (u->data % u->expert || expert_most(graph) % u->expert))
        return fail(err,
                    "plan: %d expert-parallel ranks (ep), but there are %d data-parallel ranks and layers of model %s "
                    "with %lld experts in common; expected a divisor of both",
                    u->expert, u->data, graph->model_name, (long long)expert_most(graph));
    if (!mesh_legal(&degrees, group))
        return fail(err,
                    "plan: groups of %d ranks that hold all shards (hsdp) and %d expert-parallel ranks (ep): expected "
                    "groups that are a multiple of ep, and not both beside context parallelism",
                    group, u->expert);
    *out = space_mesh(&degrees, u->order, group);
    return u->context == 1 || context_legal(graph, out) || cannot_share(u, dimensions[context], graph, err);
}

static bool make_config(struct config *out, const struct uniform *u, const struct space *space,
                        const struct graph *graph, struct error *err)
{
    int64_t micro = u->micro < 1 ? 1 : u->micro, unit = u->data * micro;
    if (!tensor_legal(graph, u->tensor))
        return fail(err,
                    "plan: %d tensor-parallel ranks cannot share model %s: heads and feed-forward width must be "
                    "multiples of the degree",
                    u->tensor, graph->model_name);
    int schedule = u->schedule < 0 ? 0 : u->schedule;
    if (schedule_pieces(schedules[schedule], u->pipeline, u->chunks) > graph->layer_count)
        return fail(err, "plan: %d stages of %d chunks, but model %s has %d layers", u->pipeline, u->chunks,
                    graph->model_name, graph->layer_count);
    if (space->batch % unit != 0)
        return wrong_batch(space->batch, unit, u->data, micro, err);
    *out = (struct config){ .stages = u->pipeline,
                            .chunks = u->chunks,
                            .extra = (int)max_i64(0, u->extra),
                            .loss_chunks = u->loss_chunks,
                            .micro = micro,
                            .schedule = schedule,
                            .prefetch = u->prefetch < 0 ? 1 : u->prefetch,
                            .bucket_bytes = space_bucket_bytes(space),
                            .micro_batch_count = (int)(space->batch / unit) };
    if (!make_mesh(&out->mesh, u, graph, err))
        return false;
    if (u->reversed)
        out->order = group_order_reversed(u->pipeline * mesh_ranks(&out->mesh));
    return true;
}

/* What every layer decides: (layers) the strategy of `strategies` that the space leaves it. */
static bool pick_strategies(int *pick, const struct strategy *strategies, int count, const struct workbench *bench,
                            const struct mesh *mesh, struct error *err)
{
    for (int l = 0; l < bench->graph->layer_count; l++) {
        pick[l] = 0;
        while (pick[l] < count && !space_layer_allows(bench->space, l, mesh, &strategies[pick[l]].layer))
            pick[l]++;
        if (pick[l] == count)
            return fail(err, "plan: layer %d: the choices that are fixed for it exclude each other", l);
    }
    return true;
}

/* Stages balanced by the compute path of their layers on each stage's own devices (without a table by their number);
 * their chunks likewise, round by round. */
static bool balance(struct plan *plan, const struct workbench *bench, const struct price_table *table, const int *pick,
                    struct error *err)
{
    struct arena scratch = { 0 };
    int layers = plan->layer_count,
        pieces = schedule_pieces(schedules[plan->schedule], plan->stage_count, plan->chunk_count);
    int64_t *weight = arena_alloc(&scratch, (size_t)pieces * (size_t)layers, sizeof *weight);
    int *first = arena_alloc(&scratch, (size_t)pieces + 1, sizeof *first);
    bool good = weight && first;
    for (int k = 0; good && k < pieces; k++)
        for (int l = 0; l < layers; l++) {
            const struct layer_price *p =
                table ? price_at(price_of_stage(table, k), bench->chain.class_of[l], pick[l]) : NULL;
            weight[k * layers + l] = p ? p->forward_ns + p->backward_ns : 1;
        }
    if (good)
        balance_stages(weight, layers, layers, pieces, first);
    if (good)
        first[pieces] = layers;
    for (int k = 0; good && k < pieces; k++)
        schedule_set_piece(plan, k, (struct layer_range){ first[k], first[k + 1] - first[k] });
    arena_free(&scratch);
    return good || fail_kind(err, ERROR_ENVIRONMENT, "plan: out of memory");
}

static bool build(struct plan **out, const struct config *config, struct workbench *bench, struct error *err)
{
    const struct price_table *table = NULL;
    int count = space_strategies(bench->space, &config->mesh, NULL);
    struct strategy *strategies = arena_alloc(&bench->arena, (size_t)count, sizeof *strategies);
    int *pick = arena_alloc(&bench->arena, (size_t)bench->graph->layer_count, sizeof *pick);
    struct plan *plan = plan_from_config(bench->space, config, bench->graph);
    bool good = strategies && pick && plan ? workbench_table(bench, config, false, &table, err)
                                           : fail_kind(err, ERROR_ENVIRONMENT, "plan: out of memory");
    if (good) {
        space_strategies(bench->space, &config->mesh, strategies);
        good = pick_strategies(pick, strategies, count, bench, &config->mesh, err);
    }
    for (int l = 0; good && l < plan->layer_count; l++)
        plan->layers[l] = strategies[pick[l]].layer;
    if (good && (table || config_chunks(config) > 1))
        good = balance(plan, bench, table, pick, err);
    if (good)
        *out = plan;
    else
        plan_free(plan);
    return good;
}

static struct allowed only(int64_t value)
{
    return (struct allowed){ 1, { value } };
}

bool uniform_plan(struct plan **out, const struct uniform *uniform, const struct space *space,
                  const struct model *model, const struct facts *facts, struct error *err)
{
    struct uniform u = *uniform;
    u.chunks = u.chunks < 1 ? schedule_least_chunks(schedules[u.schedule < 0 ? 0 : u.schedule]) : u.chunks;
    struct config config;
    struct workbench bench;
    struct space own = *space;
    own.zero = only(u.zero < 0 ? 0 : u.zero);
    own.recompute = only(u.recompute < 0 ? RECOMPUTE_NONE : u.recompute);
    own.offload = only(u.offload < 0 ? OFFLOAD_NONE : u.offload);
    own.replicate = only(max_i64(0, u.replicate));
    own.reshard = only(u.reshard < 0 ? RESHARD_EACH_PASS : u.reshard);
    own.slices = only(max_i64(1, u.slices));
    own.shard_group = only(max_i64(0, u.shard_group));
    struct allowed groups = space_any_layer(&own, LAYER_HSDP);
    for (int i = 0; i < groups.count; i++)
        u.shard_group = (int)max_i64(u.shard_group, groups.values[i]); /* of some layers; the others shard over all */
    if (!fill_degrees(&u, facts->cluster->device_count, err) || !workbench_open(&bench, model, facts, &own, err))
        return false;
    bool good = make_config(&config, &u, &own, bench.graph, err) && build(out, &config, &bench, err);
    workbench_close(&bench);
    return good;
}
