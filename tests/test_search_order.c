/* The order of a search's work does not depend on the time that there is: who has more gets what others get, and more.
 */
#include "base/num.h"
#include "planner/estimate/effort.h"
#include "planner/search/search.h"
#include "tests/check.h"
#include "tests/toy_world.h"

static int64_t step_of(const struct search_result *result)
{
    return result->plans[0].estimate->prediction.step_ns;
}

/* The search ends at the tick of that number, each of which is one question whether it should. NULL: none had a plan.
 */
static struct search_result *search_for(const struct world *world, struct search_options *options, int64_t ticks)
{
    int64_t clock = 0;
    struct search_result *result = NULL;
    struct error err = { 0 };
    options->time_limit_ns = ticks;
    options->calls = (struct search_calls){ .self = &clock, .now_ns = toy_tick };
    bool found = search_run(&result, world->model, &world->facts, options, &err);
    ck_assert_msg(found, "%lld ticks: %s", (long long)ticks, err.message);
    ck_assert(result->feasible);
    return result;
}

/* Wherever it ends, until it ends by itself: no plan is longer than one that was found in less time. */
static void never_longer(const char *name, const struct world *world, struct search_options *options)
{
    int64_t least_ns = INT64_MAX;
    int improved = 0;
    bool ended = true;
    for (int64_t ticks = 1; ended; ticks += 1 + ticks / (small_share() ? 1 : all_cases() ? 5 : 2)) {
        struct search_result *result = search_for(world, options, ticks);
        int64_t step_ns = step_of(result);
        ck_assert_msg(step_ns <= least_ns, "%s: %lld ns after %lld ticks, %lld before", name, (long long)step_ns,
                      (long long)ticks, (long long)least_ns);
        ended = result->certificate.ended;
        improved += step_ns < least_ns;
        least_ns = min_i64(least_ns, step_ns);
        search_result_free(result);
    }
    options->time_limit_ns = 0;
    options->calls = (struct search_calls){ 0 };
    struct search_result *whole = run_search(world, options);
    ck_assert_int_eq(step_of(whole), least_ns);
    ck_assert_msg(improved > 1, "%s: time brings nothing", name);
    search_result_free(whole);
}

START_TEST(more_time_brings_no_longer_plan)
{
    static const struct {
        const char *name, *cluster;
        int blocks;
        long long memory_bytes;
        int64_t batch, proof_work;
    } worlds[] = { { "nodes", "2x2:toy", 2, 80000000000, 8, 0 },
                   { "one node", "1x8:toy", 3, 80000000000, 16, 0 },
                   { "little memory", "2x2:toy", 4, 2400000, 8, 0 },
                   { "a proof that pauses", "2x2:toy", 2, 80000000000, 8, 1 } };
    for (size_t i = 0; i < sizeof worlds / sizeof *worlds; i++) {
        struct world world = world_open(worlds[i].cluster, worlds[i].memory_bytes, worlds[i].blocks);
        struct search_options options = options_of(worlds[i].batch);
        options.proof_work = worlds[i].proof_work;
        never_longer(worlds[i].name, &world, &options);
        world_close(&world);
    }
}
END_TEST

/* What the proof leaves for later is proven all the same. */
START_TEST(a_proof_that_pauses_is_ended)
{
    struct world world = world_open("2x4:toy", 80000000000, 4);
    struct search_options options = options_of(16);
    struct search_result *at_once = run_search(&world, &options);
    options.proof_work = 1;
    struct search_result *paused = run_search(&world, &options);
    ck_assert(at_once->certificate.complete && paused->certificate.complete);
    ck_assert_int_eq(paused->certificate.bound_ns, at_once->certificate.bound_ns);
    ck_assert_int_eq(paused->certificate.best_ns, at_once->certificate.best_ns);
    ck_assert_int_eq(paused->certificate.simulated_bound_ns, at_once->certificate.simulated_bound_ns);
    ck_assert_msg(step_of(paused) <= step_of(at_once) + step_of(at_once) / 50, "%lld ns, %lld ns at once",
                  (long long)step_of(paused), (long long)step_of(at_once));
    search_result_free(at_once);
    search_result_free(paused);
    world_close(&world);
}
END_TEST

/* What a proof that pauses leaves is counted, where nobody ends it since no plan was found that is short enough. */
START_TEST(a_proof_that_is_left_bounds_what_it_left)
{
    struct world world = world_open("2x4:toy", 80000000000, 4);
    struct search_options options = options_of(16);
    struct search_result *whole = run_search(&world, &options);
    options.proof_work = 1;
    options.any_plan = true;
    options.skip = 1u << PART_FAMILIES | 1u << PART_CLIMB;
    options.unjudged = true;
    options.below_ns = 2 * whole->certificate.best_ns;
    struct search_result *left = run_search(&world, &options);
    ck_assert_msg(left->certificate.bound_ns <= whole->certificate.bound_ns, "%lld ns, %lld ns when it is ended",
                  (long long)left->certificate.bound_ns, (long long)whole->certificate.bound_ns);
    search_result_free(left);
    search_result_free(whole);
    world_close(&world);
}
END_TEST

/* The walk is off for a plan as for the caller's peer: what it says is longer than the peer is not simulated, what it
 * says is shorter is. */
START_TEST(what_loses_to_a_peer_is_not_simulated)
{
    struct world world = world_open("1x2:toy", 80000000000, 40);
    struct search_options options = options_of(4);
    options.any_plan = true;
    options.skip = 1u << PART_FAMILIES | 1u << PART_CLIMB;
    options.worth_ns = options.below_ns = INT64_C(1) << 50;
    struct search_result *alone = run_search(&world, &options);
    const struct search_plan *plan = &alone->plans[0];
    for (int percent = 98; percent <= 102; percent += 4) {
        const struct search_peer peer = { plan->config, plan->ranked_ns / 100 * percent, step_of(alone) / 100 * percent,
                                          JUDGED_DEAR + 1 };
        options.peer = &peer;
        struct search_result *beside = run_search(&world, &options);
        ck_assert_int_eq(beside->plan_count, percent > 100);
        ck_assert_int_eq(beside->certificate.judged, percent > 100 ? alone->certificate.judged : 0);
        search_result_free(beside);
    }
    search_result_free(alone);
    world_close(&world);
}
END_TEST

static Suite *search_order_suite(void)
{
    Suite *suite = suite_create("search_order");
    CHECK_ADD(suite, a_proof_that_pauses_is_ended);
    CHECK_ADD(suite, a_proof_that_is_left_bounds_what_it_left);
    CHECK_ADD(suite, what_loses_to_a_peer_is_not_simulated);
    CHECK_ADD(suite, more_time_brings_no_longer_plan);
    return suite;
}

CHECK_MAIN(search_order_suite)
