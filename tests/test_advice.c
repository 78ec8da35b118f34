/* What a search that finds nothing advises: the value that it names has a plan. */
#include "planner/search/search.h"
#include "tests/toy_world.h"

/* What the answer says to type has a plan, and that plan fits by its own layout. */
START_TEST(advice_holds)
{
    int advised_count = 0;
    for (long long memory = 150000; memory < 3000000; memory = memory * 3 / 2) {
        struct world world = world_open("1x2:toy", memory, 2);
        struct search_options options = { .space = space_default(8, 0, DTYPE_BF16), .top = 1 };
        struct search_result *result = run_search(&world, &options);
        const struct advice *more = &result->nearest.advice[ADVICE_DEVICES];
        const struct plan *advised = more->plan;
        struct error err = { 0 };
        if (!result->feasible)
            ck_assert(!search_infeasible(result, &options.space, &err));
        if (advised) {
            char cluster[64];
            struct graph *graph = NULL;
            struct estimate *estimate = NULL;
            snprintf(cluster, sizeof cluster, "%lldx2:toy", (long long)(more->value / more->now));
            ck_assert_msg(strstr(err.message, cluster) != NULL, "%s", err.message);
            struct world larger = world_open(cluster, memory, 2);
            ck_assert_int_eq(advised->rank_count, larger.cluster->device_count);
            ck_assert(graph_build(&graph, larger.model, advised->batch, 0, advised->vocab_multiple, &err));
            ck_assert_msg(estimate_plan(&estimate, graph, advised, &larger.facts, &err), "%s", err.message);
            ck_assert(estimate->prediction.fits);
            estimate_free(estimate);
            graph_free(graph);
            world_close(&larger);
            advised_count++;
        }
        search_result_free(result);
        world_close(&world);
    }
    ck_assert_int_gt(advised_count, 0);
}
END_TEST

/* The value that half, a quarter, ... of what is so now must have for the whole space to hold a plan; 0: none. */
static int64_t first_that_fits(const struct world *world, const struct search_options *options, enum advice_kind kind,
                               int64_t now)
{
    for (int64_t value = now / 2; value >= 1; value /= 2) {
        struct search_options o = *options;
        struct search_result *result = NULL;
        struct error err = { 0 };
        o.no_advice = true;
        if (kind == ADVICE_BATCH)
            o.space.batch = value;
        else if (kind == ADVICE_SEQUENCE)
            o.space.sequence = value;
        else
            o.space.micro = (struct allowed){ 1, { value } };
        bool found = search_run(&result, world->model, &world->facts, &o, &err) && result->feasible;
        search_result_free(result);
        if (found)
            return value;
    }
    return 0;
}

/* A smaller batch, micro-batch or sequence is advised where and only where the whole space has a plan for it, the
 * largest such; that plan fits, and the message says what to type. */
START_TEST(smaller_jobs_are_advised)
{
    static const char *const typed[] = {
        [ADVICE_BATCH] = "--batch %lld:", [ADVICE_MICRO] = "--fix micro-batch=%lld:", [ADVICE_SEQUENCE] = "--seq %lld:"
    };
    int found[ADVICE_DEVICES] = { 0 }, missed[ADVICE_DEVICES] = { 0 };
    long long memory = 200000;
    for (int i = 0; memory < 6000000; memory += i++ % 2 ? memory / (small_share() ? 4 : 8) : 0) {
        struct world world = world_open("1x2:toy", memory, 2);
        struct search_options options = { .space = space_default(8, 0, DTYPE_BF16), .top = 1 };
        if (i % 2) { /* restricted, so that batch and micro-batch matter */
            options.space.micro = (struct allowed){ 1, { 4 } };
            options.space.recompute = (struct allowed){ 1, { RECOMPUTE_NONE } };
            options.space.stages = (struct allowed){ 1, { 2 } };
        }
        struct search_result *result = run_search(&world, &options);
        struct error err = { 0 };
        if (!result->feasible)
            ck_assert(!search_infeasible(result, &options.space, &err));
        for (int kind = 0; kind < ADVICE_DEVICES && !result->feasible; kind++) {
            const struct advice *advice = &result->nearest.advice[kind];
            struct graph *graph = NULL;
            struct estimate *estimate = NULL;
            struct error why = { 0 };
            char text[64];
            ck_assert_int_eq(advice->value, first_that_fits(&world, &options, (enum advice_kind)kind, advice->now));
            missed[kind] += advice->now > 0 && !advice->plan;
            if (!advice->plan)
                continue;
            found[kind]++;
            snprintf(text, sizeof text, typed[kind], (long long)advice->value);
            ck_assert_msg(strstr(err.message, text) != NULL, "%s lacks %s", err.message, text);
            ck_assert(graph_build(&graph, world.model, advice->plan->batch, advice->plan->sequence,
                                  advice->plan->vocab_multiple, &why));
            ck_assert_msg(estimate_plan(&estimate, graph, advice->plan, &world.facts, &why), "%s", why.message);
            ck_assert(estimate->prediction.fits);
            estimate_free(estimate);
            graph_free(graph);
        }
        search_result_free(result);
        world_close(&world);
    }
    for (int kind = 0; kind < ADVICE_DEVICES; kind++)
        ck_assert_msg(found[kind] > 0 && missed[kind] > 0, "%s: %d, %d", advice_names[kind], found[kind], missed[kind]);
}
END_TEST

static Suite *advice_suite(void)
{
    Suite *suite = suite_create("advice");
    CHECK_ADD(suite, advice_holds);
    CHECK_ADD(suite, smaller_jobs_are_advised);
    return suite;
}

CHECK_MAIN(advice_suite)
