#include "planner/search/baseline.h"
#include "base/num.h"
#include "planner/search/assemble.h"
#include "planner/search/workbench.h"
#include <string.h>

const char *const baseline_names[5] = { "data", "zero3", "tensor", "pipeline", NULL };

struct uniform uniform_unset(void)
{
    return (struct uniform){ .pipeline = -1,
                             .tensor = -1,
                             .data = -1,
                             .zero = -1,
                             .recompute = -1,
                             .schedule = -1,
                             .prefetch = -1,
                             .micro = -1 };
}

/* The largest divisor of n up to `most` that `fits` accepts; at least 1. */
static int largest_divisor(int n, int most, const struct graph *graph)
{
    for (int t = (int)min_i64(n, most); t > 1; t--)
        if (n % t == 0 && (!graph || tensor_legal(graph, t)))
            return t;
    return 1;
}

bool uniform_named(struct uniform *out, const char *name, const struct graph *graph, const struct cluster *cluster)
{
    struct uniform u = uniform_unset();
    int devices = cluster->device_count, node = cluster_node_size(cluster);
    u.pipeline = u.tensor = 1;
    if (!strcmp(name, "zero3"))
        u.zero = 3;
    else if (!strcmp(name, "tensor"))
        u.tensor = largest_divisor(devices, node, graph);
    else if (!strcmp(name, "pipeline"))
        u.pipeline =
            largest_divisor(devices, (int)min_i64(graph->layer_count, devices > node ? devices / node : devices), NULL);
    else if (strcmp(name, "data") != 0)
        return false;
    *out = u;
    return true;
}

static bool fill_degrees(struct uniform *u, int devices, struct error *err)
{
    int64_t known = 1;
    int *degrees[] = { &u->pipeline, &u->tensor, &u->data }, *missing = NULL;
    for (int i = 0; i < 3; i++) {
        if (*degrees[i] >= 1)
            known *= *degrees[i];
        else if (i == 2 || missing == NULL)
            missing = degrees[i];
    }
    if (known > devices || devices % known != 0 || (!missing && known != devices))
        return fail(
            err,
            "plan: the degrees multiply to %lld, which is not%s the cluster's %d devices; expected pp x tp x dp = %d",
            (long long)known, missing ? " a divisor of" : "", devices, devices);
    for (int i = 0; i < 3; i++)
        if (*degrees[i] < 1)
            *degrees[i] = degrees[i] == missing ? devices / (int)known : 1;
    return true;
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
    if (u->pipeline > graph->layer_count)
        return fail(err, "plan: %d stages, but model %s has %d layers", u->pipeline, graph->model_name,
                    graph->layer_count);
    if (space->batch % unit != 0)
        return fail(err,
                    "plan: batch %lld: expected a multiple of %lld (data-parallel degree %d times micro-batch %lld); "
                    "the nearest valid "
                    "sizes are %lld and %lld",
                    (long long)space->batch, (long long)unit, u->data, (long long)micro,
                    (long long)max_i64(unit, space->batch / unit * unit), (long long)round_up(space->batch, unit));
    *out = (struct config){ .stages = u->pipeline,
                            .micro = micro,
                            .schedule = u->schedule < 0 ? 0 : u->schedule,
                            .prefetch = u->prefetch < 0 ? 1 : u->prefetch,
                            .reversed = u->reversed,
                            .micro_batch_count = (int)(space->batch / unit) };
    out->mesh = mesh_none();
    mesh_add(&out->mesh, u->data, DIM_dp);
    mesh_add(&out->mesh, u->tensor, u->sequence_parallel && u->tensor > 1 ? DIM_tp_sp : DIM_tp);
    return true;
}

/* Stages balanced by the compute path of their layers, on each stage's own devices. */
static bool balance(struct plan *plan, const struct workbench *bench, const struct price_table *table,
                    struct error *err)
{
    struct arena scratch = { 0 };
    int layers = plan->layer_count;
    int64_t *weight = arena_alloc(&scratch, (size_t)plan->stage_count * (size_t)layers, sizeof *weight);
    int *first = arena_alloc(&scratch, (size_t)plan->stage_count, sizeof *first);
    bool good = weight && first;
    for (int k = 0; good && k < plan->stage_count; k++)
        for (int l = 0; l < layers; l++) {
            const struct layer_price *p = price_at(price_of_stage(table, k), bench->chain.class_of[l], 0);
            weight[k * layers + l] = p->forward_ns + p->backward_ns;
        }
    if (good)
        balance_stages(weight, layers, layers, plan->stage_count, first);
    for (int k = 0; good && k < plan->stage_count; k++) {
        plan->stages[k].first_layer = first[k];
        plan->stages[k].layer_count = (k + 1 < plan->stage_count ? first[k + 1] : plan->layer_count) - first[k];
    }
    arena_free(&scratch);
    return good || fail_kind(err, ERROR_ENVIRONMENT, "plan: out of memory");
}

static bool build(struct plan **out, const struct uniform *u, const struct config *config, struct workbench *bench,
                  struct error *err)
{
    const struct price_table *table = NULL;
    struct plan *plan = plan_from_config(bench->space, config, bench->graph);
    bool good = plan ? workbench_table(bench, config, false, &table, err)
                     : fail_kind(err, ERROR_ENVIRONMENT, "plan: out of memory");
    for (int l = 0; good && l < plan->layer_count; l++) {
        plan->layers[l].zero = (int8_t)(u->zero < 0 ? 0 : u->zero);
        plan->layers[l].recompute = (int8_t)(u->recompute < 0 ? RECOMPUTE_NONE : u->recompute);
    }
    if (good && table)
        good = balance(plan, bench, table, err);
    if (good)
        *out = plan;
    else
        plan_free(plan);
    return good;
}

bool uniform_plan(struct plan **out, const struct uniform *uniform, const struct space *space,
                  const struct model *model, const struct facts *facts, struct error *err)
{
    struct uniform u = *uniform;
    struct config config;
    struct workbench bench;
    struct space own = *space;
    own.zero = (struct allowed){ 1, { u.zero < 0 ? 0 : u.zero } };
    own.recompute = (struct allowed){ 1, { u.recompute < 0 ? RECOMPUTE_NONE : u.recompute } };
    if (!fill_degrees(&u, facts->cluster->device_count, err) || !workbench_open(&bench, model, facts, &own, err))
        return false;
    bool good = make_config(&config, &u, &own, bench.graph, err) && build(out, &u, &config, &bench, err);
    workbench_close(&bench);
    return good;
}
