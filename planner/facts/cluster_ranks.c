/* Where ranks lie: their groups, types, nodes and common levels. */
#include "base/num.h"
#include "planner/facts/cluster.h"

int cluster_group(const struct cluster *cluster, int rank)
{
    int group = cluster->group_count - 1;
    while (group > 0 && cluster->groups[group].first_rank > rank)
        group--;
    return group;
}

int cluster_type(const struct cluster *cluster, int rank)
{
    return cluster->groups[cluster_group(cluster, rank)].type;
}

const struct device_type *cluster_device(const struct cluster *cluster, int rank)
{
    return &cluster->types[cluster_type(cluster, rank)].device;
}

/* Counts the ranks of [first_rank, first_rank + count) in the group. */
static int overlap(const struct node_group *group, int first_rank, int count)
{
    int64_t first = max_i64(group->first_rank, first_rank);
    int64_t end = min_i64(group->first_rank + group->device_count, first_rank + count);
    return (int)max_i64(0, end - first);
}

unsigned cluster_types(const struct cluster *cluster, int first_rank, int count)
{
    unsigned types = 0;
    for (int g = 0; g < cluster->group_count; g++)
        if (overlap(&cluster->groups[g], first_rank, count) > 0)
            types |= 1u << cluster->groups[g].type;
    return types;
}

int cluster_ranks_of(const struct cluster *cluster, int type, int first_rank, int count)
{
    int ranks = 0;
    for (int g = 0; g < cluster->group_count; g++)
        if (cluster->groups[g].type == type)
            ranks += overlap(&cluster->groups[g], first_rank, count);
    return ranks;
}

int cluster_unit(const struct cluster *cluster, int type, int level)
{
    if (level == cluster->level_count - 1)
        return cluster->device_count;
    int unit = 1;
    for (int i = 0; i <= level; i++)
        unit *= cluster->types[type].levels[i].fanout;
    return unit;
}

int cluster_unit_of(const struct cluster *cluster, int rank, int level)
{
    if (level == cluster->level_count - 1)
        return 0;
    const struct node_group *group = &cluster->groups[cluster_group(cluster, rank)];
    return group->first_unit[level] + (rank - group->first_rank) / cluster_unit(cluster, group->type, level);
}

int cluster_place(const struct cluster *cluster, int rank, int level)
{
    if (level == cluster->level_count - 1)
        return rank;
    const struct node_group *group = &cluster->groups[cluster_group(cluster, rank)];
    return (rank - group->first_rank) % cluster_unit(cluster, group->type, level);
}

int cluster_level(const struct cluster *cluster, int rank_a, int rank_b)
{
    int at = cluster_group(cluster, rank_a), top = cluster->level_count - 1, level = 0;
    if (cluster_group(cluster, rank_b) != at)
        return top;
    const struct node_group *group = &cluster->groups[at];
    const struct link_level *levels = cluster->types[group->type].levels;
    rank_a -= group->first_rank;
    rank_b -= group->first_rank;
    for (int unit = levels[0].fanout; level < top && rank_a / unit != rank_b / unit;)
        unit *= levels[++level].fanout;
    return level;
}

int cluster_node_size(const struct cluster *cluster)
{
    int size = cluster->types[0].levels[0].fanout;
    for (int t = 1; t < cluster->type_count; t++)
        size = (int)min_i64(size, cluster->types[t].levels[0].fanout);
    return size;
}
