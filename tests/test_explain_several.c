/* Several plans beside each other: what makes two distinct, frontiers of memory and devices. */
#include "base/num.h"
#include "tests/fixed_choices.h"
#include "planner/explain/explain.h"
#include "planner/explain/explain_several.h"
#include "tests/toy_world.h"

/* ---- several plans ---- */

/* Layers of a class may swap decisions; a third of the layers, on another stage or decided otherwise, or another
 * schedule make a difference. */
START_TEST(trifles_are_trifles)
{
    struct world world = world_open("1x4:toy", 80000000000, 10); /* 23 layers */
    struct space space = space_default(8, 0, DTYPE_BF16);
    union fixed u = fixed_none();
    struct plan *a = NULL, *b = NULL;
    struct graph *graph = NULL;
    struct error err = { 0 };
    bool distinct = true;
    u.stages = 2, u.tensor = 1, u.data = 2, u.micro = 1;
    ck_assert(fixed_choices_plan(&a, &u, &space, world.model, &world.facts, &err));
    ck_assert(graph_build(&graph, world.model, 8, 0, 1, &err));
    ck_assert_int_eq(a->layer_count, 23);
    b = plan_copy(a);
    ck_assert(several_distinct(graph, a, b, &distinct, &err) && !distinct);
    for (int l = 1; l <= 7; l++)
        b->layers[l].zero = 1;
    ck_assert(several_distinct(graph, a, b, &distinct, &err) && !distinct);
    b->layers[8].zero = 1; /* eight of 23 */
    ck_assert(several_distinct(graph, a, b, &distinct, &err) && distinct);
    for (int l = 11; l <= 18; l++)
        a->layers[l].zero = 1; /* the same, elsewhere in the same classes */
    ck_assert(several_distinct(graph, a, b, &distinct, &err) && !distinct);
    b->schedule = 1;
    ck_assert(several_distinct(graph, a, b, &distinct, &err) && distinct);
    b->schedule = 0;
    a->stages[0].atom[0] = a->stages[1].atom[0] = b->stages[0].atom[0] = b->stages[1].atom[0] = 1;
    b->layers[4].zero = b->layers[9].zero = b->layers[10].zero = 3; /* nobody to share shards with */
    ck_assert(several_distinct(graph, a, b, &distinct, &err) && !distinct);
    b->stages[0].layer_count += 7, b->stages[1].first_layer += 7, b->stages[1].layer_count -= 7;
    ck_assert(several_distinct(graph, a, b, &distinct, &err) && !distinct);
    b->stages[0].layer_count += 1, b->stages[1].first_layer += 1, b->stages[1].layer_count -= 1;
    ck_assert(several_distinct(graph, a, b, &distinct, &err) && distinct);
    graph_free(graph);
    plan_free(a);
    plan_free(b);
    world_close(&world);
}
END_TEST

/* As many as asked for, of shares one number of them, by step, each pair distinct; none worse than the search's own
 * answer at the top. */
START_TEST(rankings_are_distinct)
{
    struct world world = world_open("2x2:toy", 3000000, 4);
    struct graph *graph = NULL;
    struct error err = { 0 };
    ck_assert(graph_build(&graph, world.model, 16, 0, 1, &err));
    for (int wanted = small_share() ? 5 : share_stride() > 1 ? 9 : 1; wanted <= 9; wanted += small_share() ? 8 : 4) {
        struct search_options options = options_of(small_share() ? 4 : 16);
        struct ranking ranking;
        options.top = wanted;
        struct explainer e;
        explainer_open(&e, world.model, &world.facts, &options);
        struct search_result *result = run_search(&world, &options);
        int64_t first_ns = result->plans[0].estimate->prediction.step_ns;
        ck_assert(explainer_start(&e, result, &err));
        ck_assert_msg(ranking_build(&ranking, result, &e, wanted, &err), "%s", err.message);
        ck_assert_int_eq(ranking.count, wanted);
        ck_assert(ranking.complete);
        ck_assert_int_le(ranking.plans[0].estimate->prediction.step_ns, first_ns);
        for (int i = 1; i < ranking.count; i++) {
            ck_assert_int_ge(ranking.plans[i].estimate->prediction.step_ns,
                             ranking.plans[i - 1].estimate->prediction.step_ns);
            ck_assert(ranking.plans[i].estimate->prediction.fits);
            for (int k = 0; k < i; k++) {
                bool distinct = false;
                ck_assert(several_distinct(graph, ranking.plans[k].plan, ranking.plans[i].plan, &distinct, &err));
                ck_assert_msg(distinct, "%d and %d", k, i);
            }
        }
        ranking_free(&ranking);
        explainer_close(&e);
        search_result_free(result);
    }
    graph_free(graph);
    world_close(&world);
}
END_TEST

/* Less memory costs time along the frontier, and no point beats another in both; the first is the free plan's. A small
 * share leaves it and frontiers of types to tests/test_cli_answers.py. */
START_TEST(memory_frontier_falls)
{
    if (small_share())
        return;
    struct world world = world_open("2x2:toy", 4000000, 3);
    struct search_options options = options_of(16);
    struct explainer e;
    struct frontier f;
    struct solution free_one;
    struct error err = { 0 };
    explainer_open(&e, world.model, &world.facts, &options);
    ck_assert_msg(explain_memory_frontier(&e, &f, &err), "%s", err.message);
    ck_assert(explainer_solve(&e, &options.space, &world.facts, &free_one, &err));
    ck_assert_int_ge(f.count, 4);
    ck_assert_int_le(f.points[0].step_ns, free_one.step_ns);
    for (int i = 1; i < f.count; i++) {
        ck_assert_int_gt(f.points[i].step_ns, f.points[i - 1].step_ns);
        ck_assert_int_lt(f.points[i].peak_bytes, f.points[i - 1].peak_bytes);
    }
    /* with less than the last point's memory by a third, nothing fits */
    struct variation v = variation_none();
    struct varied varied;
    v.memory = (double)f.points[f.count - 1].peak_bytes * 0.66 / (double)facts_most_bytes(&world.facts);
    ck_assert(varied_open(&varied, &world.facts, &v, &err));
    ck_assert(explainer_solve(&e, &options.space, &varied.facts, &free_one, &err));
    ck_assert_int_eq(free_one.kind, SOLUTION_NO_MEMORY);
    varied_free(&varied);
    explainer_close(&e);
    world_close(&world);
}
END_TEST

START_TEST(device_frontier_falls)
{
    static const char *const forms[] = { "1x8:toy", "8x2:toy" };
    for (int i = small_share(); i < 2; i++) {
        struct world world = world_open(forms[i], 80000000000, 3);
        struct search_options options = options_of(192);
        struct explainer e;
        struct frontier f;
        struct error err = { 0 };
        explainer_open(&e, world.model, &world.facts, &options);
        ck_assert_msg(explain_device_frontier(&e, &f, &err), "%s", err.message);
        ck_assert_int_ge(f.count, 2);
        for (int k = 0; k < f.count; k++) {
            ck_assert_int_eq(f.points[k].solution.explained->plan->rank_count, f.points[k].devices);
            ck_assert(k == 0 || f.points[k].devices < f.points[k - 1].devices);
            ck_assert(k == 0 || f.points[k].step_ns > f.points[k - 1].step_ns);
        }
        ck_assert_int_eq(f.points[f.count - 1].devices, 1);
        ck_assert_str_eq(f.points[0].cluster, forms[i]);
        ck_assert_str_eq(f.points[f.count - 1].cluster, "1x1:toy");
        explainer_close(&e);
        world_close(&world);
    }
}
END_TEST

/* Of two types no point has as many devices of each as another and takes as long; what a point is on takes as long by
 * itself. The smaller type is slow beside the larger: all devices take longer than the larger type alone. */
START_TEST(device_frontier_by_type)
{
    if (small_share())
        return;
    struct world world = world_open("1x3:toy+1x1:toy@intra=1e9,inter=1e7,memory=4e10", 80000000000, 3);
    struct search_options options = options_of(12);
    struct explainer e;
    struct frontier f;
    struct what_ifs w;
    struct error err = { 0 };
    bool alone[2] = { false };
    explainer_open(&e, world.model, &world.facts, &options);
    ck_assert_msg(explain_device_frontier(&e, &f, &err), "%s", err.message);
    for (int i = 0; i < f.count; i++) {
        const struct point *at = &f.points[i];
        ck_assert_int_eq(at->of_type[0] + at->of_type[1], at->devices);
        for (int k = 0; k < i; k++)
            ck_assert(at->of_type[0] < f.points[k].of_type[0] || at->of_type[1] < f.points[k].of_type[1]);
        for (int t = 0; t < 2; t++)
            alone[t] = alone[t] || at->of_type[t] == at->devices;
        struct world own = world_open(at->cluster, 80000000000, 3);
        struct explainer other;
        struct solution solution;
        explainer_open(&other, own.model, &own.facts, &options);
        ck_assert(explainer_solve(&other, &options.space, &own.facts, &solution, &err));
        ck_assert_int_eq(solution.step_ns, at->step_ns);
        explainer_close(&other);
        world_close(&own);
    }
    ck_assert(alone[0] && alone[1]);
    ck_assert_str_eq(f.points[0].cluster, "1x3:toy");
    const struct explained *whole = e.base.explained;
    ck_assert_msg(explain_what_ifs(&e, whole, &w, NULL, NULL, &err), "%s", err.message);
    const struct what_if *fewer = explain_fewer(&w);
    ck_assert_ptr_nonnull(fewer);
    ck_assert_str_eq(fewer->cluster, "1x3:toy");
    ck_assert_int_eq(fewer->step_ns, f.points[0].step_ns);
    explainer_close(&e);
    world_close(&world);
}
END_TEST

static Suite *explain_several_suite(void)
{
    Suite *suite = suite_create("several plans");
    CHECK_ADD(suite, trifles_are_trifles);
    CHECK_ADD(suite, rankings_are_distinct);
    CHECK_ADD(suite, memory_frontier_falls);
    CHECK_ADD(suite, device_frontier_falls);
    CHECK_ADD(suite, device_frontier_by_type);
    return suite;
}

CHECK_MAIN(explain_several_suite)
