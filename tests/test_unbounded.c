/* Schedules that the closed form does not bound, beside those that it does: they shorten plans and lengthen none, the
 * proof of the others stands, and the bound of the simulated step is about all. */
#include "tests/random_numbers.h"
#include "tests/toy_world.h"

enum { WORLDS = 24 };

static int64_t step_of(const struct search_result *result)
{
    return result->plans[0].estimate->prediction.step_ns;
}

/* Pipelines mostly, since there they differ. */
static struct search_options draw_job(uint64_t *seed, struct world *world)
{
    static const char *const forms[] = { "1x2:toy", "1x3:toy", "1x4:toy", "2x2:toy", "2x4:toy", "1x6:toy" };
    static const int64_t batches[] = { 4, 6, 8, 12, 16, 24 };
    *world = world_of(forms[random_below(seed, 6)], 80000000000 >> random_below(seed, 2),
                      3 + (int)random_below(seed, 3), random_below(seed, 2) == 0);
    struct search_options options = options_of(batches[random_below(seed, 6)]);
    options.space.clip_norm = random_below(seed, 2) ? 1 : 0;
    if (random_below(seed, 3) > 0) {
        options.space.tensor = (struct allowed){ 1, { 1 } };
        options.space.data = (struct allowed){ 1, { 1 } };
    }
    return options;
}

/* The default space, and the same with the bounded schedules alone. */
struct both {
    struct search_result *all, *bounded;
};

static struct both run_both(const struct world *world, const struct search_options *options)
{
    struct search_options usual = *options;
    only_bounded(&usual.space);
    return (struct both){ run_search(world, options), run_search(world, &usual) };
}

static void free_both(struct both *both, struct world *world)
{
    search_result_free(both->all);
    search_result_free(both->bounded);
    world_close(world);
}

/* What a restriction to one value comes to; nothing where there is no such plan. Shares have some of them. */
static void compare_one(const struct world *world, const struct search_options *options,
                        const struct search_result *all, int *turn, double *worst)
{
    struct search_result *alone = NULL;
    struct error err = { 0 };
    if (!in_turn((*turn)++, 3))
        return;
    if (!search_run(&alone, world->model, &world->facts, options, &err)) { /* no configuration has such a value */
        ck_assert_msg(err.kind == ERROR_INPUT, "%s", err.message);
        return;
    }
    if (alone->feasible) {
        double ratio = (double)step_of(all) / (double)step_of(alone);
        *worst = ratio > *worst ? ratio : *worst;
        ck_assert_msg(all->certificate.simulated_bound_ns <= step_of(alone), "bound %lld, simulated %lld",
                      (long long)all->certificate.simulated_bound_ns, (long long)step_of(alone));
    }
    search_result_free(alone);
}

/* Each schedule alone. */
static double compare_schedules(const struct world *world, struct search_options options,
                                const struct search_result *all, int *turn)
{
    double worst = 0;
    for (int s = 0; schedules[s]; s++) {
        options.space.schedule = (struct allowed){ 1, { s } };
        if (!schedules[s]->asynchronous)
            compare_one(world, &options, all, turn, &worst);
    }
    return worst;
}

/* One stage of ZeRO, one kind of recomputation, one number of stages. */
static double compare_others(const struct world *world, const struct search_options *options,
                             const struct search_result *all, int *turn)
{
    double worst = 0;
    for (int zero = 0; zero <= 3; zero++) {
        struct search_options own = *options;
        own.space.zero = (struct allowed){ 1, { zero } };
        compare_one(world, &own, all, turn, &worst);
    }
    for (int recompute = 0; recompute < RECOMPUTE_COUNT; recompute++) {
        struct search_options own = *options;
        own.space.recompute = (struct allowed){ 1, { recompute } };
        compare_one(world, &own, all, turn, &worst);
    }
    for (int stages = 1; stages <= world->facts.cluster->device_count; stages++) {
        struct search_options own = *options;
        own.space.stages = (struct allowed){ 1, { stages } };
        compare_one(world, &own, all, turn, &worst);
    }
    return worst;
}

/* Of shares every other world, of small ones every twelfth. */
START_TEST(others_shorten_plans_and_leave_the_proof)
{
    struct world world;
    uint64_t seed = (uint64_t)_i;
    int turn = _i / 3;
    if (!in_turn(_i, small_share() ? 12 : 2))
        return;
    struct search_options options = draw_job(&seed, &world);
    struct both both = run_both(&world, &options);
    const struct search_result *all = both.all, *bounded = both.bounded;
    ck_assert(all->feasible && bounded->feasible);
    ck_assert_int_le(step_of(all), step_of(bounded));
    ck_assert_int_eq(all->certificate.bound_ns, bounded->certificate.bound_ns);
    ck_assert_int_eq(all->certificate.best_ns, bounded->certificate.best_ns);
    ck_assert_int_eq(all->certificate.configurations, bounded->certificate.configurations);
    ck_assert_int_le(all->certificate.simulated_bound_ns, bounded->certificate.simulated_bound_ns);
    ck_assert_int_eq(bounded->certificate.unbounded, 0);
    double schedule = compare_schedules(&world, options, all, &turn),
           other = compare_others(&world, &options, all, &turn);
    printf("world %d: %.1f %% of the step without others, at most %.1f %% above any schedule alone, and %.1f %% above "
           "any other value\n",
           _i, 100 * (double)step_of(all) / (double)step_of(bounded), 100 * (schedule - 1), 100 * (other - 1));
    ck_assert_double_le(schedule, 1.01);
    ck_assert_double_le(other, 1.01);
    free_both(&both, &world);
}
END_TEST

/* Seven stages and five sequences: most of the step of 1f1b is filling and draining. */
START_TEST(short_pipelines_idle_less)
{
    struct world world = world_open("1x7:toy", 80000000000, 6);
    struct search_options options = options_of(5);
    struct both both = run_both(&world, &options);
    ck_assert(!schedules[both.all->plans[0].plan->schedule]->bounded);
    ck_assert_int_lt(step_of(both.all), step_of(both.bounded) / 100 * 90);
    free_both(&both, &world);
}
END_TEST

/* Named with one that is bounded they stand beside it too. */
START_TEST(named_together_the_proof_stands)
{
    struct world world = world_open("1x4:toy", 80000000000, 4);
    struct search_options options = options_of(8);
    options.space.stages = (struct allowed){ 1, { 4 } };
    options.space.schedule = (struct allowed){ 2, { schedule_find("1f1b"), schedule_find("zb-h1") } };
    struct search_result *result = run_search(&world, &options);
    ck_assert_int_gt(result->certificate.bound_ns, 0);
    ck_assert_int_gt(result->certificate.unbounded, 0);
    search_result_free(result);
    world_close(&world);
}
END_TEST

static Suite *unbounded_suite(void)
{
    Suite *suite = suite_create("unbounded");
    CHECK_ADD_LOOP(suite, others_shorten_plans_and_leave_the_proof, WORLDS);
    CHECK_ADD(suite, short_pipelines_idle_less);
    CHECK_ADD(suite, named_together_the_proof_stands);
    return suite;
}

CHECK_MAIN(unbounded_suite)
