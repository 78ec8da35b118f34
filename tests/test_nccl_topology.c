/* NCCL's XML of machines whose links and rates are known from their datasheets, and files that are not it. The dumps
 * lie in tests/fuzz/corpus. */
#include "profiler/nccl_topology.h"
#include "tests/discovery_checks.h"

#define check_level(found, level, fanout, bytes_per_s, shared)                                                         \
    check_level_within(found, level, fanout, bytes_per_s, shared, 1e-12)

static struct nccl_topology topology_of(const char *text)
{
    struct nccl_topology topology;
    struct error err = { 0 };
    ck_assert_msg(nccl_topology_read(&topology, "t", text, strlen(text), &err), "%s", err.message);
    return topology;
}

static struct nccl_topology topology_in(const char *name)
{
    char *text = corpus_text("dump", name);
    struct nccl_topology topology = topology_of(text);
    free(text);
    return topology;
}

static struct discovery discovered(const struct nccl_topology *t, const char *device)
{
    char name[64];
    struct discovery found;
    snprintf(name, sizeof name, "1x1:%s", device);
    struct cluster *plain = cluster_open(name);
    ck_assert_str_eq(discover_pci_device(t->pci_device), device);
    discover_topology(&found, &t->topology, &plain->types[0].device, 2, "a test");
    found.device = NULL; /* of the cluster that goes */
    cluster_free(plain);
    return found;
}

/* DGX A100: 600 GB/s of NVLink and 200 Gb/s of network for each GPU; the storage's cards do not count. */
START_TEST(dgx_a100_is_its_datasheet)
{
    struct nccl_topology t = topology_in("dgx_a100");
    struct discovery found = discovered(&t, "a100-sxm-80");
    ck_assert_int_eq(t.topology.device_count, 8);
    ck_assert_int_eq(t.topology.nic_count, 8);
    ck_assert_int_eq(t.topology.pair[0][7].links, 12);
    ck_assert(t.topology.rates.nvswitch);
    ck_assert_int_eq(found.level_count, 2);
    check_level(&found, 0, 8, 600e9 / 2, false);
    check_level(&found, 1, 2, 200e9 / 8, false);
}
END_TEST

/* What `nvidia-smi topo -m` says of the same machine leads to the same levels: here the catalogue's are right. */
START_TEST(both_tools_see_the_same_h100)
{
    struct nccl_topology t = topology_in("hgx_h100");
    struct discovery found = discovered(&t, "h100-sxm");
    struct topology table;
    char path[] = SOURCE_ROOT "/tests/fuzz/corpus/topo_nvswitch.txt", *text;
    size_t length;
    struct error err = { 0 };
    ck_assert(file_read(&text, &length, path, &err) && topology_read(&table, path, text, length, &err));
    ck_assert_int_eq(table.device_count, t.topology.device_count);
    ck_assert_int_eq(table.nic_count, t.topology.nic_count);
    for (int i = 0; i < 8; i++)
        for (int j = 0; j < 8; j++)
            ck_assert_int_eq(i == j ? 0 : table.pair[i][j].links, t.topology.pair[i][j].links);
    struct cluster *plain = cluster_open("2x8:h100-sxm");
    ck_assert_int_eq(found.level_count, plain->level_count);
    for (int i = 0; i < plain->level_count; i++) {
        const struct link_level *a = &found.level[i].link, *b = &plain->types[0].levels[i];
        check_level(&found, i, b->fanout, b->bytes_per_s, b->shared);
        CHECK_NEAR(a->switch_reduce_factor, b->switch_reduce_factor, 0);
    }
    cluster_free(plain);
    free(text);
}
END_TEST

/* Two L40S behind a switch on eight lanes of 4.0, and a card of 100 Gb/s in eight lanes of 3.0 on each socket. */
START_TEST(pcie_has_the_rates_of_its_slots)
{
    struct nccl_topology t = topology_in("pcie_l40s");
    struct discovery found = discovered(&t, "l40s");
    double lane_3 = 8e9 * 128 / 130 / 8, lane_4 = 2 * lane_3;
    ck_assert_int_eq(t.sm, 89);
    ck_assert_int_eq(found.level_count, 3);
    check_level(&found, 0, 2, 16 * lane_4, false);
    check_level(&found, 1, 2, 8 * lane_4, true);
    check_level(&found, 2, 2, 2 * 8 * lane_3, true);
}
END_TEST

/* Four A100 with four links between any two: 300 GB/s each way in all, and nobody who adds up. The file has them last
 * to first, writes bus ids in both cases, and knows nothing of PCI Express. */
START_TEST(nvlink_needs_no_switch)
{
    struct nccl_topology t = topology_in("mesh_a100");
    struct discovery found = discovered(&t, "a100-sxm-40");
    for (int i = 0; i < 4; i++)
        for (int j = 0; j < i; j++)
            ck_assert_int_eq(t.topology.pair[i][j].links, 4);
    ck_assert(!t.topology.rates.nvswitch);
    CHECK_NEAR(t.topology.rates.pcie, 0, 0);
    check_level(&found, 0, 4, 300e9, false);
    CHECK_NEAR(found.level[0].link.switch_reduce_factor, 0, 0);
    check_level(&found, 1, 2, 10e9 / 8, true);
}
END_TEST

#define BUS(id) "<pci busid=\"" id "\" link_speed=\"32.0 GT/s PCIe\" link_width=\"16\">"
#define GPU(dev, links) "<gpu dev=\"" dev "\" sm=\"90\">" links "</gpu>"
#define LINK(to, count, class) "<nvlink target=\"" to "\" count=\"" count "\" tclass=\"" class "\"/>"
#define NVIDIA(id, device) "<pci busid=\"" id "\" vendor=\"0x10de\" device=\"" device "\">"
#define SYSTEM(inner) "<system version=\"1\">\n<cpu>\n" inner "\n</cpu>\n</system>\n"

/* Links that one end does not have, to GPUs that are not in the file, and to a processor join nobody. */
START_TEST(links_have_two_ends)
{
    static const char text[] =
        SYSTEM(BUS("a") GPU("1", LINK("b", "3", "0x030200") LINK("c", "2", "0x030200")) "</pci>" BUS("b")
                   GPU("0", LINK("a", "2", "0x030200")) "</pci>" BUS("d")
                       GPU("2", LINK("a", "9", "0x030200") LINK("e", "4", "0x068001")) "</pci>");
    struct nccl_topology t = topology_of(text);
    ck_assert_int_eq(t.topology.pair[0][1].links, 2);
    ck_assert_int_eq(t.topology.pair[1][0].links, 2);
    ck_assert_int_eq(t.topology.pair[1][2].links, 0);
    ck_assert_int_eq(t.topology.pair[1][2].tier, TIER_HOST);
    CHECK_NEAR(t.topology.rates.nvlinks, 0, 0);
}
END_TEST

#define HOST(hash, inner) "<cpu host_hash=\"" hash "\">" inner "</cpu>\n"
#define JOINED                                                                                                         \
    BUS("a") GPU("1", LINK("ff", "18", "0x068000")) "</pci>" BUS("b") GPU("0", LINK("ff", "18", "0x068000")) "</pci>"
#define ALONE BUS("a") GPU("0", "") "</pci>"

/* Equal numbers and ids on other hosts are other GPUs. */
START_TEST(hosts_that_nvlink_joins_are_one_node)
{
    static const char text[] = "<system version=\"1\">" HOST("0x2", JOINED) HOST("0x1", JOINED) "</system>";
    struct nccl_topology t = topology_of(text);
    ck_assert_int_eq(t.topology.device_count, 4);
    for (int i = 0; i < 4; i++)
        for (int j = 0; j < i; j++)
            ck_assert_int_eq(t.topology.pair[i][j].links, 18);
    CHECK_NEAR(t.topology.rates.nvlinks, 18 * 25e9, 0);
}
END_TEST

#define NIC(nets) "<nic>" nets "</nic>"
#define NET(more, speed) "<net " more " speed=\"" speed "\"/>"
#define BESIDE_GPU BUS("b") GPU("0", "") "</pci>" BUS("c") NIC(NET("", "400000") NET("", "400000")) "</pci>"

/* Of two cards the one that shares the switch with the GPU counts; two ports of one card share its slot; a card whose
 * ports are part of another entry does not count. */
START_TEST(the_nearest_cards_are_the_network)
{
    static const char text[] =
        SYSTEM(BUS("a") BESIDE_GPU "</pci>" BUS("d") NIC(NET("", "800000")) "</pci>" NIC(NET("net=\"0\"", "1")));
    struct nccl_topology t = topology_of(text);
    ck_assert_int_eq(t.topology.nic_count, 2);
    CHECK_NEAR(t.topology.rates.network, 32e9 * 128 / 130 / 8 * 16, 1);
    ck_assert(t.topology.rates.own_network);
}
END_TEST

/* What is cut off anywhere is no XML, whatever was read before. */
START_TEST(every_beginning_is_refused)
{
    char *text = corpus_text("dump", "pcie_l40s");
    struct nccl_topology topology;
    size_t whole = strlen(text) - 1; /* the last byte ends a line */
    for (size_t length = 0; length < whole; length += (size_t)share_stride()) {
        struct error err = { 0 };
        ck_assert_msg(!nccl_topology_read(&topology, "t", text, length, &err), "accepted %zu bytes", length);
        ck_assert_int_eq(err.kind, ERROR_INPUT);
        ck_assert_ptr_nonnull(strstr(err.message, "expected XML"));
    }
    free(text);
}
END_TEST

static const struct refusal {
    const char *text, *message;
} refusals[] = {
    { "", "t:1: expected XML, found an error: no element" },
    { "GPU0 GPU1\n", "t:1: expected XML" },
    { "<!DOCTYPE system [<!ENTITY a \"b\">]>\n<system version=\"1\"/>", "t:1: expected no document type" },
    { "<graphs version=\"1\"/>", "t:1: expected <system>, found <graphs>: name the file of NCCL_TOPO_DUMP_FILE" },
    { "\n<system version=\"2\"/>", "t:2: <system version>: expected 1, as NVIDIA's NCCL writes it, found \"2\"" },
    { "<system/>", "t:1: <system version>: expected 1, as NVIDIA's NCCL writes it, found none" },
    { SYSTEM(""), "t: expected <gpu>, found none: name the file" },
    { SYSTEM("<gpu dev=\"0\" sm=\"90\"/>"), "t:3: expected <gpu> inside <pci>, found it elsewhere" },
    { SYSTEM("<net/>"), "t:3: expected <net> inside <nic>" },
    { SYSTEM("<other/>"), "t: expected <gpu>, found none: name the file" },
    { SYSTEM("<pci/>"), "t:3: <pci busid>: expected 1 to 31 characters, found none" },
    { SYSTEM("<pci busid=\"a\" link_speed=\"7 GT/s\"/>"),
      "expected 2.5, 5, 8, 16, 32 or 64 \"GT/s\", found \"7 GT/s\"" },
    { SYSTEM("<pci busid=\"a\" link_width=\"x\"/>"), "<pci link_width>: expected an integer of 0 to 255, found \"x\"" },
    { SYSTEM(BUS("a") "\n<gpu sm=\"90\"/></pci>"), "t:4: <gpu dev>: expected an integer of 0 to 1023, found none" },
    { SYSTEM(BUS("a") "<gpu dev=\"-1\" sm=\"90\"/></pci>"), "found \"-1\"" },
    { SYSTEM(BUS("a") "<gpu dev=\"0\" sm=\"9O\"/></pci>"), "<gpu sm>: expected an integer of 0 to 999, found \"9O\"" },
    { SYSTEM(BUS("a") GPU("0", "") "</pci>\n" BUS("b") GPU("0", "") "</pci>"),
      "t:4: expected every GPU once, found dev 0" },
    { SYSTEM(BUS("a") GPU("0", "") GPU("1", "") "</pci>"), "found dev 1, which is in line 3 too" },
    { SYSTEM(BUS("a") GPU("0", LINK("b", "2", "switch")) "</pci>"), "<nvlink tclass>: expected a class of PCI" },
    { SYSTEM(BUS("a") GPU("0", LINK("", "2", "0x068000")) "</pci>"), "<nvlink target>: expected 1 to 31 characters" },
    { SYSTEM(BUS("a") GPU("0", LINK("b", "1e9", "0x068000")) "</pci>"), "<nvlink count>: expected an integer" },
    { SYSTEM("<nic><net speed=\"fast\"/></nic>"),
      "<net speed>: expected an integer of 0 to 100000000, found \"fast\"" },
    { SYSTEM(NVIDIA("a", "0x2330") GPU("0", "") "</pci>" NVIDIA("b", "0x2335") GPU("1", "") "</pci>"),
      "expected GPUs of one kind, found device 0x2330 of sm 90 and 0x2335 of sm 90: write a cluster file with groups" },
    { "<system version=\"1\">" HOST("0x1", ALONE) HOST("0x2", ALONE) "</system>",
      "t:2: expected one host, or hosts that NVLink joins, found no NVLink to the GPU of line 1: run NCCL on one "
      "host" },
    { "<system version=\"1\"><cpu host_hash=\"\"/></system>", "<cpu host_hash>: expected 1 to 31 characters" },
};

START_TEST(other_files_are_refused)
{
    const struct refusal *r = &refusals[_i];
    struct nccl_topology topology;
    struct error err = { 0 };
    ck_assert(!nccl_topology_read(&topology, "t", r->text, strlen(r->text), &err));
    ck_assert_int_eq(err.kind, ERROR_INPUT);
    ck_assert_msg(strstr(err.message, r->message) != NULL, "expected \"%s\" in \"%s\"", r->message, err.message);
}
END_TEST

START_TEST(a_deep_bus_is_refused)
{
    char text[4096] = "<system version=\"1\"><cpu>";
    struct nccl_topology topology;
    struct error err = { 0 };
    for (int i = 0; i < 40; i++)
        strcat(text, "<pci busid=\"a\">");
    ck_assert(!nccl_topology_read(&topology, "t", text, strlen(text), &err));
    ck_assert_msg(strstr(err.message, "expected at most 32 elements inside each other") != NULL, "%s", err.message);
}
END_TEST

START_TEST(what_is_too_many_is_refused)
{
    static const struct {
        const char *begin, *each, *message; /* each: with its number */
        int most;
    } cases[] = {
        { "<system version=\"1\">", "<cpu host_hash=\"%d\"/>", "expected at most 128 hosts", 128 },
        { "<system version=\"1\"><cpu>", "<pci busid=\"%d\"><gpu dev=\"%d\" sm=\"90\"/></pci>",
          "expected at most 128 GPUs", 128 },
        { "<system version=\"1\"><cpu><pci busid=\"a\"><gpu dev=\"0\" sm=\"90\">",
          "<nvlink target=\"b%d\" count=\"1\" tclass=\"0x068000\"/>", "expected at most 4096 <nvlink>", 4096 },
        { "<system version=\"1\"><cpu>", "<nic/>", "expected at most 128 network cards", 128 },
    };
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        struct text text = { 0 };
        struct nccl_topology topology;
        struct error err = { 0 };
        text_add(&text, cases[c].begin);
        for (int i = 0; i <= cases[c].most; i++) {
            char number[16];
            snprintf(number, sizeof number, "%d", i);
            for (const char *at = cases[c].each; *at; at++)
                if (at[0] == '%' && at[1] == 'd')
                    text_add(&text, number), at++;
                else
                    text_add_bytes(&text, at, 1);
        }
        ck_assert(!nccl_topology_read(&topology, "t", text.data, text.length, &err));
        ck_assert_msg(strstr(err.message, cases[c].message) != NULL, "%s", err.message);
        text_free(&text);
    }
}
END_TEST

START_TEST(links_have_the_rates_of_their_generation)
{
    static const struct {
        const char *sm;
        double bytes_per_s;
    } cases[] = { { "60", 20e9 }, { "70", 25e9 }, { "86", 14.0625e9 }, { "100", 50e9 } };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[1024];
        snprintf(
            text, sizeof text,
            "<system version=\"1\"><cpu><pci busid=\"a\"><gpu dev=\"0\" sm=\"%s\"><nvlink target=\"b\" count=\"2\" "
            "tclass=\"0x030200\"/></gpu></pci><pci busid=\"b\"><gpu dev=\"1\" sm=\"%s\"><nvlink target=\"a\" "
            "count=\"2\" tclass=\"0x030200\"/></gpu></pci></cpu></system>",
            cases[i].sm, cases[i].sm);
        struct nccl_topology topology = topology_of(text);
        CHECK_NEAR(topology.topology.rates.nvlinks, 2 * cases[i].bytes_per_s, 1);
    }
}
END_TEST

static Suite *nccl_topology_suite(void)
{
    Suite *suite = suite_create("nccl_topology");
    CHECK_ADD(suite, dgx_a100_is_its_datasheet);
    CHECK_ADD(suite, both_tools_see_the_same_h100);
    CHECK_ADD(suite, pcie_has_the_rates_of_its_slots);
    CHECK_ADD(suite, nvlink_needs_no_switch);
    CHECK_ADD(suite, links_have_two_ends);
    CHECK_ADD(suite, hosts_that_nvlink_joins_are_one_node);
    CHECK_ADD(suite, the_nearest_cards_are_the_network);
    CHECK_ADD(suite, every_beginning_is_refused);
    CHECK_ADD_LOOP(suite, other_files_are_refused, sizeof refusals / sizeof *refusals);
    CHECK_ADD(suite, a_deep_bus_is_refused);
    CHECK_ADD(suite, what_is_too_many_is_refused);
    CHECK_ADD(suite, links_have_the_rates_of_their_generation);
    return suite;
}

CHECK_MAIN(nccl_topology_suite)
