/* Permutations of the groups, of which those stay that tear no stage apart. Groups that are neighbours in the cluster
 * and in the permutation are one run of ranks, upwards or down. */
#include "planner/space/group_order.h"
#include "planner/facts/cluster.h"
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

struct permutation {
    int count;
    int8_t group[MOST_ORDERED_GROUPS];
};

static void swap(int8_t *a, int8_t *b)
{
    int8_t old = *a;
    *a = *b;
    *b = old;
}

/* Advances to the next one as words are sorted; false where that was the last, which is the reverse. */
static bool advance(struct permutation *p)
{
    int at = p->count - 2, other = p->count - 1;
    while (at >= 0 && p->group[at] > p->group[at + 1])
        at--;
    if (at < 0)
        return false;
    while (p->group[other] < p->group[at])
        other--;
    swap(&p->group[at], &p->group[other]);
    for (int low = at + 1, high = p->count - 1; low < high; low++, high--)
        swap(&p->group[low], &p->group[high]);
    return true;
}

static int place_of(const struct permutation *p, int group)
{
    int place = 0;
    while (p->group[place] != group)
        place++;
    return place;
}

/* ---- equal ones ---- */

struct type_run {
    int type, count;
};

/* Lists the types that the pipeline meets in order. Equal ones of two names stay two, since profiles go by names. */
static void list_types(const struct permutation *p, const struct cluster *cluster,
                       struct type_run out[MOST_ORDERED_GROUPS])
{
    int runs = 0;
    memset(out, 0, MOST_ORDERED_GROUPS * sizeof *out);
    for (int i = 0; i < p->count; i++) {
        const struct node_group *group = &cluster->groups[p->group[i]];
        if (runs == 0 || out[runs - 1].type != group->type)
            out[runs++].type = group->type;
        out[runs - 1].count += group->device_count;
    }
}

/* ---- orders ---- */

struct group_order group_order_reversed(int device_count)
{
    return (struct group_order){ .index = REVERSED_ORDER, .run_count = 1, .run = { { 0, device_count, -1 } } };
}

static struct group_order make_order(const struct permutation *p, int index, const struct cluster *cluster)
{
    struct group_order order = { .index = index };
    if (index == OWN_ORDER)
        return order;
    if (index == REVERSED_ORDER)
        return group_order_reversed(cluster->device_count);
    order.group_count = p->count;
    memcpy(order.group, p->group, sizeof order.group);
    struct rank_run *last = NULL;
    for (int i = 0, step = 0; i < p->count; i++) {
        const struct node_group *group = &cluster->groups[p->group[i]];
        int to = i > 0 ? p->group[i] - p->group[i - 1] : 0;
        if (abs(to) == 1 && (step == 0 || step == to)) {
            step = last->step = to;
            last->first = to < 0 ? group->first_rank : last->first;
            last->count += group->device_count;
        } else {
            step = 0;
            last = &order.run[order.run_count++];
            *last = (struct rank_run){ group->first_rank, group->device_count, 1 };
        }
    }
    return order;
}

/* Adds the order to those listed unless it tears stages apart or meets what one of them does. */
static int add_order(struct group_order *out, struct permutation *listed, int count, const struct permutation *p,
                     int index, const struct cluster *cluster, int ranks)
{
    bool other = true; /* groups that share a stage are to be neighbours: those tied in a row go up or down */
    for (int g = 1; other && g < p->count; g++)
        other = cluster->groups[g].first_rank % ranks == 0 || abs(place_of(p, g) - place_of(p, g - 1)) == 1;
    struct type_run own[MOST_ORDERED_GROUPS], types[MOST_ORDERED_GROUPS];
    list_types(p, cluster, own);
    for (int i = 0; other && i < count; i++) {
        list_types(&listed[i], cluster, types);
        other = memcmp(own, types, sizeof own) != 0;
    }
    if (!other)
        return count;
    listed[count] = *p;
    out[count] = make_order(p, index, cluster);
    return count + 1;
}

/* ---- all of them ---- */

static int compare_groups(const struct cluster *cluster, int a, int b)
{
    const struct node_group *x = &cluster->groups[a], *y = &cluster->groups[b];
    uint64_t own = cluster_type_hash(cluster, x->type), other = cluster_type_hash(cluster, y->type);
    return own != other ? (own < other ? -1 : 1) : x->device_count - y->device_count;
}

int group_orders(struct group_order out[MOST_GROUP_ORDERS], const struct cluster *cluster, int ranks)
{
    struct permutation listed[MOST_GROUP_ORDERS], places = { .count = cluster->group_count }, sorted, p;
    int count = 0, others = REVERSED_ORDER;
    if (cluster->group_count > MOST_ORDERED_GROUPS) {
        out[0] = make_order(NULL, OWN_ORDER, cluster);
        out[1] = make_order(NULL, REVERSED_ORDER, cluster);
        return 2;
    }
    for (int g = 0; g < places.count; g++)
        places.group[g] = (int8_t)g;
    p = sorted = places;
    /* groups are sorted by what they are, so that the same orders come first wherever they stand in the cluster; of two
     * groups the cluster's own order comes first */
    for (int i = 1; sorted.count > 2 && i < sorted.count; i++)
        for (int j = i; j > 0 && compare_groups(cluster, sorted.group[j], sorted.group[j - 1]) < 0; j--)
            swap(&sorted.group[j], &sorted.group[j - 1]);
    do {
        for (int i = 0; i < p.count; i++)
            p.group[i] = sorted.group[places.group[i]];
        bool own = true, reverse = true;
        for (int i = 0; i < p.count; i++) {
            own = own && p.group[i] == i;
            reverse = reverse && p.group[i] == p.count - 1 - i;
        }
        int index = own ? OWN_ORDER : reverse ? REVERSED_ORDER : ++others;
        count = add_order(out, listed, count, &p, index, cluster, ranks);
    } while (advance(&places));
    return count;
}

int group_order_rank(const struct group_order *order, int before, int ranks)
{
    for (int i = 0; i < order->run_count; i++) {
        const struct rank_run *run = &order->run[i];
        if (before < run->count)
            return run->step > 0 ? run->first + before : run->first + run->count - before - ranks;
        before -= run->count;
    }
    return before;
}
