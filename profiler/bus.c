#include "profiler/bus.h"

double bus_slower(double a, double b)
{
    return a == 0 || (b > 0 && b < a) ? b : a;
}

void bus_enter(struct bus_place *place, int id, bool is_pci, double link)
{
    place->id[place->depth] = id, place->is_switch[place->depth++] = is_pci;
    if (is_pci)
        place->own_link = link, place->slowest_link = bus_slower(place->slowest_link, link);
}

int bus_shared_depth(const struct bus_place *a, const struct bus_place *b)
{
    int depth = 0;
    while (depth < a->depth && depth < b->depth && a->id[depth] == b->id[depth])
        depth++;
    return depth;
}

enum link_tier bus_tier(const struct bus_place *a, const struct bus_place *b)
{
    int depth = bus_shared_depth(a, b);
    return depth > 0 && a->is_switch[depth - 1] ? TIER_SWITCH : TIER_HOST;
}
