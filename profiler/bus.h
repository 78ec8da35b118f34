/* Where devices sit on a machine's PCI Express, as tools list it: what holds what. */
#ifndef CLEAVE_PROFILER_BUS_H
#define CLEAVE_PROFILER_BUS_H
#include "host/topology.h"

enum { BUS_DEPTH = 32 }; /* elements around a device; a bus has a handful of switches */
/* The elements around a device, outer to inner. */
struct bus_place {
    int depth, id[BUS_DEPTH];      /* no two elements have the same id */
    bool is_switch[BUS_DEPTH];     /* what is under it meets there */
    double own_link, slowest_link; /* rates of PCI Express: of the innermost, of all; 0: unknown */
};
/* Adds the next inner element; is_pci: it is of PCI Express, with this link upward. */
void bus_enter(struct bus_place *place, int id, bool is_pci, double link);
/* How many elements are around both. */
int bus_shared_depth(const struct bus_place *a, const struct bus_place *b);
/* Of two devices without another link: they meet in a switch, or in the host. */
enum link_tier bus_tier(const struct bus_place *a, const struct bus_place *b);
/* The lesser rate; 0 is an unknown one. */
double bus_slower(double a, double b);
#endif
