/* Layers that may be offloaded, on hosts of little memory: what a plan keeps there fits, and the more fits the shorter
 * is the step. */
#include "tests/toy_world.h"

static int64_t step_of(const struct search_result *result)
{
    return result->plans[0].estimate->prediction.step_ns;
}

/* *kept: on the host, by the stage that keeps most. */
static int64_t step_with_host(struct world *world, const struct search_options *options, int64_t host_bytes,
                              int64_t *kept)
{
    world->cluster->types[0].device.host_memory_bytes = host_bytes;
    struct search_result *result = run_search(world, options);
    ck_assert_msg(result->feasible, "nothing fits with %lld bytes on the host", (long long)host_bytes);
    const struct prediction *p = &result->plans[0].estimate->prediction;
    *kept = 0;
    for (int s = 0; p->host_bytes && s < p->stage_count; s++)
        *kept = p->host_bytes[s] > *kept ? p->host_bytes[s] : *kept;
    ck_assert_int_le(*kept, host_bytes);
    int64_t step_ns = step_of(result);
    search_result_free(result);
    return step_ns;
}

/* So little memory on the device that without offloading most layers are computed again. */
static struct search_options short_of_memory(struct world *world, const char *form, long long memory_bytes)
{
    *world = world_of(form, memory_bytes, 12, false);
    struct search_options options = options_of(32);
    options.space.micro = (struct allowed){ 1, { 8 } };
    options.space.stages = options.space.tensor = (struct allowed){ 1, { 1 } };
    return options;
}

START_TEST(steps_shorten_with_what_fits_on_the_host)
{
    static const struct {
        const char *form;
        long long memory_bytes;
    } cases[] = { { "1x1:toy", 17000000 }, { "1x2:toy", 12500000 }, { "1x4:toy", 7000000 } };
    struct world world;
    if (small_share() && _i != 1)
        return;
    struct search_options options = short_of_memory(&world, cases[_i].form, cases[_i].memory_bytes);
    int64_t kept = 0, all = 0, between = 0;
    int64_t without_ns = step_with_host(&world, &options, INT64_C(1) << 40, &kept);
    ck_assert_int_eq(kept, 0);
    options.space.offload = (struct allowed){ 2, { OFFLOAD_NONE, OFFLOAD_BOTH } };
    int64_t best_ns = step_with_host(&world, &options, INT64_C(1) << 40, &all), last_ns = without_ns;
    ck_assert_int_lt(best_ns, without_ns);
    for (int part = 1; part < 8; part++) {
        int64_t step_ns = step_with_host(&world, &options, all * part / 8, &kept);
        printf("%s: %d/8 of %lld bytes: kept %lld, step %lld (without %lld, with all %lld)\n", cases[_i].form, part,
               (long long)all, (long long)kept, (long long)step_ns, (long long)without_ns, (long long)best_ns);
        ck_assert_int_le(step_ns, without_ns);
        ck_assert_int_ge(step_ns, best_ns);
        ck_assert_int_le(step_ns, last_ns + last_ns / 50);
        between += kept > 0 && step_ns < without_ns && kept < all;
        last_ns = step_ns;
    }
    ck_assert_int_ge(between, 4);
    world_close(&world);
}
END_TEST

static Suite *host_room_suite(void)
{
    Suite *suite = suite_create("host_room");
    CHECK_ADD_LOOP(suite, steps_shorten_with_what_fits_on_the_host, 3);
    return suite;
}

CHECK_MAIN(host_room_suite)
