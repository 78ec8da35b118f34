/* What NCCL found in a node: the XML that it writes into the file named by NCCL_TOPO_DUMP_FILE. */
#ifndef CLEAVE_PROFILER_NCCL_TOPOLOGY_H
#define CLEAVE_PROFILER_NCCL_TOPOLOGY_H
#include "host/topology.h"

struct nccl_topology {
    struct topology topology; /* with rates; GPUs by host and `dev`, the driver's numbers */
    int sm;                   /* compute capability of the GPUs: 90 */
    unsigned pci_device;      /* of vendor 0x10de; 0: the file does not say */
};
/**
 * Reads the text of one node's GPUs, which are of one kind; of several hosts where NVLink joins all of them:
 *
 *   <system version="1">: <cpu>: <pci link_speed="16.0 GT/s PCIe" link_width="16">, inside each other as the bus is,
 *     with <gpu dev sm>: <nvlink target="busid or a switch" count tclass>
 *     or   <nic>: <net speed="Mb/s">
 *
 * - GPUs under one <pci> are joined by a switch, others through the host, and by NVLink where links lead from each to
 *   the other or to switches (class 0x0680). Links to GPUs that the file does not have do not count.
 * - An NVLink has the nominal rate of its generation by `sm`, a link of PCI Express that of its speed and width, less
 *   the encoding; both are 0 where they are not known.
 * - The network is that of the cards that share most of the bus with some GPU; a card has no more than its slot.
 *
 * Other elements and attributes are not looked at. Fails with the file's name and line; where the build reads no XML
 * as xml_read() does. Source of the meaning: NCCL 2.28, src/graph/xml.cc and topo.cc; of rates: datasheets.
 */
bool nccl_topology_read(struct nccl_topology *out, const char *name, const char *text, size_t length,
                        struct error *err);
#endif
