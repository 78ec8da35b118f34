/* Groups of ranks against the hierarchy. */
#include "planner/cost/cost_group.h"
#include "base/num.h"
#include <math.h>

int64_t cost_round_ns(double ns)
{
    return ns >= (double)MAX_TIME_NS ? MAX_TIME_NS : ns > 0 ? llround(ns) : 0;
}

struct group group_regular(const struct cluster *cluster, int ranks, int first, int stride, int concurrent)
{
    struct group group = { .ranks = ranks, .concurrent = concurrent < 1 ? 1 : concurrent };
    int last = first + (ranks - 1) * stride;
    group.level = cluster_level(cluster, first, last);
    for (int level = 0; level <= group.level; level++) {
        int unit = cluster_unit(cluster, level);
        /* a stride within a unit visits every unit between the ends; a longer one never meets the same unit twice */
        group.units[level] = stride < unit ? last / unit - first / unit + 1 : ranks;
    }
    return group;
}

/* The index-th member of local rank 0's group; ascending, since outer atoms have the larger strides. */
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

int group_sharers(const struct cluster *cluster, int level, int stage_ranks)
{
    if (!cluster->levels[level].shared && !cluster->device.shared_host)
        return 1;
    int unit =
        cluster_unit(cluster, level > 0 ? level - 1 : 0); /* level 0: a node's bus; above: the uplink of a unit below */
    return (int)min_i64(unit, stage_ranks);
}

struct group group_of_stage(const struct cluster *cluster, const struct plan *plan, int stage, unsigned atoms)
{
    const struct plan_stage *s = &plan->stages[stage];
    struct group group = { .ranks = 1, .concurrent = 1 };
    for (int atom = 0; atom < MAX_ATOMS; atom++)
        group.ranks *= atoms >> atom & 1 ? s->atom[atom] : 1;
    group.level = cluster_level(cluster, s->first_rank, stage_member(s, atoms, group.ranks - 1));
    for (int level = 0; level <= group.level; level++) {
        int unit = cluster_unit(cluster, level), before = -1;
        for (int i = 0; i < group.ranks; i++) {
            int here = stage_member(s, atoms, i) / unit;
            group.units[level] += here != before;
            before = here;
        }
    }
    int members = group.ranks / group.units[group.level > 0 ? group.level - 1 : 0]; /* of this group behind one link */
    int sharers = group_sharers(cluster, group.level, stage_rank_count(plan, stage));
    group.concurrent = (int)max_i64(1, sharers / max_i64(1, members));
    return group;
}
