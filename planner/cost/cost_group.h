/* How a group of ranks lies in the hierarchy of links: all that a collective's price needs to know of its members. */
#ifndef CLEAVE_COST_COST_GROUP_H
#define CLEAVE_COST_COST_GROUP_H
#include "planner/cost/cost.h"

/* The members that live on one type of node. */
struct group_part {
    int type, ranks;
    int units[MAX_LEVELS]; /* different units of each level that they live in, up to the group's level, where it is 1 */
    int concurrent;        /* groups that share the type's link at the group's level */
};
struct group {
    int ranks; /* members */
    int level; /* innermost level that holds them all */
    int part_count;
    int choices; /* of an exchange that brings each token to so many random members: it goes once to a unit that has any
                    and is passed on there; 0: each member gets its own */
    struct group_part part[MAX_TYPES]; /* by type */
};
/* Makes the group of members first, first + stride, ... */
struct group group_regular(const struct cluster *cluster, int ranks, int first, int stride, int concurrent);
/* Makes the group of local rank 0 over the mesh atoms of a stage; concurrent counts its other groups beside it. */
struct group group_of_stage(const struct cluster *cluster, const struct plan *plan, int stage, unsigned atoms);
/* Counts the stage's ranks of the type that share one of its links at the level; 1 where it shares nothing there. */
int group_sharers(const struct cluster *cluster, int type, int level, const struct plan *plan, int stage);

/* Gives how many of so many units one of so many random choices falls on at least, in the mean. */
double cost_units_chosen(double units, double choices);
/* Gives what a level's link carries of large buffers. */
double cost_link_bytes_per_s(const struct link_level *level);
/* Rounds to whole nanoseconds, at least 0, saturated at MAX_TIME_NS. */
int64_t cost_round_ns(double ns);
/* Prices a collective of the group. wire_bytes: what one rank moves (instr_wire_bytes). buffer_bytes: key of curves. */
struct cost cost_of_group(const struct facts *facts, enum op op, int64_t buffer_bytes, int64_t wire_bytes,
                          const struct group *group);
/* Gives how long the links of the part at a level, up to the group's, would need for it alone, without latencies; 0
 * where it passes none. The slowest decides how long the transfer takes. */
double group_level_ns(const struct cluster *cluster, enum op op, double wire_bytes, const struct group *group,
                      const struct group_part *part, int level);
/* Counts devices of a node of the type that are linked each to each; 0: a switch links them. */
int64_t cost_mesh_devices(const struct cluster *cluster, int type);
/* Counts transfers of the group and beside it that share one link of the level; 1 where members have their own. */
int group_flows(const struct cluster *cluster, enum op op, const struct group *group, const struct group_part *part,
                int level);
/* Prices one message between two global ranks, each of whose links is shared by so many messages. */
struct cost cost_message(const struct facts *facts, int64_t bytes, int from_rank, int to_rank, int from_sharers,
                         int to_sharers);
#endif
