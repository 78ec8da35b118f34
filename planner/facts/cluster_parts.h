/* What the cluster_*.c files share. Nobody else includes this. */
#ifndef CLEAVE_FACTS_CLUSTER_PARTS_H
#define CLEAVE_FACTS_CLUSTER_PARTS_H
#include "planner/facts/cluster.h"

/* One group of nodes as it was written, before groups that are alike become one type. */
struct group_text {
    struct device_type device; /* memory and reserve as in effect */
    int level_count;
    struct link_level level[MAX_LEVELS]; /* inner to outer */
    struct link_level between;           /* to other groups, where the file has such a network */
};

/* Makes types, groups and counts from the groups as written, whose devices are MAX_DEVICES at most. apart: groups are
 * joined by the network `between`, beyond each group's own; else their outermost levels are one network. */
bool cluster_build(struct cluster *cluster, const struct group_text *groups, int count, bool apart, struct error *err);
uint64_t cluster_hash_type(uint64_t hash, const struct node_type *type, int level_count);
/* Fill all but the hash of a cluster that has its name already. */
bool cluster_read_json(struct cluster *cluster, const char *name, const char *text, size_t length,
                       const struct catalogue_entry *catalogue, int catalogue_count, struct error *err);
bool cluster_read_short(struct cluster *cluster, const char *name, const char *text, size_t length,
                        const struct catalogue_entry *catalogue, int catalogue_count, struct error *err);
#endif
