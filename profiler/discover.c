#include "profiler/discover.h"
#include "base/num.h"
#include "base/text.h"
#include "profiler/fit.h"
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define PCIE_3_BYTES_PER_S 15.75e9 /* 8 GT/s x 16 lanes x 128/130 / 8 bits, each way; rounded down to 0.01 GB/s */
#define PCIE_5_BYTES_PER_S 63.1e9  /* 32 GT/s x 16 lanes x 128/130 / 8 bits, rounded up: faster is no PCI Express */
#define NVLINK_BYTES_PER_S 25e9    /* of one link each way: generations 2 to 4 */
#define PCIE_EFFICIENCY 0.8        /* an assumption, said in the file */

/* Appends as far as there is room. */
__attribute__((format(printf, 2, 3))) static void say(char out[DISCOVERY_COMMENT_BYTES], const char *format, ...)
{
    size_t used = strlen(out);
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(out + used, DISCOVERY_COMMENT_BYTES - used, format, arguments);
    va_end(arguments);
}

static const char *plural(int count)
{
    return count == 1 ? "" : "s";
}

/* A note to fill; the last one again where there are too many. */
static char *add_note(struct discovery *out)
{
    if (out->note_count < DISCOVERY_NOTES)
        out->note_count++;
    char *note = out->note[out->note_count - 1];
    note[0] = '\0';
    return note;
}

/* "8 GPUs", or "2 x 8 GPUs" of several nodes. */
static void say_devices(struct discovery *out, int nodes, int each, const char *what)
{
    if (nodes > 1)
        say(out->comment, "%d x ", nodes);
    say(out->comment, "%d %s%s", each, what, plural(each));
}

static struct discovered_level *add_level(struct discovery *out, const char *name, int fanout)
{
    struct discovered_level *level = &out->level[out->level_count++];
    level->link = (struct link_level){ .name = name, .fanout = fanout, .efficiency = 1 };
    return level;
}

static bool is_pcie(const struct device_type *device)
{
    return device->link_bytes_per_s <= PCIE_5_BYTES_PER_S;
}

/* The level keeps its name and fanout. */
static void set_link(struct discovered_level *level, struct link_level link)
{
    link.name = level->link.name, link.fanout = level->link.fanout;
    level->link = link;
}

static void own_link(struct discovered_level *level, const struct device_type *device)
{
    set_link(level, device_type_link(device));
    say(level->comment, "the link of %s in the catalogue", device->name);
}

/* whole: the level is all of a node, as where the catalogue's switch is. */
static void nvlink_link(struct discovered_level *level, const struct device_type *device,
                        const struct topology_rates *rates, int links, bool whole)
{
    own_link(level, device);
    level->comment[0] = '\0';
    if (!whole || (rates->nvlinks > 0 && !rates->nvswitch))
        level->link.switch_reduce_factor = 0, level->link.switch_reduce_latency_ns = 0;
    if (rates->nvlinks > 0) {
        level->link.bytes_per_s = rates->nvlinks;
        level->link.shared = false;
        const char *way = rates->nvswitch ? ", by a switch" : "";
        if (links > 0)
            say(level->comment, "NVLink (NV%d%s): all links of a GPU at the nominal rate of their generation", links,
                way);
        else
            say(level->comment, "NVLink%s: the rate that %s has of all links of a GPU", way, rates->finder);
        say(level->comment, "; efficiency and latency of %s's link in the catalogue", device->name);
        return;
    }
    if (!is_pcie(device)) {
        say(level->comment, "NVLink (NV%d): rate, efficiency and latency of %s's link in the catalogue", links,
            device->name);
        return;
    }
    level->link.bytes_per_s = links * NVLINK_BYTES_PER_S;
    level->link.shared = false;
    say(level->comment,
        "NV%d: %d NVLinks of 25 GB/s each way, the rate of generations 2 to 4, since the catalogue's link of %s is PCI "
        "Express; efficiency and latency of that",
        links, links, device->name);
}

/* 0: the catalogue has none. */
static double catalogue_pcie(const struct device_type *device)
{
    return device->host_bytes_per_s > 0 ? device->host_bytes_per_s : is_pcie(device) ? device->link_bytes_per_s : 0;
}

/* A rate of the moment below what the catalogue has may be that of a link that slept. */
static void doubt_rate(struct discovery *out, struct discovered_level *level, const struct device_type *device,
                       const char *finder)
{
    char rate[TEXT_NUMBER_BYTES], usual[TEXT_NUMBER_BYTES];
    if (level->link.bytes_per_s >= catalogue_pcie(device))
        return;
    text_rate(rate, level->link.bytes_per_s, "B/s");
    text_rate(usual, catalogue_pcie(device), "B/s");
    say(level->comment, ", as it ran when %s looked; idle links are slower: the catalogue has %s", finder, usual);
    say(add_note(out),
        "level %s: PCI Express has %s, as it ran when %s looked; idle links are slower (and %s before 2.11 has none "
        "above generation 3): the catalogue has %s for %s. Look while the GPUs work, or correct bytes_per_s",
        level->link.name, rate, finder, finder, usual, device->name);
}

static void pcie_link(struct discovery *out, struct discovered_level *level, const struct device_type *device,
                      const struct topology_rates *rates, bool shared)
{
    double known = shared ? rates->host : rates->pcie;
    struct link_level *link = &level->link;
    link->latency_ns = device->link_latency_ns;
    link->efficiency = is_pcie(device) ? device->link_efficiency : PCIE_EFFICIENCY;
    link->shared = shared;
    say(level->comment, "PCI Express, %s: ",
        shared ? "through the host (PHB, NODE or SYS), shared by who talks at once" : "behind switches (PIX or PXB)");
    if (known > 0) {
        link->bytes_per_s = known;
        say(level->comment, "speed and width of the %s that %s found", shared ? "slowest link on the way" : "link",
            rates->finder);
        if (rates->as_it_ran)
            doubt_rate(out, level, device, rates->finder);
    } else if (device->host_bytes_per_s > 0) {
        link->bytes_per_s = device->host_bytes_per_s;
        say(level->comment, "host_bytes_per_s of %s in the catalogue", device->name);
    } else if (is_pcie(device)) {
        link->bytes_per_s = device->link_bytes_per_s;
        say(level->comment, "link_bytes_per_s of %s in the catalogue", device->name);
    } else {
        link->bytes_per_s = PCIE_3_BYTES_PER_S;
        say(level->comment, "the nominal rate of 3.0 x16, assumed, since the catalogue says none for %s", device->name);
    }
    say(level->comment, "; efficiency %s; latency of its link", is_pcie(device) ? "of its link" : "0.8, an assumption");
}

/* topology: of a node; NULL: not known. */
static void add_nodes(struct discovery *out, const struct device_type *device, const struct topology *topology,
                      int nodes)
{
    out->node_levels = out->level_count;
    if (nodes < 2)
        return;
    struct discovered_level *level = add_level(out, "cluster", nodes);
    set_link(level, device_type_nic(device));
    if (!topology || topology->rates.network == 0) {
        double usual = level->link.bytes_per_s * (!topology || level->link.shared ? 1 : topology->device_count);
        if (topology && topology->rates.slots > 0 && topology->rates.slots < usual) {
            level->link.bytes_per_s = topology->rates.slots;
            level->link.shared = true;
            say(level->comment,
                "PCI Express of the slots of the %d network card%s nearest to GPUs, together less than the network of "
                "%s in the catalogue; efficiency and latency of that",
                topology->nic_count, plural(topology->nic_count), device->name);
            return;
        }
        if (topology && !level->link.shared && topology->nearest_nics > 0 &&
            topology->nearest_nics < topology->device_count) {
            level->link.bytes_per_s *= topology->nearest_nics;
            level->link.shared = true;
            say(level->comment,
                "%d network card%s nearest to GPUs, shared by the %d of a node, each with the rate that the network of "
                "%s has for a device in the catalogue",
                topology->nearest_nics, plural(topology->nearest_nics), topology->device_count, device->name);
            return;
        }
        say(level->comment, "the network of %s in the catalogue, %s", device->name,
            level->link.shared ? "shared by a node's devices" : "for each device");
        return;
    }
    level->link.shared = !topology->rates.own_network;
    level->link.bytes_per_s = topology->rates.network / (topology->rates.own_network ? topology->device_count : 1);
    say(level->comment,
        "nominal speed of the %d network card%s nearest to GPUs, %s; efficiency and latency of %s's network in the "
        "catalogue",
        topology->nic_count, plural(topology->nic_count),
        level->link.shared ? "shared by a node's GPUs" : "an equal part for each GPU", device->name);
}

void discover_plain(struct discovery *out, const struct device_type *device, int nodes, int per_node,
                    const char *source)
{
    *out = (struct discovery){ .device = device->name };
    say_devices(out, nodes, per_node, "device");
    say(out->comment, ": %s", source);
    own_link(add_level(out, "node", per_node), device);
    add_nodes(out, device, NULL, nodes);
}

static void say_mixed(struct discovery *out, const struct topology_levels *levels)
{
    static const char *const names[] = { "NVLink joins", "PCI Express switches join", "the host joins" };
    int a = levels->mixed_pair[0], b = levels->mixed_pair[1];
    if (levels->mixed != TIER_COUNT)
        say(out->comment,
            "; %s no equal groups of neighbouring GPUs (see GPU%d and GPU%d), which levels cannot express: those "
            "links count as the slower kind",
            names[levels->mixed], a, b);
}

void discover_topology(struct discovery *out, const struct topology *topology, const struct device_type *device,
                       int nodes, const char *source)
{
    static const char *const names[] = { "nvlink", "switch", "host" };
    struct topology_levels levels;
    topology_find_levels(&levels, topology);
    *out = (struct discovery){ .device = device->name };
    say_devices(out, nodes, topology->device_count, "GPU");
    say(out->comment, " and %d network card%s%s: %s", topology->nic_count, plural(topology->nic_count),
        nodes > 1 ? " a node" : "", source);
    say_mixed(out, &levels);
    for (int i = 0; i < levels.count; i++) {
        const struct topology_level *l = &levels.level[i];
        bool whole = i == levels.count - 1;
        struct discovered_level *level = add_level(out, whole ? "node" : names[l->tier], l->fanout);
        if (topology->device_count == 1)
            own_link(level, device);
        else if (l->tier == TIER_NVLINK)
            nvlink_link(level, device, &topology->rates, l->links, whole);
        else
            pcie_link(out, level, device, &topology->rates, l->tier == TIER_HOST);
    }
    add_nodes(out, device, topology, nodes);
}

static const char *core_name(const struct hwloc_machine *machine)
{
    return machine->cores_are_pus ? "processing unit" : "core";
}

/* What of the host no level has: "2 packages with 48 cores, 2 NUMA nodes with 2.00 TiB". */
static void say_host(char out[DISCOVERY_COMMENT_BYTES], const struct hwloc_machine *machine,
                     const struct device_type *device)
{
    char memory[TEXT_NUMBER_BYTES], usual[TEXT_NUMBER_BYTES];
    int gpus = machine->topology.device_count;
    say(out, "; its host: %d package%s with %d %s%s, %d NUMA node%s", machine->package_count,
        plural(machine->package_count), machine->core_count, core_name(machine), plural(machine->core_count),
        machine->numa_count, plural(machine->numa_count));
    if (machine->memory_bytes > 0)
        say(out, " with %s", text_bytes(memory, machine->memory_bytes));
    if (gpus > 0 && machine->memory_bytes > 0 && machine->memory_bytes / gpus < device->host_memory_bytes)
        say(out, ", which is less for each device than the %s that plans may use of it by the catalogue",
            text_bytes(usual, device->host_memory_bytes));
}

/* Of GPUs whose own link is faster than PCI Express, where hwloc has no rate of it: that link joins them all. */
static void join_by_catalogue(struct discovery *out, const struct hwloc_machine *machine,
                              const struct device_type *device, int nodes)
{
    char rate[TEXT_NUMBER_BYTES];
    const char *why = machine->is_amd ? "links of AMD's GPUs are not read from hwloc"
                                      : "hwloc was not told of links between these GPUs";
    *out = (struct discovery){ .device = device->name };
    say_devices(out, nodes, machine->topology.device_count, "GPU");
    say(out->comment, ": %s", why);
    own_link(add_level(out, "node", machine->topology.device_count), device);
    add_nodes(out, device, &machine->topology, nodes);
    say(add_note(out), "%s%s: all are taken to be joined by the link of %s in the catalogue, %s", why,
        machine->is_amd ? "" : " (before 2.12 it has none of Blackwell's, nor any to NVSwitches that it does not see)",
        device->name, text_rate(rate, device->link_bytes_per_s, "B/s"));
}

/* Where the cards' slots carry less than the catalogue's network: it may be a card that only administers. */
static void note_slots(struct discovery *out, const struct hwloc_machine *machine, const struct device_type *device)
{
    const struct topology *t = &machine->topology;
    char rate[TEXT_NUMBER_BYTES], usual[TEXT_NUMBER_BYTES];
    const struct link_level *link = out->level_count > out->node_levels ? &out->level[out->node_levels].link : NULL;
    struct link_level nic = device_type_nic(device);
    if (!link || (link->bytes_per_s == nic.bytes_per_s && link->shared == nic.shared))
        return;
    say(add_note(out),
        "level %s: %s for a node, as much as the slots of %d network card%s carry (slowest: %s), instead of %s for %s "
        "as the catalogue has it: where that card does not join the nodes, correct bytes_per_s and shared",
        link->name, text_rate(rate, link->bytes_per_s, "B/s"), t->nic_count, plural(t->nic_count),
        machine->slowest_card, text_rate(usual, nic.bytes_per_s, "B/s"), nic.shared ? "a node" : "each device");
}

void discover_hwloc(struct discovery *out, const struct hwloc_machine *machine, const struct device_type *device,
                    int nodes)
{
    const struct topology *t = &machine->topology;
    if (t->device_count > 0 && (machine->knows_nvlink || is_pcie(device) || t->device_count == 1)) {
        discover_topology(out, t, device, nodes, "hwloc");
    } else if (t->device_count > 0) {
        join_by_catalogue(out, machine, device, nodes);
    } else if (machine->packages_are_alike && machine->package_count > 1) {
        int each = machine->core_count / machine->package_count;
        *out = (struct discovery){ .device = device->name };
        say_devices(out, nodes, machine->core_count, "device");
        say(out->comment, ": the %ss that hwloc found", core_name(machine));
        own_link(add_level(out, "package", each), device);
        own_link(add_level(out, "node", machine->package_count), device);
        add_nodes(out, device, NULL, nodes);
    } else {
        discover_plain(out, device, nodes, machine->core_count,
                       machine->cores_are_pus ? "the processing units that hwloc found" : "the cores that hwloc found");
    }
    if (t->device_count > 0)
        note_slots(out, machine, device);
    say_host(out->comment, machine, device);
}

/* ---- measured ---- */

/* Devices of one unit of the level; below the innermost: 1. */
static int unit_size(const struct discovery *found, int level)
{
    int size = 1;
    for (int i = 0; i <= level; i++)
        size *= found->level[i].link.fanout;
    return size;
}

/* The level that the ranks span; -1: they do not fit. */
static int spanned(const struct discovery *found, const struct nccl_tests *tests)
{
    int each = tests->ranks / tests->hosts, level = 0;
    if (each > unit_size(found, found->node_levels - 1))
        return -1;
    if (tests->hosts > 1)
        return found->level_count > found->node_levels && tests->hosts <= found->level[found->node_levels].link.fanout
                   ? found->node_levels
                   : -1;
    while (each > unit_size(found, level))
        level++;
    return level;
}

/* Units of the level that hold ranks, below the one that all span. */
static int units_at(const struct discovery *found, const struct nccl_tests *tests, int level)
{
    return level < 0 ? tests->ranks
                     : tests->hosts * (int)ceil_div(tests->ranks / tests->hosts, unit_size(found, level));
}

/* Of one step of the level, from the time that does not grow with size. */
static double step_ns(const struct discovery *found, const struct nccl_tests *tests, int level, double fixed_ns,
                      const struct device_type *device)
{
    double ns = (fixed_ns - (double)device->collective_launch_ns) / tests->passes;
    for (int i = 0; i < level; i++)
        ns -= (double)(units_at(found, tests, i - 1) - units_at(found, tests, i)) *
              (double)found->level[i].link.latency_ns;
    return fmax(0, ns) / (units_at(found, tests, level - 1) - 1);
}

static void set_rate(struct link_level *link, double bytes_per_s)
{
    link->bytes_per_s = fmax(link->bytes_per_s, bytes_per_s);
    link->efficiency = fmax(1e-6, bytes_per_s / link->bytes_per_s);
}

bool discover_measured(struct discovery *out, const struct nccl_tests *tests, const struct device_type *device,
                       const char *source, struct error *err)
{
    struct fit_point points[NCCL_ROWS];
    struct fit_line line;
    int at = spanned(out, tests);
    if (at < 0)
        return fail(err, "%s: %d hosts of %d ranks: expected no more than the cluster's nodes and devices (--nodes)",
                    source, tests->hosts, tests->ranks / tests->hosts);
    for (int i = 0; i < tests->row_count; i++)
        points[i] = (struct fit_point){ 1, nccl_tests_bus_bytes(tests, tests->row[i].bytes), tests->row[i].ns };
    if (!fit_line(&line, points, tests->row_count) || !(line.ns_per_unit > 1e-9))
        return fail(err, "%s: expected times that grow with size, found none", source);
    struct discovered_level *level = &out->level[at];
    struct link_level *link = &level->link;
    double bus = 1e9 / line.ns_per_unit;
    int below = tests->ranks / units_at(out, tests, at - 1); /* members of a unit of the level below */
    set_rate(link, !link->shared ? bus / below : at == 0 ? bus * tests->ranks : bus);
    link->latency_ns = llround(fmin(step_ns(out, tests, at, line.fixed_ns, device), 1e12));
    if (tests->passes == 2)
        link->switch_reduce_factor = 0, link->switch_reduce_latency_ns = 0;
    level->comment[0] = '\0';
    say(level->comment,
        "efficiency and latency measured by nccl-tests, %s of %d ranks on %d hosts: bus %.4g GB/s, fixed %.4g us, "
        "within %.0f %%",
        tests->passes == 2 ? "all-reduce" : "one pass", tests->ranks, tests->hosts, bus / 1e9, line.fixed_ns / 1e3,
        100 * line.error);
    return true;
}

int discover_order(const void *a, const void *b)
{
    const struct nccl_tests *x = *(const struct nccl_tests *const *)a, *y = *(const struct nccl_tests *const *)b;
    if ((x->hosts > 1) != (y->hosts > 1))
        return x->hosts > 1 ? 1 : -1;
    return x->passes != y->passes ? x->passes - y->passes : x->ranks - y->ranks;
}

/* As the driver calls them, less the maker, and their ids of PCI (https://pci-ids.ucw.cz/read/PC/10de); 0: not known.
 */
static const struct known_gpu {
    const char *driver_name;
    unsigned pci_device;
    const char *name;
} known_gpus[] = {
    { "H100 80GB HBM3", 0x2330, "h100-sxm" },
    { "H100 PCIe", 0x2331, "h100-pcie" },
    { "H100 NVL", 0x2321, "h100-nvl" },
    { "H200", 0x2335, "h200-sxm" },
    { "H800", 0x2324, "h800-sxm" },
    { "H20", 0x2329, "h20" },
    { "A800-SXM4-80GB", 0x20f3, "a800-sxm-80" },
    { "A100-SXM4-80GB", 0x20b2, "a100-sxm-80" },
    { "A100-SXM4-40GB", 0x20b0, "a100-sxm-40" },
    { "A100 80GB PCIe", 0x20b5, "a100-pcie-80" },
    { "A100-PCIE-40GB", 0x20f1, "a100-pcie-40" },
    { "A10", 0x2236, "a10" },
    { "A10G", 0x2237, "a10g" },
    { "A30", 0x20b7, "a30" },
    { "A40", 0x2235, "a40" },
    { "L4", 0x27b8, "l4" },
    { "L20", 0x26ba, "l20" },
    { "L40", 0x26b5, "l40" },
    { "L40S", 0x26b9, "l40s" },
    { "T4", 0x1eb8, "t4" },
    { "B200", 0x2901, "b200-sxm" },
    { "GB200", 0x2941, "gb200" },
    { "GB300", 0, "gb300" },
    { "GH200 480GB", 0x2342, "gh200-96" },
    { "V100-SXM2-16GB", 0x1db1, "v100-sxm2-16" },
    { "V100-SXM2-32GB", 0x1db5, "v100-sxm2-32" },
    { "V100-SXM3-32GB", 0x1db8, "v100-sxm3-32" },
    { "V100-PCIE-16GB", 0x1db4, "v100-pcie-16" },
    { "V100-PCIE-32GB", 0x1db6, "v100-pcie-32" },
    { "GeForce RTX 3090", 0x2204, "rtx3090" },
    { "GeForce RTX 4090", 0x2684, "rtx4090" },
    { "GeForce RTX 5090", 0x2b85, "rtx5090" },
    { "RTX A6000", 0x2230, "rtx-a6000" },
    { "RTX 6000 Ada Generation", 0x26b1, "rtx6000-ada" },
    { "RTX PRO 6000 Blackwell Workstation Edition", 0x2bb1, "rtx-pro-6000" },
    { "RTX PRO 6000 Blackwell Server Edition", 0x2bb5, "rtx-pro-6000" },
};

const char *discover_device(const char *driver_name)
{
    static const char *const makers[] = { "NVIDIA ", "Tesla " };
    for (size_t i = 0; i < sizeof makers / sizeof *makers; i++)
        if (strncmp(driver_name, makers[i], strlen(makers[i])) == 0)
            driver_name += strlen(makers[i]);
    for (size_t i = 0; i < sizeof known_gpus / sizeof *known_gpus; i++)
        if (strcmp(driver_name, known_gpus[i].driver_name) == 0)
            return known_gpus[i].name;
    return NULL;
}

const char *discover_pci_device(unsigned pci_device)
{
    for (size_t i = 0; pci_device > 0 && i < sizeof known_gpus / sizeof *known_gpus; i++)
        if (known_gpus[i].pci_device == pci_device)
            return known_gpus[i].name;
    return NULL;
}

void discovery_write(struct json_writer *w, const struct discovery *found)
{
    json_begin_format(w, "cleave-cluster", 1);
    json_put_string(w, "comment", found->comment);
    json_write_key(w, "device");
    if (found->measured)
        device_type_write(w, found->measured);
    else
        json_write_string(w, found->device);
    json_write_key(w, "levels");
    json_begin_array(w);
    for (int i = 0; i < found->level_count; i++) {
        json_begin_object(w);
        json_put_string(w, "comment", found->level[i].comment);
        link_level_put(w, &found->level[i].link);
        json_end_object(w);
    }
    json_end_array(w);
    json_end_object(w);
}
