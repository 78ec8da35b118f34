/* In which order the pipeline goes through the cluster's groups of nodes. Ranks keep the cluster's own order, and those
 * of a stage are neighbours in it: a stage on several groups ties these together. */
#ifndef CLEAVE_SPACE_GROUP_ORDER_H
#define CLEAVE_SPACE_GROUP_ORDER_H
#include <stdint.h>

struct cluster;

/* Clusters with more groups have their own order and the reverse alone. */
enum { MOST_ORDERED_GROUPS = 4, MOST_GROUP_ORDERS = 24 };
enum { OWN_ORDER, REVERSED_ORDER }; /* all others have larger numbers */
struct group_order {
    int index;                         /* the same for stages of any number of ranks */
    int8_t group[MOST_ORDERED_GROUPS]; /* (group_count) of the cluster's, in the pipeline's order */
    int group_count;                   /* 0 in the first two orders */
    /* Neighbouring ranks, in the pipeline's order: (run_count); step -1: from the last of them down. The cluster's own
     * order has none: the pipeline begins at rank 0. */
    int run_count;
    struct rank_run {
        int first, count, step;
    } run[MOST_ORDERED_GROUPS];
};

/* Lists the orders, each once, in which stages of so many ranks can go through the cluster: its own, the reverse, then
 * all others. Orders that meet equal types in equal numbers are one. Gives their number, at least 1. */
int group_orders(struct group_order out[MOST_GROUP_ORDERS], const struct cluster *cluster, int ranks);
/* Gives the reverse, of so many devices. */
struct group_order group_order_reversed(int device_count);
/* Gives the first of a stage's `ranks` ranks, with `before` ranks before them in the pipeline. */
int group_order_rank(const struct group_order *order, int before, int ranks);
#endif
