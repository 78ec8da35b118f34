/* The time of collectives and messages: measured curves first, then the latency and bandwidth of rings and trees.
 *
 * Ring (Patarasuk & Yuan 2009, section 3): n - 1 steps gather or scatter, 2 (n - 1) reduce to all; each step moves 1/n
 * of the buffer. Of a ring's n - 1 hops, as many leave a unit as the group has further units, so hops of different
 * levels cost their own latency. Tree all-reduce (NCCL 2.28.9, src/graph/tuning.cc): 2 ((ppn - 1) intra + log2(nodes)
 * inter), at 0.92 of the ring's bus bandwidth and the whole buffer up and down. Both pipeline, so the slowest link on
 * the way decides the bandwidth. */
#include "planner/cost/cost_group.h"
#include "base/num.h"
#include "planner/program/geometry.h"
#include <math.h>

#define TREE_BANDWIDTH 0.92 /* NCCL 2.28.9, src/graph/tuning.cc: of the ring's */

enum { SWITCH_MEMBERS = 8 }; /* fewest for which in-switch reduction was measured to win */

static double level_rate(const struct link_level *level)
{
    return level->bytes_per_s * level->efficiency;
}

/* Units of the group below a level: its members below level 0. */
static int units_below(const struct group *group, int level)
{
    return level > 0 ? group->units[level - 1] : group->ranks;
}

/* How many times the ring passes between two units of the level below, less one at the top: the hops of n - 1 steps. */
static int ring_hops(const struct group *group, int level)
{
    return units_below(group, level) - group->units[level];
}

/* Bytes per second at which a ring passes a level. Every member of a unit brings its own link to it, and rings use them
 * side by side; a shared link is divided among the groups, a shared bus among all members of all groups. */
static double ring_rate(const struct cluster *cluster, const struct group *group, int level)
{
    const struct link_level *link = &cluster->levels[level];
    double members = (double)group->ranks / units_below(group, level); /* of one unit below */
    if (level > 0)
        return level_rate(link) * (link->shared ? 1.0 / group->concurrent : members);
    double talkers = (double)group->ranks / group->units[0] * group->concurrent;
    return level_rate(link) / (link->shared ? talkers : 1);
}

static double bus_rate(const struct cluster *cluster, const struct group *group)
{
    double rate = INFINITY;
    for (int level = 0; level <= group->level; level++)
        if (ring_hops(group, level) > 0)
            rate = fmin(rate, ring_rate(cluster, group, level));
    return rate;
}

/* Latency of n - 1 steps around the ring. */
static double ring_latency_ns(const struct cluster *cluster, const struct group *group)
{
    double ns = 0;
    for (int level = 0; level <= group->level; level++)
        ns += (double)ring_hops(group, level) * (double)cluster->levels[level].latency_ns;
    return ns;
}

/* Up and down a tree: a chain inside the innermost units, halving above. */
static double tree_latency_ns(const struct cluster *cluster, const struct group *group)
{
    double ns = 0;
    for (int level = 0; level <= group->level; level++) {
        double fanout = (double)units_below(group, level) / group->units[level];
        ns += (level == 0 ? fanout - 1 : ceil(log2(fanout))) * (double)cluster->levels[level].latency_ns;
    }
    return 2 * ns;
}

/* A whole node adds up in its switch, faster than any ring of it; smaller groups were measured to take rings (4 of 8
 * H200, NCCL: stas00/ml-engineering@744d01e, network/README.md). */
static double switch_ns(const struct cluster *cluster, double wire_ns, const struct group *group)
{
    const struct link_level *link = &cluster->levels[0];
    if (group->level > 0 || group->ranks != link->fanout || group->ranks < SWITCH_MEMBERS ||
        link->switch_reduce_factor <= 0)
        return INFINITY;
    return (double)link->switch_reduce_latency_ns + wire_ns / link->switch_reduce_factor;
}

static double all_reduce_ns(const struct cluster *cluster, double wire_bytes, const struct group *group)
{
    double wire_ns = wire_bytes / bus_rate(cluster, group) * 1e9;
    double ring = 2 * ring_latency_ns(cluster, group) + wire_ns;
    double n = group->ranks; /* the tree moves 2 S where the ring moves 2 (n - 1) / n S */
    double tree = tree_latency_ns(cluster, group) + wire_ns * n / (n - 1) / TREE_BANDWIDTH;
    return fmin(fmin(ring, tree), switch_ns(cluster, wire_ns, group));
}

/* Every member exchanges with every other in n - 1 steps; the share of the peers behind a level is that of the bytes,
 * through the member's own link. Levels work side by side. */
static double exchange_ns(const struct cluster *cluster, double wire_bytes, const struct group *group)
{
    double slowest = 0, latency = 0;
    for (int level = 0; level <= group->level; level++) {
        const struct link_level *link = &cluster->levels[level];
        double inside = (double)group->ranks / group->units[level],
               below = (double)group->ranks / units_below(group, level);
        double talkers = link->shared ? (level > 0 ? below : inside) * group->concurrent : 1;
        double share = (inside - below) / (group->ranks - 1);
        slowest = fmax(slowest, wire_bytes * share / (level_rate(link) / talkers) * 1e9);
        latency += (inside - below) * (double)link->latency_ns;
    }
    return latency + slowest;
}

/* All senders at once, in a ring to their neighbours; of those in a unit only one leaves it. */
static double shift_ns(const struct cluster *cluster, double wire_bytes, const struct group *group, int senders)
{
    double slowest = 0;
    for (int level = 0; level <= group->level; level++) {
        const struct link_level *link = &cluster->levels[level];
        double talkers = group->concurrent * (level > 0 ? 1.0 : (double)senders / group->units[0]);
        double ns = (double)link->latency_ns + wire_bytes / level_rate(link) * (link->shared ? talkers : 1) * 1e9;
        if (ring_hops(group, level) > 0)
            slowest = fmax(slowest, ns);
    }
    return slowest;
}

static double analytic_ns(const struct cluster *cluster, enum op op, double wire_bytes, const struct group *group)
{
    double start = (double)cluster->device.collective_launch_ns;
    switch (op) {
    case OP_ALL_REDUCE:
    case OP_NORM_REDUCE:
        return start + all_reduce_ns(cluster, wire_bytes, group);
    case OP_ALL_GATHER:
    case OP_REDUCE_SCATTER:
        return start + ring_latency_ns(cluster, group) + wire_bytes / bus_rate(cluster, group) * 1e9;
    case OP_ALL_TO_ALL:
    case OP_REDISTRIBUTE:
        return start + exchange_ns(cluster, wire_bytes, group);
    case OP_SHIFT:
        return start + shift_ns(cluster, wire_bytes, group, group->ranks);
    case OP_SEND:
    case OP_RECEIVE:
        return start + shift_ns(cluster, wire_bytes, group, 1);
    case OP_COMPUTE:
    case OP_LOAD:
    case OP_SEED:
    case OP_ZERO:
    case OP_SLICE:
    case OP_ADD:
    case OP_NORM:
    case OP_UPDATE:
    case OP_COUNT:
        break;
    }
    return 0;
}

/* The name under which profiles hold it: the norm's scalar travels by an ordinary all-reduce, a receive is its send. */
static const char *curve_op(enum op op)
{
    return op_info[op == OP_NORM_REDUCE ? OP_ALL_REDUCE : op == OP_RECEIVE ? OP_SEND : op].name;
}

/* A group of another size at the same level, filled from the inside as this one is. */
static struct group resized(const struct group *group, int ranks, int concurrent)
{
    struct group other = *group;
    double scale = (double)ranks / group->ranks;
    other.ranks = ranks;
    other.concurrent = concurrent;
    for (int level = 0; level < group->level; level++)
        other.units[level] = (int)max_i64(1, min_i64(ranks, llround(group->units[level] * scale)));
    return other;
}

/* Of a curve for this very group; or of the nearest group's, scaled by what the formulas say of the two. */
static bool measured(const struct facts *facts, enum op op, int64_t buffer_bytes, double wire_bytes,
                     const struct group *group, struct cost *out)
{
    const char *name = curve_op(op);
    const struct collective_curve *curve =
        profile_curve(facts->profile, name, group->ranks, group->concurrent, group->level);
    bool exact = curve != NULL, outside;
    if (!curve)
        curve = profile_curve_nearest(facts->profile, name, group->ranks, group->concurrent, group->level);
    if (!curve)
        return false;
    double ns = (double)curve_ns(curve, buffer_bytes, &outside);
    if (!exact) {
        struct group near = resized(group, curve->ranks, curve->concurrent);
        double there = analytic_ns(facts->cluster, op, (double)op_wire_bytes(op, buffer_bytes, near.ranks), &near);
        ns = there > 0 ? ns * analytic_ns(facts->cluster, op, wire_bytes, group) / there : ns;
    }
    enum origin origin = ORIGIN_FITTED;
    for (int i = 0; exact && i < curve->point_count; i++)
        if (curve->points[i].bytes == buffer_bytes)
            origin = curve->points[i].m.origin;
    *out = (struct cost){ cost_round_ns(ns), origin, !exact || outside };
    return true;
}

struct cost cost_of_group(const struct facts *facts, enum op op, int64_t buffer_bytes, int64_t wire_bytes,
                          const struct group *group)
{
    struct cost cost = { 0, ORIGIN_ANALYTIC, false };
    if (group->ranks < 2)
        return cost;
    if (facts->profile && measured(facts, op, buffer_bytes, (double)wire_bytes, group, &cost))
        return cost;
    cost.ns = cost_round_ns(analytic_ns(facts->cluster, op, (double)wire_bytes, group));
    return cost;
}

struct cost cost_collective(const struct facts *facts, enum op op, int64_t bytes, int ranks, int first_rank, int stride,
                            int concurrent)
{
    struct group group = group_regular(facts->cluster, ranks < 1 ? 1 : ranks, first_rank, stride, concurrent);
    return cost_of_group(facts, op, bytes, op_wire_bytes(op, bytes, group.ranks), &group);
}

struct cost cost_send(const struct facts *facts, int64_t bytes, int from_rank, int to_rank, int concurrent)
{
    const struct cluster *cluster = facts->cluster;
    int low = (int)min_i64(from_rank, to_rank), high = (int)max_i64(from_rank, to_rank);
    struct group pair = group_regular(cluster, low == high ? 1 : 2, low, high > low ? high - low : 1, concurrent);
    struct cost cost = cost_of_group(facts, OP_SEND, bytes, bytes, &pair);
    if (low == high) /* a stage that is its own neighbour: a copy in memory */
        cost.ns = cost_round_ns((double)cluster->device.launch_ns +
                                2e9 * (double)bytes /
                                    (cluster->device.memory_bytes_per_s * cluster->device.memory_efficiency));
    return cost;
}
