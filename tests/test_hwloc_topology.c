/* hwloc's XML of machines whose links and rates are known from their datasheets, and files that are not it. The
 * machines lie in tests/fuzz/corpus. */
#include "tests/discovery_checks.h"

#define check_level(found, level, fanout, bytes_per_s, shared)                                                         \
    check_level_within(found, level, fanout, bytes_per_s, shared, 1e-6) /* hwloc writes six digits behind the point */

static struct hwloc_machine machine_of(const char *text)
{
    struct hwloc_machine machine;
    struct error err = { 0 };
    ck_assert_msg(hwloc_machine_read(&machine, "t", text, strlen(text), &err), "%s", err.message);
    return machine;
}

static struct hwloc_machine machine_in(const char *name)
{
    char *text = corpus_text("hwloc", name);
    struct hwloc_machine machine = machine_of(text);
    free(text);
    return machine;
}

/* Two such nodes as a cluster. */
static struct discovery discovered(const struct hwloc_machine *machine, const char *device)
{
    char name[64];
    struct discovery found;
    snprintf(name, sizeof name, "1x1:%s", device);
    struct cluster *plain = cluster_open(name);
    discover_hwloc(&found, machine, &plain->types[0].device, 2);
    found.device = NULL; /* of the cluster that goes */
    cluster_free(plain);
    return found;
}

/* Eight H100 with 18 links of 25 GB/s to four switches, and a card beside each that its slot does not slow: what the
 * catalogue has of such a node. The cards of the host's own network do not count. */
START_TEST(a_switched_node_is_its_datasheet)
{
    struct hwloc_machine m = machine_in("switched");
    struct discovery found = discovered(&m, "h100-sxm");
    struct cluster *plain = cluster_open("2x8:h100-sxm");
    ck_assert_str_eq(discover_pci_device(m.pci_device), "h100-sxm");
    ck_assert_str_eq(discover_device(m.model), "h100-sxm");
    ck_assert(m.knows_nvlink && m.topology.rates.nvswitch);
    ck_assert_int_eq(m.topology.nic_count, 8);
    ck_assert_int_eq(m.memory_bytes, 2LL << 40);
    ck_assert_int_eq(m.package_count, 2);
    ck_assert_int_eq(m.core_count, 8);
    ck_assert_int_eq(found.level_count, 2);
    for (int i = 0; i < 2; i++) {
        const struct link_level *a = &found.level[i].link, *b = &plain->types[0].levels[i];
        check_level(&found, i, b->fanout, b->bytes_per_s, b->shared);
        CHECK_NEAR(a->switch_reduce_factor, b->switch_reduce_factor, 0);
    }
    cluster_free(plain);
}
END_TEST

/* Two L40S behind a switch on eight lanes of 4.0, and a card of two ports in eight lanes of 3.0 on each socket: less
 * than the network that the catalogue gives four of them. A display adapter is no GPU. */
START_TEST(pcie_has_the_rates_of_its_slots)
{
    struct hwloc_machine m = machine_in("pcie");
    struct discovery found = discovered(&m, "l40s");
    double lane_3 = 8e9 * 128 / 130 / 8, lane_4 = 2 * lane_3;
    ck_assert(!m.knows_nvlink);
    ck_assert_int_eq(m.topology.device_count, 4);
    ck_assert_int_eq(m.topology.nic_count, 4);
    ck_assert_int_eq(found.level_count, 3);
    check_level(&found, 0, 2, 16 * lane_4, false);
    check_level(&found, 1, 2, 8 * lane_4, true);
    check_level(&found, 2, 2, 2 * 8 * lane_3, true);
}
END_TEST

/* Four A100 with four links between any two, last to first, as hwloc 3 writes them. */
START_TEST(nvlink_needs_no_switch)
{
    struct hwloc_machine m = machine_in("mesh");
    struct discovery found = discovered(&m, "a100-sxm-40");
    ck_assert(m.knows_nvlink && !m.topology.rates.nvswitch);
    ck_assert_int_eq(found.level_count, 2);
    check_level(&found, 0, 4, 300e9, false);
    CHECK_NEAR(found.level[0].link.switch_reduce_factor, 0, 0);
    ck_assert_int_eq(m.topology.nic_count, 1);
}
END_TEST

/* A rate of the moment below the catalogue's 4.0 x16, and cards that narrow the network, are told. */
START_TEST(what_is_below_the_catalogue_is_noted)
{
    struct hwloc_machine m = machine_in("pcie");
    struct discovery found = discovered(&m, "l40s");
    ck_assert_int_eq(found.note_count, 2);
    ck_assert_ptr_nonnull(strstr(found.level[1].comment, "as it ran when hwloc looked; idle links are slower: the "));
    ck_assert_ptr_null(strstr(found.level[0].comment, "as it ran"));
    ck_assert_ptr_nonnull(strstr(found.note[0], "level node: PCI Express has 15.8 GB/s, as it ran when hwloc looked"));
    ck_assert_ptr_nonnull(strstr(found.note[1], "the slots of 4 network cards carry (slowest: ens0 in 0000:41:00)"));
    char *text = corpus_text("hwloc", "pcie"), *last = NULL; /* a card of unknown speed leaves the sum unknown */
    for (char *at = text; (at = strstr(at, "pci_link_speed=\"7.876923\"")); at++)
        last = at;
    ck_assert_ptr_nonnull(last);
    memcpy(last, "pci_link_spied", strlen("pci_link_spied"));
    m = machine_of(text);
    ck_assert_int_eq(m.topology.nic_count, 4);
    CHECK_NEAR(m.topology.rates.slots, 0, 0);
    ck_assert_int_eq(discovered(&m, "l40s").note_count, 1);
    free(text);
}
END_TEST

/* Without NVML hwloc cannot know of NVLink: not "there is none", where the device has it by the catalogue. */
START_TEST(what_nobody_was_told_of_is_the_catalogues)
{
    struct hwloc_machine m = machine_in("pcie");
    struct discovery found = discovered(&m, "h100-sxm");
    ck_assert_int_eq(found.level_count, 2);
    check_level(&found, 0, 4, 450e9, false);
    ck_assert_ptr_nonnull(strstr(found.comment, "not told of links"));
}
END_TEST

START_TEST(without_gpus_cores_are_the_devices)
{
    struct hwloc_machine m = machine_in("cores");
    struct discovery found = discovered(&m, "cpu");
    ck_assert_int_eq(m.topology.device_count, 0);
    ck_assert_int_eq(found.level_count, 3);
    ck_assert_int_eq(found.level[0].link.fanout, 3);
    ck_assert_int_eq(found.level[1].link.fanout, 2);
    ck_assert_ptr_nonnull(strstr(found.comment, "2 packages with 6 cores, 2 NUMA nodes with 32.0 GiB"));
}
END_TEST

/* Memory of a GPU that the host sees as a node of its own is none of the host's. */
START_TEST(memory_of_gpus_is_not_the_hosts)
{
    static const char own[] = "os_index=\"1\" gp_index=\"11\"", gpus[] = "subtype=\"GPUMemory\"       ";
    char *text = corpus_text("hwloc", "cores"), *last = NULL;
    for (char *at = text; (at = strstr(at, own)); at++)
        last = at;
    ck_assert_ptr_nonnull(last);
    memcpy(last, gpus, sizeof gpus - 1);
    struct hwloc_machine m = machine_of(text);
    struct discovery found = discovered(&m, "cpu");
    ck_assert_msg(strstr(found.comment, "1 NUMA node with 16.0 GiB"), "%s", found.comment);
    free(text);
}
END_TEST

/* What is cut off anywhere is no XML, whatever was read before. */
START_TEST(every_beginning_is_refused)
{
    char *text = corpus_text("hwloc", "pcie");
    struct hwloc_machine machine;
    size_t whole = strlen(text) - 1; /* the last byte ends a line */
    for (size_t length = 0; length < whole; length += (size_t)share_stride()) {
        struct error err = { 0 };
        ck_assert_msg(!hwloc_machine_read(&machine, "t", text, length, &err), "accepted %zu bytes", length);
        ck_assert_int_eq(err.kind, ERROR_INPUT);
        ck_assert_ptr_nonnull(strstr(err.message, "expected XML"));
    }
    free(text);
}
END_TEST

#define MACHINE(inner) "<topology version=\"2.0\">\n<object type=\"Machine\">\n" inner "\n</object></topology>"
#define GPU(bus, device, inner)                                                                                        \
    "<object type=\"PCIDev\" pci_busid=\"" bus "\" pci_type=\"0302 [10de:" device "]\">" inner "</object>"
#define LINKS(count, indexes, values)                                                                                  \
    "<topology version=\"2.0\"><object type=\"Core\"/><distances2 name=\"NVLinkBandwidth\" nbobjs=\"" count            \
    "\">\n<indexes>" indexes "</indexes>\n<u64values>" values "</u64values>\n</distances2></topology>"

#define NVML(number, key) "<object type=\"OSDev\" gp_index=\"" key "\" name=\"nvml" number "\" osdev_type=\"1\"/>"

/* NVML names eight B200 where hwloc is too old to have their rates; AMD's are never read. */
START_TEST(no_rates_are_not_no_links)
{
    struct hwloc_machine m = machine_of(MACHINE(GPU("a", "2901", NVML("0", "5")) GPU("b", "2901", NVML("1", "6"))));
    struct discovery found = discovered(&m, "b200-sxm");
    ck_assert(!m.knows_nvlink && !m.is_amd);
    check_level(&found, 0, 2, 900e9, false);
    ck_assert_int_eq(found.note_count, 1);
    ck_assert_ptr_nonnull(strstr(found.note[0], "hwloc was not told of links between these GPUs (before 2.12"));
    m = machine_of(MACHINE("<object type=\"PCIDev\" pci_busid=\"a\" pci_type=\"1200 [1002:74a1]\"/>"
                           "<object type=\"PCIDev\" pci_busid=\"b\" pci_type=\"1200 [1002:74a1]\"/>"));
    found = discovered(&m, "mi300x");
    ck_assert(!m.knows_nvlink && m.is_amd);
    ck_assert_ptr_nonnull(strstr(found.comment, "2 x 2 GPUs: links of AMD's GPUs are not read from hwloc"));
}
END_TEST

/* Accelerators of other makers are counted and are no GPUs; processing units without cores are what computes. */
START_TEST(strangers_and_processing_units_count)
{
    struct hwloc_machine m = machine_of(MACHINE("<object type=\"PCIDev\" pci_type=\"0380 [8086:0bd5]\"/>"
                                                "<object type=\"PCIDev\" pci_type=\"0300 [1a03:2000]\"/>"
                                                "<object type=\"PCIDev\" pci_type=\"0380 [8086:0bd5]\"/>"
                                                "<object type=\"PU\"/><object type=\"PU\"/><object type=\"PU\"/>"));
    struct discovery found = discovered(&m, "cpu");
    ck_assert_int_eq(m.unknown_count, 2);
    ck_assert_int_eq(m.unknown_vendor, 0x8086);
    ck_assert_int_eq(m.unknown_device, 0x0bd5);
    ck_assert_int_eq(m.core_count, 3);
    check_level(&found, 0, 3, found.level[0].link.bytes_per_s, false);
    ck_assert_ptr_nonnull(strstr(found.comment, "0 packages with 3 processing units"));
    m = machine_of(MACHINE("<object type=\"Core\"><object type=\"PU\"/><object type=\"PU\"/></object>"));
    ck_assert(m.core_count == 1 && !m.cores_are_pus);
}
END_TEST

static const struct refusal {
    const char *text, *message;
} refusals[] = {
    { "", "t:1: expected XML, found an error: no element" },
    { "Machine (24GB total)\n", "t:1: expected XML" },
    { "<!DOCTYPE topology [<!ENTITY a \"b\">]>\n<topology version=\"2.0\"/>",
      "t:1: expected no document type but topology without declarations, found <!DOCTYPE topology> with declarations" },
    { "<!DOCTYPE system SYSTEM \"a.dtd\">\n<topology version=\"2.0\"/>", "found <!DOCTYPE system>" },
    { "<system version=\"1\"/>", "t:1: expected <topology>, found <system>: name the file that `lstopo --of xml`" },
    { "<topology/>", "t:1: <topology version>: expected 2.0 to 3.x, as hwloc writes it since 2018, found none" },
    { "<topology version=\"4.0\"/>", "expected 2.0 to 3.x" },
    { MACHINE(""), "t: expected GPUs or cores, found neither" },
    { MACHINE("<object/>"), "t:3: <object type>: expected the kind of an object, found none" },
    { MACHINE("<object type=\"PCIDev\" pci_type=\"GPU\"/>"), "t:3: <object pci_type>: expected class, vendor and" },
    { MACHINE("<object type=\"PCIDev\" pci_type=\"0302 [10de:2330]\"/>"),
      "t:3: <object pci_busid>: expected 1 to 31 characters, found none" },
    { MACHINE("<object type=\"PCIDev\" pci_type=\"0302 [10de:2330]\" pci_link_speed=\"-1\"/>"),
      "<object pci_link_speed>: expected GB/s from 0 to 10000, found \"-1\"" },
    { MACHINE("<object type=\"Bridge\" bridge_type=\"1-1\" pci_link_speed=\"nan\"/>"), "found \"nan\"" },
    { MACHINE("<object type=\"NUMANode\" local_memory=\"64GB\"/>"), "<object local_memory>: expected an integer of 0" },
    { MACHINE("<object type=\"NUMANode\" local_memory=\"9223372036854775807\"/>"), "expected an integer of 0 to" },
    { MACHINE(GPU("a", "2330", "") GPU("a", "2330", "")), "t:3: expected every GPU once, found a, which is in line 3" },
    { MACHINE(GPU("a", "2330", "") "\n" GPU("b", "2335", "")),
      "t:4: expected GPUs of one kind, found 10de:2330 and 10de:2335: write a cluster file with groups" },
    { MACHINE(GPU("a", "2330", "<object type=\"OSDev\" name=\"nvml0\" osdev_type=\"gpu\"/>")),
      "<object osdev_type>: expected an integer" },
    { LINKS("none", "", ""), "<distances2 nbobjs>: expected an integer of 0 to 512, found \"none\"" },
    { LINKS("0", "", ""), "<distances2 nbobjs>: expected how many objects there are, found \"0\"" },
    { LINKS("513", "", ""), "expected an integer of 0 to 512, found \"513\"" },
    { LINKS("2", "1 2 3", ""), "t:2: <indexes>: expected 2 objects as \"OSDev:802\", found \"3\" too" },
    { LINKS("2", "1 OSDev:b", ""), "found \"OSDev:b\"" },
    { LINKS("2", "1 2", "0 1 1 0 0"), "t:3: <u64values>: expected 2 times 2 rates in MB/s, found \"0\" too" },
    { LINKS("2", "1 2", "0 1 inf 0"), "found \"inf\"" },
    { LINKS("2", "1 2", "0 1 1"), "expected 2 objects and the square of that rates, found 2 and 3" },
    { "<topology version=\"2.0\"><distances2 name=\"NVLinkBandwidth\" nbobjs=\"1\"><indexes>1</indexes>"
      "<u64values>1</u64values></distances2><distances2 name=\"NVLinkBandwidth\" nbobjs=\"1\"/></topology>",
      "expected one NVLinkBandwidth, found another" },
};

START_TEST(other_files_are_refused)
{
    const struct refusal *r = &refusals[_i];
    struct hwloc_machine machine;
    struct error err = { 0 };
    ck_assert(!hwloc_machine_read(&machine, "t", r->text, strlen(r->text), &err));
    ck_assert_int_eq(err.kind, ERROR_INPUT);
    ck_assert_msg(strstr(err.message, r->message) != NULL, "expected \"%s\" in \"%s\"", r->message, err.message);
}
END_TEST

START_TEST(what_is_too_many_is_refused)
{
    static const struct {
        const char *begin, *each, *message; /* each: with its number */
        int most;
    } cases[] = {
        { "<topology version=\"2.0\">", "<object type=\"Machine\">", "at most 32 elements inside each other", 32 },
        { "<topology version=\"2.0\">", "<object type=\"Package\"/>", "expected at most 4096 packages", 4096 },
        { "<topology version=\"2.0\">", "<object type=\"NUMANode\"/>", "expected at most 4096 NUMA nodes", 4096 },
        { "<topology version=\"2.0\">", "<object type=\"PCIDev\" pci_busid=\"%d\" pci_type=\"0302 [10de:2330]\"/>",
          "expected at most 128 GPUs", 128 },
        { "<topology version=\"2.0\">", "<object type=\"PCIDev\" pci_type=\"0200 [15b3:1021]\"/>",
          "expected at most 128 network cards", 128 },
        { "<topology version=\"2.0\">", "<object type=\"PCIDev\" pci_type=\"0680 [10de:22a3]\"/>",
          "expected at most 256 NVSwitches", 256 },
        { "<topology version=\"2.0\"><distances2 name=\"NVLinkBandwidth\" nbobjs=\"9\"><indexes>", "1234567890",
          "expected at most 4095 bytes of numbers", 500 },
    };
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        struct text text = { 0 };
        struct hwloc_machine machine;
        struct error err = { 0 };
        text_add(&text, cases[c].begin);
        for (int i = 0; i <= cases[c].most; i++) {
            const char *hole = strstr(cases[c].each, "%d");
            size_t before = hole ? (size_t)(hole - cases[c].each) : strlen(cases[c].each);
            text_add_bytes(&text, cases[c].each, before);
            if (hole)
                text_printf(&text, "%d%s", i, hole + 2);
        }
        text_add(&text, " ");
        ck_assert(!hwloc_machine_read(&machine, "t", text.data, text.length, &err));
        ck_assert_msg(strstr(err.message, cases[c].message) != NULL, "%s", err.message);
        text_free(&text);
    }
}
END_TEST

static Suite *hwloc_topology_suite(void)
{
    Suite *suite = suite_create("hwloc_topology");
    CHECK_ADD(suite, a_switched_node_is_its_datasheet);
    CHECK_ADD(suite, pcie_has_the_rates_of_its_slots);
    CHECK_ADD(suite, nvlink_needs_no_switch);
    CHECK_ADD(suite, what_is_below_the_catalogue_is_noted);
    CHECK_ADD(suite, no_rates_are_not_no_links);
    CHECK_ADD(suite, strangers_and_processing_units_count);
    CHECK_ADD(suite, what_nobody_was_told_of_is_the_catalogues);
    CHECK_ADD(suite, without_gpus_cores_are_the_devices);
    CHECK_ADD(suite, memory_of_gpus_is_not_the_hosts);
    CHECK_ADD(suite, every_beginning_is_refused);
    CHECK_ADD_LOOP(suite, other_files_are_refused, sizeof refusals / sizeof *refusals);
    CHECK_ADD(suite, what_is_too_many_is_refused);
    return suite;
}

CHECK_MAIN(hwloc_topology_suite)
