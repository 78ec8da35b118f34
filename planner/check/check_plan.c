/* The plans of a certificate: the one that it is of, and the formula's best. */
#include "base/num.h"
#include "planner/check/check_parts.h"
#include "planner/program/schedule.h"
#include "planner/space/config_name.h"
#include "planner/estimate/estimate.h"
#include <string.h>

/* True when both are alike outside. Replicas of a stage lie in their own order also where stages lie in reverse. */
static bool same_outside(const struct plan *plan, const struct config *config)
{
    const int64_t pairs[][2] = { { plan->stage_count, config_meshes(config) },
                                 { plan->chunk_count, config_chunks(config) },
                                 { plan->micro_batch_count, config->micro_batch_count },
                                 { plan->extra_in_flight, config->extra },
                                 { plan->bucket_bytes, config->bucket_bytes },
                                 { plan->loss_chunks, config_loss_chunks(config) },
                                 { plan->schedule, plan->stage_count == 1 ? plan->schedule : config->schedule } };
    bool same = pairs_equal(pairs, sizeof pairs / sizeof *pairs);
    int all = config_meshes(config) * mesh_ranks(&config->mesh), before = 0;
    for (int k = 0; same && k < plan->stage_count; before += plan_stage_rank_count(plan, k++)) {
        int ranks = plan_stage_rank_count(plan, k), turn = plan->stages[k].turn, replicas = plan_stage_turns(plan, k),
            first = group_order_rank(&config->order, before - turn * ranks, replicas * ranks) + turn * ranks;
        same = plan->stages[k].first_rank == first && (turn == 0 || config->meshes > 0);
    }
    return same && before == all;
}

/* Lists the plan's stages, and where they may have several meshes which of the configuration's numbers of them each
 * has: first and shape (meshes of the configuration). 0: the configuration, or a cut by hand, has no such stages. */
static int list_stages(const struct plan *plan, const struct config *config, const int *cut, int *first, int *shape)
{
    int count = 0;
    if (config->meshes == 0) {
        for (; count < config_pieces(config); count++)
            first[count] = plan_stage_chunk(plan, config_stage(config, count), count / config->stages).first;
        for (int k = 0; cut && k < count; k++)
            if (plan->order || first[k] != cut[k])
                return 0;
        return count;
    }
    for (int k = 0; k < plan->stage_count; k += plan_stage_turns(plan, k)) {
        int i = 0;
        while (i < config->shape_count && plan_stage_turns(plan, k) != config->turns[i])
            i++;
        if (i == config->shape_count)
            return 0;
        first[count] = plan->stages[k].first_layer;
        shape[count++] = i;
    }
    return config->stages == 0 || config->stages == count ? count : 0;
}

/* Makes the plan in the configuration's atoms, which the search joins where no layer tells them apart; NULL: it is of
 * another one. */
static bool plan_in(struct checker *c, const struct config *config, const struct plan *joined, struct plan **out)
{
    int64_t words = c->bench.graph->vocab_size; /* padded alike, whatever the multiple */
    *out = NULL;
    if (!same_outside(joined, config) ||
        round_up(words, joined->vocab_multiple) != round_up(words, config_vocab_multiple(config, c->bench.graph)))
        return true;
    struct plan *plan = plan_copy(joined);
    if (!plan)
        return fail_memory(c->err);
    if (plan_split_atoms(plan, config->mesh.atom_count, config->mesh.size))
        *out = plan;
    else
        plan_free(plan);
    return true;
}

/* Bounds give each chunk its share of a device's memory, but a plan may share it out otherwise. */
static bool share_devices(struct checker *c, const struct config *config, struct arena *arena,
                          struct cut_problem *problem)
{
    if (!config_shares_devices(config))
        return true;
    int *device_of = arena_alloc(arena, (size_t)problem->stage_count, sizeof *device_of);
    problem->held_bytes = arena_alloc(arena, (size_t)config->stages, sizeof *problem->held_bytes);
    if (!device_of || !problem->held_bytes)
        return fail_memory(c->err);
    for (int k = 0; k < problem->stage_count; k++)
        device_of[k] = config_stage(config, k);
    problem->device_of = device_of;
    problem->device_bytes = c->claim->memory_bytes;
    return true;
}

/* Gives the plan's value by the formula with one configuration's prices; INT64_MAX when it has none for a layer, or the
 * plan does not fit. */
static bool plan_value(struct checker *c, const struct config *config, const struct plan *plan, int64_t *value_ns)
{
    const struct price_table *table = NULL;
    struct arena arena = { 0 };
    struct cut_problem problem;
    size_t most = (size_t)(config->meshes > 0 ? config->meshes : config_pieces(config));
    int *first = arena_alloc(&arena, most, sizeof *first), *shape = arena_alloc(&arena, most, sizeof *shape),
        *strategy = arena_alloc(&arena, (size_t)plan->layer_count, sizeof *strategy),
        *class_of = arena_alloc(&arena, (size_t)plan->layer_count, sizeof *class_of);
    bool good = first && shape && strategy && class_of ? workbench_table(&c->bench, config, false, &table, c->err)
                                                       : fail_memory(c->err);
    *value_ns = INT64_MAX;
    int stages = good ? list_stages(plan, config, c->bench.chain.cut, first, shape) : 0;
    bool fits = table != NULL && stages > 0;
    for (int l = 0; good && fits && l < plan->layer_count; l++) {
        strategy[l] = price_strategy(price_of_plan_stage(table, plan, plan_stage_of_layer(plan, l)), &plan->layers[l]);
        fits = strategy[l] >= 0;
    }
    if (good && fits &&
        (good = check_problem(c, config, table, &arena, &problem) && share_devices(c, config, &arena, &problem))) {
        value_set_order(&problem, plan->order, class_of);
        *value_ns = value_of_cut(&problem, stages, first, config->meshes > 0 ? shape : NULL, strategy);
    }
    arena_free(&arena);
    return good;
}

/* Simulates the plan as the search did that the file is of: as far as the file claims where time was over. paced: what
 * further micro-batches take is simulated, not priced. */
static bool simulate_as(struct checker *c, const struct model *model, const struct graph *graph,
                        const struct config *config, const struct plan *plan, bool paced, int64_t *step_ns)
{
    struct estimate *estimate = NULL;
    const struct price_table *table = NULL;
    const struct json *few = c->claim->predicted ? json_member(c->claim->predicted, "micro_batches_simulated") : NULL;
    int64_t count = -1;
    bool claimed = few && json_int(few, 0, INT64_MAX, &count, NULL);
    bool good =
        workbench_table(&c->bench, config, false, &table, c->err) &&
        (paced ? estimate_plan_paced(&estimate, NULL, model, graph, plan, c->facts, INT64_MAX, c->err)
               : estimate_plan_steady(&estimate, model, graph, plan, &c->bench.chain, table, c->facts, INT64_MAX,
                                      c->err)) &&
        ((claimed && count == estimate->micro_batches_simulated) ||
         estimate_whole(&estimate, model, graph, plan, c->facts, c->err)) &&
        estimate_settle(estimate, model, plan, c->facts, c->err);
    if (good) {
        *step_ns = estimate->prediction.step_ns;
        good = estimate->prediction.fits ||
               fail_kind(c->err, ERROR_GATE,
                         "the certificate does not hold: the plan does not fit into the devices' memory");
    }
    good = good && (!c->claim->predicted ||
                    c->claim->predicted_holds(c->claim->predicted, plan, &estimate->prediction, c->err));
    estimate_free(estimate);
    return good;
}

static bool simulate_plan(struct checker *c, const struct model *model, const struct config *config,
                          const struct plan *plan, int64_t *step_ns)
{
    struct graph *graph = NULL;
    struct error *err = c->err, why[2] = { 0 };
    bool good = plan_graph(&graph, model, plan, err) && plan_check(plan, graph, err), holds = false;
    for (int paced = 0; good && !holds && paced < 2; paced++) { /* as searches for frameworks tell long steps */
        c->err = &why[paced];
        holds = simulate_as(c, model, graph, config, plan, paced, step_ns);
        good = why[paced].kind == ERROR_GATE || holds;
    }
    c->err = err;
    graph_free(graph);
    return holds || (why[0].kind != ERROR_NONE && fail_with(err, &why[0]));
}

/* What is known of the plan after some configurations. */
struct plan_search {
    int64_t found_ns; /* its least value by the formula; INT64_MAX: it is of none of them */
    bool as_claimed, simulated;
};

static bool try_config(struct checker *c, const struct model *model, const struct config *config, struct plan_search *s,
                       int64_t *step_ns)
{
    struct plan *plan = NULL;
    int64_t value_ns = INT64_MAX;
    bool good = plan_in(c, config, c->plan, &plan) && (!plan || plan_value(c, config, plan, &value_ns));
    if (good && value_ns < INT64_MAX) {
        s->found_ns = min_i64(s->found_ns, value_ns);
        s->as_claimed = s->as_claimed || value_ns == c->claim->formula_ns;
        if (!s->simulated && config->prefetch == plan->prefetch) {
            s->simulated = true;
            good = simulate_plan(c, model, config, plan, step_ns);
        }
    }
    plan_free(plan);
    return good;
}

/* Checks that the plan's value by the formula is what the certificate says, with the prices of a configuration that it
 * is of: without ZeRO-3 it is of every prefetch. */
bool check_plan(struct checker *c, const struct model *model, int64_t *step_ns)
{
    struct plan_search s = { .found_ns = INT64_MAX };
    for (int i = 0; i < c->config_count; i++)
        if (!try_config(c, model, &c->configs[i], &s, step_ns))
            return false;
    for (int i = 0; i < c->unbounded_count; i++)
        if (!try_config(c, model, &c->unbounded[i], &s, step_ns))
            return false;
    if (s.found_ns == INT64_MAX)
        return fail_kind(c->err, ERROR_GATE,
                         "the certificate does not hold: the plan is of no configuration of its space, or does not fit "
                         "by the formula");
    if (!s.as_claimed)
        return fail_kind(c->err, ERROR_GATE,
                         "the certificate does not hold: by the formula the plan takes %lld ns, not %lld ns",
                         (long long)s.found_ns, (long long)c->claim->formula_ns);
    return s.simulated ||
           fail_kind(c->err, ERROR_GATE, "the certificate does not hold: the plan's prefetch is not in its space");
}

/* ---- the formula's best ---- */

static const struct config *find_config(const struct checker *c, const char *wanted)
{
    char name[CONFIG_NAME_BYTES];
    for (int i = 0; i < c->config_count; i++)
        if (strcmp(config_name(name, &c->configs[i]), wanted) == 0)
            return &c->configs[i];
    for (int i = 0; i < c->unbounded_count; i++) /* where no plan of the others fits */
        if (strcmp(config_name(name, &c->unbounded[i]), wanted) == 0)
            return &c->unbounded[i];
    return NULL;
}

/* Checks that it is legal for the model, and like the certificate's plan and of the configuration beside its price. */
static bool check_settings(struct checker *c, const struct model *model, const struct config *config,
                           const struct plan *plan)
{
    const struct plan *like = c->plan;
    struct graph *graph = NULL;
    const int64_t pairs[][2] = { { plan->batch, like->batch },
                                 { plan->sequence, like->sequence },
                                 { plan->dtype, like->dtype },
                                 { plan->extra_in_flight, config->extra },
                                 { plan->bucket_bytes, config->bucket_bytes },
                                 { plan->prefetch, config->prefetch },
                                 { plan->vocab_multiple, workbench_key(&c->bench, config, 0, false).vocab_multiple } };
    if (!pairs_equal(pairs, sizeof pairs / sizeof *pairs) || plan->clip_norm != like->clip_norm ||
        !optimizer_equal(&plan->optimizer, &like->optimizer))
        return fail_kind(c->err, ERROR_GATE,
                         "the certificate does not hold: the settings of its best_plan are not those of %s",
                         c->claim->best);
    bool good = plan_graph(&graph, model, plan, c->err) && plan_check(plan, graph, c->err);
    graph_free(graph);
    return good;
}

/* Tells whether the plan is one of the configuration and as short by the formula as is claimed of the best. */
static bool is_best(struct checker *c, const struct config *config, const struct plan *shown, bool *out)
{
    struct plan *plan = NULL;
    int64_t value_ns = INT64_MAX;
    bool good = plan_in(c, config, shown, &plan) && (!plan || plan_value(c, config, plan, &value_ns));
    plan_free(plan);
    *out = good && value_ns == c->claim->best_ns;
    return good;
}

/* Looks for one as short as best_ns, but for the tolerance. */
static bool look_for_best(struct checker *c, const struct config *config)
{
    const struct price_table *table = NULL;
    struct arena arena = { 0 };
    struct cut_problem problem;
    enum cut_verdict verdict = CUT_HOLDS;
    int64_t witness_ns = 0;
    if (!workbench_table(&c->bench, config, false, &table, c->err))
        return false;
    bool good = table && check_problem(c, config, table, &arena, &problem) &&
                phases_check(&problem, c->claim->best_ns + c->claim->best_ns / TOLERANCE_PARTS + 1, &verdict,
                             &witness_ns, c->err);
    arena_free(&arena);
    if (good && verdict == CUT_HOLDS)
        return fail_kind(
            c->err, ERROR_GATE,
            "the certificate does not hold: it says that a plan of %s takes %lld ns by the formula, but none does",
            c->claim->best, (long long)c->claim->best_ns);
    return good;
}

bool check_best(struct checker *c, const struct model *model)
{
    const struct config *config = find_config(c, c->claim->best);
    const struct plan *shown = c->claim->best_plan;
    bool found = false;
    if (!config)
        return fail_kind(c->err, ERROR_GATE,
                         "the certificate does not hold: its best configuration, %s, is not in the space",
                         c->claim->best);
    if (shown)
        return check_settings(c, model, config, shown) && is_best(c, config, shown, &found) &&
               (found || fail_kind(c->err, ERROR_GATE,
                                   "the certificate does not hold: by the formula its best_plan is none of %s that "
                                   "takes %lld ns",
                                   c->claim->best, (long long)c->claim->best_ns));
    if (c->claim->best_ns != c->claim->formula_ns && c->claim->version >= 3)
        return fail_kind(c->err, ERROR_GATE,
                         "the certificate does not hold: it shows no best_plan, so the plan's own %lld ns by the "
                         "formula should be its best_ns, and it says %lld ns",
                         (long long)c->claim->formula_ns, (long long)c->claim->best_ns);
    return is_best(c, config, c->plan, &found) && (found || look_for_best(c, config));
}
