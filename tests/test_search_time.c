/* Searches whose time ends: a plan wherever there is one, and nothing claimed that was not found out. */
#include "models/model.h"
#include "planner/search/search.h"
#include "planner/tables/workbench.h"
#include "tests/check.h"
#include "tests/fact_files.h"
#include "tests/model_files.h"
#include "tests/toy_world.h"
#include <string.h>

/* As far as it comes until the clock has ticked so often. */
static struct search_result *search_ticks(const struct world *world, struct search_options options, int64_t limit)
{
    int64_t clock = 0;
    options.time_limit_ns = limit;
    options.calls = (struct search_calls){ .self = &clock, .now_ns = toy_tick };
    return run_search(world, &options);
}

/* Wherever the time ends, or who searches does not want to go on, then before the first configuration has a bound too:
 * a plan with a bound that holds. */
START_TEST(time_ends_anywhere)
{
    bool is_cancelled = _i == 1;
    struct world world = world_open("2x2:toy", 80000000000, 2);
    struct search_options options = { .space = space_default(8, 0, DTYPE_BF16), .top = 1 };
    struct search_result *whole = run_search(&world, &options);
    int answers = 0, unseen = 0;
    for (int64_t limit = 1; limit < 4000; limit += 1 + (small_share() ? limit : limit / 4)) {
        struct toy_asked asked = { 0, limit };
        struct search_result *result = NULL;
        struct error err = { 0 };
        options.time_limit_ns = is_cancelled ? 0 : limit;
        options.calls = is_cancelled ? (struct search_calls){ .self = &asked, .cancelled = toy_cancelled }
                                     : (struct search_calls){ .self = &asked.asked, .now_ns = toy_tick };
        ck_assert_msg(search_run(&result, world.model, &world.facts, &options, &err), "limit %lld: %s",
                      (long long)limit, err.message);
        ck_assert(result->feasible && result->plan_count == 1);
        ck_assert_int_le(result->certificate.bound_ns, whole->certificate.bound_ns);
        ck_assert(!result->certificate.ended || asked.asked > limit - is_cancelled); /* the start took one tick */
        ck_assert_int_eq(result->certificate.bound_ns > 0, result->certificate.unseen == 0);
        unseen += result->certificate.unseen > 0;
        if (!result->certificate.ended) {
            ck_assert_int_eq(result->certificate.bound_ns, whole->certificate.bound_ns);
            ck_assert_int_eq(result->plans[0].estimate->prediction.step_ns,
                             whole->plans[0].estimate->prediction.step_ns);
        }
        answers++;
        search_result_free(result);
    }
    ck_assert_int_gt(answers, 3);
    ck_assert_int_eq(unseen > 0, is_cancelled);
    search_result_free(whole);
    world_close(&world);
}
END_TEST

/* With one sequence, too, of which no pipeline is full. */
START_TEST(time_ends_with_few_micro_batches)
{
    static const char *const clusters[] = { "1x4:toy", "2x2:toy", "4x1:toy" };
    for (int i = 0; i < 3; i++)
        for (int64_t limit = 1; limit < 1000; limit *= small_share() ? 27 : 3) {
            struct world world = world_open(clusters[i], 80000000000, 2);
            struct search_options options = { .space = space_default(1, 0, DTYPE_BF16), .top = 1 };
            struct search_result *result = NULL;
            struct error err = { 0 };
            int64_t clock = 0;
            options.time_limit_ns = limit;
            options.calls = (struct search_calls){ .self = &clock, .now_ns = toy_tick };
            ck_assert_msg(search_run(&result, world.model, &world.facts, &options, &err), "%s, limit %lld: %s",
                          clusters[i], (long long)limit, err.message);
            ck_assert(result->feasible);
            search_result_free(result);
            world_close(&world);
        }
}
END_TEST

/* Nor is more said than that time was over where even then nothing fits. */
START_TEST(time_ends_without_a_plan)
{
    struct world world = world_open("1x2:toy", 150000, 2);
    struct search_options options = { .space = space_default(4, 0, DTYPE_BF16), .top = 1, .time_limit_ns = 1 };
    struct search_result *result = NULL;
    struct error err = { 0 };
    int64_t clock = 0;
    options.calls = (struct search_calls){ .self = &clock, .now_ns = toy_tick };
    ck_assert(!search_run(&result, world.model, &world.facts, &options, &err));
    ck_assert_int_eq(err.kind, ERROR_ENVIRONMENT);
    ck_assert_msg(strstr(err.message, "--time-limit") != NULL, "%s", err.message);
    struct error handed = { 0 };
    fail_with(&handed, &err);
    ck_assert(err.ended && handed.ended && handed.kind == err.kind);
    ck_assert_str_eq(handed.message, err.message);
    world_close(&world);
}
END_TEST

/* Whoever goes on when time is over does not so for want of memory. */
START_TEST(want_of_memory_is_no_end_of_time)
{
    struct error err = { 0 };
    fail_kind(&err, ERROR_ENVIRONMENT, "out of memory while lowering a plan");
    ck_assert(!err.ended);
    struct error handed = { 0 };
    ck_assert(!fail_with(&handed, &err) && !handed.ended);
}
END_TEST

/* Where steps are longer than is counted memory is not what is missing: nobody lowers a million micro-batches to look
 * for it, which took minutes. */
START_TEST(steps_of_months_are_not_lowered)
{
    struct world world = world_open("2x2:toy@inter=1,intra=1", 80000000000, 3);
    struct search_options options = options_of(1000000);
    struct search_result *result = run_search(&world, &options);
    ck_assert(!result->feasible && result->why);
    ck_assert_msg(strstr(result->why, "52 days"), "%s", result->why);
    ck_assert(!result->nearest.plan);
    search_result_free(result);
    world_close(&world);
}
END_TEST

/* Listing the space is part of the time: where it ends there, the narrower part is searched, which the result says. */
START_TEST(time_ends_while_the_space_is_listed)
{
    struct world world = world_open("2x4:toy", 80000000000, 2);
    struct search_options options = { .space = space_default(96, 0, DTYPE_BF16), .top = 1, .time_limit_ns = 1 };
    int64_t clock = 0;
    options.space.turns = (struct allowed){ 3, { 1, 2, 4 } };
    options.space.context = (struct allowed){ 2, { 1, 2 } };
    struct space narrower = options.space;
    narrower.turns = (struct allowed){ 1, { 1 } };
    options.calls = (struct search_calls){ .self = &clock, .now_ns = toy_tick };
    struct search_result *result = run_search(&world, &options);
    struct workbench bench;
    struct error err = { 0 };
    ck_assert(workbench_open(&bench, world.model, &world.facts, &narrower, &err));
    ck_assert(result->feasible && result->certificate.narrower_only && !result->certificate.complete);
    ck_assert_int_eq(result->certificate.configurations, space_count(&narrower, bench.graph, world.cluster));
    ck_assert_int_lt(result->certificate.configurations, space_count(&options.space, bench.graph, world.cluster));
    search_result_free(result);
    options.space.turns = (struct allowed){ 1, { 2 } }; /* there is no narrower part: all are listed */
    clock = 0;
    result = run_search(&world, &options);
    ck_assert(!result->certificate.narrower_only);
    ck_assert_int_eq(result->certificate.configurations, space_count(&options.space, bench.graph, world.cluster));
    search_result_free(result);
    workbench_close(&bench);
    world_close(&world);
}
END_TEST

static struct allowed up_to(int count)
{
    struct allowed allowed = { .count = count };
    for (int i = 0; i < count; i++)
        allowed.values[i] = (int64_t)1 << i;
    return allowed;
}

/* Where there are too many to look at, half of the time goes to what is searched by default; and those of which there
 * are too many to list are left out, which the result says. */
START_TEST(large_spaces_are_no_worse_than_small_ones)
{
    if (small_share())
        return;
    struct world world = { .model = model_of_zoo("gpt2"), .cluster = cluster_open("4x8:a100-sxm-80") };
    struct search_options options = { .space = space_default(256, 0, DTYPE_BF16), .top = 1 };
    world.facts.cluster = world.cluster;
    struct search_result *narrower = run_search(&world, &options);
    options.space.turns = up_to(4);
    options.space.context = up_to(3);
    options.space.shard_group = (struct allowed){ 2, { 0, 8 } };
    options.space.slices = up_to(2);
    options.space.bucket_bytes = (struct allowed){ 2, { 25 << 20, 4 << 20 } };
    options.space.prefetch = (struct allowed){ 5, { 1, 0, 2, 3, 4 } };
    struct search_result *large = search_ticks(&world, options, 20000);
    int64_t narrower_ns = narrower->plans[0].estimate->prediction.step_ns,
            large_ns = large->plans[0].estimate->prediction.step_ns;
    ck_assert_int_gt(large->certificate.configurations, 20000);
    ck_assert(large->certificate.ended && !large->certificate.narrower_only);
    ck_assert_msg(large_ns <= narrower_ns + narrower_ns / 50, "%lld ns with more to choose from, %lld without",
                  (long long)large_ns, (long long)narrower_ns);
    search_result_free(large);
    search_result_free(narrower);
    options.space.batch = 1024;
    options.space.loss_chunks = up_to(4);
    options.space.bucket_bytes = (struct allowed){ 5, { 0, 1 << 20, 4 << 20, 25 << 20, 100 << 20 } };
    cluster_free(world.cluster);
    world.facts.cluster = world.cluster = cluster_open("16x8:a100-sxm-80");
    struct search_result *crowded = search_ticks(&world, options, 4000);
    ck_assert(crowded->certificate.narrower_only && crowded->certificate.crowded);
    ck_assert_int_lt(crowded->certificate.configurations, SPACE_MOST_LISTED);
    search_result_free(crowded);
    world_close(&world);
}
END_TEST

/* When first bounds are all there is, they choose the plan that is looked for: of a model whose best plan by the
 * formula has stages, one near it. */
START_TEST(first_bounds_choose_the_plan)
{
    struct world world = { .model = model_of_zoo("tiny-gpt"), .cluster = cluster_open("1x8:h100-sxm") };
    struct search_options options = { .space = space_default(64, 0, DTYPE_BF16), .top = 1 };
    world.facts = (struct facts){ .cluster = world.cluster };
    struct search_result *whole = run_search(&world, &options), *result = NULL;
    ck_assert_ptr_nonnull(strstr(whole->certificate.best, "pp=4"));
    int64_t unsolved = 1, solved = INT64_MAX; /* limits: the longest without a solved one is between */
    while (solved - unsolved > 1) {
        int64_t limit = solved < INT64_MAX ? unsolved + (solved - unsolved) / 2 : 2 * unsolved;
        struct search_result *next = search_ticks(&world, options, limit);
        bool scouted = next->certificate.solved > 0;
        if (scouted)
            solved = limit;
        else
            unsolved = limit;
        search_result_free(scouted ? next : result);
        result = scouted ? result : next;
    }
    ck_assert(result && result->certificate.ended && result->certificate.left > 0 && result->certificate.unseen == 0);
    int64_t best_ns = whole->certificate.best_ns;
    ck_assert_msg(result->certificate.best_ns <= best_ns + best_ns / 50, "%lld ns, the best %lld ns",
                  (long long)result->certificate.best_ns, (long long)best_ns);
    search_result_free(result);
    search_result_free(whole);
    world_close(&world);
}
END_TEST

static Suite *search_time_suite(void)
{
    Suite *suite = suite_create("search_time");
    CHECK_ADD_LOOP(suite, time_ends_anywhere, 2);
    CHECK_ADD(suite, time_ends_with_few_micro_batches);
    CHECK_ADD(suite, time_ends_without_a_plan);
    CHECK_ADD(suite, want_of_memory_is_no_end_of_time);
    CHECK_ADD(suite, steps_of_months_are_not_lowered);
    CHECK_ADD(suite, time_ends_while_the_space_is_listed);
    CHECK_ADD(suite, large_spaces_are_no_worse_than_small_ones);
    CHECK_ADD(suite, first_bounds_choose_the_plan);
    return suite;
}

CHECK_MAIN(search_time_suite)
