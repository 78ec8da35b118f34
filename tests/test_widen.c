/* Where nothing fits, or plans pay much for memory, the space becomes wider, by no more than a plan needs; what was
 * fixed stays. */
#include "planner/search/widen.h"
#include "planner/space/wider.h"
#include "tests/toy_world.h"

static bool search_plain(void *self, struct search_options *options, struct search_result **out, struct error *err)
{
    const struct world *world = self;
    return search_run(out, world->model, &world->facts, options, err);
}

static struct search_result *run_widened(struct world *world, const struct search_options *options,
                                         const struct space *widest, struct widening *widening)
{
    struct search_result *result = NULL;
    struct error err = { 0 };
    ck_assert_msg(
        search_widened(&result, widening, world->model, &world->facts, options, widest, search_plain, world, &err),
        "%s", err.message);
    return result;
}

static bool has_plan(const struct world *world, const struct search_options *options, const struct space *space,
                     int64_t *step_ns)
{
    struct search_options own = *options;
    own.space = *space;
    own.no_advice = true;
    struct search_result *result = run_search(world, &own);
    bool feasible = result->feasible;
    *step_ns = feasible ? result->plans[0].estimate->prediction.step_ns : 0;
    search_result_free(result);
    return feasible;
}

/* The answer is that of a search of the space that it says; without any one of the choices that it took, none, or one
 * that is a tenth longer at least. */
static void check_taken(const struct world *world, const struct search_options *options,
                        const struct widening *widening, const struct search_result *result)
{
    int64_t step_ns;
    ck_assert(has_plan(world, options, &widening->space, &step_ns));
    ck_assert_int_eq(step_ns, result->plans[0].estimate->prediction.step_ns);
    for (int i = 0; i < WIDER_CHOICES; i++) {
        enum space_choice choice = wider_choices[i];
        struct space less = widening->space;
        less.range[choice] = options->space.range[choice];
        if (widening->taken >> choice & 1) {
            bool has = has_plan(world, options, &less, &step_ns);
            ck_assert_msg(has == (widening->without_ns > 0), "%s is not needed", choice_facts[choice].name);
            ck_assert_int_eq(step_ns, widening->without_ns);
            ck_assert(!has || result->plans[0].estimate->prediction.step_ns < step_ns - step_ns / 10);
        } else
            ck_assert(memcmp(&less, &widening->space, sizeof less) == 0);
    }
}

/* From what fits anyway to what fits nowhere, as the device has less and less memory. */
START_TEST(as_little_as_a_plan_needs)
{
    int plain_count = 0, none_count = 0, lighter_count = 0;
    uint64_t met = 0;
    for (long long memory = 10000000; memory >= 150000; memory = memory * 4 / 5) {
        struct world world = world_open("1x2:toy", memory, 3);
        struct search_options options = options_of(4);
        struct widening widening;
        int64_t step_ns = 0;
        only_bounded(&options.space);
        struct space widest = options.space;
        space_widen(&widest, world.cluster, world.model->sequence);
        struct search_result *result = run_widened(&world, &options, &widest, &widening);
        printf("%lld bytes: %s, widened by %llx\n", memory, result->feasible ? "fits" : "nothing fits",
               (unsigned long long)widening.taken);
        if (!result->feasible) {
            none_count++;
            ck_assert(!has_plan(&world, &options, &widest, &step_ns));
            ck_assert_ptr_nonnull(result->nearest.plan);
        } else if (widening.taken == 0) {
            plain_count++;
            ck_assert(has_plan(&world, &options, &options.space, &step_ns));
            ck_assert_int_eq(step_ns, result->plans[0].estimate->prediction.step_ns);
        } else {
            met |= widening.taken;
            lighter_count += widening.without_ns > 0;
            check_taken(&world, &options, &widening, result);
        }
        search_result_free(result);
        world_close(&world);
    }
    ck_assert_int_gt(plain_count, 0);
    ck_assert_int_gt(none_count, 0);
    ck_assert_int_gt(lighter_count, 0);
    ck_assert(met >> CHOICE_OFFLOAD & 1);
}
END_TEST

/* What the widest space does not have more of is not taken, and where that alone would do nothing fits. */
START_TEST(what_is_fixed_stays)
{
    struct world world = world_open("1x2:toy", 900000, 3);
    struct search_options options = options_of(4);
    struct widening widening;
    only_bounded(&options.space);
    struct space widest = options.space;
    space_widen(&widest, world.cluster, world.model->sequence);
    struct search_result *result = run_widened(&world, &options, &widest, &widening);
    ck_assert(result->feasible && widening.taken >> CHOICE_OFFLOAD & 1);
    search_result_free(result);
    widest.offload = options.space.offload;
    result = run_widened(&world, &options, &widest, &widening);
    ck_assert(!result->feasible && !(widening.taken >> CHOICE_OFFLOAD & 1));
    struct error err = { 0 };
    ck_assert(!search_infeasible(result, &options.space, &err) && err.kind == ERROR_INFEASIBLE);
    search_result_free(result);
    world_close(&world);
}
END_TEST

/* More context ranks than usual only where there are such; host memory only where all devices reach it. */
START_TEST(only_what_the_cluster_has)
{
    struct world world = world_open("2x2:toy", 1000000, 1);
    struct space space = space_default(4, 0, DTYPE_BF16);
    space_widen(&space, world.cluster, 256);
    ck_assert_int_eq(space.context.count, 2); /* 64 tokens are too few for four */
    ck_assert_int_eq(space.context.values[1], 2);
    space_widen(&space, world.cluster, 64);
    ck_assert_int_eq(space.context.count, 0);
    ck_assert_int_eq(space.offload.count, 5);
    space = space_default(4, 0, DTYPE_BF16);
    world.cluster->types[0].device.host_bytes_per_s = 0;
    space_widen(&space, world.cluster, 64);
    ck_assert(space_is_default(&space, CHOICE_OFFLOAD));
    world_close(&world);
}
END_TEST

static Suite *widen_suite(void)
{
    Suite *suite = suite_create("widen");
    CHECK_ADD(suite, as_little_as_a_plan_needs);
    CHECK_ADD(suite, what_is_fixed_stays);
    CHECK_ADD(suite, only_what_the_cluster_has);
    return suite;
}

CHECK_MAIN(widen_suite)
