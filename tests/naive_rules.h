/* What naive_space.h lists: its structures, and which degrees a model can be shared out in, by the words of
 * docs/choices.md alone. */
#ifndef CLEAVE_TESTS_NAIVE_RULES_H
#define CLEAVE_TESTS_NAIVE_RULES_H
#include "base/num.h"
#include "models/model.h"
#include "planner/program/schedule.h"
#include "planner/space/space.h"
#include <string.h>

enum { NAIVE_NAME_BYTES = 320, NAIVE_TURNS = 64 };
struct naive_names {
    int count, capacity;
    char (*names)[NAIVE_NAME_BYTES];
};
struct naive_choice {
    int tp, cp, dp, ep;
    int tp_by, cp_by, dp_by; /* enum dimension_index; cp_by -1: cp is 1 */
    int order, group;        /* enum mesh_order; data ranks that shard together, 0: all */
    int pp, meshes;          /* pp 0: any number; meshes 0: one for each stage */
    int shape_count;
    int turns[NAIVE_TURNS]; /* replicas that a stage may have */
    int64_t micro;
    int m; /* micro-batches */
    int schedule, chunks, extra, prefetch, loss_chunks;
    int64_t bucket_bytes;
    char way[32]; /* the order of the cluster's groups, as names have it */
};
struct naive {
    const struct space *space;
    const struct graph *graph;
    const struct cluster *cluster;
    struct naive_choice at;
    struct naive_names *proven, *unbounded;
};

static inline bool naive_may(const struct allowed *allowed, int64_t value)
{
    bool named = allowed->count == 0;
    for (int i = 0; i < allowed->count; i++)
        named = named || allowed->values[i] == value;
    return named;
}

/* ---- what the model's operators can be shared out in ---- */

static inline bool naive_is_heavy(const struct segment *segment)
{
    return kernel_facts[segment->kernel].multiplies || kernel_facts[segment->kernel].attends;
}

/* Heads and feed-forward width divide; of heads fewer than attention has, copies are made. */
static inline bool naive_tensor_legal(const struct naive *n, int tp)
{
    int64_t most_heads = 0;
    bool any = false;
    for (int s = 0; s < n->graph->segment_count; s++)
        for (int a = 0; a < n->graph->segments[s].axis_count; a++)
            if (kernel_facts[n->graph->segments[s].kernel].attends && n->graph->segments[s].axes[a].tag == TAG_HEAD)
                most_heads = max_i64(most_heads, n->graph->segments[s].axes[a].size);
    for (int s = 0; s < n->graph->segment_count; s++) {
        const struct segment *segment = &n->graph->segments[s];
        for (int a = 0; a < segment->axis_count && naive_is_heavy(segment); a++) {
            int64_t size = segment->axes[a].size;
            bool heads = segment->axes[a].tag == TAG_HEAD;
            if (!heads && segment->axes[a].tag != TAG_FFN)
                continue;
            if (size % tp != 0 && !(heads && size < most_heads && tp % size == 0))
                return false;
            any = true;
        }
    }
    return any || tp == 1;
}

/* Experts of every layer divide. */
static inline bool naive_expert_legal(const struct naive *n, int ep)
{
    bool any = false;
    for (int s = 0; s < n->graph->segment_count; s++)
        for (int a = 0; a < n->graph->segments[s].axis_count; a++) {
            if (n->graph->segments[s].axes[a].tag != TAG_EXPERT)
                continue;
            if (n->graph->segments[s].axes[a].size % ep != 0)
                return false;
            any = true;
        }
    return any || ep == 1;
}

struct naive_atoms {
    int count, size[8], by[8];
};

static inline void naive_atom(struct naive_atoms *atoms, int size, int by)
{
    atoms->size[atoms->count] = size;
    atoms->by[atoms->count++] = by;
}

static inline void naive_data_atoms(struct naive_atoms *atoms, const struct naive_choice *c)
{
    int inner = c->group > 0 ? c->group : c->dp;
    if (inner < c->dp)
        naive_atom(atoms, c->dp / inner, c->dp_by);
    if (c->ep == 1 || inner > c->ep)
        naive_atom(atoms, inner / c->ep, c->dp_by);
    if (c->ep > 1)
        naive_atom(atoms, c->ep, DIM_ep);
}

/* Outermost first. */
static inline struct naive_atoms naive_mesh(const struct naive_choice *c)
{
    struct naive_atoms atoms = { 0 };
    if (c->order == ORDER_TENSOR_INSIDE)
        naive_data_atoms(&atoms, c);
    else
        naive_atom(&atoms, c->tp, c->tp_by);
    if (c->cp > 1)
        naive_atom(&atoms, c->cp, c->cp_by);
    if (c->order == ORDER_TENSOR_INSIDE)
        naive_atom(&atoms, c->tp, c->tp_by);
    else
        naive_data_atoms(&atoms, c);
    return atoms;
}

/* Every heavy operator has something for context-parallel ranks to split, after what lies further inside. */
static inline bool naive_context_legal(const struct naive *n, const struct naive_choice *c)
{
    struct naive_atoms atoms = naive_mesh(c);
    for (int s = 0; s < n->graph->segment_count && c->cp > 1; s++) {
        const struct segment *segment = &n->graph->segments[s];
        int64_t left[MAX_AXES];
        for (int a = 0; a < segment->axis_count; a++)
            left[a] = segment->axes[a].size;
        for (int i = atoms.count - 1; i >= 0 && naive_is_heavy(segment); i--) {
            int axis = atoms.size[i] > 1 ? dimension_axis(dimensions[atoms.by[i]], segment, atoms.size[i], left) : 0;
            if (axis < 0 && atoms.by[i] == c->cp_by)
                return false;
            if (axis >= 0)
                left[axis] /= atoms.size[i];
        }
    }
    return true;
}

static inline bool naive_shards(int by)
{
    return by == DIM_dp || by == DIM_ep || dimensions[by]->lane == LANE_CP;
}

/* Some strategy is left to layers: a ZeRO stage that shards wants ranks that make such groups. */
static inline bool naive_strategy_exists(const struct naive *n, const struct naive_choice *c)
{
    struct naive_atoms atoms = naive_mesh(c);
    int shards = 1, of_data = 1, suffix = 1;
    bool group = false;
    for (int i = 0; i < atoms.count; i++) {
        shards *= naive_shards(atoms.by[i]) ? atoms.size[i] : 1;
        of_data *= atoms.by[i] == DIM_dp || atoms.by[i] == DIM_ep ? atoms.size[i] : 1;
    }
    if (shards == 1 || naive_may(&n->space->zero, 0))
        return true;
    group = naive_may(&n->space->shard_group, 0) || naive_may(&n->space->shard_group, of_data);
    for (int i = atoms.count - 1; i >= 0; i--) { /* what is outside of a group replicates, and experts never do */
        bool outside = false, replicates = true;
        suffix *= atoms.by[i] == DIM_dp || atoms.by[i] == DIM_ep ? atoms.size[i] : 1;
        for (int o = 0; o < i; o++) {
            outside = outside || (atoms.by[o] == DIM_dp && atoms.size[o] > 1);
            replicates = replicates && (atoms.by[o] != DIM_ep || atoms.size[o] == 1);
        }
        group = group || (suffix > 1 && outside && replicates && naive_may(&n->space->shard_group, suffix));
    }
    return group;
}

static inline bool naive_mesh_legal(const struct naive *n, const struct naive_choice *c)
{
    int inner = c->group > 0 ? c->group : c->dp;
    return c->dp % inner == 0 && inner % c->ep == 0 && naive_mesh(c).count <= MAX_ATOMS && naive_context_legal(n, c) &&
           naive_strategy_exists(n, c);
}
#endif
