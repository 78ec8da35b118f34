/* Searches that may walk the loss in chunks of tokens. */
#include "base/num.h"
#include "tests/toy_world.h"
#include "tests/written_claim.h"

static struct search_result *search_chunks(const struct world *world, const struct search_options *options,
                                           struct allowed chunks)
{
    struct search_options own = *options;
    own.space.loss_chunks = chunks;
    struct search_result *result = run_search(world, &own);
    if (result->feasible) {
        const struct search_plan *best = &result->plans[0];
        struct written_claim written = written_claim_open(result, &own.space);
        struct check_report report;
        struct error err = { 0 };
        ck_assert_msg(
            check_certificate(&report, &written.claim, world->model, &world->facts, best->plan, NULL, NULL, &err), "%s",
            err.message);
        ck_assert(allowed_has(&chunks, best->plan->loss_chunks));
        ck_assert_int_le(result->certificate.simulated_bound_ns, best->estimate->prediction.step_ns);
        written_claim_close(&written);
    }
    return result;
}

/* The optimum of the one or the other is that of both together, and where memory is short it is not always at once. */
START_TEST(loss_chunks_are_searched)
{
    int with_chunks = 0, only_with_chunks = 0;
    for (int n = 0; n < 16; n++) {
        struct world world = world_of(n % 2 ? "1x4:toy" : "1x1:toy", 10000000 + 500000 * n, 1 + n % 3, n % 4 < 2);
        world.model->vocab_size = 8192; /* of few logits nothing is saved */
        struct search_options options = { .space = space_default(8, 0, DTYPE_BF16), .top = 1, .no_advice = true };
        struct search_result *whole = search_chunks(&world, &options, (struct allowed){ 1, { 1 } }),
                             *parts = search_chunks(&world, &options, (struct allowed){ 1, { 4 } }),
                             *both = search_chunks(&world, &options, (struct allowed){ 2, { 1, 4 } });
        int64_t of_whole = whole->feasible ? whole->certificate.best_ns : INT64_MAX,
                of_parts = parts->feasible ? parts->certificate.best_ns : INT64_MAX;
        ck_assert_int_eq(both->feasible, whole->feasible || parts->feasible);
        if (both->feasible) {
            ck_assert_int_eq(both->certificate.best_ns, min_i64(of_whole, of_parts));
            with_chunks += of_parts < of_whole;
        }
        only_with_chunks += parts->feasible && !whole->feasible;
        search_result_free(whole);
        search_result_free(parts);
        search_result_free(both);
        world_close(&world);
    }
    ck_assert_int_gt(with_chunks, 0);
    ck_assert_int_gt(only_with_chunks, 0);
}
END_TEST

/* Head and loss on stages of their own: the loss is whole though chunks were asked for, and no bound forgets it. */
START_TEST(bounds_hold_where_the_loss_stands_apart)
{
    struct world world = world_of("1x5:toy", 80000000000, 1, false);
    struct search_options options = { .space = space_default(16, 0, DTYPE_BF16), .top = 1, .no_advice = true };
    options.space.stages = (struct allowed){ 1, { 5 } };
    for (int chunks = 1; chunks <= 64; chunks *= 4) {
        struct search_result *result = search_chunks(&world, &options, (struct allowed){ 1, { chunks } });
        ck_assert(result->feasible);
        ck_assert_int_eq(result->plans[0].plan->stage_count, 5);
        search_result_free(result);
    }
    world_close(&world);
}
END_TEST

/* A head that recomputes leaves its norm to the walk of the loss, which makes it once: one device takes what the
 * formula says, but for what comes before the first kernel and behind the last. */
START_TEST(what_the_walk_makes_is_counted_once)
{
    static const int64_t kinds[] = { RECOMPUTE_NONE, RECOMPUTE_SELECTIVE, RECOMPUTE_FULL };
    struct world world = world_of("1x1:toy", 80000000000, 1, false);
    int64_t ends_ns[6];
    for (int i = 0; i < 6; i++) {
        struct search_options options = { .space = space_default(16, 0, DTYPE_BF16), .top = 1, .no_advice = true };
        options.space.recompute = (struct allowed){ 1, { kinds[i % 3] } };
        options.space.micro = (struct allowed){ 1, { 4 } };
        struct search_result *result = search_chunks(&world, &options, (struct allowed){ 1, { i < 3 ? 1 : 4 } });
        ck_assert(result->feasible);
        ends_ns[i] = result->certificate.best_ns - result->plans[0].estimate->prediction.step_ns;
        ck_assert_msg(ends_ns[i] == ends_ns[0], "recompute %d, %s: %lld ns, and not %lld", (int)kinds[i % 3],
                      i < 3 ? "whole" : "in chunks", (long long)ends_ns[i], (long long)ends_ns[0]);
        search_result_free(result);
    }
    world_close(&world);
}
END_TEST

static Suite *loss_search_suite(void)
{
    Suite *suite = suite_create("search: the loss in chunks");
    CHECK_ADD(suite, loss_chunks_are_searched);
    CHECK_ADD(suite, bounds_hold_where_the_loss_stands_apart);
    CHECK_ADD(suite, what_the_walk_makes_is_counted_once);
    return suite;
}

CHECK_MAIN(loss_search_suite)
