#include "planner/search/baseline.h"
#include "base/num.h"
#include "planner/estimate/assemble.h"
#include "planner/space/choice_legal.h"
#include "planner/tables/workbench.h"

/* ---- the configuration ---- */

static int64_t value_of(const struct space *space, enum space_choice choice)
{
    return space->range[choice].count == 1 ? space->range[choice].values[0] : choice_facts[choice].usual;
}

/* Chooses the degrees that are missing, data parallelism first, so that their product is the device count. */
static void fill_degrees(int64_t value[CHOICE_COUNT], const struct space *space, int devices)
{
    int64_t *missing = value[CHOICE_DP] == CHOICE_OPEN ? &value[CHOICE_DP]
                       : space->stages.count != 1      ? &value[CHOICE_PP]
                       : space->tensor.count != 1      ? &value[CHOICE_TP]
                                                       : NULL;
    if (!missing)
        return;
    *missing = 1;
    *missing = max_i64(1, devices / (value[CHOICE_TP] * value[CHOICE_CP] * value[CHOICE_PP] * value[CHOICE_DP]));
}

bool baseline_config(struct config *out, const struct space *space, bool reversed, const struct graph *graph,
                     const struct cluster *cluster, struct error *err)
{
    struct making m = making_of(space, graph, cluster);
    struct allowed groups = space_any_layer(space, CHOICE_HSDP);
    for (int choice = 0; choice < LISTED_CHOICES; choice++)
        m.value[choice] = value_of(space, (enum space_choice)choice);
    fill_degrees(m.value, space, cluster->device_count);
    m.value[CHOICE_SP] = m.value[CHOICE_SP] && m.value[CHOICE_TP] > 1;
    if (m.value[CHOICE_SP])
        m.value[CHOICE_TP_DIMENSION] = DIM_tp_sp;
    if (m.value[CHOICE_INTERLEAVE] == CHOICE_OPEN)
        m.value[CHOICE_INTERLEAVE] = schedule_least_chunks(schedules[m.value[CHOICE_SCHEDULE]]);
    for (int i = 0; i < groups.count; i++) /* of some layers; the others shard over all */
        m.value[CHOICE_HSDP] = max_i64(m.value[CHOICE_HSDP], groups.values[i]);
    for (int choice = 0; choice < LISTED_CHOICES; choice++)
        if (!choice_legal(&m, (enum space_choice)choice, err))
            return false;
    making_settle(&m);
    *out = m.config;
    if (reversed)
        out->order = group_order_reversed(out->stages * mesh_ranks(&out->mesh));
    return true;
}

/* ---- the plan ---- */

/* Gives pick[layer] the index of the one strategy of `strategies` that the space leaves that layer. */
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

/* Balances stages by the compute path of their layers on each stage's own devices, without a table by their number;
 * chunks are balanced likewise, round by round. */
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
        assemble_balance(weight, layers, layers, pieces, first);
    if (good)
        first[pieces] = layers;
    for (int k = 0; good && k < pieces; k++)
        schedule_set_piece(plan, k, (struct layer_range){ first[k], first[k + 1] - first[k] });
    arena_free(&scratch);
    return good || fail_memory(err);
}

static bool build(struct plan **out, const struct config *config, struct workbench *bench, struct error *err)
{
    const struct price_table *table = NULL;
    int count = space_strategies(bench->space, &config->mesh, NULL);
    if (count == 0)
        return fail(err, "plan: no strategy of a layer on this mesh is as zero and hsdp ask: hsdp is a number of "
                         "data-parallel ranks, at least 2, that share out a layer's shards");
    struct strategy *strategies = arena_alloc(&bench->arena, (size_t)count, sizeof *strategies);
    int *pick = arena_alloc(&bench->arena, (size_t)bench->graph->layer_count, sizeof *pick);
    struct plan *plan = assemble_config(bench->space, config, bench->graph);
    bool good = strategies && pick && plan ? workbench_table(bench, config, false, &table, err) : fail_memory(err);
    if (good) {
        space_strategies(bench->space, &config->mesh, strategies);
        good = pick_strategies(pick, strategies, count, bench, &config->mesh, err);
    }
    for (int l = 0; good && l < plan->layer_count; l++)
        plan->layers[l] = strategies[pick[l]].layer;
    if (good && bench->space->cut.count == 0 && (table || config_chunks(config) > 1))
        good = balance(plan, bench, table, pick, err);
    if (good)
        *out = plan;
    else
        plan_free(plan);
    return good;
}

bool baseline_plan(struct plan **out, const struct space *space, bool reversed, const struct model *model,
                   const struct facts *facts, struct error *err)
{
    struct config config;
    struct workbench bench;
    struct space own = *space;
    for (int choice = 0; choice < CHOICE_COUNT; choice++)
        if (choice_facts[choice].scope == SCOPE_LAYER || choice == CHOICE_HSDP || choice == CHOICE_BUCKET)
            own.range[choice] = allowed_only(value_of(space, (enum space_choice)choice));
    if (!workbench_open(&bench, model, facts, &own, err))
        return false;
    bool good =
        baseline_config(&config, &own, reversed, bench.graph, facts->cluster, err) && build(out, &config, &bench, err);
    workbench_close(&bench);
    return good;
}
