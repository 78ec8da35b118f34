/* How a group of ranks lies in the hierarchy of links: all that the price of a collective needs to know of its members.
 */
#ifndef CLEAVE_COST_GROUP_H
#define CLEAVE_COST_GROUP_H
#include "planner/cost/cost.h"

struct group {
    int ranks;             /* members */
    int level;             /* innermost level that holds them all */
    int units[MAX_LEVELS]; /* different units of each level that they live in, up to level, where it is 1 */
    int concurrent;        /* groups that share the link at `level` */
};
/* Members first, first + stride, ... */
struct group group_regular(const struct cluster *cluster, int ranks, int first, int stride, int concurrent);
/* The members of local rank 0's group over the mesh atoms of a stage; concurrent counts the stage's other groups beside
 * it. */
struct group group_of_stage(const struct cluster *cluster, const struct plan *plan, int stage, unsigned atoms);
/* Ranks of the stage that share one link at the level. 1 where the cluster shares nothing there. */
int group_sharers(const struct cluster *cluster, int level, int stage_ranks);

/* Whole nanoseconds, at least 0, saturated at MAX_TIME_NS. */
int64_t cost_round_ns(double ns);
/* wire_bytes: what one rank moves (instr_wire_bytes). buffer_bytes: the key of curves. */
struct cost cost_of_group(const struct facts *facts, enum op op, int64_t buffer_bytes, int64_t wire_bytes,
                          const struct group *group);
#endif
