/* Lists the parts of a cluster that somebody might pay for instead of the whole. */
#include "planner/explain/explain_facts.h"
#include <math.h>

struct parts {
    const struct cluster *cluster;
    struct variation *list;
    int count;
};

static bool is_round(int count)
{
    while (count % 2 == 0)
        count /= 2;
    return count == 1 || count == 3;
}

static void add_part(struct parts *parts, unsigned types, int units, int devices)
{
    struct variation v = variation_none();
    v.types = types;
    v.units = units;
    v.devices = devices;
    if (parts->count < MOST_PARTS)
        parts->list[parts->count++] = v;
}

static int units_of(const struct cluster *cluster, const struct node_group *group)
{
    return group->device_count / variation_unit_devices(cluster, group->type);
}

/* True when the first units of the types have devices of all: what has of fewer types is a part of those. */
static bool has_all(const struct cluster *cluster, unsigned types, int units)
{
    unsigned met = 0;
    for (int g = 0; g < cluster->group_count && units > 0; g++)
        if (types >> cluster->groups[g].type & 1) {
            met |= 1u << cluster->groups[g].type;
            units -= units_of(cluster, &cluster->groups[g]);
        }
    return met == types;
}

/* True for whole units of each level inside one unit; see varied_open(). */
static bool divides_unit(const struct cluster *cluster, int type, int devices)
{
    for (int i = 0; i + 1 < cluster->level_count; i++) {
        int fanout = cluster->types[type].levels[i].fanout;
        if (devices > fanout && devices % fanout != 0)
            return false;
        devices = devices > fanout ? devices / fanout : 1;
    }
    return devices == 1;
}

static void add_parts_of(struct parts *parts, unsigned types, unsigned asked)
{
    const struct cluster *c = parts->cluster;
    int units = 0, type = 0;
    for (int g = 0; g < c->group_count; g++)
        units += types >> c->groups[g].type & 1 ? units_of(c, &c->groups[g]) : 0;
    for (int u = units; u >= 1; u--)
        if ((u == units || is_round(u)) && has_all(c, types, u))
            add_part(parts, asked, u, 0);
    while (!(types >> type & 1))
        type++;
    for (int d = variation_unit_devices(c, type) - 1; types == 1u << type && d >= 1; d--)
        if (is_round(d) && divides_unit(c, type, d))
            add_part(parts, asked, 1, d);
}

int parts_of_cluster(const struct cluster *cluster, struct variation out[MOST_PARTS])
{
    struct parts parts = { .cluster = cluster, .list = out };
    unsigned all = (1u << cluster->type_count) - 1;
    add_parts_of(&parts, all, 0);
    for (int t = 0; cluster->type_count == 3 && t < 3; t++)
        add_parts_of(&parts, all & ~(1u << t), all & ~(1u << t));
    for (int t = 0; cluster->type_count > 1 && t < cluster->type_count; t++)
        add_parts_of(&parts, 1u << t, 1u << t);
    return parts.count;
}

bool parts_likely(const struct cluster *cluster, enum dtype dtype, int64_t compute_ns, int64_t step_ns,
                  struct variation *out)
{
    double whole = 0, most = 0;
    int units = variation_units(cluster), best = 0;
    for (int t = 0; t < cluster->type_count; t++) {
        const struct node_type *type = &cluster->types[t];
        /* this is what its devices multiply in a second */
        double own = type->device.matmul_flops_per_s[dtype] * type->device.matmul_efficiency * type->device_count;
        best = own > most ? t : best;
        most = fmax(most, own);
        whole += own;
    }
    *out = variation_none();
    if (cluster->type_count > 1)
        out->types = 1u << best;
    else
        out->units = units / 2;
    double times = cluster->type_count > 1 ? whole / most : 2;
    return times * (double)compute_ns < (double)step_ns && (cluster->type_count > 1 || units % 2 == 0);
}
