/* From groups as they were written to a cluster: all get equally many levels, equal ones become one type, equal
 * neighbours one group. */
#include "planner/facts/cluster_parts.h"
#include "base/num.h"
#include <string.h>

static struct link_level alone(struct link_level level)
{
    level.fanout = 1;
    return level;
}

/* Fills up levels of fanout 1 below the network that joins the groups: nothing ever passes them. A lone node hangs on
 * that network by its device's own link. */
static void fill_levels(struct group_text *group, int level_count, bool apart)
{
    int own = group->level_count;
    if (apart) {
        for (int i = own; i < level_count - 1; i++)
            group->level[i] = alone(group->level[own - 1]);
        group->level[level_count - 1] = alone(group->between);
    } else if (own < level_count) {
        struct link_level outer = own > 1 ? group->level[own - 1] : device_type_nic(&group->device);
        for (int i = own > 1 ? own - 1 : own; i < level_count - 1; i++)
            group->level[i] = alone(outer);
        group->level[level_count - 1] = outer;
    }
    group->level_count = level_count;
}

static bool add_type(struct cluster *cluster, const struct group_text *group)
{
    struct node_type *type = &cluster->types[cluster->type_count++];
    type->device = group->device;
    type->memory_bytes = group->device.memory_bytes - group->device.reserve_bytes;
    type->levels = arena_alloc(&cluster->arena, (size_t)group->level_count, sizeof *type->levels);
    if (type->levels)
        memcpy(type->levels, group->level, (size_t)group->level_count * sizeof *type->levels);
    return type->levels != NULL;
}

void cluster_number(struct cluster *cluster)
{
    int top = cluster->level_count - 1, units[MAX_LEVELS] = { 0 };
    cluster->device_count = 0;
    for (int t = 0; t < cluster->type_count; t++)
        cluster->types[t].device_count = 0;
    for (int g = 0; g < cluster->group_count; g++) {
        struct node_group *group = &cluster->groups[g];
        struct node_type *type = &cluster->types[group->type];
        group->first_rank = cluster->device_count;
        for (int level = 0, unit = 1; level < top; level++) {
            unit *= type->levels[level].fanout;
            group->first_unit[level] = units[level];
            units[level] += group->device_count / unit;
        }
        type->device_count += group->device_count;
        cluster->device_count += group->device_count;
    }
    for (int t = 0; t < cluster->type_count; t++) {
        struct node_type *type = &cluster->types[t];
        int unit = 1;
        for (int level = 0; level < top; level++)
            unit *= type->levels[level].fanout;
        type->levels[top].fanout = type->device_count / unit;
    }
}

bool cluster_build(struct cluster *cluster, const struct group_text *groups, int count, bool apart, struct error *err)
{
    uint64_t hashes[MAX_TYPES];
    cluster->level_count = count > 1 && !apart ? 2 : 1;
    for (int g = 0; g < count; g++)
        cluster->level_count = (int)max_i64(cluster->level_count, groups[g].level_count);
    cluster->level_count += apart;
    cluster->types = arena_alloc(&cluster->arena, MAX_TYPES, sizeof *cluster->types);
    cluster->groups = arena_alloc(&cluster->arena, (size_t)count, sizeof *cluster->groups);
    if (!cluster->types || !cluster->groups)
        return fail_kind(err, ERROR_ENVIRONMENT, "%s: out of memory", cluster->name);
    for (int g = 0; g < count; g++) {
        struct group_text group = groups[g];
        fill_levels(&group, cluster->level_count, apart);
        /* how many units of the outermost level a group has says nothing about its type */
        struct group_text copy = group;
        copy.level[copy.level_count - 1].fanout = 1;
        struct node_type own = { .device = copy.device, .levels = copy.level };
        own.memory_bytes = copy.device.memory_bytes - copy.device.reserve_bytes;
        uint64_t hash = cluster_hash_type(HASH_START, &own, copy.level_count);
        int type = 0;
        while (type < cluster->type_count && hashes[type] != hash)
            type++;
        if (type == MAX_TYPES)
            return fail(err, "%s: expected at most %d different types of nodes, found more", cluster->name,
                        (int)MAX_TYPES);
        hashes[type] = hash;
        if (type == cluster->type_count && !add_type(cluster, &group))
            return fail_kind(err, ERROR_ENVIRONMENT, "%s: out of memory", cluster->name);
        int devices = 1;
        for (int i = 0; i < group.level_count; i++)
            devices *= group.level[i].fanout;
        struct node_group *last = cluster->group_count > 0 ? &cluster->groups[cluster->group_count - 1] : NULL;
        if (last && last->type == type)
            last->device_count += devices;
        else
            cluster->groups[cluster->group_count++] = (struct node_group){ .type = type, .device_count = devices };
    }
    cluster_number(cluster);
    return true;
}
