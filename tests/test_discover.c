/* What other tools say of a machine becomes a cluster with these levels, and what is not their format is refused with
 * its place. The texts lie in tests/fuzz/corpus. */
#include "host/file.h"
#include "profiler/discover.h"
#include "tests/fact_files.h"

static char *corpus(const char *name, size_t *length)
{
    char path[512], *text = NULL;
    struct error err = { 0 };
    snprintf(path, sizeof path, SOURCE_ROOT "/tests/fuzz/corpus/%s", name);
    ck_assert_msg(file_read(&text, length, path, &err), "%s", err.message);
    return text;
}

static struct topology topology_of(const char *name)
{
    size_t length;
    char *text = corpus(name, &length);
    struct topology topology;
    struct error err = { 0 };
    ck_assert_msg(topology_read(&topology, name, text, length, &err), "%s", err.message);
    free(text);
    return topology;
}

/* The cluster file that is written, read again. */
static struct cluster *reread(const struct discovery *found)
{
    struct json_writer w = { 0 };
    size_t length = 0;
    discovery_write(&w, found);
    char *text = json_finish(&w, &length);
    ck_assert_ptr_nonnull(text);
    struct cluster *cluster = cluster_open(text);
    free(text);
    return cluster;
}

static struct cluster *found_cluster(struct discovery *found, const char *file, const char *device, int nodes)
{
    char name[64];
    snprintf(name, sizeof name, "1x1:%s", device);
    struct cluster *plain = cluster_open(name);
    struct topology topology = topology_of(file);
    discover_topology(found, &topology, &plain->types[0].device, nodes, "a test");
    struct cluster *cluster = reread(found);
    cluster_free(plain);
    return cluster;
}

static void check_level(const struct cluster *cluster, int level, int fanout, double bytes_per_s, bool shared)
{
    const struct link_level *l = &cluster->types[0].levels[level];
    ck_assert_int_eq(l->fanout, fanout);
    CHECK_NEAR(l->bytes_per_s, bytes_per_s, 0);
    ck_assert_int_eq(l->shared, shared);
}

/* Behind NVSwitch nothing is new beside the short form: the same levels, byte for byte. */
START_TEST(switched_nodes_are_the_short_form)
{
    struct discovery found;
    struct cluster *got = found_cluster(&found, "topo_nvswitch.txt", "h100-sxm", 4);
    struct cluster *want = cluster_open("4x8:h100-sxm");
    ck_assert_int_eq(got->level_count, want->level_count);
    ck_assert_int_eq(got->device_count, 32);
    for (int i = 0; i < want->level_count; i++) {
        const struct link_level *a = &got->types[0].levels[i], *b = &want->types[0].levels[i];
        check_level(got, i, b->fanout, b->bytes_per_s, b->shared);
        CHECK_NEAR(a->efficiency, b->efficiency, 0);
        ck_assert_int_eq(a->latency_ns, b->latency_ns);
        CHECK_NEAR(a->switch_reduce_factor, b->switch_reduce_factor, 0);
        ck_assert_int_eq(a->switch_reduce_latency_ns, b->switch_reduce_latency_ns);
    }
    ck_assert_ptr_nonnull(strstr(found.comment, "8 GPUs and 8 network cards"));
    cluster_free(got);
    cluster_free(want);
}
END_TEST

START_TEST(bridged_pairs_are_islands)
{
    struct discovery found;
    struct cluster *got = found_cluster(&found, "topo_pairs.txt", "a100-pcie-80", 1);
    ck_assert_int_eq(got->level_count, 2);
    check_level(got, 0, 2, 300e9, false); /* 600 GB/s both ways over a bridge, by the datasheet */
    check_level(got, 1, 2, 31e9, true);
    ck_assert_ptr_nonnull(strstr(found.level[0].comment, "NV12"));
    cluster_free(got);
}
END_TEST

/* Four GPUs with one card talk at the rate of one; cards that other ones are nearer than carry nothing. */
START_TEST(gpus_share_a_card)
{
    static const char text[] = "GPU0 GPU1 NIC0 NIC1\nGPU0 X SYS PHB SYS\nGPU1 SYS X PHB NODE\nNIC0 PHB PHB X SYS\n"
                               "NIC1 SYS NODE SYS X\n";
    struct discovery found;
    struct topology topology;
    struct error err = { 0 };
    struct cluster *got = found_cluster(&found, "topo_pairs.txt", "h100-sxm", 2);
    check_level(got, 2, 2, 50e9, true);
    cluster_free(got);
    ck_assert_msg(topology_read(&topology, "two", text, sizeof text - 1, &err), "%s", err.message);
    ck_assert_int_eq(topology.nic_count, 2);
    ck_assert_int_eq(topology.nearest_nics, 1);
}
END_TEST

START_TEST(without_nvlink_there_is_pcie)
{
    struct discovery found;
    struct cluster *got = found_cluster(&found, "topo_pcie.txt", "h100-sxm", 2);
    ck_assert_int_eq(got->level_count, 3);
    check_level(got, 0, 2, 63e9, false);
    check_level(got, 1, 2, 63e9, true);
    check_level(got, 2, 2, 50e9, false);
    CHECK_NEAR(got->types[0].levels[0].switch_reduce_factor, 0, 0);
    cluster_free(got);
}
END_TEST

/* A ring of NVLinks is no hierarchy: all pairs count as the slowest, and the comment names a pair. */
START_TEST(a_mixed_table_takes_the_slowest)
{
    static const char text[] = "GPU0 GPU1 GPU2 GPU3\nGPU0 X NV1 SYS NV1\nGPU1 NV1 X NV1 SYS\nGPU2 SYS NV1 X NV1\n"
                               "GPU3 NV1 SYS NV1 X\n";
    struct topology topology;
    struct topology_levels levels;
    struct error err = { 0 };
    ck_assert_msg(topology_read(&topology, "ring", text, sizeof text - 1, &err), "%s", err.message);
    topology_find_levels(&levels, &topology);
    ck_assert_int_eq(levels.count, 1);
    ck_assert_int_eq(levels.level[0].tier, TIER_HOST);
    ck_assert_int_eq(levels.level[0].fanout, 4);
    ck_assert_int_eq(levels.mixed, TIER_NVLINK);
    ck_assert(levels.mixed_pair[0] == 0 && levels.mixed_pair[1] == 3);
    struct discovery found;
    struct cluster *plain = cluster_open("1x1:v100-sxm2-16");
    discover_topology(&found, &topology, &plain->types[0].device, 1, "a test");
    ck_assert_msg(strstr(found.comment, "GPU0 and GPU3") != NULL, "%s", found.comment);
    ck_assert(found.level[0].link.shared);
    cluster_free(plain);
}
END_TEST

static const struct refusal {
    const char *text, *message;
} topology_refusals[] = {
    { "", "t:1: expected the table of `nvidia-smi topo -m`" },
    { "hello\n", "t:1: expected the column GPU0 of the table of `nvidia-smi topo -m`, found \"hello\"" },
    { "\tGPU0\tGPU2\n", "t:1: expected the column GPU1 of the table of `nvidia-smi topo -m`, found \"GPU2\"" },
    { "GPU0 GPU1\nGPU0 X NV4\n", "t:3: expected the row GPU1, found the end" },
    { "GPU0 GPU1\nGPU0 X NV4\nGPU1 NV2 X\n", "t:3: expected the same between GPU1 and GPU0 both ways, found \"NV2\"" },
    { "GPU0 GPU1\nGPU0 X QPI\n", "t:2: expected one of NV1, NV2, ..., PIX, PXB, PHB, NODE, SYS, found \"QPI\"" },
    { "GPU0 GPU1\nGPU0 X NV0\n", "found \"NV0\"" },
    { "GPU0 GPU1\nGPU0 X NV99\n", "t:2: expected at most 36 NVLinks of a GPU, found \"NV99\"" },
    { "GPU0 GPU1\nGPU0 X\n", "t:2: expected 2 cells in the row GPU0, found 1" },
    { "GPU0\nGPU0 NV1\n", "t:2: expected X on the diagonal, found \"NV1\"" },
};

START_TEST(other_tables_are_refused)
{
    const struct refusal *r = &topology_refusals[_i];
    struct topology topology;
    struct error err = { 0 };
    ck_assert(!topology_read(&topology, "t", r->text, strlen(r->text), &err));
    ck_assert_int_eq(err.kind, ERROR_INPUT);
    ck_assert_msg(strstr(err.message, r->message) != NULL, "expected \"%s\" in \"%s\"", r->message, err.message);
}
END_TEST

static struct nccl_tests tests_of(const char *name)
{
    size_t length;
    char *text = corpus(name, &length);
    struct nccl_tests tests;
    struct error err = { 0 };
    ck_assert_msg(nccl_tests_read(&tests, name, text, length, &err), "%s", err.message);
    free(text);
    return tests;
}

/* The texts were printed from lines: 4 ranks gather at 360 GB/s after 18.6 us; 8 ranks on two hosts add up at 180 GB/s
 * after 70 us. Rates and latencies of the levels must be those by hand: H100's collectives begin after 8.4 us. */
START_TEST(measured_lines_come_back)
{
    struct cluster *plain = cluster_open("1x1:h100-sxm");
    const struct device_type *device = &plain->types[0].device;
    struct nccl_tests gather = tests_of("nccl_all_gather.json"), reduce = tests_of("nccl_all_reduce.txt");
    struct discovery found;
    struct error err = { 0 };
    ck_assert_int_eq(gather.ranks, 4);
    ck_assert_int_eq(reduce.hosts, 2);
    ck_assert_str_eq(discover_device(reduce.device), "h100-sxm");
    ck_assert_str_eq(discover_device("NVIDIA H20"), "h20");
    ck_assert_str_eq(discover_device("Tesla T4"), "t4");
    ck_assert_str_eq(discover_device("NVIDIA RTX PRO 6000 Blackwell Server Edition"), "rtx-pro-6000");
    ck_assert_ptr_null(discover_device("Tesla K80"));
    discover_plain(&found, device, 2, 4, "a test");
    ck_assert_msg(discover_measured(&found, &gather, device, "gather", &err) &&
                      discover_measured(&found, &reduce, device, "reduce", &err),
                  "%s", err.message);
    struct cluster *got = reread(&found);
    const struct link_level *node = &got->types[0].levels[0], *network = &got->types[0].levels[1];
    CHECK_NEAR(node->bytes_per_s * node->efficiency, 360e9, 360e9 * 1e-3);
    CHECK_NEAR((double)node->latency_ns, (18600 - 8400) / 3.0, 20);
    CHECK_NEAR(network->bytes_per_s * network->efficiency, 45e9, 45e9 * 1e-3); /* four links side by side */
    CHECK_NEAR((double)network->latency_ns, (70000 - 8400) / 2.0 - 6 * (18600 - 8400) / 3.0, 150);
    ck_assert_int_eq(got->device_count, 8);
    cluster_free(got);
    cluster_free(plain);
}
END_TEST

START_TEST(runs_that_do_not_fit_are_refused)
{
    struct cluster *plain = cluster_open("1x1:h100-sxm");
    struct nccl_tests reduce = tests_of("nccl_all_reduce.txt");
    struct discovery found;
    struct error err = { 0 };
    discover_plain(&found, &plain->types[0].device, 1, 8, "a test");
    ck_assert(!discover_measured(&found, &reduce, &plain->types[0].device, "reduce", &err));
    ck_assert_ptr_nonnull(strstr(err.message, "2 hosts of 4 ranks"));
    cluster_free(plain);
}
END_TEST

#define RANKS "# Rank 0 Pid 1 on a device 0 [0x1] B200\n# Rank 1 Pid 2 on a device 1 [0x2] B200\n"
#define HEADER "# size count redop root time algbw busbw\n"
static const struct refusal run_refusals[] = {
    { "", "t:1: expected the header of nccl-tests" },
    { RANKS "# size count redop root time algbw\n", "t:3: expected a column \"busbw\" in the header, found none" },
    { RANKS HEADER "8 2 sum -1 5 1\n", "t:4: expected a row of 7 columns as in the header, found 6" },
    { RANKS HEADER "8 2 sum -1 x 1 1\n", "t:4: expected a number of at least 0.001 as time, found \"x\"" },
    { RANKS HEADER "8 2 sum -1 5 1 1\n", "t: expected rows of at least 2 sizes, found 1" },
    { RANKS HEADER "8 2 none 0 5 1 1\n9 2 none 0 5 1 1\n", "found 1 and root 0" },
    { "# Rank 1 Pid\n", "t:1: expected rank 0, found \"1\"" },
    { HEADER "8 2 sum -1 5 1 1\n", "t: expected the devices of at least 2 ranks, found 0" },
    { RANKS "# Rank 2 Pid 1 on b device 0 [0x1] B200\n" HEADER,
      "t: expected as many ranks on every host, found 2 on rank 0's and 1 on rank 2's" },
    { "{\"config\": 1}", "t:1:12: config: expected" },
};

START_TEST(other_runs_are_refused)
{
    const struct refusal *r = &run_refusals[_i];
    struct nccl_tests tests;
    struct error err = { 0 };
    ck_assert(!nccl_tests_read(&tests, "t", r->text, strlen(r->text), &err));
    ck_assert_int_eq(err.kind, ERROR_INPUT);
    ck_assert_msg(strstr(err.message, r->message) != NULL, "expected \"%s\" in \"%s\"", r->message, err.message);
}
END_TEST

START_TEST(too_long_runs_are_refused)
{
    struct text ranks = { 0 }, rows = { 0 };
    struct nccl_tests tests;
    struct error err = { 0 };
    for (int i = 0; i <= NCCL_RANKS; i++)
        text_printf(&ranks, "# Rank %d Pid 1 on a device 0 [0x1] B200\n", i);
    text_add(&rows, RANKS HEADER);
    for (int i = 0; i <= NCCL_ROWS; i++)
        text_printf(&rows, "%d 2 sum -1 5 1 1\n", 8 * i + 8);
    ck_assert(!nccl_tests_read(&tests, "t", ranks.data, ranks.length, &err));
    ck_assert_str_eq(err.message, "t: expected at most 4096 ranks, found more");
    err = (struct error){ 0 };
    ck_assert(!nccl_tests_read(&tests, "t", rows.data, rows.length, &err));
    ck_assert_str_eq(err.message, "t: expected at most 256 rows, found more");
    text_free(&ranks), text_free(&rows);
}
END_TEST

static Suite *discover_suite(void)
{
    Suite *suite = suite_create("discover");
    CHECK_ADD(suite, switched_nodes_are_the_short_form);
    CHECK_ADD(suite, bridged_pairs_are_islands);
    CHECK_ADD(suite, gpus_share_a_card);
    CHECK_ADD(suite, without_nvlink_there_is_pcie);
    CHECK_ADD(suite, a_mixed_table_takes_the_slowest);
    CHECK_ADD_LOOP(suite, other_tables_are_refused, sizeof topology_refusals / sizeof *topology_refusals);
    CHECK_ADD(suite, measured_lines_come_back);
    CHECK_ADD(suite, runs_that_do_not_fit_are_refused);
    CHECK_ADD_LOOP(suite, other_runs_are_refused, sizeof run_refusals / sizeof *run_refusals);
    CHECK_ADD(suite, too_long_runs_are_refused);
    return suite;
}

CHECK_MAIN(discover_suite)
