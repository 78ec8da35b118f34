/* Stages whose replicas take micro-batches in turn, and what more choices do to the plan that is found. */
#include "planner/check/check.h"
#include "planner/estimate/assemble.h"
#include "planner/estimate/pipeline.h"
#include "planner/space/choice.h"
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
    ck_assert_msg(check_certificate(&report, &written.claim, model, &facts, result->plans[0].plan, NULL, NULL, &err),
                  "%s on %s: %s", model_name, cluster_text, err.message);
    written_claim_close(&written);
    cluster_free(cluster);
    model_free(model);
}

/* Others beside them may do as well without replicas in turn. */
static struct space bounded_space(int64_t batch)
{
    struct space space = space_default(batch, 0, DTYPE_BF16);
    only_bounded(&space);
    return space;
}

/* ---- prices ---- */

static bool same_price(const struct layer_price *a, const struct layer_price *b)
{
    return memcmp(a, b, sizeof *a) == 0; /* nothing but int64_t */
}

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
        for (int shape = 0; shape < config->shape_count; shape++) {
            int meshes = config->turns[shape],
                first = config->order.index == REVERSED_ORDER ? config->meshes - before - meshes : before;
            const struct price_table *at = table->by_place[before * config->shape_count + shape], *of_types = NULL;
            ck_assert_int_eq(at != NULL, before + meshes <= config->meshes);
            if (!at)
                continue;
            unsigned types = cluster_types(bench->facts->cluster, first * ranks, meshes * ranks);
            ck_assert(types_stage_table(bench, config, types, false, &of_types, &err) && of_types);
            int strategy = price_strategy(of_types, &at->strategies[0].layer);
            ck_assert_int_ge(strategy, 0);
            for (int c = 0; c < at->class_count; c++, compared++)
                compare_replica(price_at(at, c, 0), price_at(of_types, c, strategy), meshes);
            ck_assert_int_eq(at->base_bytes, of_types->base_bytes);
        }
    return compared;
}

START_TEST(places_have_the_prices_of_their_types)
{
    struct model *model = model_of_zoo("tiny-gpt");
    struct cluster *cluster = cluster_open("2x1:h100-sxm+1x1:a100-sxm-80+1x1:l40s");
    struct facts facts = { .cluster = cluster };
    struct space space = space_default(8, 0, DTYPE_BF16);
    struct workbench bench;
    struct config *configs = NULL;
    struct arena arena = { 0 };
    struct error err = { 0 };
    int count = 0, compared[2] = { 0 };
    space.turns = (struct allowed){ 3, { 1, 2, 3 } };
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
    ck_assert_int_eq(plan_stage_turns(plan, 3), 2);
    ck_assert_int_eq(plan->stages[3].first_rank, 3); /* the L40S */
    search_result_free(before);
    search_result_free(after);
}
END_TEST

static const struct more_case {
    const char *model, *cluster;
    int64_t batch;
} more_cases[] = {
    { "gpt2", "1x3:rtx4090", 16 }, /* the first one is in every share, the last one in most: they are quick */
    { "llama-2-7b", "2x8:h100-sxm+1x8:a100-sxm-80", 96 },
    { "gpt2-xl", "3x8:a100-sxm-80", 16 },
    { "bert-large", "1x6:a100-sxm-80", 24 },
    { "llama-2-7b", "3x8:rtx4090", 64 },
    { "gpt2", "1x6:rtx4090", 24 },
};
enum { MORE_CASES = sizeof more_cases / sizeof *more_cases };

/* What is restricted by default, and more of it. */
static const struct more_kind {
    enum space_choice choice;
    struct allowed values;
} more_kinds[] = {
    { CHOICE_TURNS, { 2, { 1, 2 } } },
    { CHOICE_HSDP, { 2, { 0, 2 } } },
    { CHOICE_RECOMPUTE, { 3, { RECOMPUTE_NONE, RECOMPUTE_SELECTIVE, RECOMPUTE_FULL } } },
    { CHOICE_SLICES, { 2, { 1, 2 } } },
    { CHOICE_RESHARD, { 2, { RESHARD_EACH_PASS, RESHARD_EACH_STEP } } },
    { CHOICE_ORDER, { 2, { ORDER_TENSOR_INSIDE, ORDER_DATA_INSIDE } } },
    { CHOICE_CP, { 2, { 1, 2 } } },
    { CHOICE_LOSS_CHUNKS, { 2, { 1, 8 } } },
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
    const int every = small_share() ? MORE_KINDS : share_stride() > 1 ? 4 : 1;
    for (int kind = _i % every; kind < MORE_KINDS; kind += every) {
        struct space more = plain;
        more.range[more_kinds[kind].choice] = more_kinds[kind].values;
        struct search_result *after = search_zoo_to(c->model, c->cluster, &more, 0);
        ck_assert_msg(step_of(after) <= step_of(before), "%s on %s, %s: %lld ns, without %lld", c->model, c->cluster,
                      choice_facts[more_kinds[kind].choice].name, (long long)step_of(after),
                      (long long)step_of(before));
        ck_assert_int_le(after->certificate.bound_ns, before->certificate.bound_ns);
        ck_assert_int_ge(after->certificate.formula_ns, after->certificate.bound_ns);
        search_result_free(after);
    }
    search_result_free(before);
}
END_TEST

/* ---- schedules that the formula does not bound ---- */

static int64_t step_with(const struct space *space, int *schedule)
{
    struct search_result *result = search_zoo("gpt2", "3x2:rtx4090", space);
    ck_assert(result && result->feasible && result->plans[0].plan->stage_count == 6);
    int64_t step_ns = result->plans[0].estimate->prediction.step_ns;
    *schedule = result->plans[0].plan->schedule;
    certificate_holds("gpt2", "3x2:rtx4090", space, result);
    search_result_free(result);
    return step_ns;
}

/* Four stages of six replicas idle less where the weights' gradients wait. */
START_TEST(other_schedules_have_stages_of_several_meshes)
{
    struct space all = space_default(24, 0, DTYPE_BF16), bounded = bounded_space(24), named = all;
    int schedule;
    all.turns = bounded.turns = named.turns = (struct allowed){ 2, { 1, 2 } };
    all.stages = bounded.stages = named.stages = (struct allowed){ 1, { 4 } };
    named.schedule = (struct allowed){ 1, { schedule_find("zb-h2") } };
    int64_t best_ns = step_with(&all, &schedule);
    ck_assert(!schedules[schedule]->bounded);
    ck_assert_int_lt(best_ns, step_with(&bounded, &schedule));
    ck_assert(schedules[schedule]->bounded);
    ck_assert_int_le(best_ns, step_with(&named, &schedule));
    ck_assert_int_eq(schedule, schedule_find("zb-h2"));
}
END_TEST

static Suite *turns_suite(void)
{
    Suite *suite = suite_create("turns");
    CHECK_ADD(suite, places_have_the_prices_of_their_types);
    CHECK_ADD(suite, types_get_replicas_in_turn);
    CHECK_ADD_LOOP(suite, more_choices_make_no_plan_longer, MORE_CASES);
    CHECK_ADD(suite, other_schedules_have_stages_of_several_meshes);
    return suite;
}

CHECK_MAIN(turns_suite)
