/* Facts that vary: other rates, other clusters, parts of one. */
#include "planner/explain/explain_facts.h"
#include "planner/price/shelf.h"
#include "planner/search/search.h"
#include "tests/toy_world.h"

/* Every rate twice as high halves every duration but latencies and launches; a profile's numbers go the same way. */
START_TEST(rates_scale_times)
{
    struct world world = world_open("2x2:toy", 80000000000, 2);
    struct variation v = variation_none();
    struct varied varied;
    struct error err = { 0 };
    struct profile profile = { .machine = "m", .dtype = DTYPE_BF16 }, *copy = NULL;
    struct compute_entry compute[] = { { "matmul.forward b2", 1, { 1000, 0, 1, ORIGIN_MEASURED } },
                                       { "attention.forward b2", 1, { 1000, 0, 1, ORIGIN_MEASURED } },
                                       { "gelu.forward b2", 1, { 1000, 0, 1, ORIGIN_MEASURED } } };
    struct collective_point points[] = { { 1024, { 1100, 0, 1, ORIGIN_MEASURED } },
                                         { 4096, { 3100, 0, 1, ORIGIN_MEASURED } } };
    struct collective_curve curve = { .op = "all_reduce",
                                      .ranks = 2,
                                      .concurrent = 1,
                                      .level = 1,
                                      .point_count = 2,
                                      .points = points,
                                      .latency_ns = 100,
                                      .bytes_per_s = 1e9 };
    profile.compute = compute;
    profile.compute_count = 3;
    profile.curves = &curve;
    profile.curve_count = 1;
    profile.compute_under_communication = profile.communication_under_compute = 1;
    ck_assert_msg(profile_finish(&profile, &err), "%s", err.message);
    ck_assert(profile_merge(&copy, &profile, NULL, &err));
    struct facts facts = { .cluster = world.cluster, .profile = copy };
    v.matmul = 2;
    v.attention = 4;
    v.bandwidth[1] = 2;
    v.memory = 1.5;
    ck_assert_msg(varied_open(&varied, &facts, &v, &err), "%s", err.message);
    ck_assert_int_eq(profile_compute(varied.profiles[0], "matmul.forward b2", 1)->m.ns, 500);
    ck_assert_int_eq(profile_compute(varied.profiles[0], "attention.forward b2", 1)->m.ns, 250);
    ck_assert_int_eq(profile_compute(varied.profiles[0], "gelu.forward b2", 1)->m.ns, 1000);
    ck_assert_int_eq(profile_curve(varied.profiles[0], "all_reduce", 2, 1, 1)->points[0].m.ns, 600);
    ck_assert_int_eq(profile_curve(varied.profiles[0], "all_reduce", 2, 1, 1)->points[1].m.ns, 1600);
    ck_assert_int_eq(profile_compute(copy, "matmul.forward b2", 1)->m.ns, 1000); /* the original stays */
    CHECK_NEAR(varied.cluster->types[0].device.matmul_flops_per_s[DTYPE_BF16], 2e14, 1);
    CHECK_NEAR(varied.cluster->types[0].levels[1].bytes_per_s, 2e10, 1);
    CHECK_NEAR(varied.cluster->types[0].levels[0].bytes_per_s, 1e11, 1);
    CHECK_NEAR((double)facts_most_bytes(&varied.facts), 1.5 * (double)facts_most_bytes(&facts), 1);
    varied_free(&varied);
    profile_free(copy);
    arena_free(&profile.arena);
    world_close(&world);
}
END_TEST

START_TEST(clusters_grow_and_shrink)
{
    struct world one = world_open("1x4:toy", 80000000000, 2), two = world_open("4x2:toy", 80000000000, 2);
    struct variation v = variation_none();
    struct varied varied;
    struct error err = { 0 };
    v.units = 3;
    ck_assert(varied_open(&varied, &one.facts, &v, &err));
    ck_assert_int_eq(varied.cluster->device_count, 3);
    varied_free(&varied);
    ck_assert(varied_open(&varied, &two.facts, &v, &err));
    ck_assert_int_eq(varied.cluster->device_count, 6);
    varied_free(&varied);
    v.units = 0;
    v.times = 2;
    ck_assert(varied_open(&varied, &one.facts, &v, &err));
    ck_assert_int_eq(varied.cluster->device_count, 8);
    ck_assert_int_eq(varied.cluster->level_count, 2);
    varied_free(&varied);
    v.times = 1;
    v.widen = 2;
    ck_assert(varied_open(&varied, &two.facts, &v, &err));
    ck_assert_int_eq(varied.cluster->device_count, 8);
    ck_assert_int_eq(varied.cluster->types[0].levels[0].fanout, 4);
    ck_assert_int_eq(varied.cluster->types[0].levels[1].fanout, 2);
    varied_free(&varied);
    ck_assert(!varied_open(&varied, &one.facts, &v, &err));
    err = (struct error){ 0 };
    v.widen = 1;
    v.units = MAX_DEVICES;
    ck_assert(!varied_open(&varied, &two.facts, &v, &err));
    ck_assert_int_eq(err.kind, ERROR_INPUT);
    world_close(&one);
    world_close(&two);
}
END_TEST

static void check_part(const struct world *world, const struct variation *v, const char *want)
{
    struct varied varied;
    struct error err = { 0 };
    struct world other = world_open(want, 80000000000, 2);
    ck_assert_msg(varied_open(&varied, &world->facts, v, &err), "%s", err.message);
    ck_assert_str_eq(varied.typed, want);
    ck_assert_int_eq(varied.cluster->device_count, other.cluster->device_count);
    ck_assert_int_eq(varied.cluster->type_count, other.cluster->type_count);
    ck_assert_int_eq(varied.cluster->group_count, other.cluster->group_count);
    ck_assert_int_eq(cluster_node_size(varied.cluster), cluster_node_size(other.cluster));
    for (int t = 0; t < other.cluster->type_count; t++)
        ck_assert_int_eq(facts_available_bytes(&varied.facts, t), facts_available_bytes(&other.facts, t));
    varied_free(&varied);
    world_close(&other);
}

/* Parts are the clusters that their names say, the whole first, and fall where they are of the same types. */
START_TEST(parts_are_clusters)
{
    struct world one = world_open("1x6:toy", 80000000000, 2), even = world_open("4x8:toy", 80000000000, 2),
                 mixed = world_open("2x4:toy+1x2:toy@memory=4e10+1x4:toy", 80000000000, 2);
    struct variation list[MOST_PARTS];
    static const char *const of_even[] = { "3x8:toy", "2x8:toy", "1x8:toy", "1x6:toy",
                                           "1x4:toy", "1x3:toy", "1x2:toy", "1x1:toy" };
    static const char *const of_mixed[] = { "2x4:toy+1x2:toy@memory=4e10",
                                            "3x4:toy",
                                            "2x4:toy",
                                            "1x4:toy",
                                            "1x3:toy",
                                            "1x2:toy",
                                            "1x1:toy",
                                            "1x2:toy@memory=4e10",
                                            "1x1:toy@memory=4e10" };
    ck_assert_int_eq(parts_of_cluster(one.cluster, list), 5); /* 6, 4, 3, 2, 1 */
    ck_assert_int_eq(list[1].units, 4);
    ck_assert_int_eq(parts_of_cluster(even.cluster, list), 9);
    for (int i = 0; i < 8; i++)
        check_part(&even, &list[i + 1], of_even[i]);
    ck_assert_int_eq(parts_of_cluster(mixed.cluster, list), 10);
    for (int i = 0; i < 9; i++)
        check_part(&mixed, &list[i + 1], of_mixed[i]);
    struct varied varied;
    struct error err = { 0 };
    struct variation v = variation_none();
    ck_assert(varied_open(&varied, &mixed.facts, &v, &err));
    ck_assert_ptr_null(varied.typed);
    ck_assert_str_eq(varied.words, "12 toy and 2 toy");
    varied_free(&varied);
    v.units = 1;
    v.devices = 5; /* of nodes of 4 */
    ck_assert(!varied_open(&varied, &mixed.facts, &v, &err));
    world_close(&one);
    world_close(&even);
    world_close(&mixed);
}
END_TEST

/* One type alone is told by its own profile, wherever that stands among the facts'. */
START_TEST(a_type_alone_keeps_its_profile)
{
    struct world mixed = world_open("1x2:toy+1x2:toy@memory=4e10", 80000000000, 2);
    struct profile first = { .machine = "m", .device = "other", .dtype = DTYPE_BF16 },
                   second = { .machine = "m", .device = "toy", .dtype = DTYPE_BF16 };
    struct facts facts = { .cluster = mixed.cluster, .profile = &first };
    struct variation v = variation_none();
    struct varied varied;
    struct error err = { 0 };
    first.next = &second;
    v.types = 2;
    first.compute_under_communication = first.communication_under_compute = 1;
    second.compute_under_communication = second.communication_under_compute = 1;
    ck_assert(profile_finish(&first, &err) && profile_finish(&second, &err));
    ck_assert_msg(varied_open(&varied, &facts, &v, &err), "%s", err.message);
    ck_assert_int_eq(varied.profile_count, 1);
    ck_assert_str_eq(facts_profile(&varied.facts, 0)->device, "toy");
    varied_free(&varied);
    arena_free(&first.arena);
    arena_free(&second.arena);
    world_close(&mixed);
}
END_TEST

/* The part that multiplies most, where it could compute for less than the step. */
START_TEST(likely_parts_could_be_faster)
{
    struct world mixed = world_open("1x3:toy+1x1:toy@memory=4e10", 80000000000, 2),
                 even = world_open("2x2:toy", 80000000000, 2), odd = world_open("3x2:toy", 80000000000, 2);
    struct variation v;
    ck_assert(parts_likely(mixed.cluster, DTYPE_BF16, 74, 100, &v));
    ck_assert(v.types == 1 && v.units == 0);
    ck_assert(!parts_likely(mixed.cluster, DTYPE_BF16, 76, 100, &v)); /* 4/3 of it */
    ck_assert(parts_likely(even.cluster, DTYPE_BF16, 49, 100, &v));
    ck_assert(v.types == 0 && v.units == 1);
    ck_assert(!parts_likely(even.cluster, DTYPE_BF16, 50, 100, &v));
    ck_assert(!parts_likely(odd.cluster, DTYPE_BF16, 1, 100, &v));
    world_close(&mixed);
    world_close(&even);
    world_close(&odd);
}
END_TEST

/* What is priced for some nodes holds for more and for fewer of them: a search with those prices finds what one with
 * its own does, and claims the same of the same prices. */
START_TEST(prices_do_not_know_how_many_nodes)
{
    struct world world = world_open("4x2:toy", 80000000000, 2);
    struct search_options own = { .space = space_default(24, 0, DTYPE_BF16), .gap_ppm = 1000 }, kept = own;
    struct price_shelf shelf;
    price_shelf_open(&shelf);
    kept.prices = &shelf;
    kept.rates = 1;
    static const struct {
        int units, times;
    } sizes[] = { { 0, 1 }, { 1, 1 }, { 6, 1 }, { 0, 2 } };
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        struct variation v = variation_none();
        struct varied varied;
        struct error err = { 0 };
        struct search_result *mine = NULL, *shared = NULL;
        v.units = sizes[i].units;
        v.times = sizes[i].times;
        ck_assert(variation_keeps_prices(world.cluster, &v));
        ck_assert_msg(varied_open(&varied, &world.facts, &v, &err) &&
                          search_run(&mine, world.model, &varied.facts, &own, &err) &&
                          search_run(&shared, world.model, &varied.facts, &kept, &err),
                      "%s", err.message);
        ck_assert(mine->feasible && shared->feasible);
        ck_assert(plan_hash(mine->plans[0].plan) == plan_hash(shared->plans[0].plan));
        ck_assert_int_eq(mine->plans[0].formula_ns, shared->plans[0].formula_ns);
        ck_assert_int_eq(mine->certificate.bound_ns, shared->certificate.bound_ns);
        ck_assert(mine->certificate.hash.prices == shared->certificate.hash.prices);
        search_result_free(mine);
        search_result_free(shared);
        varied_free(&varied);
    }
    struct variation wide = variation_none(), fast = wide, alone = wide;
    wide.widen = 2;
    fast.bandwidth[1] = 2;
    alone.units = alone.devices = 1;
    ck_assert(!variation_keeps_prices(world.cluster, &wide) && !variation_keeps_prices(world.cluster, &fast) &&
              !variation_keeps_prices(world.cluster, &alone));
    price_shelf_close(&shelf);
    world_close(&world);
}
END_TEST

static Suite *explain_facts_suite(void)
{
    Suite *suite = suite_create("facts that vary");
    CHECK_ADD(suite, rates_scale_times);
    CHECK_ADD(suite, clusters_grow_and_shrink);
    CHECK_ADD(suite, parts_are_clusters);
    CHECK_ADD(suite, a_type_alone_keeps_its_profile);
    CHECK_ADD(suite, likely_parts_could_be_faster);
    CHECK_ADD(suite, prices_do_not_know_how_many_nodes);
    return suite;
}

CHECK_MAIN(explain_facts_suite)
