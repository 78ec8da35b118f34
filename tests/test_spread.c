/* Stages of several meshes that share each micro-batch, and what more choices do to the plan that is found. */
#include "planner/check/check.h"
#include "planner/estimate/assemble.h"
#include "planner/estimate/pipeline.h"
#include "planner/space/space_choice.h"
#include "planner/tables/types.h"
#include "planner/tables/workbench.h"
#include "tests/simulated_step.h"
#include "tests/toy_world.h"
#include "tests/written_claim.h"
#include "tests/zoo_search.h"

static void certificate_holds(const char *model_name, const char *cluster_text, const struct space *space,
                              const struct search_result *result)
{
    struct model *model = model_of_zoo(model_name);
    struct cluster *cluster = cluster_open(cluster_text);
    struct facts facts = { .cluster = cluster };
    struct check_report report;
    struct error err = { 0 };
    struct written_claim written = written_claim_open(result, space);
    ck_assert_msg(certificate_check(&report, &written.claim, model, &facts, result->plans[0].plan, NULL, NULL, &err),
                  "%s on %s: %s", model_name, cluster_text, err.message);
    written_claim_close(&written);
    cluster_free(cluster);
    model_free(model);
}

/* Others beside them may do as well without different numbers of devices. */
static struct space bounded_space(int64_t batch)
{
    struct space space = space_default(batch, 0, DTYPE_BF16);
    only_bounded(&space);
    return space;
}

static struct space spread_space(int64_t batch)
{
    struct space space = bounded_space(batch);
    space.spread = (struct allowed){ 3, { 1, 2, 4 } };
    return space;
}

/* ---- prices ---- */

static bool same_price(const struct layer_price *a, const struct layer_price *b)
{
    return memcmp(a, b, sizeof *a) == 0; /* nothing but int64_t */
}

/* Ranks that have different parts of what a stage hands on: those of tensor parallelism where it shares out tokens. */
static int64_t boundary_ranks(const struct config *config, int turn)
{
    struct config own = config_of_spread(config, turn);
    int ranks = 1;
    for (int i = 0; i < own.mesh.atom_count; i++)
        ranks *= own.mesh.dim[i] == DIM_tp ? 1 : own.mesh.size[i];
    return ranks;
}

/* Every price of a stage of so many meshes is that of a strategy of the stage's own mesh, which decides the same as far
 * as there is something to shard. Returns the number of prices. */
static int compare_tables(struct workbench *bench, const struct config *config, int turn,
                          const struct price_table *table)
{
    struct config own = config_of_spread(config, turn);
    const struct price_table *of_mesh = NULL, *of_stage = table->by_turns[turn];
    struct error err = { 0 };
    ck_assert(workbench_type_table(bench, &own, 0, false, &of_mesh, &err) && of_mesh);
    ck_assert_int_eq(of_stage->strategy_count, table->strategy_count);
    for (int i = 0; i < table->strategy_count; i++) {
        struct plan_layer wanted = table->strategies[i].layer, found = of_stage->strategies[i].layer;
        int at = price_strategy(of_mesh, &found);
        ck_assert_int_ge(at, 0);
        if (mesh_shards(&own.mesh) == 1)
            wanted.zero = 0;
        ck_assert(plan_layer_equal(&wanted, &found));
        for (int c = 0; c < table->class_count; c++) {
            ck_assert(same_price(price_at(of_stage, c, i), price_at(of_mesh, c, at)));
            ck_assert_int_le(price_at(table, c, i)->forward_ns, price_at(of_stage, c, i)->forward_ns);
        }
    }
    ck_assert_int_eq(of_stage->send_bytes * boundary_ranks(config, turn),
                     table->by_turns[0]->send_bytes * boundary_ranks(config, 0));
    return table->strategy_count * table->class_count;
}

/* The number of prices compared, and of stages with more tensor-parallel ranks than others of their configuration. */
static int compare_all(const struct model *model, const struct facts *facts, const struct space *space, int *wider)
{
    struct workbench bench;
    struct config *configs = NULL;
    struct arena arena = { 0 };
    struct error err = { 0 };
    int count = 0, compared = 0;
    ck_assert(workbench_open(&bench, model, facts, space, &err));
    ck_assert(space_configs(&configs, &count, &arena, space, bench.graph, facts->cluster, &err));
    for (int i = 0; i < count; i++) {
        const struct price_table *table = NULL;
        if (!configs[i].spread)
            continue;
        ck_assert(workbench_table(&bench, &configs[i], false, &table, &err) && table);
        for (int turn = 0; turn < configs[i].turn_count; turn++) {
            compared += compare_tables(&bench, &configs[i], turn, table);
            *wider += configs[i].tensor_times[turn] > configs[i].tensor_times[0];
        }
    }
    workbench_close(&bench);
    arena_free(&arena);
    return compared;
}

START_TEST(prices_are_those_of_the_stage)
{
    struct world world = world_open("1x6:toy", 1 << 30, 2);
    struct space space = spread_space(12);
    int wider = 0;
    ck_assert_int_gt(compare_all(world.model, &world.facts, &space, &wider), 1000);
    ck_assert_int_eq(wider, 0);
    world_close(&world);
}
END_TEST

START_TEST(prices_are_those_of_the_stages_own_degrees)
{
    struct model *model = model_of_zoo("tiny-gpt");
    struct cluster *cluster = cluster_open("1x6:a100-sxm-80");
    struct facts facts = { .cluster = cluster };
    struct space space = spread_space(8);
    space.spread_tensor = space.spread;
    int wider = 0;
    ck_assert_int_gt(compare_all(model, &facts, &space, &wider), 1000);
    ck_assert_int_gt(wider, 100);
    cluster_free(cluster);
    model_free(model);
}
END_TEST

/* What replicas exchange at the end comes on top of a replica's own. */
static void compare_replica(const struct layer_price *price, const struct layer_price *own, int replicas)
{
    struct layer_price alone = *price;
    ck_assert(replicas > 1 ? price->step_ns >= own->step_ns : price->step_ns == own->step_ns);
    alone.step_ns = own->step_ns;
    ck_assert(same_price(&alone, own));
}

/* On several types each place has the prices of the types on which such a stage would really lie. */
static int compare_places(struct workbench *bench, const struct config *config, const struct price_table *table)
{
    int compared = 0, ranks = mesh_ranks(&config->mesh);
    struct error err = { 0 };
    for (int before = 0; before < config->meshes; before++)
        for (int turn = 0; turn < config->turn_count; turn++) {
            struct config own = config->spread ? config_of_spread(config, turn) : *config;
            int meshes = config->turns[turn],
                first = config->order.index == REVERSED_ORDER ? config->meshes - before - meshes : before;
            const struct price_table *at = table->by_place[before * config->turn_count + turn], *of_types = NULL;
            ck_assert_int_eq(at != NULL, before + meshes <= config->meshes);
            if (!at)
                continue;
            unsigned types = cluster_types(bench->facts->cluster, first * ranks, meshes * ranks);
            ck_assert(types_stage_table(bench, &own, types, false, &of_types, &err) && of_types);
            int strategy = price_strategy(of_types, &at->strategies[0].layer);
            ck_assert_int_ge(strategy, 0);
            for (int c = 0; c < at->class_count; c++, compared++)
                compare_replica(price_at(at, c, 0), price_at(of_types, c, strategy), config->spread ? 1 : meshes);
            ck_assert_int_eq(at->base_bytes, of_types->base_bytes);
        }
    return compared;
}

/* Of meshes that share each micro-batch, and of replicas in turn. */
START_TEST(places_have_the_prices_of_their_types)
{
    struct model *model = model_of_zoo("tiny-gpt");
    struct cluster *cluster = cluster_open("2x1:h100-sxm+1x1:a100-sxm-80+1x1:l40s");
    struct facts facts = { .cluster = cluster };
    struct space space = _i == 0 ? spread_space(8) : space_default(8, 0, DTYPE_BF16);
    struct workbench bench;
    struct config *configs = NULL;
    struct arena arena = { 0 };
    struct error err = { 0 };
    int count = 0, compared[2] = { 0 };
    space.turns = (struct allowed){ _i == 0 ? 1 : 3, { 1, 2, 3 } };
    ck_assert(workbench_open(&bench, model, &facts, &space, &err));
    ck_assert(space_configs(&configs, &count, &arena, &space, bench.graph, cluster, &err));
    for (int i = 0; i < count; i++) {
        const struct price_table *table = NULL;
        if (configs[i].meshes == 0)
            continue;
        ck_assert(workbench_table(&bench, &configs[i], false, &table, &err) && table && table->by_place);
        compared[configs[i].order.index] += compare_places(&bench, &configs[i], table);
    }
    ck_assert_int_gt(compared[0], 100);
    ck_assert_int_eq(compared[0], compared[1]);
    workbench_close(&bench);
    arena_free(&arena);
    cluster_free(cluster);
    model_free(model);
}
END_TEST

/* ---- plans ---- */

static int64_t step_of(const struct search_result *result)
{
    ck_assert(result && result->feasible);
    return result->plans[0].estimate->prediction.step_ns;
}

/* Stages use all devices, side by side in the one direction or the other, and what a single rank could shard is not
 * called sharded. */
static void check_plan_of(const struct plan *plan, int devices)
{
    int ranks = 0;
    bool reversed = plan->stages[0].first_rank > 0;
    for (int s = 0; s < plan->stage_count; s++) {
        int own = stage_rank_count(plan, s);
        ck_assert_int_eq(plan->stages[s].first_rank, reversed ? devices - ranks - own : ranks);
        ranks += own;
        for (int l = 0; l < plan->stages[s].layer_count; l++)
            ck_assert(own > 1 || plan->layers[plan->stages[s].first_layer + l].zero == 0);
    }
    ck_assert_int_eq(ranks, devices);
    ck_assert_int_eq(plan->rank_count, devices);
}

/* Five devices do not share out 24 sequences alike: as five stages, or as meshes of one to four. */
START_TEST(odd_numbers_of_devices_are_shared_out)
{
    struct space plain = bounded_space(24), spread = spread_space(24);
    struct search_result *before = search_zoo("bert-large", "1x5:a100-sxm-80", &plain),
                         *after = search_zoo("bert-large", "1x5:a100-sxm-80", &spread);
    const struct plan *plan = after->plans[0].plan;
    ck_assert_int_lt(step_of(after), step_of(before) - step_of(before) / 10);
    ck_assert_int_lt(after->certificate.best_ns, before->certificate.best_ns);
    ck_assert_int_lt(plan->stage_count, 5);
    check_plan_of(plan, 5);
    search_result_free(before);
    search_result_free(after);
}
END_TEST

/* Of three nodes of two types a stage on the two faster ones is better than three stages. */
START_TEST(types_get_stages_of_their_own_size)
{
    if (small_share())
        return;
    struct space plain = bounded_space(96), spread = spread_space(96);
    const char *cluster = "2x8:h100-sxm+1x8:a100-sxm-80";
    struct search_result *before = search_zoo("llama-2-7b", cluster, &plain),
                         *after = search_zoo("llama-2-7b", cluster, &spread);
    const struct plan *plan = after->plans[0].plan;
    ck_assert_int_lt(after->certificate.best_ns, before->certificate.best_ns - before->certificate.best_ns / 100);
    ck_assert_int_lt(step_of(after), step_of(before));
    check_plan_of(plan, 24);
    int large = stage_rank_count(plan, 1) > stage_rank_count(plan, 0);
    ck_assert_int_eq(stage_rank_count(plan, large), 16);
    ck_assert_int_eq(plan->stages[large].first_rank, 0); /* the H100 */
    search_result_free(before);
    search_result_free(after);
}
END_TEST

static int tensor_of(const struct plan *plan, int stage)
{
    return mesh_tensor(&(struct mesh){ .atom_count = plan->atom_count,
                                       .size = { plan->stages[stage].atom[0], plan->stages[stage].atom[1] },
                                       .dim = { plan->layers[plan->stages[stage].first_layer].dim[0],
                                                plan->layers[plan->stages[stage].first_layer].dim[1] } });
}

/* Three sequences on five devices, of which the two slower ones take whole sequences in turn. */
START_TEST(types_get_replicas_in_turn)
{
    struct space plain = bounded_space(3), turns = plain;
    turns.turns = (struct allowed){ 3, { 1, 2, 3 } };
    const char *cluster = "1x3:h100-sxm+1x2:l40s";
    struct search_result *before = search_zoo("bert-large", cluster, &plain),
                         *after = search_zoo("bert-large", cluster, &turns);
    const struct plan *plan = after->plans[0].plan;
    ck_assert_int_lt(step_of(after), step_of(before) - step_of(before) / 50);
    ck_assert_int_lt(after->certificate.best_ns, before->certificate.best_ns);
    ck_assert_int_eq(plan->stage_count, 5);
    ck_assert_int_eq(stage_turns(plan, 3), 2);
    ck_assert_int_eq(plan->stages[3].first_rank, 3); /* the L40S */
    search_result_free(before);
    search_result_free(after);
}
END_TEST

/* Too few sequences for all ranks to have some: the stage on the faster devices has other degrees than the other. */
START_TEST(stages_have_tensor_degrees_of_their_own)
{
    if (small_share())
        return;
    struct space spread = spread_space(6);
    spread.spread = (struct allowed){ 4, { 1, 2, 4, 8 } };
    struct space own = spread;
    own.spread_tensor = own.spread;
    const char *cluster = "1x4:h100-sxm+1x8:a100-sxm-80";
    struct search_result *before = search_zoo("llama-2-13b", cluster, &spread),
                         *after = search_zoo("llama-2-13b", cluster, &own);
    const struct plan *plan = after->plans[0].plan;
    ck_assert_int_lt(step_of(after), step_of(before) - step_of(before) / 50);
    ck_assert_int_lt(after->certificate.best_ns, before->certificate.best_ns);
    check_plan_of(plan, 12);
    ck_assert_int_eq(plan->stage_count, 2);
    ck_assert_int_eq(plan->atom_count, 2);
    ck_assert_int_ne(tensor_of(plan, 0), tensor_of(plan, 1));
    search_result_free(before);
    search_result_free(after);
}
END_TEST

static const struct more_case {
    const char *model, *cluster;
    int64_t batch;
} more_cases[] = {
    { "gpt2", "1x3:rtx4090", 16 }, /* the first one is in every share: it is quick */
    { "llama-2-7b", "2x8:h100-sxm+1x8:a100-sxm-80", 96 },
    { "gpt2", "1x6:rtx4090", 24 },
    { "bert-large", "1x6:a100-sxm-80", 24 },
    { "llama-2-7b", "3x8:rtx4090", 64 },
    { "gpt2-xl", "3x8:a100-sxm-80", 16 },
};
enum { MORE_CASES = sizeof more_cases / sizeof *more_cases };

/* What is restricted by default, and more of it. */
static const struct more_kind {
    enum space_choice choice;
    struct allowed values;
} more_kinds[] = {
    { SPACE_TURNS, { 2, { 1, 2 } } },
    { SPACE_SPREAD, { 2, { 1, 2 } } },
    { SPACE_LAYOUTS, { 2, { 1, 2 } } },
    { SPACE_SPREAD_TP, { 2, { 1, 2 } } },
    { SPACE_HSDP, { 2, { 0, 2 } } },
    { SPACE_RECOMPUTE, { 3, { RECOMPUTE_NONE, RECOMPUTE_SELECTIVE, RECOMPUTE_FULL } } },
    { SPACE_SLICES, { 2, { 1, 2 } } },
    { SPACE_RESHARD, { 2, { RESHARD_EACH_PASS, RESHARD_EACH_STEP } } },
    { SPACE_ORDER, { 2, { ORDER_TENSOR_INSIDE, ORDER_DATA_INSIDE } } },
    { SPACE_CP, { 2, { 1, 2 } } },
    { SPACE_LOSS_CHUNKS, { 2, { 1, 8 } } },
};
enum { MORE_KINDS = sizeof more_kinds / sizeof *more_kinds };

/* Where the formula does not see all, what is allowed besides must not keep the plans that were there from being found.
 */
START_TEST(more_choices_make_no_plan_longer)
{
    const struct more_case *c = &more_cases[_i];
    if (!in_share((uint64_t)_i))
        return;
    struct space plain = space_default(c->batch, 0, DTYPE_BF16);
    struct search_result *before =
        search_zoo_to(c->model, c->cluster, &plain, 0); /* only then is the bound the optimum */
    /* of shares the cases take turns */
    const int every = small_share() ? MORE_KINDS : share_stride() > 1 ? 2 : 1;
    for (int kind = _i % every; kind < MORE_KINDS; kind += every) {
        struct space more = plain;
        *space_allowed(&more, more_kinds[kind].choice) = more_kinds[kind].values;
        if (more_kinds[kind].choice == SPACE_SPREAD_TP)
            more.spread = more.spread_tensor;
        struct search_result *after = search_zoo_to(c->model, c->cluster, &more, 0);
        ck_assert_msg(step_of(after) <= step_of(before), "%s on %s, %s: %lld ns, without %lld", c->model, c->cluster,
                      space_choice_names[more_kinds[kind].choice], (long long)step_of(after),
                      (long long)step_of(before));
        ck_assert_int_le(after->certificate.bound_ns, before->certificate.bound_ns);
        ck_assert_int_ge(after->certificate.formula_ns, after->certificate.bound_ns);
        search_result_free(after);
    }
    search_result_free(before);
}
END_TEST

/* ---- two stages of any shapes ---- */

/* Data- and tensor-parallel ranks of two stages; on links so slow that the value between them counts. permille: how
 * far the walk may be off. */
static const struct shapes_case {
    int data[2], tensor[2];
    int64_t permille;
} shapes_cases[] = {
    { { 1, 4 }, { 4, 1 }, 5 },  { { 4, 1 }, { 1, 4 }, 10 }, { { 2, 4 }, { 2, 1 }, 12 }, { { 4, 2 }, { 1, 2 }, 5 },
    { { 2, 4 }, { 1, 1 }, 25 }, { { 4, 2 }, { 1, 1 }, 5 },  { { 1, 1 }, { 2, 4 }, 5 },  { { 4, 4 }, { 1, 1 }, 15 },
};
enum { SHAPES_CASES = sizeof shapes_cases / sizeof *shapes_cases };

static struct space shapes_space(const struct shapes_case *c)
{
    struct space space = space_default(128, 0, DTYPE_BF16);
    struct allowed one = { 1, { 1 } }, none = { 1, { 0 } };
    space.pipeline = (struct allowed){ 1, { 2 } };
    space.recompute = space.sequence_parallel = space.zero = none;
    space.tensor = space.data = space.prefetch = one;
    space.micro = (struct allowed){ 1, { 128 } };
    space.schedule = (struct allowed){ 1, { schedule_find("1f1b") } };
    space.spread_tensor = (struct allowed){ 2, { c->tensor[0], c->tensor[1] } };
    space.spread = (struct allowed){ 2, { c->data[0] * c->tensor[0], c->data[1] * c->tensor[1] } };
    space.clip_norm = 0;
    return space;
}

static int turn_of(const struct config *config, int data, int tensor)
{
    for (int i = 0; i < config->turn_count; i++)
        if (config->turns[i] == data * tensor && config->tensor_times[i] == tensor)
            return i;
    return -1;
}

/* The case's plan in the configuration that has both shapes; NULL: it has not. */
static struct plan *plan_of_shapes(const struct workbench *bench, const struct space *space,
                                   const struct config *config, const struct price_table *table,
                                   const struct shapes_case *c)
{
    int classes = bench->chain.class_count, layers = bench->chain.layer_count, first[2] = { 0, layers / 2 },
        turn[2] = { turn_of(config, c->data[0], c->tensor[0]), turn_of(config, c->data[1], c->tensor[1]) };
    struct arena arena = { 0 };
    int block = classes * table->strategy_count, *count = arena_alloc(&arena, (size_t)(2 * block), sizeof *count);
    struct partition_plan solution = { .first_layer = first, .stage_count = 2, .turn = turn };
    for (int l = 0; l < layers; l++)
        count[((l >= first[1]) * classes + bench->chain.class_of[l]) * table->strategy_count]++;
    ck_assert(partition_set_counts(&solution, &arena, count, 2, block));
    struct plan *plan = turn[0] < 0 || turn[1] < 0
                            ? NULL
                            : plan_from_partition(space, config, bench->graph, &bench->chain, table, &solution);
    arena_free(&arena);
    return plan;
}

/* The walk, by which plans are ranked, knows what passes between stages that share out a value in different ways, in
 * both directions. */
START_TEST(the_walk_knows_sends_between_shapes)
{
    const struct shapes_case *c = &shapes_cases[_i];
    if (!in_share((uint64_t)_i))
        return;
    char form[64];
    snprintf(form, sizeof form, "1x%d:l40s", c->data[0] * c->tensor[0] + c->data[1] * c->tensor[1]);
    struct model *model = model_of_zoo("gpt2");
    struct cluster *cluster = cluster_open(form);
    struct facts facts = { .cluster = cluster };
    struct space space = shapes_space(c);
    struct workbench bench;
    struct config *configs = NULL;
    struct arena arena = { 0 };
    struct error err = { 0 };
    int count = 0, tried = 0;
    ck_assert(workbench_open(&bench, model, &facts, &space, &err));
    ck_assert(space_configs(&configs, &count, &arena, &space, bench.graph, cluster, &err));
    for (int i = 0; i < count; i++) {
        const struct price_table *table = NULL;
        int64_t walked_ns = 0;
        ck_assert(configs[i].spread && workbench_table(&bench, &configs[i], false, &table, &err) && table);
        struct plan *plan = plan_of_shapes(&bench, &space, &configs[i], table, c);
        if (!plan)
            continue;
        int64_t step_ns = simulated_step_ns(form, model, plan, &facts);
        ck_assert(pipeline_step_ns(&walked_ns, plan, &bench.chain, table, &facts, plan->micro_batch_count, &err));
        ck_assert_msg(1000 * llabs(walked_ns - step_ns) < c->permille * step_ns, "%s: walk %lld ns, simulation %lld ns",
                      form, (long long)walked_ns, (long long)step_ns);
        tried++;
        plan_free(plan);
    }
    ck_assert_int_gt(tried, 0);
    workbench_close(&bench);
    arena_free(&arena);
    cluster_free(cluster);
    model_free(model);
}
END_TEST

/* ---- configurations that are alike but for their shapes ---- */

static const struct alike_case {
    const char *model, *cluster;
    int64_t batch;
    struct allowed spread, spread_tensor, sequence_parallel;
} alike_cases[] = {
    { "tiny-gpt", "1x12:l40s", 8, { 2, { 2, 4 } }, { 3, { 1, 2, 4 } }, { 0, { 0 } } }, /* equal ends, other shapes */
    { "tiny-gpt", "1x8:l40s", 6, { 3, { 1, 2, 3 } }, { 2, { 1, 2 } }, { 1, { 1 } } },  /* alone, tp is not sp */
    { "tiny-gpt", "1x8:l40s", 3, { 2, { 1, 2 } }, { 1, { 2 } }, { 0, { 0 } } },        /* no shape without */
};
enum { ALIKE_CASES = sizeof alike_cases / sizeof *alike_cases };

/* Whatever shapes are allowed: the plan is of its space, and no longer than without them where one mesh is. */
START_TEST(every_space_has_its_own_prices)
{
    const struct alike_case *c = &alike_cases[_i];
    if (small_share() && !in_share((uint64_t)_i))
        return;
    struct space plain = space_default(c->batch, 0, DTYPE_BF16), space = plain;
    space.spread = c->spread, space.spread_tensor = c->spread_tensor, space.sequence_parallel = c->sequence_parallel;
    struct search_result *result = search_zoo(c->model, c->cluster, &space);
    ck_assert_int_gt(step_of(result), 0);
    certificate_holds(c->model, c->cluster, &space, result);
    plain.sequence_parallel = c->sequence_parallel;
    struct search_result *without = search_zoo(c->model, c->cluster, &plain);
    if (allows(&space.spread, 1))
        ck_assert_int_le(step_of(result), step_of(without));
    search_result_free(without);
    search_result_free(result);
}
END_TEST

/* ---- schedules that the formula does not bound ---- */

static int64_t step_with(const struct space *space, int *schedule)
{
    struct search_result *result = search_zoo("gpt2", "3x2:rtx4090", space);
    ck_assert(result && result->feasible && result->plans[0].plan->stage_count == 4);
    int64_t step_ns = result->plans[0].estimate->prediction.step_ns;
    *schedule = result->plans[0].plan->schedule;
    certificate_holds("gpt2", "3x2:rtx4090", space, result);
    search_result_free(result);
    return step_ns;
}

/* Four stages of six devices idle less where the weights' gradients wait. */
START_TEST(other_schedules_have_stages_of_several_meshes)
{
    struct space all = space_default(24, 0, DTYPE_BF16), bounded = bounded_space(24), named = all;
    int schedule;
    all.spread = bounded.spread = named.spread = (struct allowed){ 2, { 1, 2 } };
    all.pipeline = bounded.pipeline = named.pipeline = (struct allowed){ 1, { 4 } };
    named.schedule = (struct allowed){ 1, { schedule_find("zb-h2") } };
    int64_t best_ns = step_with(&all, &schedule);
    ck_assert(!schedules[schedule]->bounded);
    ck_assert_int_lt(best_ns, step_with(&bounded, &schedule));
    ck_assert(schedules[schedule]->bounded);
    ck_assert_int_le(best_ns, step_with(&named, &schedule));
    ck_assert_int_eq(schedule, schedule_find("zb-h2"));
}
END_TEST

/* ---- refusals ---- */

static const struct refused_case {
    const char *cluster, *what;
    int64_t batch, spread;
    const char *schedule;
    int64_t spread_tensor;
} refused_cases[] = {
    { "1x4:cpu",
      "spread: the search gives stages several meshes with schedules 1f1b, gpipe, zb-h1, zb-h2; found interleaved", 8,
      2, "interleaved", 1 },
    { "1x3:cpu", "spread divides the micro-batch", 7, 2, NULL, 1 },
    { "1x3:cpu", "spread divides the micro-batch", 8, 2, NULL, 1 }, /* no two of it are three */
    { "1x4:cpu", "give spread too, as in spread=1:2:4,spread-tp=1:2:4", 8, 1, NULL, 2 },
};
enum { REFUSED_CASES = sizeof refused_cases / sizeof *refused_cases };

START_TEST(what_cannot_be_spread_is_refused)
{
    const struct refused_case *c = &refused_cases[_i];
    struct error err = { 0 };
    struct model *model = model_of_zoo("tiny-gpt");
    struct cluster *cluster = cluster_open(c->cluster);
    struct facts facts = { .cluster = cluster };
    struct search_options options = { .space = space_default(c->batch, 0, DTYPE_FP32), .top = 1, .no_advice = true };
    struct search_result *result = NULL;
    options.space.spread = (struct allowed){ 1, { c->spread } };
    options.space.spread_tensor = (struct allowed){ 1, { c->spread_tensor } };
    if (c->schedule)
        options.space.schedule = (struct allowed){ 1, { schedule_find(c->schedule) } };
    bool ran = search_run(&result, model, &facts, &options, &err); /* what does not divide is an answer */
    ck_assert(!ran || !search_infeasible(result, &options.space, &err));
    ck_assert_int_eq(err.kind, ran ? ERROR_INFEASIBLE : ERROR_INPUT);
    ck_assert_msg(strstr(err.message, c->what) != NULL, "%s", err.message);
    search_result_free(result);
    cluster_free(cluster);
    model_free(model);
}
END_TEST

static Suite *spread_suite(void)
{
    Suite *suite = suite_create("spread");
    CHECK_ADD(suite, prices_are_those_of_the_stage);
    CHECK_ADD(suite, prices_are_those_of_the_stages_own_degrees);
    CHECK_ADD_LOOP(suite, places_have_the_prices_of_their_types, 2);
    CHECK_ADD(suite, odd_numbers_of_devices_are_shared_out);
    CHECK_ADD(suite, types_get_stages_of_their_own_size);
    CHECK_ADD(suite, types_get_replicas_in_turn);
    CHECK_ADD(suite, stages_have_tensor_degrees_of_their_own);
    CHECK_ADD_LOOP(suite, more_choices_make_no_plan_longer, MORE_CASES);
    CHECK_ADD_LOOP(suite, the_walk_knows_sends_between_shapes, SHAPES_CASES);
    CHECK_ADD_LOOP(suite, every_space_has_its_own_prices, ALIKE_CASES);
    CHECK_ADD(suite, other_schedules_have_stages_of_several_meshes);
    CHECK_ADD_LOOP(suite, what_cannot_be_spread_is_refused, REFUSED_CASES);
    return suite;
}

CHECK_MAIN(spread_suite)
