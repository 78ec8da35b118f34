#include "planner/cost/cost_links.h"
#include "base/num.h"
#include "planner/cost/cost_group.h"
#include <math.h>

enum direction { OUT, IN, DIRECTION_COUNT };

static int64_t own_links(const struct cluster *cluster, int rank_count)
{
    return (int64_t)cluster->level_count * DIRECTION_COUNT * rank_count;
}

/* Counts all links; those from each rank to the places of its node come last, where devices are linked each to each. */
int64_t cost_link_count(const struct cluster *cluster, int rank_count)
{
    int64_t pairs = 0;
    for (int t = 0; t < cluster->type_count; t++)
        pairs = max_i64(pairs, cost_mesh_devices(cluster, t) > 0 ? cluster_node_size(cluster) : 0);
    return own_links(cluster, rank_count) + pairs * rank_count;
}

#define ANY_BYTES 1e9 /* on the wire: only how long links take beside each other counts */

/* How long a link is needed, before that is compared with the others. */
struct needs {
    struct link_uses *uses;
    double ns[MAX_LINK_USES];
};

static bool is_shared(const struct cluster *cluster, int rank, int level)
{
    return cluster->types[cluster_type(cluster, rank)].levels[level].shared;
}

/* Devices share a level's link with those of their unit below; at the first level with those of their node. */
static int unit_level(int level)
{
    return level > 0 ? level - 1 : 0;
}

static void need(struct needs *needs, const struct cluster *cluster, int rank_count, enum direction direction,
                 int level, int rank, int flows, double ns)
{
    struct link_uses *uses = needs->uses;
    int owner = is_shared(cluster, rank, level) ? rank - cluster_place(cluster, rank, unit_level(level)) : rank;
    int link = (level * DIRECTION_COUNT + (int)direction) * rank_count + owner;
    for (int i = 0; i < uses->count; i++)
        if (uses->use[i].link == link)
            return;
    if (ns <= 0 || uses->count == MAX_LINK_USES)
        return;
    needs->ns[uses->count] = ns;
    uses->use[uses->count++] = (struct link_use){ .link = link, .flows = flows };
}

/* ---- collectives ---- */
/* Adds what a transfer needs at one end: own links are those of the stage's first rank. */
static void part_needs(struct needs *needs, const struct cluster *cluster, const struct plan *plan, int stage, int rank,
                       enum op op, const struct group *group, const struct group_part *part)
{
    for (int level = 0; level <= group->level; level++) {
        double ns = group_level_ns(cluster, op, ANY_BYTES, group, part, level);
        int flows = group_flows(cluster, op, group, part, level);
        int owner = is_shared(cluster, rank, level) ? rank : plan->stages[stage].first_rank;
        for (int d = 0; d < DIRECTION_COUNT; d++)
            need(needs, cluster, plan->rank_count, (enum direction)d, level, owner, flows, ns);
    }
}

static void group_needs(struct needs *needs, const struct facts *facts, const struct program *program, int stage,
                        const struct instr *instr)
{
    const struct cluster *cluster = facts->cluster;
    const struct plan *plan = program->plan;
    struct group group = group_of_stage(cluster, plan, stage, instr->atoms);
    group.choices = cost_dispatch_choices(facts, program, instr);
    int first = plan->stages[stage].first_rank, last = first + plan_stage_rank_count(plan, stage) - 1;
    for (int end = 0; end < 2 && group.ranks > 1; end++)
        for (int p = 0; p < group.part_count; p++)
            if (group.part[p].type == cluster_type(cluster, end ? last : first))
                part_needs(needs, cluster, plan, stage, end ? last : first, instr->op, &group, &group.part[p]);
}

/* ---- messages ---- */
/* Counts the stage's ranks that use the rank's link at the level. */
static int sharers(const struct cluster *cluster, const struct plan *plan, int stage, int rank, int level)
{
    if (!is_shared(cluster, rank, level))
        return 1;
    int low = rank - cluster_place(cluster, rank, unit_level(level));
    int high = low + cluster_unit(cluster, cluster_type(cluster, rank), unit_level(level));
    int first = plan->stages[stage].first_rank, end = first + plan_stage_rank_count(plan, stage);
    return (int)(min_i64(high, end) - max_i64(low, first));
}

static void end_needs(struct needs *needs, const struct facts *facts, const struct plan *plan, int stage, int level,
                      enum direction direction)
{
    int first = plan->stages[stage].first_rank, last = first + plan_stage_rank_count(plan, stage) - 1;
    for (int end = 0; end < 2; end++) {
        int rank = end && is_shared(facts->cluster, last, level) ? last : first;
        const struct link_level *link = &facts->cluster->types[cluster_type(facts->cluster, rank)].levels[level];
        int flows = sharers(facts->cluster, plan, stage, rank, level);
        need(needs, facts->cluster, plan->rank_count, direction, level, rank, flows,
             flows * ANY_BYTES / cost_link_bytes_per_s(link) * 1e9);
    }
}

struct link_uses cost_links(const struct facts *facts, const struct program *program, int stage,
                            const struct instr *instr)
{
    struct link_uses uses = { 0 };
    struct needs needs = { .uses = &uses };
    if (instr->op == OP_SEND) {
        const struct plan *plan = program->plan;
        int from = plan->stages[stage].first_rank, to = plan->stages[instr->peer_stage].first_rank,
            level = cluster_level(facts->cluster, from, to);
        if (level == 0 && cost_mesh_devices(facts->cluster, cluster_type(facts->cluster, from)) > 0) {
            int link = (int)own_links(facts->cluster, plan->rank_count) + from * cluster_node_size(facts->cluster) +
                       cluster_place(facts->cluster, to, 0); /* of these two, which nothing else uses */
            needs.ns[0] = 1;
            uses.use[uses.count++] = (struct link_use){ .link = link, .flows = 1 };
        } else {
            end_needs(&needs, facts, plan, stage, level, OUT);
            end_needs(&needs, facts, plan, instr->peer_stage, level, IN);
        }
    } else if (op_info[instr->op].collective && instr->op != OP_NORM_REDUCE) {
        group_needs(&needs, facts, program, stage, instr);
    }
    if (uses.count == 0)
        return uses;
    double most = 0; /* the busiest link decides how long the transfer takes: it alone is busy all the time */
    for (int i = 0; i < uses.count; i++)
        most = fmax(most, needs.ns[i]);
    for (int i = 0; i < uses.count; i++)
        uses.use[i].busy = (int)max_i64(1, llround(needs.ns[i] / most * LINK_WHOLE));
    uses.latency_ns = cost_latency_ns(facts, program, stage, instr);
    return uses;
}
