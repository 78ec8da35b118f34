/* The space of docs/choices.md once more, as its table and its words say it: loops over every value of every choice,
 * and for each combination the questions that a person would ask. It shares nothing with planner/space/space*.c but
 * the structure that restricts them, and knows configurations by their names only. Good for a few devices. */
#ifndef CLEAVE_TESTS_NAIVE_SPACE_H
#define CLEAVE_TESTS_NAIVE_SPACE_H
#include "tests/check.h"
#include "tests/naive_rules.h"
#include <stdio.h>
#include <stdlib.h>

/* ---- names ---- */

static inline void naive_keep(struct naive_names *list, const struct naive_choice *c)
{
    struct naive_atoms atoms = naive_mesh(c);
    if (list->count == list->capacity) {
        list->capacity = list->capacity > 0 ? 2 * list->capacity : 64;
        list->names = realloc(list->names, (size_t)list->capacity * sizeof *list->names);
        ck_assert_ptr_nonnull(list->names);
    }
    char *out = list->names[list->count++];
    int at = c->pp > 0 ? sprintf(out, "pp=%d", c->pp) : sprintf(out, "pp=any");
    at += c->meshes > 0 ? sprintf(out + at, " meshes=%d", c->meshes) : 0;
    for (int i = 0; i < atoms.count; i++)
        at += sprintf(out + at, " %s=%d", dimensions[atoms.by[i]]->name, atoms.size[i]);
    at += sprintf(out + at, " micro-batch=%lld schedule=%s prefetch=%d", (long long)c->micro,
                  schedules[c->schedule]->name, c->prefetch);
    at += c->chunks > 1 ? sprintf(out + at, " interleave=%d", c->chunks) : 0;
    at += c->extra > 0 ? sprintf(out + at, " extra-in-flight=%d", c->extra) : 0;
    if (c->bucket_bytes != 25 << 20 && c->bucket_bytes % (1 << 20) == 0 && c->bucket_bytes > 0)
        at += sprintf(out + at, " bucket=%lldMiB", (long long)c->bucket_bytes >> 20);
    else if (c->bucket_bytes != 25 << 20 && c->bucket_bytes % (1 << 10) == 0 && c->bucket_bytes > 0)
        at += sprintf(out + at, " bucket=%lldKiB", (long long)c->bucket_bytes >> 10);
    else if (c->bucket_bytes != 25 << 20)
        at += sprintf(out + at, " bucket=%lld", (long long)c->bucket_bytes);
    at += c->loss_chunks > 1 ? sprintf(out + at, " loss-chunks=%d", c->loss_chunks) : 0;
    at += sprintf(out + at, "%s", c->way);
    for (int i = 0; i < c->shape_count; i++)
        at += sprintf(out + at, "%s%d", i > 0 ? "," : "; stages of ", c->turns[i]);
}

/* ---- how it runs ---- */

static inline bool naive_chunks_legal(const struct naive *n, const struct naive_choice *c)
{
    const struct schedule *s = schedules[c->schedule];
    int layers = n->graph->layer_count, pieces = s->copies ? c->pp : c->pp * c->chunks;
    if (c->meshes > 0)
        return c->chunks == 1 && !s->interleaves && !s->asynchronous;
    if (!s->interleaves ? c->chunks != 1 : c->chunks < 2 || c->pp < 2 || (s->folded && c->chunks != 2))
        return false;
    return pieces <= layers && !(s->copies && (c->pp % 2 != 0 || c->m % 2 != 0)) &&
           !(s->by_stages && c->m % c->pp != 0) && !(s->asynchronous && c->m < c->pp);
}

/* The closed form bounds it. */
static inline bool naive_bounded(const struct naive_choice *c)
{
    return c->pp == 1 || (schedules[c->schedule]->bounded && c->extra == 0);
}

/* Whether there are pipelines that it bounds at all: where a user left none, all that he left stand for themselves. */
static inline bool naive_any_bounded(const struct naive *n)
{
    bool any = false;
    for (int s = 0; schedules[s]; s++)
        any = any || (schedules[s]->bounded && naive_may(&n->space->schedule, s));
    return any && naive_may(&n->space->chunks, 1) && naive_may(&n->space->extra, 0);
}

/* The list that has the schedule, its chunks and what is in flight; NULL: none. */
static inline struct naive_names *naive_list(const struct naive *n)
{
    const struct naive_choice *c = &n->at;
    const struct schedule *s = schedules[c->schedule];
    const struct space *space = n->space;
    bool proof = naive_any_bounded(n), own = naive_bounded(c) || !proof || s->asynchronous;
    bool unbounded = !own;
    if (!naive_may(&space->schedule, c->schedule) || !naive_chunks_legal(n, c) || (!own && !unbounded))
        return NULL;
    if (s->asynchronous && space->schedule.count == 0) /* other mathematics: never unless it is named */
        return NULL;
    int64_t usual = s->interleaves ? 2 : 1;
    if (space->chunks.count > 0 ? !naive_may(&space->chunks, c->chunks)
                                : c->chunks != usual && !(unbounded && s->interleaves && c->chunks == 4))
        return NULL;
    if (c->extra > 0 && (!s->takes_extra || c->pp == 1 || c->extra >= c->m || c->meshes > 0))
        return NULL;
    if (c->pp != 1 && (space->extra.count > 0 ? !naive_may(&space->extra, c->extra) : c->extra > (unbounded ? 2 : 0)))
        return NULL;
    return own ? n->proven : n->unbounded;
}

/* Whether a stage has ranks to gather from, and whether any ranks reduce gradients together. */
static inline bool naive_gathers(const struct naive_choice *c)
{
    struct naive_atoms atoms = naive_mesh(c);
    bool gathers = false;
    for (int i = 0; i < atoms.count; i++)
        gathers = gathers || (naive_shards(atoms.by[i]) && atoms.size[i] > 1);
    return gathers;
}

/* Whether the groups, in the pipeline's order, leave those side by side that share a stage; and the types in turn. */
static inline bool naive_way(const struct naive *n, const int *group, char types[256])
{
    const struct cluster *cluster = n->cluster;
    int ranks = n->at.tp * n->at.cp * n->at.dp, at = 0, count = cluster->group_count, place[4] = { 0 };
    unsigned met = 0;
    for (int i = 0; i < count; i++) {
        met |= 1u << group[i];
        place[group[i]] = i;
        for (int r = 0; r < cluster->groups[group[i]].device_count; r++)
            types[at++] = (char)('a' + cluster->groups[group[i]].type);
    }
    types[at] = '\0';
    bool good = met == (1u << count) - 1;
    for (int g = 1; g < count; g++)
        good = good && (cluster->groups[g].first_rank % ranks == 0 || abs(place[g] - place[g - 1]) == 1);
    return good;
}

/* The cluster's own order, the reverse, and where stages have one mesh each all others; those alike once. */
static inline void naive_ways(struct naive *n, struct naive_names *list)
{
    struct naive_choice *c = &n->at;
    int g = n->cluster->group_count, known = 0;
    char met[25][256];
    ck_assert(g <= 4 && n->cluster->device_count < 256);
    for (int pass = 0; pass < (c->meshes > 1 ? 2 : c->meshes == 1 || c->pp == 1 ? 1 : 3); pass++)
        for (int code = 0; code < 1 << 2 * g; code++) {
            int group[4] = { 0 }, at = 0, up = 0, down = 0;
            bool like = false;
            for (int i = 0; i < g; i++) {
                group[i] = code >> 2 * (g - 1 - i) & 3;
                up += group[i] == i;
                down += group[i] == g - 1 - i;
                like = like || group[i] >= g;
            }
            if (like || pass != (up == g ? 0 : down == g ? 1 : 2) || !naive_way(n, group, met[known]))
                continue;
            for (int i = 0; i < known; i++)
                like = like || strcmp(met[i], met[known]) == 0;
            if (like)
                continue;
            known++;
            sprintf(c->way, "%s", pass == 1 ? " reversed" : "");
            for (int i = 0; i < g && pass == 2; i++)
                at += sprintf(c->way + at, "%s%d", i > 0 ? "." : " groups=", group[i]);
            naive_keep(list, c);
        }
}

/* Chunks want a loss, and a backward pass that sees the same weights. */
static inline void naive_losses(struct naive *n, struct naive_names *list)
{
    struct naive_choice *c = &n->at;
    bool whole = n->graph->loss_value < 0 || schedules[c->schedule]->asynchronous;
    for (int i = 0; i < n->space->loss_chunks.count && (i == 0 || !whole); i++) {
        c->loss_chunks = whole ? 1 : (int)n->space->loss_chunks.values[i];
        naive_ways(n, list);
    }
}

static inline void naive_rest(struct naive *n, struct naive_names *list)
{
    struct naive_choice *c = &n->at;
    const struct space *space = n->space;
    static const struct allowed usual = { 1, { 1 } };
    const struct allowed *ahead = space->prefetch.count > 0 ? &space->prefetch : &usual;
    bool alone = c->meshes == 0 && c->dp * c->cp * c->tp == 1;
    for (int b = 0; b < space->bucket_bytes.count && (b == 0 || !alone); b++)
        for (int p = 0; p < ahead->count && (p == 0 || naive_gathers(c)); p++) {
            c->bucket_bytes = space->bucket_bytes.values[b];
            c->prefetch = (int)ahead->values[p];
            naive_losses(n, list);
        }
}

static inline void naive_schedules(struct naive *n)
{
    struct naive_choice *c = &n->at;
    bool any = false;
    for (c->schedule = 0; schedules[c->schedule] && !(any && c->pp == 1); c->schedule++)
        for (c->chunks = 1; c->chunks <= n->graph->layer_count; c->chunks++)
            for (c->extra = 0; c->extra <= c->m; c->extra++) {
                struct naive_names *list = naive_list(n);
                if (!list)
                    continue;
                naive_rest(n, list);
                any = true;
            }
}

static inline bool naive_tensor_by(const struct naive *n, const struct naive_choice *c, int by)
{
    if (by == DIM_tp_sp)
        return c->tp > 1 && naive_may(&n->space->sequence_parallel, 1) && n->graph->sequence % (c->tp * c->cp) == 0;
    return (by == DIM_tp || by == DIM_tp_deferred) && naive_may(&n->space->tensor_dimension, by) &&
           (c->tp == 1 || naive_may(&n->space->sequence_parallel, 0));
}

static inline void naive_mesh_of(struct naive *n)
{
    if (!naive_mesh_legal(n, &n->at))
        return;
    naive_schedules(n);
}

/* Groups of shards that the data ranks can make; without any, all shard together. */
static inline void naive_groups(struct naive *n)
{
    struct naive_choice *c = &n->at;
    bool any = false;
    for (c->group = 1; c->group < c->dp; c->group++) {
        bool named = n->space->shard_group.count > 0 && naive_may(&n->space->shard_group, c->group);
        if (!named || c->dp % c->group != 0 || c->group % c->ep != 0 || naive_mesh(c).count > MAX_ATOMS ||
            !naive_shards(c->dp_by))
            continue;
        naive_mesh_of(n);
        any = true;
    }
    c->group = 0;
    if (!any)
        naive_mesh_of(n);
}

/* Which ranks are neighbours matters where there are ranks of two kinds. */
static inline void naive_orders(struct naive *n)
{
    struct naive_choice *c = &n->at;
    int kinds = (c->tp > 1) + (c->cp > 1) + (c->dp > 1);
    bool any = false;
    for (c->order = 0; c->order < ORDER_COUNT; c->order++) {
        if (!naive_may(&n->space->mesh_order, c->order) || (any && kinds < 2))
            continue;
        any = true;
        naive_groups(n);
    }
}

/* A degree of 1 has one name. */
static inline void naive_dimensions(struct naive *n)
{
    struct naive_choice *c = &n->at;
    const struct space *space = n->space;
    bool any_tp = false;
    for (c->tp_by = 0; c->tp_by < DIM_COUNT; c->tp_by++) {
        if (!naive_tensor_by(n, c, c->tp_by) || (any_tp && c->tp == 1))
            continue;
        any_tp = true;
        for (c->cp_by = 0; c->cp_by < DIM_COUNT; c->cp_by++) {
            bool any_dp = false;
            if (c->cp > 1 ? dimensions[c->cp_by]->lane != LANE_CP || dimension_is_over_experts(dimensions[c->cp_by]) ||
                                !naive_may(&space->context_dimension, c->cp_by)
                          : c->cp_by > 0)
                continue;
            for (c->dp_by = 0; c->dp_by < DIM_COUNT; c->dp_by++) {
                if ((c->dp_by != DIM_dp && c->dp_by != DIM_ps) || !naive_may(&space->data_dimension, c->dp_by) ||
                    (any_dp && c->dp == 1))
                    continue;
                any_dp = true;
                for (c->ep = 1; c->ep <= c->dp; c->ep++)
                    if (c->dp % c->ep == 0 && naive_expert_legal(n, c->ep) && naive_may(&space->expert, c->ep))
                        naive_orders(n);
            }
        }
    }
}

/* ---- stages of several meshes ---- */

/* Whether so many stages can have all meshes together, one of them more than one. */
static inline bool naive_deal(const struct naive_choice *c, int stages, int meshes, bool several)
{
    if (stages == 0)
        return meshes == 0 && several;
    for (int i = 0; i < c->shape_count; i++)
        if (c->turns[i] <= meshes && naive_deal(c, stages - 1, meshes - c->turns[i], several || c->turns[i] > 1))
            return true;
    return false;
}

static inline bool naive_dealt(const struct naive *n)
{
    const struct naive_choice *c = &n->at;
    bool dealt = false;
    for (int stages = c->pp > 0 ? c->pp : 1; stages <= (c->pp > 0 ? c->pp : n->graph->layer_count); stages++)
        dealt = dealt || naive_deal(c, stages, c->meshes, false);
    return dealt;
}

/* A replica has a micro-batch or more. */
static inline void naive_several(struct naive *n)
{
    struct naive_choice *c = &n->at;
    for (int meshes = 1; meshes <= NAIVE_TURNS && meshes <= c->meshes && meshes <= c->m; meshes++)
        if (naive_may(&n->space->turns, meshes))
            c->turns[c->shape_count++] = meshes;
    if (naive_dealt(n))
        naive_dimensions(n);
    c->shape_count = 0;
}

/* ---- all of it ---- */

static inline void naive_micro_batches(struct naive *n)
{
    struct naive_choice *c = &n->at;
    int64_t batch = n->space->batch;
    for (c->micro = 1; c->micro <= batch; c->micro++) {
        if (batch % (c->dp * c->micro) != 0 || !naive_may(&n->space->micro, c->micro))
            continue;
        c->m = (int)(batch / (c->dp * c->micro));
        if (c->meshes > 0)
            naive_several(n);
        else
            naive_dimensions(n);
    }
}

static inline void naive_stages(struct naive *n)
{
    struct naive_choice *c = &n->at;
    const struct space *space = n->space;
    int devices = n->cluster->device_count, ranks = c->tp * c->cp * c->dp, layers = n->graph->layer_count;
    for (c->pp = 0; c->pp <= layers; c->pp++) {
        c->meshes = 0;
        if (c->pp > 0 && !naive_may(&space->stages, c->pp))
            continue;
        if (c->pp > 0 && naive_may(&space->turns, 1) && c->pp * ranks == devices)
            naive_micro_batches(n);
        c->meshes = devices / ranks;
        if (devices % ranks != 0 || c->pp >= c->meshes)
            continue;
        if ((c->pp == 0) == (space->stages.count == 0))
            naive_micro_batches(n);
    }
}

/* Where the space names no numbers: 1, 2, 4, ... up to a node, of 2048 tokens or more each. */
static inline bool naive_context(const struct naive *n, int cp)
{
    if (n->space->context.count > 0 || cp == 1)
        return naive_may(&n->space->context, cp);
    int power = 1;
    while (power < cp)
        power *= 2;
    return power == cp && cp <= cluster_node_size(n->cluster) && n->graph->sequence >= 2048 * (int64_t)cp;
}

static inline void naive_space(const struct space *space, const struct graph *graph, const struct cluster *cluster,
                               struct naive_names *proven, struct naive_names *unbounded)
{
    struct naive n = { .space = space, .graph = graph, .cluster = cluster, .proven = proven, .unbounded = unbounded };
    struct naive_choice *c = &n.at;
    int devices = cluster->device_count;
    for (c->tp = 1; c->tp <= cluster_node_size(cluster); c->tp++)
        for (c->cp = 1; c->cp <= devices; c->cp++)
            for (c->dp = 1; c->dp <= devices; c->dp++)
                if (devices % c->tp == 0 && naive_tensor_legal(&n, c->tp) && devices % (c->tp * c->cp) == 0 &&
                    naive_may(&space->tensor, c->tp) && naive_context(&n, c->cp) && naive_may(&space->data, c->dp) &&
                    c->tp * c->cp * c->dp <= devices)
                    naive_stages(&n);
}
#endif
