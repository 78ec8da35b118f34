#include "profiler/discover.h"
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

static void own_link(struct discovered_level *level, const struct device_type *device)
{
    struct link_level *link = &level->link;
    link->bytes_per_s = device->link_bytes_per_s;
    link->efficiency = device->link_efficiency;
    link->latency_ns = device->link_latency_ns;
    link->shared = device->link_shared;
    link->switch_reduce_factor = device->switch_reduce_factor;
    link->switch_reduce_latency_ns = device->switch_reduce_latency_ns;
    say(level->comment, "the link of %s in the catalogue", device->name);
}

/* whole: the level is all of a node, as where the catalogue's switch is. */
static void nvlink_link(struct discovered_level *level, const struct device_type *device, int links, bool whole)
{
    own_link(level, device);
    level->comment[0] = '\0';
    if (!whole)
        level->link.switch_reduce_factor = 0, level->link.switch_reduce_latency_ns = 0;
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

static void pcie_link(struct discovered_level *level, const struct device_type *device, bool shared)
{
    struct link_level *link = &level->link;
    link->latency_ns = device->link_latency_ns;
    link->efficiency = is_pcie(device) ? device->link_efficiency : PCIE_EFFICIENCY;
    link->shared = shared;
    say(level->comment, "PCI Express, %s: ",
        shared ? "through the host (PHB, NODE or SYS), shared by who talks at once" : "behind switches (PIX or PXB)");
    if (device->host_bytes_per_s > 0) {
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

static void add_nodes(struct discovery *out, const struct device_type *device, int nodes)
{
    out->node_levels = out->level_count;
    if (nodes < 2)
        return;
    struct discovered_level *level = add_level(out, "cluster", nodes);
    level->link.bytes_per_s = device->nic_bytes_per_s;
    level->link.efficiency = device->nic_efficiency;
    level->link.latency_ns = device->nic_latency_ns;
    level->link.shared = device->nic_shared;
    say(level->comment, "the network of %s in the catalogue, for each device", device->name);
}

void discover_plain(struct discovery *out, const struct device_type *device, int nodes, int per_node,
                    const char *source)
{
    *out = (struct discovery){ .device = device->name };
    say(out->comment, "%d x %d devices: %s", nodes, per_node, source);
    own_link(add_level(out, "node", per_node), device);
    add_nodes(out, device, nodes);
}

static void say_mixed(struct discovery *out, const struct topology_levels *levels)
{
    static const char *const names[] = { "NVLink", "PCI Express switches", "the host" };
    int a = levels->mixed_pair[0], b = levels->mixed_pair[1];
    if (levels->mixed != TIER_COUNT)
        say(out->comment,
            "; %s joins no equal groups of neighbouring GPUs (see GPU%d and GPU%d), which levels cannot express: those "
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
    say(out->comment, "%d x %d GPUs and %d network cards a node: %s", nodes, topology->device_count,
        topology->nic_count, source);
    say_mixed(out, &levels);
    for (int i = 0; i < levels.count; i++) {
        const struct topology_level *l = &levels.level[i];
        bool whole = i == levels.count - 1;
        struct discovered_level *level = add_level(out, whole ? "node" : names[l->tier], l->fanout);
        if (topology->device_count == 1)
            own_link(level, device);
        else if (l->tier == TIER_NVLINK)
            nvlink_link(level, device, l->links, whole);
        else
            pcie_link(level, device, l->tier == TIER_HOST);
    }
    add_nodes(out, device, nodes);
}

void discovery_write(struct json_writer *w, const struct discovery *found)
{
    json_begin_format(w, "cleave-cluster", 1);
    json_put_string(w, "comment", found->comment);
    json_put_string(w, "device", found->device);
    json_write_key(w, "levels");
    json_begin_array(w);
    for (int i = 0; i < found->level_count; i++) {
        const struct link_level *link = &found->level[i].link;
        json_begin_object(w);
        json_put_string(w, "comment", found->level[i].comment);
        json_put_string(w, "name", link->name);
        json_put_int(w, "fanout", link->fanout);
        json_put_double(w, "bytes_per_s", link->bytes_per_s);
        json_put_double(w, "efficiency", link->efficiency);
        json_put_int(w, "latency_ns", link->latency_ns);
        json_put_double(w, "switch_reduce_factor", link->switch_reduce_factor);
        json_put_int(w, "switch_reduce_latency_ns", link->switch_reduce_latency_ns);
        json_put_bool(w, "shared", link->shared);
        json_end_object(w);
    }
    json_end_array(w);
    json_end_object(w);
}
