/* The device catalogue, the short form, the JSON form, the hierarchy. */
#include "planner/facts/cluster.h"
#include "base/text.h"
#include "host/catalogue.h"
#include "tests/check.h"
#include <stdio.h>
#include <string.h>

#define DEVICES SOURCE_ROOT "/planner/facts/devices"

static struct catalogue *catalogue_open(void)
{
    struct catalogue *catalogue = NULL;
    struct error err = { 0 };
    ck_assert_msg(catalogue_read(&catalogue, DEVICES, &err), "%s", err.message);
    return catalogue;
}

static struct cluster *cluster_open(const char *text)
{
    struct catalogue *catalogue = catalogue_open();
    struct cluster *cluster = NULL;
    struct error err = { 0 };
    ck_assert_msg(cluster_read(&cluster, "--cluster", text, strlen(text), catalogue->entries, catalogue->count, &err),
                  "%s", err.message);
    catalogue_free(catalogue);
    return cluster;
}

START_TEST(catalogue_is_sound)
{
    struct catalogue *catalogue = catalogue_open();
    ck_assert_int_ge(catalogue->count, 20);
    for (int i = 0; i < catalogue->count; i++) {
        struct arena arena = { 0 };
        struct device_type d;
        struct error err = { 0 };
        const struct catalogue_entry *e = &catalogue->entries[i];
        ck_assert_msg(device_type_read(&d, &arena, e->name, e->json, e->length, &err), "%s", err.message);
        ck_assert_str_eq(d.name, e->name);
        ck_assert_uint_gt(strlen(d.source), 10);
        ck_assert_msg(d.matmul_flops_per_s[DTYPE_FP32] > 0, "%s computes in fp32", e->name);
        ck_assert_msg(d.vector_flops_per_s <= d.matmul_flops_per_s[DTYPE_FP32] * 1.01, "%s: vectors beat matmuls",
                      e->name);
        ck_assert_msg(d.link_bytes_per_s >= d.nic_bytes_per_s, "%s: slower inside the node", e->name);
        ck_assert_msg(d.memory_bytes > 10 * d.reserve_bytes, "%s: a reserve of a tenth", e->name);
        if (i > 0)
            ck_assert_str_lt(catalogue->entries[i - 1].name, e->name);
        arena_free(&arena);
    }
    catalogue_free(catalogue);
}
END_TEST

START_TEST(short_form)
{
    struct cluster *c = cluster_open("128x8:a100-sxm-80");
    ck_assert_int_eq(c->device_count, 1024);
    ck_assert_int_eq(c->level_count, 2);
    ck_assert_int_eq(c->types[0].levels[0].fanout, 8);
    ck_assert_int_eq(c->types[0].levels[1].fanout, 128);
    CHECK_NEAR(c->types[0].levels[0].bytes_per_s, 300e9, 0);
    CHECK_NEAR(c->types[0].levels[1].bytes_per_s, 25e9, 0);
    CHECK_NEAR(c->types[0].device.matmul_flops_per_s[DTYPE_BF16], 312e12, 0);
    ck_assert_str_eq(c->name, "128x8:a100-sxm-80");
    ck_assert_int_eq(c->types[0].memory_bytes + c->types[0].device.reserve_bytes, c->types[0].device.memory_bytes);
    cluster_free(c);
    c = cluster_open("1x2:cpu");
    ck_assert_int_eq(c->level_count, 1);
    ck_assert_int_eq(c->device_count, 2);
    cluster_free(c);
}
END_TEST

START_TEST(short_form_bytes_may_have_a_unit)
{
    struct cluster *c = cluster_open("1x8:l40s@memory=40GiB,reserve=512MiB,host=30e9,host-memory=1TiB");
    ck_assert_int_eq(c->types[0].device.memory_bytes, INT64_C(40) << 30);
    ck_assert_int_eq(c->types[0].device.reserve_bytes, INT64_C(512) << 20);
    ck_assert_int_eq(c->types[0].device.host_memory_bytes, INT64_C(1) << 40);
    cluster_free(c);
}
END_TEST

START_TEST(short_form_options)
{
    struct cluster *c =
        cluster_open("16x8:h100-sxm@inter=50e9,latency=5e-6,reserve=25%,memory=64e9,intra=1e11,intra-latency=2e-6");
    CHECK_NEAR(c->types[0].levels[1].bytes_per_s, 50e9, 0);
    CHECK_NEAR(c->types[0].levels[0].bytes_per_s, 1e11, 0);
    ck_assert_int_eq(c->types[0].levels[1].latency_ns, 5000);
    ck_assert_int_eq(c->types[0].levels[0].latency_ns, 2000);
    ck_assert_int_eq(c->types[0].device.reserve_bytes,
                     INT64_C(16000000000)); /* of the given memory, though that comes later */
    ck_assert_int_eq(c->types[0].memory_bytes, INT64_C(48000000000));
    cluster_free(c);
    c = cluster_open("1x8:l40s@host=30e9,host-latency=1e-5,host-memory=250e9");
    CHECK_NEAR(c->types[0].device.host_bytes_per_s, 30e9, 0);
    ck_assert_int_eq(c->types[0].device.host_latency_ns, 10000);
    ck_assert_int_eq(c->types[0].device.host_memory_bytes, INT64_C(250000000000));
    cluster_free(c);
    c = cluster_open("1x1:v100-sxm2-16@reserve=0");
    ck_assert_int_eq(c->types[0].memory_bytes, INT64_C(16) << 30);
    cluster_free(c);
}
END_TEST

START_TEST(equal_clusters_hash_alike)
{
    static const char *const json = "{\"device\": \"a100-sxm-80\", \"name\": \"mine\", \"levels\": [{\"fanout\": 8}, "
                                    "{\"fanout\": 4, \"name\": \"x\"}]}";
    struct cluster *a = cluster_open("4x8:a100-sxm-80"), *b = cluster_open(json),
                   *c = cluster_open("4x8:a100-sxm-80@inter=24e9"), *d = cluster_open("8x4:a100-sxm-80"),
                   *e = cluster_open("4x8:a100-sxm-80@reserve=1e9");
    ck_assert_uint_eq(a->hash, b->hash);
    ck_assert_uint_ne(a->hash, c->hash);
    ck_assert_uint_ne(a->hash, d->hash);
    ck_assert_uint_ne(a->hash, e->hash);
    ck_assert_str_eq(b->name, "mine");
    cluster_free(a);
    cluster_free(b);
    cluster_free(c);
    cluster_free(d);
    cluster_free(e);
}
END_TEST

START_TEST(json_form)
{
    static const char *const json = " {\"format\": \"cleave-cluster\", \"version\": 1, \"device\": {\"description\": "
                                    "\"d\", \"source\": \"s\", \"matmul_flops_per_s\": {\"fp32\": 2e12},"
                                    "\"matmul_efficiency\": 0.5, \"attention_forward_efficiency\": 0.5, "
                                    "\"attention_backward_efficiency\": 0.25, \"vector_flops_per_s\": 1e12,"
                                    "\"memory_bytes_per_s\": 1e11, \"memory_bytes\": 1000000, \"launch_ns\": 10, "
                                    "\"link_bytes_per_s\": 1e10, \"link_latency_ns\": 100,"
                                    "\"nic_bytes_per_s\": 1e9, \"nic_latency_ns\": 1000}, \"memory_bytes\": 2000000, "
                                    "\"reserve_bytes\": 500000, \"comment\": \"free\","
                                    "\"levels\": [{\"name\": \"board\", \"fanout\": 2, \"shared\": true}, {\"name\": "
                                    "\"rack\", \"fanout\": 3, \"bytes_per_s\": 5e8},"
                                    "{\"name\": \"hall\", \"fanout\": 5, \"latency_ns\": 7}]}";
    struct cluster *c = cluster_open(json);
    ck_assert_int_eq(c->device_count, 30);
    ck_assert_int_eq(c->types[0].memory_bytes, 1500000);
    ck_assert(c->types[0].levels[0].shared && !c->types[0].levels[1].shared);
    CHECK_NEAR(c->types[0].levels[1].bytes_per_s, 5e8, 0);
    CHECK_NEAR(c->types[0].levels[2].bytes_per_s, 1e9, 0);
    ck_assert_int_eq(c->types[0].levels[2].latency_ns, 7);
    ck_assert_int_eq(cluster_unit(c, 0, 1), 6);
    struct error err = { 0 };
    ck_assert(cluster_check_dtype(c, DTYPE_FP32, &err));
    ck_assert(!cluster_check_dtype(c, DTYPE_BF16, &err));
    ck_assert_ptr_nonnull(strstr(err.message, "(fp32), found bf16"));
    cluster_free(c);
}
END_TEST

/* The level of two ranks is the first whose unit holds both: compared with units listed one by one. */
START_TEST(levels_by_brute_force)
{
    struct cluster *c = cluster_open(
        "{\"device\": \"cpu\", \"levels\": [{\"fanout\": 2}, {\"fanout\": 3}, {\"fanout\": 1}, {\"fanout\": 4}]}");
    for (int a = 0; a < c->device_count; a++) {
        for (int b = 0; b < c->device_count; b++) {
            const int unit[] = { 2, 6, 6, 24 };
            int level = 0;
            while (a / unit[level] != b / unit[level])
                level++;
            ck_assert_int_eq(cluster_level(c, a, b), level);
        }
    }
    cluster_free(c);
}
END_TEST

/* ---- several groups ---- */

START_TEST(short_form_of_two_types)
{
    struct cluster *c =
        cluster_open("2x8:h100-sxm@inter=4e+10,reserve=1e9+1x4:a100-sxm-80@memory=4e10+3x8:h100-sxm@inter="
                     "4e10,reserve=1e9");
    ck_assert_int_eq(c->device_count, 44);
    ck_assert_int_eq(c->level_count, 2);
    ck_assert(c->type_count == 2 && c->group_count == 3); /* the first and the last group are alike */
    ck_assert_str_eq(c->types[0].device.name, "h100-sxm");
    ck_assert_int_eq(c->types[0].device_count, 40);
    ck_assert_int_eq(c->types[0].levels[1].fanout, 5);
    ck_assert_int_eq(c->types[1].device_count, 4);
    ck_assert_int_eq(c->types[1].levels[0].fanout, 4);
    ck_assert_int_eq(c->types[1].levels[1].fanout, 1);
    CHECK_NEAR(c->types[0].levels[1].bytes_per_s, 4e10, 0);
    CHECK_NEAR(c->types[1].levels[1].bytes_per_s, 25e9, 0); /* its own network, though it is one node */
    ck_assert_int_eq(c->types[1].memory_bytes, INT64_C(40000000000) - c->types[1].device.reserve_bytes);
    ck_assert_int_eq(cluster_node_size(c), 4);
    struct error err = { 0 };
    ck_assert(cluster_check_dtype(c, DTYPE_BF16, &err));
    ck_assert(!cluster_check_dtype(c, DTYPE_FP8, &err)); /* of the two, only one has it */
    ck_assert_ptr_nonnull(strstr(err.message, "device a100-sxm-80"));
    cluster_free(c);
}
END_TEST

/* Groups that are alike are one cluster: same hash, same everything. */
START_TEST(alike_groups_are_one)
{
    static const char *const json =
        "{\"version\": 2, \"groups\": [{\"device\": \"a100-sxm-80\", \"levels\": [{\"fanout\": 8}, {\"fanout\": 3}]},"
        "{\"device\": \"a100-sxm-80\", \"levels\": [{\"fanout\": 8}]}]}";
    struct cluster *whole = cluster_open("4x8:a100-sxm-80"), *parts = cluster_open("1x8:a100-sxm-80+3x8:a100-sxm-80"),
                   *file = cluster_open(json), *other = cluster_open("1x8:a100-sxm-80+3x8:h100-sxm"),
                   *turned = cluster_open("3x8:h100-sxm+1x8:a100-sxm-80");
    ck_assert_uint_eq(whole->hash, parts->hash);
    ck_assert_uint_eq(whole->hash, file->hash);
    ck_assert(parts->type_count == 1 && parts->group_count == 1 && parts->types[0].levels[1].fanout == 4);
    ck_assert_uint_ne(whole->hash, other->hash);
    ck_assert_uint_ne(turned->hash, other->hash);
    cluster_free(whole);
    cluster_free(parts);
    cluster_free(file);
    cluster_free(other);
    cluster_free(turned);
}
END_TEST

static const char *const three_groups =
    "{\"groups\": [{\"device\": \"cpu\", \"levels\": [{\"fanout\": 2}, {\"fanout\": 3}, {\"fanout\": 2}]},"
    "{\"device\": \"a100-sxm-80\", \"levels\": [{\"fanout\": 4}]},"
    "{\"device\": \"h100-sxm\", \"levels\": [{\"fanout\": 2}, {\"fanout\": 3}]},"
    "{\"device\": \"cpu\", \"levels\": [{\"fanout\": 2}, {\"fanout\": 3}, {\"fanout\": 2}]}]%s}";

/* Nodes, racks and types listed by hand: 12 + 4 + 6 + 12 ranks in nodes of 2, 4, 2 and 2. */
START_TEST(ranks_by_brute_force)
{
    char text[1024];
    snprintf(text, sizeof text, three_groups,
             _i ? ", \"between\": {\"bytes_per_s\": 1e8, \"latency_ns\": 9}, \"version\": 2" : "");
    struct cluster *c = cluster_open(text);
    int node[34], rack[34], type[34], group[34], top = c->level_count - 1;
    for (int r = 0; r < 34; r++) {
        type[r] = r < 12 || r >= 22 ? 0 : r < 16 ? 1 : 2;
        group[r] = r < 12 ? 0 : r < 16 ? 1 : r < 22 ? 2 : 3;
        node[r] = r < 12 ? r / 2 : r < 16 ? 6 : r < 22 ? 7 + (r - 16) / 2 : 10 + (r - 22) / 2;
        /* a group of two levels has each node in a rack of its own, unless the groups are apart: then they are one */
        rack[r] = r < 12 ? r / 6 : r < 16 ? 2 : r < 22 ? 3 + (_i ? 0 : (r - 16) / 2) : 6 + (r - 22) / 6;
    }
    ck_assert_int_eq(c->device_count, 34);
    ck_assert_int_eq(c->level_count, _i ? 4 : 3);
    ck_assert_int_eq(c->type_count, 3);
    ck_assert_int_eq(c->group_count, 4);
    for (int a = 0; a < 34; a++) {
        ck_assert_int_eq(cluster_type(c, a), type[a]);
        ck_assert_ptr_eq(cluster_device(c, a), &c->types[type[a]].device);
        ck_assert_int_eq(cluster_unit_of(c, a, 0), node[a]);
        ck_assert_int_eq(cluster_unit_of(c, a, top), 0);
        for (int b = 0; b < 34; b++) {
            int level = node[a] == node[b] ? 0 : rack[a] == rack[b] ? 1 : _i && group[a] == group[b] ? 2 : top;
            ck_assert_msg(cluster_level(c, a, b) == level, "ranks %d and %d: level %d, expected %d", a, b,
                          cluster_level(c, a, b), level);
            unsigned types = 0;
            for (int r = a; r <= b; r++)
                types |= 1u << type[r];
            if (a <= b)
                ck_assert_uint_eq(cluster_types(c, a, b - a + 1), types);
        }
    }
    if (_i)
        CHECK_NEAR(c->types[1].levels[3].bytes_per_s, 1e8, 0);
    cluster_free(c);
}
END_TEST

START_TEST(scaled_groups)
{
    struct cluster *c = cluster_open("2x8:h100-sxm+1x4:a100-sxm-80"), *scaled = NULL,
                   *want = cluster_open("6x8:h100-sxm+3x4:a100-sxm-80");
    struct error err = { 0 };
    ck_assert_msg(cluster_scaled(&scaled, c, 3, &err), "%s", err.message);
    ck_assert_uint_eq(scaled->hash, want->hash);
    ck_assert_int_eq(scaled->device_count, 60);
    ck_assert(!cluster_set_reserve(scaled, INT64_C(80) << 30, -1)); /* the smaller of the two has no more */
    ck_assert_uint_eq(cluster_unit_of(scaled, 59, 0), 8);
    ck_assert(cluster_set_reserve(scaled, 0, 50));
    ck_assert_int_eq(scaled->types[1].memory_bytes, scaled->types[1].device.memory_bytes / 2);
    struct text name = { 0 };
    ck_assert(cluster_scaled_name(&name, "2x8:cpu@inter=5e+9,latency=1e-6+1x4:h100-sxm+03x2:cpu", 4));
    ck_assert_str_eq(name.data, "8x8:cpu@inter=5e+9,latency=1e-6+4x4:h100-sxm+12x2:cpu");
    text_free(&name);
    ck_assert(!cluster_scaled_name(&name, "cluster.json", 4));
    ck_assert(!cluster_scaled_name(&name, "2x4.json", 4));
    cluster_free(scaled);
    cluster_free(want);
    cluster_free(c);
}
END_TEST

/* A part's name is what it would be typed as: the same cluster but for the levels of a lone node. */
START_TEST(parts_have_short_forms)
{
    static const struct {
        const char *whole, *part, *name;
        int types[2];
    } cases[] = {
        { "1x8:h100-sxm@inter=5e+9,memory=4e10+2x2:l40s", "2x2:l40s", "2x2:l40s", { 1 } },
        { "1x8:h100-sxm@inter=5e+9,memory=4e10+2x2:l40s", "1x6:h100-sxm", "1x6:h100-sxm@memory=4e10", { 0 } },
        { "4x8:cpu@inter=5e9,latency=1e-6", "1x8:cpu", "1x8:cpu", { 0 } },
        { "4x8:cpu@memory=1e9,inter=5e9", "2x8:cpu", "2x8:cpu@memory=1e9,inter=5e9", { 0 } },
        { "1x8:cpu", "1x3:cpu", "1x3:cpu", { 0 } },
        { "2x4:cpu+1x2:l40s@latency=1e-6+1x4:cpu", "3x4:cpu", "3x4:cpu", { 0 } },
        { "1x4:cpu+1x2:l40s@latency=1e-6+1x4:h100-sxm",
          "1x2:l40s+1x4:h100-sxm",
          "1x2:l40s@latency=1e-6+1x4:h100-sxm",
          { 1, 2 } },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct cluster *whole = cluster_open(cases[i].whole), *part = cluster_open(cases[i].part);
        struct text name = { 0 };
        ck_assert(cluster_part_name(&name, whole, part, cases[i].types));
        ck_assert_str_eq(name.data, cases[i].name);
        cluster_free(cluster_open(name.data)); /* it is one */
        text_free(&name);
        whole->name = "2x4.json";
        ck_assert(!cluster_part_name(&name, whole, part, cases[i].types));
        cluster_free(whole);
        cluster_free(part);
    }
}
END_TEST

#define CPU_GROUP "{\"device\": \"cpu\", \"levels\": [{\"fanout\": 2}]}"
static const struct {
    const char *text, *message;
} wrong[] = {
    { "", "--cluster:1:1: expected a number of nodes" },
    { "x8:cpu", "--cluster:1:1: expected a number of nodes" },
    { "0x8:cpu", "--cluster:1:1: expected a number of nodes" },
    { "-1x8:cpu", "--cluster:1:1: expected a number of nodes" },
    { "4y8:cpu", "--cluster:1:2: expected 'x', found \"y8:cpu\"" },
    { "4x:cpu", "--cluster:1:3: expected a number of devices" },
    { "4x99999999999999999999:cpu", "--cluster:1:3: expected a number of devices" },
    { "1048576x2:cpu", "--cluster:1:9: expected at most 1048576 devices" },
    { "4x8", "--cluster:1:4: expected ':' and a device, found the end" },
    { "4x8:", "--cluster:1:5: expected a device of `cleave devices`, found the end" },
    { "4x8:h100-smx",
      "--cluster:1:5: expected a device of `cleave devices`, found \"h100-smx\", did you mean \"h100-sxm\"?" },
    { "1x8:k80", "found \"k80\" (one that it lacks is stated like another, l40s@memory=48GiB, or in a" },
    { "2x8:h100-sxm+4y8:cpu", "--cluster:1:15: expected 'x', found \"y8:cpu\"" },
    { "2x8:h100-sxm,1x8:l40s", "\"; several types are joined by +, such as 1x8:a100-sxm-80+1x8:h100-sxm" },
    { "2x8:h100-sxm+", "--cluster:1:14: expected a number of nodes" },
    { "2x8:h100-sxm+4x8", "--cluster:1:17: expected ':' and a device, found the end" },
    { "2x8:h100-sxm+4x8:a100", "--cluster:1:18: expected a device of `cleave devices`, found \"a100\", did you mean "
                               "\"a100-pcie-40\", \"a100-pcie-80\", \"a100-sxm-40\", \"a100-sxm-80\"?" },
    { "2x8:cpu@inter=1e9+4x8:a100-sxm-80@reserve=1e14", "--cluster:1:43: expected a reserve below" },
    { "1048576x1:cpu+1x1:cpu", "--cluster:1:17: expected at most 1048576 devices" },
    { "2x8:cpu4x8:cpu", "--cluster:1:5: expected a device of `cleave devices`, found \"cpu4x8:cpu\"" },
    { "2x8:cpu@", "--cluster:1:9: expected one of inter" },
    { "2x8:cpu@speed=1", "--cluster:1:9: expected one of inter" },
    { "2x8:cpu@inter", "--cluster:1:14: expected '=', found the end" },
    { "2x8:cpu@inter=", "--cluster:1:15: expected bytes per second" },
    { "2x8:cpu@inter=fast", "--cluster:1:15: expected bytes per second as a number like 50e9, found \"fast\"" },
    { "2x8:cpu@inter=-1", "--cluster:1:15: expected bytes per second" },
    { "2x8:cpu@inter=1e9,inter=2e9", "--cluster:1:19: expected each key once" },
    { "2x8:cpu@inter=1e9,", "--cluster:1:19: expected one of inter" },
    { "1x8:cpu@inter=1e9", "--cluster:1:9: expected a key of one node" },
    { "2x8:cpu@inter=5%", "--cluster:1:15: expected bytes per second" },
    { "2x8:cpu@reserve=100%", "--cluster:1:17: expected a share below 100%" },
    { "2x8:h100-sxm@memory=94", "--cluster:1:21: expected more memory than the device keeps back, such as 80GiB" },
    { "2x8:cpu@reserve=1e14", "--cluster:1:17: expected a reserve below the device's memory" },
    { "{\"device\": \"cpu\"}", "levels" },
    { "{\"device\": \"cpus\", \"levels\": [{\"fanout\": 1}]}",
      "--cluster:1:12: device: expected a device of `cleave devices`, found \"cpus\", did you mean \"cpu\"?" },
    { "{\"device\": \"cpu\",\n \"levels\": []}", "--cluster:2:12: levels: expected 1 to 8 levels, found 0" },
    { "{\"device\": \"cpu\", \"levels\": [{\"fanout\": 1048576}, {\"fanout\": 2}]}",
      "levels[1].fanout: expected at most 1048576 devices" },
    { "{\"device\": \"cpu\", \"levels\": [{\"fanout\": 0}]}", "levels[0].fanout" },
    { "{\"device\": \"cpu\", \"levels\": [{\"fanout\": 2, \"byte_per_s\": 1}]}", "did you mean \"bytes_per_s\"?" },
    { "{\"device\": \"cpu\", \"reserve_bytes\": 900000000000, \"levels\": [{\"fanout\": 2}]}",
      "reserve_bytes: expected a reserve below" },
    { "{\"format\": \"other\", \"device\": \"cpu\", \"levels\": [{\"fanout\": 2}]}",
      "expected \"cleave-cluster\", found \"other\"" },
    { "{\"device\": 3, \"levels\": [{\"fanout\": 2}]}", "--cluster:1:12: device" },
    { "{\"device\"", "--cluster:1:" },
    { "{\"levels\": [{\"fanout\": 2}]}", "--cluster:1:1: expected the key \"device\" (or \"groups\")" },
    { "{\"groups\": []}", "--cluster:1:12: groups: expected an array of 1 to 64 groups" },
    { "{\"groups\": {}}", "groups: expected an array of 1 to 64 groups, found" },
    { "{\"groups\": [3]}", "--cluster:1:13: groups[0]: expected" },
    { "{\"groups\": [{\"device\": \"cpu\"}]}", "groups[0]: expected the key \"levels\"" },
    { "{\"groups\": [{\"device\": \"cpus\", \"levels\": [{\"fanout\": 1}]}]}",
      "--cluster:1:24: groups[0].device: expected a device of `cleave devices`, found \"cpus\", did you mean "
      "\"cpu\"?" },
    { "{\"groups\": [" CPU_GROUP "], \"version\": 1}", "version: expected 2 for a file with \"groups\", found 1" },
    { "{\"groups\": [" CPU_GROUP "], \"version\": 3}", "version: expected" },
    { "{\"groups\": [" CPU_GROUP "], \"device\": \"cpu\"}", "device: expected it inside of each group" },
    { "{\"groups\": [" CPU_GROUP "], \"reserve_bytes\": 1}", "reserve_bytes: expected it inside of each group" },
    { "{\"device\": \"cpu\", \"levels\": [{\"fanout\": 2}], \"between\": {\"bytes_per_s\": 1, \"latency_ns\": 1}}",
      "between: expected it beside \"groups\"" },
    { "{\"groups\": [" CPU_GROUP "], \"between\": {\"bytes_per_s\": 1}}", "between: expected the key \"latency_ns\"" },
    { "{\"groups\": [" CPU_GROUP "], \"between\": {\"bytes_per_s\": 1, \"latency_ns\": 1, \"fanout\": 2}}", "fanout" },
    { "{\"groups\": [{\"device\": \"cpu\", \"levels\": [{\"fanout\": 1048576}]}, " CPU_GROUP "]}",
      "groups[1].levels: expected at most 1048576 devices in all, found 1048578" },
    { "{\"groups\": [{\"device\": \"cpu\", \"reserve_bytes\": 900000000000, \"levels\": [{\"fanout\": 2}]}]}",
      "groups[0].reserve_bytes: expected a reserve below" },
};

START_TEST(wrong_clusters_say_where)
{
    struct catalogue *catalogue = catalogue_open();
    struct cluster *cluster = NULL;
    struct error err = { 0 };
    const char *text = wrong[_i].text;
    ck_assert(!cluster_read(&cluster, "--cluster", text, strlen(text), catalogue->entries, catalogue->count, &err));
    ck_assert_msg(strstr(err.message, wrong[_i].message) != NULL, "%s: got \"%s\", expected \"%s\"", text, err.message,
                  wrong[_i].message);
    ck_assert_ptr_null(cluster);
    ck_assert_int_eq((int)err.kind, ERROR_INPUT);
    catalogue_free(catalogue);
}
END_TEST

START_TEST(hostile_bytes)
{
    struct catalogue *catalogue = catalogue_open();
    struct cluster *cluster = NULL;
    static const char text[] = "2x8:c\0pu", tail[] = "2x8:cpu\0", high[] = "\xff\xfe";
    struct error err = { 0 };
    ck_assert(!cluster_read(&cluster, "c", text, sizeof text - 1, catalogue->entries, catalogue->count, &err));
    err = (struct error){ 0 };
    ck_assert(!cluster_read(&cluster, "c", tail, sizeof tail - 1, catalogue->entries, catalogue->count, &err));
    ck_assert_ptr_nonnull(strstr(err.message, "c:1:8: expected '@', '+' or the end"));
    err = (struct error){ 0 };
    ck_assert(!cluster_read(&cluster, "c", high, 2, catalogue->entries, catalogue->count, &err));
    ck_assert_ptr_nonnull(strstr(err.message, "unprintable"));
    catalogue_free(catalogue);
}
END_TEST

static Suite *cluster_suite(void)
{
    Suite *suite = suite_create("cluster");
    TCase *tcase = tcase_create("cluster");
    tcase_add_test(tcase, catalogue_is_sound);
    tcase_add_test(tcase, short_form);
    tcase_add_test(tcase, short_form_options);
    tcase_add_test(tcase, short_form_bytes_may_have_a_unit);
    tcase_add_test(tcase, equal_clusters_hash_alike);
    tcase_add_test(tcase, json_form);
    tcase_add_test(tcase, levels_by_brute_force);
    tcase_add_test(tcase, short_form_of_two_types);
    tcase_add_test(tcase, alike_groups_are_one);
    tcase_add_loop_test(tcase, ranks_by_brute_force, 0, 2);
    tcase_add_test(tcase, scaled_groups);
    tcase_add_test(tcase, parts_have_short_forms);
    tcase_add_loop_test(tcase, wrong_clusters_say_where, 0, sizeof wrong / sizeof wrong[0]);
    tcase_add_test(tcase, hostile_bytes);
    suite_add_tcase(suite, tcase);
    return suite;
}

CHECK_MAIN(cluster_suite)
