/* How the GPUs of a node are connected, as `nvidia-smi topo -m`, the driver or NCCL say. */
#ifndef CLEAVE_HOST_TOPOLOGY_H
#define CLEAVE_HOST_TOPOLOGY_H
#include "base/arena.h"
#include "base/error.h"
#include <stdbool.h>
#include <stddef.h>

/* From near to far. A tier is a kind of link that a level of a cluster can be made of. */
enum link_tier { TIER_NVLINK, TIER_SWITCH, TIER_HOST, TIER_COUNT };
enum { TOPOLOGY_DEVICES = 128, TOPOLOGY_NICS = 128, TOPOLOGY_LINKS = 36 }; /* NVLinks of a GPU, twice what any has */

struct topology {
    int device_count, nic_count;
    int nearest_nics; /* network cards that no other is nearer to some GPU than; 0: the source does not say */
    /* Between two GPUs: [0][0] is unused. links: NVLinks; 0 in other tiers, and where only their rate is known. */
    struct topology_pair {
        enum link_tier tier;
        int links;
    } pair[TOPOLOGY_DEVICES][TOPOLOGY_DEVICES];
    /* Nominal bytes per second each way, of whoever has least; 0: the source does not say. */
    struct topology_rates {
        double nvlinks;     /* all NVLinks of one GPU, to GPUs of the node and their switch */
        bool nvswitch;      /* they lead to a switch; with nvlinks */
        double pcie;        /* one GPU's own link of PCI Express */
        double host;        /* the slowest such link on a GPU's way to its processor */
        bool as_it_ran;     /* pcie and host are of the moment: links of idle GPUs run slower than they can */
        double network;     /* all network cards that are nearest to some GPU, together */
        bool own_network;   /* every GPU has an equal part of that to itself, else all share it; with network */
        double slots;       /* PCI Express of those cards' slots together: they carry no more; without network */
        const char *finder; /* who found these: "NCCL"; NULL: nobody */
    } rates;
};
/* Reads the text, coloured or not, columns apart by tabs or spaces: a header of GPU0, GPU1, ... and the network cards,
 * then a row for each of them with X on the diagonal and NV#, PIX, PXB, PHB, NODE, SYS (or SOC) elsewhere, equal both
 * ways. What stands right of these columns and below the rows is not read. name: of the file, for messages. */
bool topology_read(struct topology *out, const char *name, const char *text, size_t length, struct error *err);

/* A hierarchy of equal blocks of neighbouring GPUs: inside a block of level i no pair is farther than its tier. */
struct topology_levels {
    int count;
    struct topology_level {
        enum link_tier tier;
        int fanout; /* blocks of the level below */
        int links;  /* fewest NVLinks of a pair of its blocks */
    } level[TIER_COUNT];
    /* The nearest tier that forms no such blocks and was put down to the slower one behind it, and a pair of GPUs that
     * shows it; TIER_COUNT: none. */
    enum link_tier mixed;
    int mixed_pair[2];
};
void topology_find_levels(struct topology_levels *out, const struct topology *topology);
#endif
