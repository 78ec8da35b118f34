#include "planner/cut/ideals.h"
#include "base/num.h"
#include <stdlib.h>
#include <string.h>

/* Ideals are made in order of size, so the covers of each are complete when its turn comes: those of a set that one
 * node was added to are its own but for that node, and what the node set free. */
struct enumeration {
    struct ideals *set;
    const struct dag *dag;
    int64_t limit, capacity, up_capacity, up_count;
    uint64_t *hash; /* (capacity) */
    int *table;     /* (table_size), -1: empty */
    int64_t table_size;
};

bool ideals_grow(void *pointer_to_array, int64_t count, size_t size)
{
    void *old, *grown;
    memcpy(&old, pointer_to_array, sizeof old);
    grown = reallocarray(old, (size_t)count, size);
    if (grown)
        memcpy(pointer_to_array, &grown, sizeof grown);
    return grown != NULL;
}

static void insert_hash(struct enumeration *e, int index)
{
    uint64_t mask = (uint64_t)e->table_size - 1, at = e->hash[index] & mask;
    while (e->table[at] >= 0)
        at = (at + 1) & mask;
    e->table[at] = index;
}

static bool grow_sets(struct enumeration *e)
{
    struct ideals *set = e->set;
    if (set->count < e->capacity)
        return true;
    int64_t capacity = e->capacity ? 2 * e->capacity : 256;
    if (!ideals_grow(&set->bits, capacity, (size_t)set->words * sizeof *set->bits) ||
        !ideals_grow(&e->hash, capacity, sizeof *e->hash) ||
        !ideals_grow(&set->first_up, capacity + 1, sizeof *set->first_up) ||
        !ideals_grow(&e->table, 2 * capacity, sizeof *e->table))
        return false;
    e->capacity = capacity;
    e->table_size = 2 * capacity;
    memset(e->table, -1, (size_t)e->table_size * sizeof *e->table);
    for (int i = 0; i < set->count; i++)
        insert_hash(e, i);
    return true;
}

static bool grow_covers(struct enumeration *e, int64_t more)
{
    if (e->up_count + more <= e->up_capacity)
        return true;
    int64_t capacity = max_i64(2 * e->up_capacity, e->up_count + more);
    if (!ideals_grow(&e->set->up_ideal, capacity, sizeof(int)) || !ideals_grow(&e->set->up_node, capacity, sizeof(int)))
        return false;
    e->up_capacity = capacity;
    return true;
}

/* Gives the index of the ideal i with the node added: an old one, or a new one at the end; -1 for want of memory. */
static int with_node(struct enumeration *e, int i, int node)
{
    struct ideals *set = e->set;
    if (!grow_sets(e))
        return -1;
    size_t words = (size_t)set->words;
    uint64_t *fresh = set->bits + (size_t)set->count * words;
    memcpy(fresh, ideal_bits(set, i), words * sizeof *fresh);
    fresh[node / 64] |= UINT64_C(1) << (node % 64);
    uint64_t hash = e->hash[i] ^ mix64((uint64_t)node + 1), mask = (uint64_t)e->table_size - 1, at = hash & mask;
    for (; e->table[at] >= 0; at = (at + 1) & mask) {
        int other = e->table[at];
        if (e->hash[other] == hash && memcmp(ideal_bits(set, other), fresh, words * sizeof *fresh) == 0)
            return other;
    }
    e->hash[set->count] = hash;
    e->table[at] = set->count;
    return set->count++;
}

static bool holds_before(const struct enumeration *e, int i, int node)
{
    for (int k = e->dag->first_in[node]; k < e->dag->first_in[node + 1]; k++)
        if (!ideal_has(e->set, i, e->dag->in[k]))
            return false;
    return true;
}

/* Lists the nodes that can be added to `fresh` = `parent` + node. Covers are appended in the order of ideals. */
static bool list_covers(struct enumeration *e, int fresh, int parent, int node)
{
    struct ideals *set = e->set;
    const struct dag *dag = e->dag;
    int64_t parent_first = set->first_up[parent], parent_end = set->first_up[parent + 1];
    if (!grow_covers(e, parent_end - parent_first + dag->first_out[node + 1] - dag->first_out[node]))
        return false;
    for (int64_t k = parent_first; k < parent_end; k++)
        if (set->up_node[k] != node)
            set->up_node[e->up_count++] = set->up_node[k];
    for (int k = dag->first_out[node]; k < dag->first_out[node + 1]; k++)
        if (holds_before(e, fresh, dag->out[k]))
            set->up_node[e->up_count++] = dag->out[k];
    set->first_up[fresh + 1] = e->up_count;
    return true;
}

static bool start(struct enumeration *e)
{
    if (!grow_sets(e) || !grow_covers(e, e->dag->node_count + 1))
        return false;
    memset(e->set->bits, 0, (size_t)e->set->words * sizeof *e->set->bits);
    e->hash[0] = HASH_START;
    e->set->count = 1;
    insert_hash(e, 0);
    e->set->first_up[0] = 0;
    for (int v = 0; v < e->dag->node_count; v++)
        if (e->dag->first_in[v] == e->dag->first_in[v + 1])
            e->set->up_node[e->up_count++] = v;
    e->set->first_up[1] = e->up_count;
    return true;
}

/* Enumerates all ideals; true with set->complete false when the limit is met. */
static bool enumerate(struct enumeration *e)
{
    struct ideals *set = e->set;
    if (!start(e))
        return false;
    for (int i = 0; i < set->count; i++)
        for (int64_t k = set->first_up[i]; k < set->first_up[i + 1]; k++) {
            int before = set->count, node = set->up_node[k], above = with_node(e, i, node);
            if (above < 0)
                return false;
            set->up_ideal[k] = above;
            if (above == before && !list_covers(e, above, i, node))
                return false;
            if (set->count > e->limit)
                return true;
        }
    set->complete = true;
    return true;
}

bool ideals_build(struct ideals *out, const struct dag *dag, int64_t limit, struct error *err)
{
    *out = (struct ideals){ .node_count = dag->node_count, .words = dag_words(dag->node_count) };
    struct enumeration e = { .set = out, .dag = dag, .limit = min_i64(limit, INT32_MAX - 1) };
    if (out->words == 0)
        out->words = 1;
    bool ok = enumerate(&e);
    free(e.hash);
    free(e.table);
    if (!ok || !out->complete)
        ideals_free(out);
    return ok || fail_kind(err, ERROR_ENVIRONMENT, "partition: out of memory for %d sets of nodes", out->count);
}

void ideals_free(struct ideals *ideals)
{
    if (!ideals)
        return;
    free(ideals->bits);
    free(ideals->first_up);
    free(ideals->up_ideal);
    free(ideals->up_node);
    ideals->bits = NULL;
    ideals->first_up = NULL;
    ideals->up_ideal = ideals->up_node = NULL;
}
