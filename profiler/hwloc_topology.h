/* What hwloc sees of a machine: the XML that `lstopo --of xml` writes. */
#ifndef CLEAVE_PROFILER_HWLOC_TOPOLOGY_H
#define CLEAVE_PROFILER_HWLOC_TOPOLOGY_H
#include "host/topology.h"
#include <stdint.h>

enum { HWLOC_MODEL_BYTES = 64 };
struct hwloc_machine {
    struct topology topology;      /* GPUs in the order of their driver's numbers, else of the bus; it may have none */
    bool knows_nvlink;             /* NVML named all GPUs, and there is a rate of some: else they may have links */
    bool is_amd;                   /* the GPUs; nothing is read of their links */
    unsigned pci_device;           /* of vendor 0x10de; 0: other GPUs */
    char model[HWLOC_MODEL_BYTES]; /* what NVML or CUDA call the GPUs; empty: neither was asked */
    int package_count, numa_count, core_count;
    bool packages_are_alike; /* each has as many cores */
    bool cores_are_pus;      /* hwloc names processing units without a core around them, each counted as one */
    int64_t memory_bytes;    /* of the host: NUMA nodes of GPUs do not count; 0: unknown */
    /* Accelerators of other makers, which are no GPUs here: those that are as the first. */
    int unknown_count;
    unsigned unknown_vendor, unknown_device;
    char slowest_card[HWLOC_MODEL_BYTES]; /* of those in rates.slots: "eth0 in 0000:09:00"; empty: none */
};
/**
 * Reads the text of a machine, of hwloc 2 or 3, whose GPUs, if any, are of one kind:
 *
 *   <topology version="2.0">: <object type="Machine">: <object type="Package">, "NUMANode", "Core", ... with
 *     <object type="Bridge" bridge_type="1-1" pci_link_speed="GB/s">, inside each other as the bus is, and
 *     <object type="PCIDev" pci_busid pci_type="class [vendor:device] ..." pci_link_speed>, in which
 *     <object type="OSDev" name="nvml0">
 *   <distances2hetero name="NVLinkBandwidth">: <indexes> of objects, <u64values> of MB/s
 *
 * - A GPU is a display controller of NVIDIA's, or a display controller or accelerator of AMD's that is no plain
 *   graphics adapter.
 * - GPUs under one bridge of PCI Express are joined by a switch, others through the host, and by NVLink where the
 *   distances have a rate from each to the other or to NVSwitches. How many links that are hwloc does not say. No
 *   distances do not mean no NVLink: hwloc before 2.12 has none of Blackwell's, and none lead to a switch that it does
 *   not see, as in a virtual machine.
 * - A link of PCI Express has the rate at which it ran when hwloc looked, which is less where the GPU was idle; before
 *   hwloc 2.11 it is at most that of generation 3; 0: not known.
 * - Network cards are those that share most of the bus with some GPU and have a name in the system, those of InfiniBand
 *   alone where there are such. Of their speed hwloc says nothing; they carry no more than their slots.
 *
 * Fails with the file's name and line; where the build reads no XML as xml_read() does. Source of the meaning: hwloc
 * 2.9 and master of 2026-08, hwloc/topology-xml.c, topology-nvml.c, pci-common.c.
 */
bool hwloc_machine_read(struct hwloc_machine *out, const char *name, const char *text, size_t length,
                        struct error *err);
#endif
