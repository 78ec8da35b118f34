/* Layers with values of their own: `layer[0-11].zero=3`. */
#include "models/model.h"
#include "planner/search/search.h"
#include "tests/check.h"
#include "tests/toy_world.h"
#include <string.h>

/* Layers with rules of their own keep them, the others theirs; a rule that all layers have is a restriction of all. */
START_TEST(rules_for_layers_are_kept)
{
    struct world world = world_open("2x4:toy", 80000000000, 3);
    struct search_options options = { .space = space_default(16, 0, DTYPE_BF16), .top = 2 };
    options.space.data = (struct allowed){ 1, { 8 } };
    options.space.zero = (struct allowed){ 2, { 0, 1 } };
    options.space.rule_count = 3;
    options.space.rules[2] =
        (struct layer_rule){ .first = 3, .last = 8, .choice = CHOICE_RESHARD, .allowed = { 1, { RESHARD_EACH_STEP } } };
    options.space.rules[0] =
        (struct layer_rule){ .first = 2, .last = 4, .choice = CHOICE_ZERO, .allowed = { 1, { 3 } } };
    options.space.rules[1] = (struct layer_rule){
        .first = 0, .last = 2, .choice = CHOICE_RECOMPUTE, .allowed = { 1, { RECOMPUTE_SELECTIVE } }
    };
    struct search_result *result = run_search(&world, &options);
    ck_assert(result->feasible);
    for (int i = 0; i < result->plan_count; i++)
        for (int l = 0; l < result->plans[i].plan->layer_count; l++) {
            const struct plan_layer *layer = &result->plans[i].plan->layers[l];
            ck_assert_msg(l >= 2 && l <= 4 ? layer->zero == 3 : layer->zero <= 1, "layer %d: ZeRO %d", l, layer->zero);
            ck_assert_msg((l == 3 || l == 4) == plan_layer_keeps_gathered(layer), "layer %d: ZeRO %d, reshard %d", l,
                          layer->zero, layer->reshard);
            ck_assert_msg((l <= 2) == (layer->recompute == RECOMPUTE_SELECTIVE), "layer %d: recompute %d", l,
                          layer->recompute);
        }
    search_result_free(result);
    options.space.rule_count = 1;
    options.space.rules[0] =
        (struct layer_rule){ .first = 0, .last = 8, .choice = CHOICE_ZERO, .allowed = { 1, { 1 } } };
    result = run_search(&world, &options);
    options.space.rule_count = 0;
    options.space.zero = (struct allowed){ 1, { 1 } };
    struct search_result *all = run_search(&world, &options);
    ck_assert_int_eq(result->certificate.bound_ns, all->certificate.bound_ns);
    ck_assert_int_eq(result->plans[0].estimate->prediction.step_ns, all->plans[0].estimate->prediction.step_ns);
    search_result_free(result);
    search_result_free(all);
    options.space.rule_count = 1;
    options.space.rules[0].last = 9;
    struct error err = { 0 };
    ck_assert(!search_run(&result, world.model, &world.facts, &options, &err));
    ck_assert_msg(strstr(err.message, "layers 0 to 8") != NULL, "%s", err.message);
    world_close(&world);
}
END_TEST

/* Degrees of some layers are those of all: a plan has one layout. */
START_TEST(degrees_of_layers_are_kept)
{
    struct world world = world_open("2x4:toy", 80000000000, 3);
    struct search_options options = { .space = space_default(16, 0, DTYPE_BF16), .top = 2, .no_advice = true };
    options.space.rules[0] = (struct layer_rule){ .first = 0, .last = 2, .choice = CHOICE_TP, .allowed = { 1, { 2 } } };
    options.space.rules[1] = (struct layer_rule){ .first = 4, .last = 6, .choice = CHOICE_TP, .allowed = { 1, { 1 } } };
    options.space.rule_count = 1;
    struct search_result *one = run_search(&world, &options);
    options.space.rule_count = 2;
    struct search_result *none = run_search(&world, &options);
    ck_assert(!none->feasible);
    options.space.rule_count = 0;
    options.space.tensor = (struct allowed){ 1, { 2 } };
    struct search_result *all = run_search(&world, &options);
    ck_assert_int_eq(one->certificate.bound_ns, all->certificate.bound_ns);
    ck_assert_int_eq(one->plans[0].estimate->prediction.step_ns, all->plans[0].estimate->prediction.step_ns);
    search_result_free(one);
    search_result_free(none);
    search_result_free(all);
    world_close(&world);
}
END_TEST

static Suite *rules_suite(void)
{
    Suite *suite = suite_create("rules");
    CHECK_ADD(suite, rules_for_layers_are_kept);
    CHECK_ADD(suite, degrees_of_layers_are_kept);
    return suite;
}

CHECK_MAIN(rules_suite)
