/* The time of collectives and messages: measured curves first, then the latency and bandwidth of rings and trees.
 *
 * Ring (Patarasuk & Yuan 2009, section 3): n - 1 steps gather or scatter, 2 (n - 1) reduce to all; each step moves 1/n
 * of the buffer. Of a ring's n - 1 hops, as many leave a unit as the group has further units, so hops of different
 * levels cost their own latency. Tree all-reduce (NCCL 2.28.9, src/graph/tuning.cc): 2 ((ppn - 1) intra + log2(nodes)
 * inter), at 0.92 of the ring's bus bandwidth and the whole buffer up and down. Both pipeline, so the slowest link on
 * the way decides the bandwidth.
 *
 * Inside a node links are so fast that what a rank does in its own memory shows: it reads each block that it gives and
 * writes each that it keeps, once to gather and once to scatter, whatever the size of the group. Measured all-reduces
 * of 1 GiB over 2 to 8 A100 (VIA-Research/vTrain, trace/a100, nccl-tests) take 2 (n - 1)/n S at one rate and 2 S at
 * another within 1.4 %, where a single rate that suits 8 of them is 14 % too fast for 2. */
#include "planner/cost/cost_group.h"
#include "base/num.h"
#include "planner/program/geometry.h"
#include <math.h>

#define TREE_BANDWIDTH 0.92 /* NCCL 2.28.9, src/graph/tuning.cc: of the ring's */

enum { SWITCH_MEMBERS = 8 }; /* fewest for which in-switch reduction was measured to win */

double cost_link_bytes_per_s(const struct link_level *level)
{
    return level->bytes_per_s * level->efficiency;
}

static const struct link_level *link_at(const struct cluster *cluster, const struct group_part *part, int level)
{
    return &cluster->types[part->type].levels[level];
}

/* Counts units of the part below a level: its members below level 0. */
static int units_below(const struct group_part *part, int level)
{
    return level > 0 ? part->units[level - 1] : part->ranks;
}

/* Counts how often the ring passes between two units of the level below, less one at the top: hops of n - 1 steps. */
static int ring_hops(const struct group_part *part, int level)
{
    return units_below(part, level) - part->units[level];
}

/* True when types meet at the level. */
static bool meets(const struct group *group, int level)
{
    return group->part_count > 1 && level == group->level;
}

/* True when the part uses its links at the level: where types meet, all do. */
static bool passes(const struct group *group, const struct group_part *part, int level)
{
    return ring_hops(part, level) > 0 || meets(group, level);
}

/* Gives the latency between two types, by the slower end. */
static double meeting_latency_ns(const struct cluster *cluster, const struct group *group)
{
    double ns = 0;
    for (int i = 0; i < group->part_count; i++)
        ns = fmax(ns, (double)link_at(cluster, &group->part[i], group->level)->latency_ns);
    return ns;
}

/* These count members of the part in one unit of the level below, and in one of the level. */
static double members_below(const struct group_part *part, int level)
{
    return (double)part->ranks / units_below(part, level);
}

static double members_inside(const struct group_part *part, int level)
{
    return (double)part->ranks / part->units[level];
}

/* Counts who uses one link of a level at once where it is shared: of an exchange all members of the unit below, of a
 * ring and of a shift only one of them leaves it; the members of a bus all. Of every group beside it as many do. */
static double talkers(const struct group *group, const struct group_part *part, int level, enum op op)
{
    bool exchange = op_info[op].traffic == TRAFFIC_EXCHANGE;
    if (level > 0)
        return part->concurrent * (exchange ? members_below(part, level) : 1);
    double inside = exchange && group->level == 0 ? group->ranks : members_inside(part, 0); /* with other types */
    return part->concurrent * (op_info[op].traffic == TRAFFIC_MESSAGE ? inside / part->ranks : inside);
}

int64_t cost_mesh_devices(const struct cluster *cluster, int type)
{
    int64_t devices = min_i64(cluster->types[type].device.link_mesh_devices, cluster->types[type].levels[0].fanout);
    return devices > 1 ? devices : 0;
}

/* Gives the share of its links that a device has to so many others of its node: where each two devices have links of
 * their own instead of a switch, those to devices outside of the group are no way. */
static double mesh_share(const struct cluster *cluster, const struct group_part *part, int level, double others)
{
    int64_t devices = cost_mesh_devices(cluster, part->type);
    return level == 0 && devices > 0 ? fmin(1, fmax(1, others) / (double)(devices - 1)) : 1;
}

/* Gives the bytes per second at which a ring passes a level. Members of a unit bring their own links to it, which rings
 * use side by side; a shared link is divided among the groups, a shared bus among all members of all groups. */
static double ring_rate(const struct cluster *cluster, const struct group *group, const struct group_part *part,
                        int level)
{
    const struct link_level *link = link_at(cluster, part, level);
    if (link->shared)
        return cost_link_bytes_per_s(link) / talkers(group, part, level, OP_ALL_GATHER);
    return cost_link_bytes_per_s(link) *
           (level > 0 ? members_below(part, level) : mesh_share(cluster, part, level, members_inside(part, level) - 1));
}

static double bus_rate(const struct cluster *cluster, const struct group *group)
{
    double rate = INFINITY;
    for (int i = 0; i < group->part_count; i++)
        for (int level = 0; level <= group->level; level++)
            if (passes(group, &group->part[i], level))
                rate = fmin(rate, ring_rate(cluster, group, &group->part[i], level));
    return rate;
}

/* Adds up the latency of n - 1 steps around the ring, one of them to each further type. */
static double ring_latency_ns(const struct cluster *cluster, const struct group *group)
{
    double ns = (group->part_count - 1) * meeting_latency_ns(cluster, group);
    for (int i = 0; i < group->part_count; i++)
        for (int level = 0; level <= group->level; level++)
            ns += (double)ring_hops(&group->part[i], level) *
                  (double)link_at(cluster, &group->part[i], level)->latency_ns;
    return ns;
}

/* Adds up latency up and down a tree: a chain inside the innermost units, halving above. Types climb side by side. */
static double tree_latency_ns(const struct cluster *cluster, const struct group *group)
{
    double slowest = 0, meeting = 0;
    int top_units = 0;
    for (int i = 0; i < group->part_count; i++) {
        const struct group_part *part = &group->part[i];
        double ns = 0;
        int levels = group->part_count > 1 ? group->level : group->level + 1;
        for (int level = 0; level < levels; level++) {
            double fanout = (double)units_below(part, level) / part->units[level];
            ns += (level == 0 ? fanout - 1 : ceil(log2(fanout))) * (double)link_at(cluster, part, level)->latency_ns;
        }
        slowest = fmax(slowest, ns);
        top_units += units_below(part, group->level);
    }
    if (group->part_count > 1)
        meeting = ceil(log2(top_units)) * meeting_latency_ns(cluster, group);
    return 2 * (slowest + meeting);
}

/* A whole node adds up in its switch, faster than any ring of it; smaller groups were measured to take rings (4 of 8
 * H200, NCCL: stas00/ml-engineering@744d01e, network/README.md). */
static double switch_ns(const struct cluster *cluster, double wire_ns, const struct group *group)
{
    const struct link_level *link = link_at(cluster, &group->part[0], 0);
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

double cost_units_chosen(double units, double choices)
{
    return units * (1 - pow(1 - 1 / units, choices));
}

/* Gives the share of a member's bytes that passes its links at the level: that of the peers behind it; or of the copies
 * that a token has, what comes to its unit of the level below from another one. */
static double exchange_share(const struct group *group, const struct group_part *part, int level)
{
    double inside = level < group->level ? members_inside(part, level) : group->ranks; /* with those of other types */
    if (group->choices == 0)
        return (inside - members_below(part, level)) / (group->ranks - 1);
    double units = 0, above = 0;
    for (int i = 0; i < group->part_count; i++) {
        units += units_below(&group->part[i], level);
        above += level < group->level ? group->part[i].units[level] : 0;
    }
    above = level < group->level ? above : 1;
    return cost_units_chosen(units, group->choices) / group->choices * (1 - above / units) * group->ranks /
           (group->ranks - 1);
}

/* Times the exchange through the member's own link. */
static double exchange_level_ns(const struct cluster *cluster, double wire_bytes, const struct group *group,
                                const struct group_part *part, int level)
{
    const struct link_level *link = link_at(cluster, part, level);
    double share = exchange_share(group, part, level);
    double rate = cost_link_bytes_per_s(link) / (link->shared ? talkers(group, part, level, OP_ALL_TO_ALL) : 1) *
                  mesh_share(cluster, part, level, members_inside(part, level) - 1);
    return wire_bytes * share / rate * 1e9;
}

/* Times a member that exchanges with every other in n - 1 steps, or with some at once. Levels work side by side. */
static double part_exchange_ns(const struct cluster *cluster, double wire_bytes, const struct group *group,
                               const struct group_part *part, double at_once)
{
    double slowest = 0, latency = ceil((group->ranks - part->ranks) / at_once) * meeting_latency_ns(cluster, group);
    for (int level = 0; level <= group->level; level++) {
        slowest = fmax(slowest, exchange_level_ns(cluster, wire_bytes, group, part, level));
        latency += ceil((members_inside(part, level) - members_below(part, level)) / at_once) *
                   (double)link_at(cluster, part, level)->latency_ns;
    }
    return latency + slowest;
}

static double shift_level_ns(const struct cluster *cluster, double wire_bytes, const struct group *group,
                             const struct group_part *part, int level, enum op op)
{
    const struct link_level *link = link_at(cluster, part, level);
    double rate = cost_link_bytes_per_s(link) * mesh_share(cluster, part, level, 1);
    return wire_bytes / rate * (link->shared ? talkers(group, part, level, op) : 1) * 1e9;
}

/* Times all senders of the part at once, in a ring to their neighbours; OP_SEND: one message instead. */
static double part_shift_ns(const struct cluster *cluster, double wire_bytes, const struct group *group,
                            const struct group_part *part, enum op op)
{
    double slowest = 0;
    for (int level = 0; level <= group->level; level++) {
        double latency = meets(group, level) ? meeting_latency_ns(cluster, group)
                                             : (double)link_at(cluster, part, level)->latency_ns;
        if (passes(group, part, level))
            slowest = fmax(slowest, latency + shift_level_ns(cluster, wire_bytes, group, part, level, op));
    }
    return slowest;
}

double group_level_ns(const struct cluster *cluster, enum op op, double wire_bytes, const struct group *group,
                      const struct group_part *part, int level)
{
    enum traffic traffic = op_info[op].traffic;
    if (traffic == TRAFFIC_EXCHANGE)
        return exchange_level_ns(cluster, wire_bytes, group, part, level);
    if (!passes(group, part, level))
        return 0;
    if (traffic == TRAFFIC_SHIFT || traffic == TRAFFIC_MESSAGE)
        return shift_level_ns(cluster, wire_bytes, group, part, level, op);
    return wire_bytes / ring_rate(cluster, group, part, level) * 1e9;
}

int group_flows(const struct cluster *cluster, enum op op, const struct group *group, const struct group_part *part,
                int level)
{
    bool shared = link_at(cluster, part, level)->shared;
    return shared ? (int)fmax(1, round(talkers(group, part, level, op))) : 1;
}

static double start_ns(const struct cluster *cluster, const struct group *group)
{
    double ns = 0;
    for (int i = 0; i < group->part_count; i++)
        ns = fmax(ns, (double)cluster->types[group->part[i].type].device.collective_launch_ns);
    return ns;
}

/* Times what a rank does in its own memory with the whole buffer; a switch that adds up spares it that pass. */
static double pass_ns(const struct cluster *cluster, enum op op, double wire_bytes, const struct group *group)
{
    bool one_way = op_info[op].traffic == TRAFFIC_SHIFT || op_info[op].traffic == TRAFFIC_MESSAGE;
    double bytes = one_way ? wire_bytes : wire_bytes * group->ranks / (group->ranks - 1), ns = 0;
    for (int i = 0; i < group->part_count && group->level == 0; i++) {
        double rate = cluster->types[group->part[i].type].device.link_pass_bytes_per_s;
        ns = rate > 0 ? fmax(ns, bytes / rate * 1e9) : ns;
    }
    return ns;
}

static double analytic_ns(const struct facts *facts, enum op op, double wire_bytes, const struct group *group)
{
    const struct cluster *cluster = facts->cluster;
    double start = start_ns(cluster, group) + pass_ns(cluster, op, wire_bytes, group), slowest = 0;
    double at_once = facts->framework ? (double)facts->framework->exchanges_at_once : 1;
    switch (op_info[op].traffic) {
    case TRAFFIC_REDUCE:
        return start + all_reduce_ns(cluster, wire_bytes, group);
    case TRAFFIC_RING:
        return start + ring_latency_ns(cluster, group) + wire_bytes / bus_rate(cluster, group) * 1e9;
    case TRAFFIC_EXCHANGE:
        for (int i = 0; i < group->part_count; i++)
            slowest = fmax(slowest, part_exchange_ns(cluster, wire_bytes, group, &group->part[i], at_once));
        return start + slowest;
    case TRAFFIC_SHIFT:
    case TRAFFIC_MESSAGE:
        for (int i = 0; i < group->part_count; i++)
            slowest = fmax(slowest, part_shift_ns(cluster, wire_bytes, group, &group->part[i], op));
        return start + slowest;
    case TRAFFIC_ROOT: /* messages: cost_of_group() */
    case TRAFFIC_KERNEL:
    case TRAFFIC_LOCAL:
    case TRAFFIC_HOST:
        break;
    }
    return 0;
}

/* Makes a group of one type and another size at the same level, filled from the inside as this one is. */
static struct group resized(const struct group *group, int ranks, int concurrent)
{
    struct group other = *group;
    struct group_part *part = &other.part[0];
    double scale = (double)ranks / group->ranks;
    other.ranks = part->ranks = ranks;
    part->concurrent = concurrent;
    for (int level = 0; level < group->level; level++)
        part->units[level] = (int)max_i64(1, min_i64(ranks, llround(part->units[level] * scale)));
    return other;
}

/* Prices by the curve of this very group, or by the nearest group's, scaled by what the formulas say of the two. A
 * group over several types has no curve. */
static bool measured(const struct facts *facts, enum op op, int64_t buffer_bytes, double wire_bytes,
                     const struct group *group, struct cost *out)
{
    const struct group_part *part = &group->part[0];
    const struct profile *profile = group->part_count == 1 ? facts_profile(facts, part->type) : NULL;
    /* the norm's scalar travels by an ordinary all-reduce, a receive is its send */
    const char *name = op_info[op == OP_NORM_REDUCE ? OP_ALL_REDUCE : op == OP_RECEIVE ? OP_SEND : op].name;
    if (!profile)
        return false;
    const struct collective_curve *curve = profile_curve(profile, name, group->ranks, part->concurrent, group->level);
    bool exact = curve != NULL, outside;
    if (!curve)
        curve = profile_curve_nearest(profile, name, group->ranks, part->concurrent, group->level);
    if (!curve)
        return false;
    double ns = (double)collective_curve_ns(curve, buffer_bytes, &outside);
    if (!exact) {
        struct group near = resized(group, curve->ranks, curve->concurrent);
        near.choices = 0; /* buffer_bytes are those that go to ranks */
        double there = analytic_ns(facts, op, (double)op_wire_bytes(op, buffer_bytes, near.ranks), &near);
        ns = there > 0 ? ns * analytic_ns(facts, op, wire_bytes, group) / there : ns;
    }
    enum origin origin = ORIGIN_FITTED;
    for (int i = 0; exact && i < curve->point_count; i++)
        if (curve->points[i].bytes == buffer_bytes)
            origin = curve->points[i].m.origin;
    *out = (struct cost){ cost_round_ns(ns), origin, !exact || outside };
    return true;
}

/* Makes a group of two ranks that meet at the level: one of the first type, and one of the second where types do. */
static struct group pair_at(const struct group *group, int level)
{
    struct group pair = { .ranks = 2, .level = level, .part_count = meets(group, level) ? 2 : 1 };
    for (int i = 0; i < pair.part_count; i++) {
        pair.part[i] = (struct group_part){ .type = group->part[i].type,
                                            .ranks = 2 / pair.part_count,
                                            .concurrent = group->part[i].concurrent };
        for (int l = 0; l <= level; l++)
            pair.part[i].units[l] = l < level ? 2 / pair.part_count : 1;
    }
    return pair;
}

/* The first rank exchanges the whole buffer with one other after the other, through its own link: a message each. They
 * are started at once; of measured messages each holds its own start. */
static struct cost root_cost(const struct facts *facts, int64_t buffer_bytes, const struct group *group)
{
    const struct group_part *part = &group->part[0];
    const int64_t start = cost_round_ns(start_ns(facts->cluster, group));
    struct cost sum = { 0, ORIGIN_MEASURED, false };
    for (int level = 0; level <= group->level; level++) {
        int64_t own = part->ranks / part->units[level], below = ceil_div(part->ranks, units_below(part, level));
        int64_t peers = (level < group->level ? own : group->ranks) - below;
        struct group pair = pair_at(group, level);
        if (peers <= 0)
            continue;
        struct cost one = cost_of_group(facts, OP_SEND, buffer_bytes, buffer_bytes, &pair);
        if (one.origin == ORIGIN_ANALYTIC)
            one.ns = max_i64(0, one.ns - start);
        sum.ns = one.ns > (MAX_TIME_NS - sum.ns) / peers ? MAX_TIME_NS : sum.ns + peers * one.ns;
        sum.origin = min_int(sum.origin, one.origin);
        sum.extrapolated |= one.extrapolated;
    }
    if (sum.origin == ORIGIN_ANALYTIC)
        sum.ns = min_i64(MAX_TIME_NS, sum.ns + start);
    return sum;
}

struct cost cost_of_group(const struct facts *facts, enum op op, int64_t buffer_bytes, int64_t wire_bytes,
                          const struct group *group)
{
    struct cost cost = { 0, ORIGIN_ANALYTIC, false };
    if (group->ranks < 2)
        return cost;
    if (op_info[op].traffic == TRAFFIC_ROOT)
        return root_cost(facts, buffer_bytes, group);
    if (facts->profile && measured(facts, op, buffer_bytes, (double)wire_bytes, group, &cost))
        return cost;
    cost.ns = cost_round_ns(analytic_ns(facts, op, (double)wire_bytes, group));
    return cost;
}

struct cost cost_collective(const struct facts *facts, enum op op, int64_t bytes, int ranks, int first_rank, int stride,
                            int concurrent)
{
    struct group group = group_regular(facts->cluster, max_int(ranks, 1), first_rank, stride, concurrent);
    return cost_of_group(facts, op, bytes, op_wire_bytes(op, bytes, group.ranks), &group);
}

struct cost cost_message(const struct facts *facts, int64_t bytes, int from_rank, int to_rank, int from_sharers,
                         int to_sharers)
{
    const struct cluster *cluster = facts->cluster;
    int low = (int)min_i64(from_rank, to_rank), high = (int)max_i64(from_rank, to_rank);
    struct group pair = group_regular(cluster, low == high ? 1 : 2, low, high > low ? high - low : 1, 1);
    for (int i = 0; i < pair.part_count; i++)
        pair.part[i].concurrent =
            (int)max_i64(1, pair.part[i].type == cluster_type(cluster, from_rank) ? from_sharers : to_sharers);
    struct cost cost = cost_of_group(facts, OP_SEND, bytes, bytes, &pair);
    const struct device_type *device = cluster_device(cluster, from_rank);
    if (low == high) /* a stage that is its own neighbour: a copy in memory */
        cost.ns = cost_round_ns((double)device->launch_ns +
                                2e9 * (double)bytes / (device->memory_bytes_per_s * device->memory_efficiency));
    return cost;
}
