/* A cluster file made of what other tools say of a machine. */
#ifndef CLEAVE_PROFILER_DISCOVER_H
#define CLEAVE_PROFILER_DISCOVER_H
#include "base/json.h"
#include "host/topology.h"
#include "planner/facts/cluster.h"
#include "profiler/hwloc_topology.h"
#include "profiler/nccl_tests.h"

enum { DISCOVERY_COMMENT_BYTES = 512, DISCOVERY_NOTES = 4 };
/* Levels as a cluster has them, each with where its numbers come from. */
struct discovery {
    const char *device;                 /* of the catalogue; borrowed */
    const struct device_type *measured; /* instead, written out; borrowed; NULL: none */
    int node_levels;                    /* how many of the levels lie inside a node */
    int level_count;
    struct discovered_level {
        struct link_level link; /* its name is a literal */
        char comment[DISCOVERY_COMMENT_BYTES];
    } level[MAX_LEVELS];
    char comment[DISCOVERY_COMMENT_BYTES]; /* of the whole */
    /* What whoever plans with it should look at, in sentences. */
    int note_count;
    char note[DISCOVERY_NOTES][DISCOVERY_COMMENT_BYTES];
};
/**
 * `nodes` nodes of devices connected as in `topology`, told from `source` (for comments):
 *
 * - Where NVLink connects them: the device's own link if that is faster than PCI Express 5.0 x16, else the rate of so
 *   many NVLinks (25 GB/s each way: generations 2 to 4).
 * - Where PCI Express does: the device's rate to its host, else its own link where that is PCI Express, else 3.0 x16.
 *   Behind one switch every device has it to itself; through the host a unit shares it.
 * - Between nodes: the device's network.
 *
 * Rates that the topology knows stand before those: of all NVLinks of a GPU, of PCI Express, and of the network, which
 * the GPUs of a node share unless each has an equal part. Efficiencies and latencies are always the device's.
 *
 * What no hierarchy expresses has the slowest kind of link among it, and the comment says so.
 */
void discover_topology(struct discovery *out, const struct topology *topology, const struct device_type *device,
                       int nodes, const char *source);
/* The same of what hwloc saw. Where it saw no GPU, the cores are the devices, in equal packages where there are such;
 * where it has no rates of NVLink and the device's own link is faster than PCI Express, that joins all GPUs. Between
 * nodes cards carry no more than their slots. */
void discover_hwloc(struct discovery *out, const struct hwloc_machine *machine, const struct device_type *device,
                    int nodes);
/* `nodes` nodes of `per_node` devices behind the device's own links. */
void discover_plain(struct discovery *out, const struct device_type *device, int nodes, int per_node,
                    const char *source);
/**
 * Puts measured rate and latency into the level that the run's ranks span: t = fixed + bytes / rate is fitted to its
 * rows, with the bytes that each rank sends around a ring. The rate, divided among the members of a unit of the level
 * below, who bring a link each, becomes `efficiency` (and bytes_per_s where it is above that); the latency is what the
 * fixed time leaves for one step of this level, less the start of a collective and the steps of levels below: take
 * inner levels first. An all-reduce holds what a switch adds up, so that the level's factor for it becomes 0. Fails
 * where the ranks do not fit.
 */
bool discover_measured(struct discovery *out, const struct nccl_tests *tests, const struct device_type *device,
                       const char *source, struct error *err);
/* Orders runs for discover_measured(): inner levels first; of one level the all-reduce of most ranks last. For qsort()
 * of pointers to runs. */
int discover_order(const void *a, const void *b);
/* The catalogue's name of a GPU that the driver calls so ("NVIDIA H100 80GB HBM3"); NULL: not known. */
const char *discover_device(const char *driver_name);
/* The same of a device of NVIDIA's with this id of PCI. */
const char *discover_pci_device(unsigned pci_device);
/* The whole cluster file, as cluster_read() takes it. */
void discovery_write(struct json_writer *w, const struct discovery *found);
#endif
