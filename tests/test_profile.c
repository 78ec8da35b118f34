/* Reading, writing, lookups, nearest shapes, curves, merging. */
#include "planner/facts/profile.h"
#include "base/text.h"
#include "tests/check.h"
#include <stdio.h>
#include <string.h>

static const char *const sample =
    "{\"format\": \"cleave-profile\", \"version\": 1, \"machine\": \"m\", \"device\": \"d\", \"reference_ranks\": 4, "
    "\"dtype\": \"fp32\", "
    "\"memory_outside_arena_bytes\": 5, \"memory_tables_bytes\": 3, \"memory_pinned_bytes\": 9, \"instruction_ns\": "
    "1700, \"reference_ns\": 20000000,"
    "\"compute_under_communication\": 1.25,"
    "\"compute\": [{\"work\": \"matmul.forward b2 t64 h768+ n12 d64\", \"loaded\": 2, \"ns\": 200, \"spread\": 0.1, "
    "\"repeats\": 9, \"origin\": \"measured\"},"
    "{\"work\": \"matmul.forward b2 t64 h768+ n12 d64\", \"loaded\": 1, \"ns\": 100},"
    "{\"work\": \"matmul.forward b4 t64 h768+ n12 d64\", \"loaded\": 1, \"ns\": 190},"
    "{\"work\": \"attention.forward b1 t8 s8~ n4 d16 kv2 causal\", \"loaded\": 1, \"ns\": 77},"
    "{\"work\": \"gelu.forward b2 t64 f3072\", \"loaded\": 1, \"ns\": 40}],"
    "\"linear\": [{\"work\": \"adamw\", \"loaded\": 1, \"fixed_ns\": 10.5, \"ns_per_unit\": 0.25, \"min_units\": 100, "
    "\"max_units\": 1000}],"
    "\"collectives\": [{\"op\": \"all-reduce\", \"ranks\": 2, \"concurrent\": 1, \"level\": 0, \"latency_ns\": 1000, "
    "\"bytes_per_s\": 1e9,"
    "\"points\": [{\"bytes\": 1024, \"ns\": 2000}, {\"bytes\": 4096, \"ns\": 8000}]},"
    "{\"op\": \"all-reduce\", \"ranks\": 4, \"concurrent\": 2, \"level\": 0, \"points\": [{\"bytes\": 100, \"ns\": "
    "50}]}]}";

static struct profile *profile_open(const char *text)
{
    struct profile *profile = NULL;
    struct error err = { 0 };
    ck_assert_msg(profile_read(&profile, "p.json", text, strlen(text), &err), "%s", err.message);
    return profile;
}

START_TEST(what_is_written_reads_back)
{
    struct profile *a = profile_open(sample);
    size_t length, again_length;
    char *text = profile_write(a, &length);
    ck_assert_ptr_nonnull(text);
    struct profile *b = profile_open(text);
    char *again = profile_write(b, &again_length);
    ck_assert_str_eq(text, again);
    ck_assert_uint_eq(length, again_length);
    ck_assert_uint_eq(a->hash, b->hash);
    ck_assert_int_eq(b->compute_count, 5);
    ck_assert_int_eq(b->memory_outside_arena_bytes, 5);
    ck_assert_int_eq(b->memory_part_bytes[MEMORY_TABLES], 3);
    ck_assert_int_eq(b->memory_part_bytes[MEMORY_PINNED], 9);
    ck_assert_int_eq(b->instruction_ns, 1700);
    ck_assert_int_eq(b->reference_ns, 20000000);
    CHECK_NEAR(b->compute_under_communication, 1.25, 0);
    CHECK_NEAR(b->communication_under_compute, 1, 0);
    free(text);
    free(again);
    profile_free(a);
    profile_free(b);
}
END_TEST

START_TEST(memory_is_told_by_its_parts)
{
    struct text text = { 0 };
    struct memory_outside outside = {
        .bytes = 100 << 10, .part = { [MEMORY_PRODUCTS] = 32 << 10, [MEMORY_SUMS] = 8 << 10, [MEMORY_PINNED] = 2 << 10 }
    };
    ck_assert_int_eq(memory_rest_bytes(&outside), 60 << 10);
    memory_describe(&text, &outside);
    ck_assert_str_eq(text.data, "workspaces for matrix products 32.0 KiB, partial sums of teams 8.00 KiB, the rest "
                                "(context, libraries, other programs) 60.0 KiB; pinned memory of the host 2.00 KiB");
    text_free(&text);
    outside.bytes = 1; /* less than its parts, as others may have left meanwhile */
    ck_assert_int_eq(memory_rest_bytes(&outside), 0);
}
END_TEST

START_TEST(order_of_the_file_does_not_matter)
{
    static const char *const one =
        "{\"format\": \"cleave-profile\", \"version\": 1, \"dtype\": \"fp32\", \"compute\": ["
        "{\"work\": \"a\", \"loaded\": 1, \"ns\": 1}, {\"work\": \"b\", \"loaded\": 1, \"ns\": 2}]}";
    static const char *const two =
        "{\"version\": 1, \"format\": \"cleave-profile\", \"dtype\": \"fp32\", \"compute\": ["
        "{\"work\": \"b\", \"loaded\": 1, \"ns\": 2}, {\"ns\": 1, \"work\": \"a\", \"loaded\": 1}]}";
    struct profile *a = profile_open(one), *b = profile_open(two);
    ck_assert_uint_eq(a->hash, b->hash);
    profile_free(a);
    profile_free(b);
}
END_TEST

START_TEST(lookups_are_exact)
{
    struct profile *p = profile_open(sample);
    const char *work = "matmul.forward b2 t64 h768+ n12 d64";
    ck_assert_int_eq(profile_compute(p, work, 1)->m.ns, 100);
    ck_assert_int_eq(profile_compute(p, work, 2)->m.ns, 200);
    ck_assert_int_eq(profile_compute(p, work, 2)->m.repeats, 9);
    ck_assert_ptr_null(profile_compute(p, work, 3));
    ck_assert_ptr_null(profile_compute(p, "matmul.forward b2 t64 h768 n12 d64", 1));
    CHECK_NEAR(profile_linear(p, "adamw", 1)->fixed_ns, 10.5, 0);
    ck_assert_ptr_null(profile_linear(p, "adamw", 2));
    ck_assert_int_eq(profile_linear_nearest(p, "adamw", 7)->loaded, 1);
    ck_assert_int_eq(profile_curve(p, "all-reduce", 4, 2, 0)->point_count, 1);
    ck_assert_ptr_null(profile_curve(p, "all-reduce", 4, 1, 0));
    ck_assert_int_eq(profile_curve_nearest(p, "all-reduce", 3, 2, 0)->ranks, 4);
    ck_assert_ptr_null(profile_curve_nearest(p, "all-reduce", 2, 1, 1));
    ck_assert_ptr_null(profile_curve_nearest(p, "all-gather", 2, 1, 0));
    profile_free(p);
}
END_TEST

START_TEST(every_entry_is_found_in_a_large_profile)
{
    enum { MANY = 3000 };
    struct text text = { 0 };
    text_add(&text, "{\"format\": \"cleave-profile\", \"version\": 1, \"dtype\": \"fp32\", \"compute\": [");
    for (int i = 0; i < MANY; i++)
        text_printf(&text, "%s{\"work\": \"k%d.forward b%d\", \"loaded\": 1, \"ns\": %d}", i ? "," : "", i % 7, i + 1,
                    i);
    text_add(&text, "]}");
    struct profile *p = profile_open(text.data);
    for (int i = 0; i < MANY; i++) {
        char work[64];
        int64_t extents[MAX_AXES];
        snprintf(work, sizeof work, "k%d.forward b%d", i % 7, i + 1);
        ck_assert_int_eq(profile_compute(p, work, 1)->m.ns, i);
        ck_assert_int_eq(profile_compute_nearest(p, work, 1, extents)->m.ns, i); /* itself is the nearest */
        ck_assert_int_eq(extents[0], i + 1);
    }
    profile_free(p);
    text_free(&text);
}
END_TEST

START_TEST(nearest_shapes_share_kernel_phase_and_axes)
{
    struct profile *p = profile_open(sample);
    int64_t x[MAX_AXES];
    ck_assert_int_eq(profile_compute_nearest(p, "matmul.forward b8 t64 h768+ n12 d64", 1, x)->m.ns, 190);
    ck_assert_int_eq(x[0], 4);
    ck_assert_int_eq(x[4], 64);
    ck_assert_int_eq(profile_compute_nearest(p, "matmul.forward b2 t32 h768+ n12 d64", 2, x)->m.ns, 200);
    ck_assert_int_eq(profile_compute_nearest(p, "attention.forward b1 t8 s8~ n8 d16 kv4 causal", 1, x)->m.ns, 77);
    ck_assert_int_eq(x[3], 4);
    ck_assert_ptr_null(profile_compute_nearest(p, "attention.forward b1 t8 s8~ n8 d16 kv4", 1, x));
    ck_assert_ptr_null(profile_compute_nearest(p, "matmul.backward_input b8 t64 h768+ n12 d64", 1, x));
    ck_assert_ptr_null(profile_compute_nearest(p, "matmul.forward b8 t64 h768 n12 d64", 1, x));
    ck_assert_ptr_null(profile_compute_nearest(p, "matmul.forward b8 t64 h768+ n12 d64 bias", 1, x));
    profile_free(p);
}
END_TEST

START_TEST(curves_between_and_beyond_points)
{
    struct profile *p = profile_open(sample);
    const struct collective_curve *c = profile_curve(p, "all-reduce", 2, 1, 0);
    bool outside;
    ck_assert_int_eq(collective_curve_ns(c, 1024, &outside), 2000);
    ck_assert(!outside);
    ck_assert_int_eq(collective_curve_ns(c, 2048, &outside), 4000); /* the middle in both logarithms */
    ck_assert(!outside);
    ck_assert_int_eq(collective_curve_ns(c, 4096, &outside), 8000);
    ck_assert_int_eq(collective_curve_ns(c, 512, &outside), 1512); /* the fit */
    ck_assert(outside);
    ck_assert_int_eq(collective_curve_ns(c, 5000, &outside),
                     8000); /* the fit says 6000: never below a smaller message */
    ck_assert_int_eq(collective_curve_ns(c, 100000, &outside), 101000);
    ck_assert(outside);
    int64_t before = 0;
    for (int64_t bytes = 0; bytes < 20000; bytes += 7) {
        int64_t ns = collective_curve_ns(c, bytes, &outside);
        ck_assert_int_ge(ns, before);
        before = ns;
    }
    ck_assert_int_eq(collective_curve_ns(c, INT64_MAX, &outside), MAX_TIME_NS);
    c = profile_curve(p, "all-reduce", 4, 2, 0); /* one point, no fit: its rate above, itself below */
    ck_assert_int_eq(collective_curve_ns(c, 1000, &outside), 500);
    ck_assert_int_eq(collective_curve_ns(c, 10, &outside), 50);
    profile_free(p);
}
END_TEST

/* An old profile without the reference: none, and none is written, so that its bytes and its hash stay. */
START_TEST(the_newest_reference_is_kept)
{
    static const char *const texts[] = {
        "{\"format\": \"cleave-profile\", \"version\": 1, \"dtype\": \"fp32\"}",
        "{\"format\": \"cleave-profile\", \"version\": 1, \"dtype\": \"fp32\", \"reference_ns\": 300}",
        "{\"format\": \"cleave-profile\", \"version\": 1, \"dtype\": \"fp32\", \"reference_ns\": 200}"
    };
    static const int64_t expected[3][3] = { { 0, 300, 200 }, { 300, 300, 200 }, { 200, 300, 200 } };
    for (int i = 0; i < 3; i++)
        for (int j = 0; j < 3; j++) {
            struct profile *base = profile_open(texts[i]), *more = profile_open(texts[j]), *merged = NULL;
            struct error err = { 0 };
            ck_assert_msg(profile_merge(&merged, base, more, &err), "%s", err.message);
            ck_assert_int_eq(merged->reference_ns, expected[i][j]);
            size_t length;
            char *text = profile_write(merged, &length);
            ck_assert((strstr(text, "reference_ns") != NULL) == (expected[i][j] > 0));
            free(text);
            profile_free(base);
            profile_free(more);
            profile_free(merged);
        }
}
END_TEST

/* Who does not say how its numbers came about (older files) gets no word on it, and keeps its bytes and its hash. */
START_TEST(origins_are_kept_and_never_made_up)
{
    static const char *const origins[] = { "", ", \"factors_origin\": \"analytic\", \"memory_origin\": \"measured\"",
                                           ", \"factors_origin\": \"measured\", \"memory_origin\": \"analytic\"" };
    static const int factors[] = { PROFILE_UNSAID, ORIGIN_ANALYTIC, ORIGIN_MEASURED };
    static const int memory[] = { PROFILE_UNSAID, ORIGIN_MEASURED, ORIGIN_ANALYTIC };
    struct profile *all[3];
    for (int i = 0; i < 3; i++) {
        char text[400];
        snprintf(text, sizeof text,
                 "{\"format\": \"cleave-profile\", \"version\": 1, \"dtype\": \"fp32\", "
                 "\"compute_under_communication\": 2, \"communication_under_compute\": 2%s, "
                 "\"memory_outside_arena_bytes\": 7}",
                 origins[i]);
        all[i] = profile_open(text);
        ck_assert_int_eq(all[i]->factors_origin, factors[i]);
        ck_assert_int_eq(all[i]->memory_origin, memory[i]);
        size_t length;
        char *written = profile_write(all[i], &length);
        ck_assert((strstr(written, "_origin") != NULL) == (i > 0));
        struct profile *again = profile_open(written);
        ck_assert_uint_eq(again->hash, all[i]->hash);
        free(written);
        profile_free(again);
    }
    for (int i = 0; i < 3; i++)
        for (int j = 0; j < 3; j++) {
            struct profile *merged = NULL;
            struct error err = { 0 };
            ck_assert_msg(profile_merge(&merged, all[i], all[j], &err), "%s", err.message);
            ck_assert_int_eq(merged->factors_origin, factors[j]);
            ck_assert_int_eq(merged->memory_origin, memory[j]);
            profile_free(merged);
        }
    for (int i = 0; i < 3; i++)
        profile_free(all[i]);
}
END_TEST

START_TEST(newer_entries_win)
{
    static const char *const more = "{\"format\": \"cleave-profile\", \"version\": 1, \"machine\": \"\", \"backend\": "
                                    "\"cpu\", \"dtype\": \"fp32\", \"communication_under_compute\": 2,"
                                    "\"communication_under_compute_spread\": 0.25,"
                                    "\"compute\": [{\"work\": \"gelu.forward b2 t64 f3072\", \"loaded\": 1, \"ns\": "
                                    "41}, {\"work\": \"new\", \"loaded\": 1, \"ns\": 1}],"
                                    "\"linear\": [{\"work\": \"adamw\", \"loaded\": 1, \"fixed_ns\": 1, "
                                    "\"ns_per_unit\": 1, \"min_units\": 0, \"max_units\": 1}],"
                                    "\"collectives\": [{\"op\": \"all-reduce\", \"ranks\": 2, \"concurrent\": 1, "
                                    "\"level\": 0, \"bytes_per_s\": 2}]}";
    struct profile *a = profile_open(sample), *b = profile_open(more), *m = NULL, *same = NULL;
    struct error err = { 0 };
    ck_assert_msg(profile_merge(&m, a, b, &err), "%s", err.message);
    ck_assert_int_eq(m->compute_count, 6);
    ck_assert_int_eq(profile_compute(m, "gelu.forward b2 t64 f3072", 1)->m.ns, 41);
    ck_assert_int_eq(profile_compute(m, "new", 1)->m.ns, 1);
    CHECK_NEAR(profile_linear(m, "adamw", 1)->fixed_ns, 1, 0);
    ck_assert_int_eq(profile_curve(m, "all-reduce", 2, 1, 0)->point_count, 0);
    ck_assert_int_eq(m->curve_count, 2);
    ck_assert_str_eq(m->machine, "m");
    ck_assert_str_eq(m->backend, "cpu");
    CHECK_NEAR(m->compute_under_communication, 1.25, 0);
    CHECK_NEAR(m->communication_under_compute, 2, 0);
    CHECK_NEAR(m->compute_under_communication_spread, 0, 0);
    CHECK_NEAR(m->communication_under_compute_spread, 0.25, 0);
    ck_assert_int_eq(m->reference_ns, 20000000); /* what the newer one does not say stays */
    uint64_t hash = a->hash;
    profile_free(b);
    ck_assert_msg(profile_merge(&same, NULL, a, &err), "%s", err.message);
    profile_free(a); /* the copies own everything */
    ck_assert_uint_eq(same->hash, hash);
    ck_assert_int_eq(profile_compute(same, "gelu.forward b2 t64 f3072", 1)->m.ns, 40);
    profile_free(same);
    profile_free(m);
    ck_assert(profile_merge(&m, NULL, NULL, &err));
    ck_assert_int_eq(m->compute_count, 0);
    profile_free(m);
}
END_TEST

/* The profile of a device on which so many shapes were timed, from `first` on, with an algorithm of this number. */
static struct profile *timed(const char *device, int first, int count, int algorithm)
{
    struct text text = { 0 };
    text_printf(&text,
                "{\"format\": \"cleave-profile\", \"version\": 1, \"dtype\": \"fp32\", \"tuned_device\": \"%s\", "
                "\"tuned\": [",
                device);
    for (int c = 0; c < count; c++) {
        text_printf(&text, "%s[%d", c > 0 ? ", " : "", first + c);
        for (int i = 1; i < GPU_CHOICE_KEY; i++)
            text_add(&text, ", 0");
        for (int i = 0; i < GPU_CHOICE_SETTINGS; i++)
            text_printf(&text, ", %d", algorithm);
        text_add(&text, "]");
    }
    text_add(&text, "]}");
    struct profile *profile = profile_open(text.data);
    text_free(&text);
    return profile;
}

START_TEST(newer_algorithms_win)
{
    struct error err = { 0 };
    struct profile *base = timed("a", 1, 3, 7), *more = timed("a", 3, 2, 8), *other = timed("b", 9, 1, 9),
                   *none = timed("", 0, 0, 0), *m = NULL;
    ck_assert_msg(profile_merge(&m, base, more, &err), "%s", err.message);
    ck_assert_int_eq(m->tuned.count, 4);
    for (int c = 0; c < 4; c++) {
        ck_assert_int_eq(m->tuned.choice[c].key[0], 1 + c);
        ck_assert_int_eq(m->tuned.choice[c].setting[GPU_CHOICE_SETTINGS - 1], c < 2 ? 7 : 8);
    }
    profile_free(m);
    ck_assert_msg(profile_merge(&m, base, other, &err), "%s", err.message);
    ck_assert_str_eq(m->tuned_device, "b");
    ck_assert_int_eq(m->tuned.count, 1);
    profile_free(m);
    ck_assert_msg(profile_merge(&m, base, none, &err), "%s", err.message);
    ck_assert_str_eq(m->tuned_device, "a");
    ck_assert_int_eq(m->tuned.count, 3);
    profile_free(m);
    profile_free(base);
    profile_free(more);
    profile_free(other);
    profile_free(none);
}
END_TEST

#define HEAD "{\"format\": \"cleave-profile\", \"version\": 1, \"dtype\": \"fp32\""
static const struct {
    const char *text, *message;
} wrong[] = {
    { "", "p.json:1:1" },
    { "[]", "p.json:1:1" },
    { "{\"version\": 1, \"dtype\": \"fp32\"}", "\"format\"" },
    { "{\"format\": \"x\", \"version\": 1, \"dtype\": \"fp32\"}",
      "p.json:1:12: format: expected \"cleave-profile\", found \"x\"" },
    { "{\"format\": \"cleave-profile\", \"version\": 2, \"dtype\": \"fp32\"}", "version" },
    { "{\"format\": \"cleave-profile\", \"version\": 1, \"dtype\": \"fp33\"}", "did you mean \"fp32\"?" },
    { HEAD ", \"computes\": []}", "did you mean \"compute\"?" },
    { HEAD ", \"compute\": {}}", "compute: expected an array, found an object" },
    { HEAD ", \"compute\": [{\"work\": \"a\", \"loaded\": 0, \"ns\": 1}]}", "compute[0].loaded" },
    { HEAD ", \"compute\": [{\"work\": \"a\", \"loaded\": 1, \"ns\": -1}]}", "compute[0].ns" },
    { HEAD ", \"compute\": [{\"work\": \"a\", \"loaded\": 1, \"ns\": 1e300}]}", "compute[0].ns" },
    { HEAD ", \"compute\": [{\"work\": \"a\", \"loaded\": 1, \"ns\": 1}, {\"work\": \"a\", \"loaded\": 1, \"ns\": 2}]}",
      "p.json: profile: compute \"a\" at loaded 1: expected one entry, found two" },
    { HEAD ", \"linear\": [{\"work\": \"a\", \"loaded\": 1, \"fixed_ns\": 0, \"ns_per_unit\": 0, \"min_units\": 2, "
           "\"max_units\": 1}]}",
      "linear[0].max_units: expected at least min_units (2), found 1" },
    { HEAD ", \"collectives\": [{\"op\": \"a\", \"ranks\": 1, \"concurrent\": 1, \"level\": 0}]}",
      "collectives[0].ranks" },
    { HEAD ", \"collectives\": [{\"op\": \"a\", \"ranks\": 2, \"concurrent\": 1, \"level\": 0}]}",
      "collectives[0]: expected points or bytes_per_s" },
    { HEAD ", \"collectives\": [{\"op\": \"a\", \"ranks\": 2, \"concurrent\": 1, \"level\": 0, \"points\": "
           "[{\"bytes\": 2, \"ns\": 1}, {\"bytes\": 2, \"ns\": 1}]}]}",
      "points[1].bytes: expected more than the point before (2), found 2" },
    { HEAD ", \"compute_under_communication\": 0.5}", "compute_under_communication" },
    { HEAD ", \"communication_under_compute_spread\": -0.5}", "communication_under_compute_spread" },
    { HEAD ", \"tuned\": {}}", "tuned: expected an array of at most 4096 choices, found an object" },
    { HEAD ", \"tuned\": [[1, 2]]}", "tuned[0]: expected an array of 28 numbers, found an array of 2" },
    { HEAD ", \"reference_ns\": -1}", "p.json:1:77: reference_ns" },
};

START_TEST(wrong_profiles_say_where)
{
    struct profile *profile = NULL;
    struct error err = { 0 };
    ck_assert(!profile_read(&profile, "p.json", wrong[_i].text, strlen(wrong[_i].text), &err));
    ck_assert_msg(strstr(err.message, wrong[_i].message) != NULL, "got \"%s\", expected \"%s\"", err.message,
                  wrong[_i].message);
    ck_assert_ptr_null(profile);
}
END_TEST

static Suite *profile_suite(void)
{
    Suite *suite = suite_create("profile");
    TCase *tcase = tcase_create("profile");
    tcase_add_test(tcase, what_is_written_reads_back);
    tcase_add_test(tcase, memory_is_told_by_its_parts);
    tcase_add_test(tcase, order_of_the_file_does_not_matter);
    tcase_add_test(tcase, lookups_are_exact);
    tcase_add_test(tcase, every_entry_is_found_in_a_large_profile);
    tcase_add_test(tcase, nearest_shapes_share_kernel_phase_and_axes);
    tcase_add_test(tcase, curves_between_and_beyond_points);
    tcase_add_test(tcase, the_newest_reference_is_kept);
    tcase_add_test(tcase, origins_are_kept_and_never_made_up);
    tcase_add_test(tcase, newer_entries_win);
    tcase_add_test(tcase, newer_algorithms_win);
    tcase_add_loop_test(tcase, wrong_profiles_say_where, 0, sizeof wrong / sizeof wrong[0]);
    suite_add_tcase(suite, tcase);
    return suite;
}

CHECK_MAIN(profile_suite)
