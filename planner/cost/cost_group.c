/* Finds how a group of ranks lies in the hierarchy of links. */
#include "planner/cost/cost_group.h"
#include "base/num.h"
#include <math.h>

int64_t cost_round_ns(double ns)
{
    return ns >= (double)MAX_TIME_NS ? MAX_TIME_NS : ns > 0 ? llround(ns) : 0;
}

/* Gives the part of a type, which it adds when it is new. */
static struct group_part *part_of(struct group *group, int type)
{
    for (int i = 0; i < group->part_count; i++)
        if (group->part[i].type == type)
            return &group->part[i];
    group->part[group->part_count] = (struct group_part){ .type = type, .concurrent = 1 };
    return &group->part[group->part_count++];
}

/* Adds `count` members of one node group; first as the group's ranks count. */
static void add_regular(struct group_part *part, const struct cluster *cluster, int level_count, int count, int first,
                        int stride)
{
    int last = first + (count - 1) * stride;
    part->ranks += count;
    for (int level = 0; level < level_count; level++) {
        int unit = cluster_unit(cluster, part->type, level);
        /* a stride within a unit visits every unit between the ends; a longer one never meets the same unit twice */
        part->units[level] += stride < unit ? last / unit - first / unit + 1 : count;
    }
}

struct group group_regular(const struct cluster *cluster, int ranks, int first, int stride, int concurrent)
{
    struct group group = { .ranks = ranks };
    int done = 0;
    group.level = cluster_level(cluster, first, first + (ranks - 1) * stride);
    for (int g = cluster_group(cluster, first); done < ranks; g++) {
        const struct node_group *at = &cluster->groups[g];
        int next = first + done * stride, here = ranks - done;
        if (g + 1 < cluster->group_count)
            here = (int)min_i64(here, ceil_div(max_i64(0, at->first_rank + at->device_count - next), stride));
        if (here == 0)
            continue;
        struct group_part *part = part_of(&group, at->type);
        add_regular(part, cluster, group.level + 1, here, next - at->first_rank, stride);
        part->concurrent = max_int(concurrent, 1);
        done += here;
    }
    for (int i = 0; i < group.part_count; i++)
        if (group.level == cluster->level_count - 1)
            group.part[i].units[group.level] = 1;
    return group;
}

/* Gives the index-th member of local rank 0's group; ascending, since outer atoms have the larger strides. */
static int stage_member(const struct plan_stage *stage, unsigned atoms, int index)
{
    int rank = 0, stride = 1;
    for (int atom = MAX_ATOMS - 1; atom >= 0; atom--) {
        if (atoms >> atom & 1) {
            rank += index % stage->atom[atom] * stride;
            index /= stage->atom[atom];
        }
        stride *= stage->atom[atom];
    }
    return stage->first_rank + rank;
}

int group_sharers(const struct cluster *cluster, int type, int level, const struct plan *plan, int stage)
{
    const struct node_type *node = &cluster->types[type];
    if (!node->levels[level].shared && !node->device.shared_host)
        return 1;
    /* level 0 has a node's bus, those above it the uplink of a unit below */
    return (int)min_i64(
        cluster_unit(cluster, type, level > 0 ? level - 1 : 0),
        cluster_ranks_of(cluster, type, plan->stages[stage].first_rank, plan_stage_rank_count(plan, stage)));
}

static void add_member(struct group *group, const struct cluster *cluster, int rank, int before[MAX_TYPES][MAX_LEVELS])
{
    struct group_part *part = part_of(group, cluster_type(cluster, rank));
    for (int level = 0; level <= group->level; level++) {
        int here = cluster_unit_of(cluster, rank, level), *last = &before[part->type][level];
        part->units[level] += part->ranks == 0 || here != *last;
        *last = here;
    }
    part->ranks++;
}

/* Counts different units of the given size among the members of local rank 0's group, first_rank counted from where
 * units begin. Where inner atoms stay in one unit and outer ones always leave it, that is the product of the outer (an
 * atom may do both: `inside` of its members share a unit); else members are looked at one by one. */
static int units_visited(const struct plan_stage *stage, unsigned atoms, int ranks, int first_rank, int unit)
{
    int outside = 1, span = 0, stride = 1, count = 0, before = -1;
    bool regular = true;
    for (int atom = MAX_ATOMS - 1; atom >= 0; stride *= stage->atom[atom--]) {
        if (!(atoms >> atom & 1) || stage->atom[atom] == 1)
            continue;
        int inside = stride < unit ? (int)min_i64(stage->atom[atom], ceil_div(unit, stride)) : 1;
        regular = regular && (inside == stage->atom[atom] || (unit % stride == 0 && stage->atom[atom] % inside == 0) ||
                              stride % unit == 0);
        span += (inside - 1) * stride;
        outside *= stage->atom[atom] / inside;
    }
    if (regular && first_rank % unit + span < unit)
        return outside;
    for (int i = 0; i < ranks; i++) {
        int here = (stage_member(stage, atoms, i) - stage->first_rank + first_rank) / unit;
        count += here != before;
        before = here;
    }
    return count;
}

struct group group_of_stage(const struct cluster *cluster, const struct plan *plan, int stage, unsigned atoms)
{
    const struct plan_stage *s = &plan->stages[stage];
    struct group group = { .ranks = 1 };
    int before[MAX_TYPES][MAX_LEVELS];
    for (int atom = 0; atom < MAX_ATOMS; atom++)
        group.ranks *= atoms >> atom & 1 ? s->atom[atom] : 1;
    int last = stage_member(s, atoms, group.ranks - 1);
    group.level = cluster_level(cluster, s->first_rank, last);
    if (cluster_group(cluster, s->first_rank) == cluster_group(cluster, last)) { /* of one type */
        const struct node_group *at = &cluster->groups[cluster_group(cluster, s->first_rank)];
        struct group_part *part = part_of(&group, at->type);
        part->ranks = group.ranks;
        for (int level = 0; level <= group.level; level++)
            part->units[level] = level == cluster->level_count - 1
                                     ? 1
                                     : units_visited(s, atoms, group.ranks, s->first_rank - at->first_rank,
                                                     cluster_unit(cluster, at->type, level));
    } else {
        for (int i = 0; i < group.ranks; i++)
            add_member(&group, cluster, stage_member(s, atoms, i), before);
    }
    for (int i = 0; i < group.part_count; i++) {
        struct group_part *part = &group.part[i];
        int members = part->ranks / part->units[group.level > 0 ? group.level - 1 : 0]; /* of it behind one link */
        int sharers = group_sharers(cluster, part->type, group.level, plan, stage);
        part->concurrent = (int)max_i64(1, sharers / max_i64(1, members));
    }
    return group;
}
