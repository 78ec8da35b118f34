#include "planner/space/space_parts.h"
#include "base/num.h"
#include "planner/program/schedule.h"
#include <stdio.h>
#include <string.h>

enum { VOCABULARY_GRAIN = 128 }; /* rows per tensor rank come in multiples of it, as in Megatron-LM */

const char *const mesh_order_names[ORDER_COUNT + 1] = { "tensor-inside", "data-inside", NULL };

bool allows(const struct allowed *allowed, int64_t value)
{
    for (int i = 0; i < allowed->count; i++)
        if (allowed->values[i] == value)
            return true;
    return allowed->count == 0;
}

bool names_several(const struct allowed *allowed)
{
    for (int i = 0; i < allowed->count; i++)
        if (allowed->values[i] > 1)
            return true;
    return false;
}

struct space space_default(int64_t batch, int64_t sequence, enum dtype dtype)
{
    return (struct space){
        .batch = batch,
        .sequence = sequence,
        .dtype = dtype,
        .clip_norm = 1,
        .recompute = { .count = 2, .values = { RECOMPUTE_NONE, RECOMPUTE_FULL } },
        .offload = { .count = 1, .values = { OFFLOAD_NONE } },
        .prefetch = { .count = 3, .values = { 1, 0, 2 } },
        .context = { .count = 1, .values = { 1 } },
        .data_dimension = { .count = 1, .values = { DIM_dp } },
        .tensor_dimension = { .count = 1, .values = { DIM_tp } },
        .shard_group = { .count = 1, .values = { 0 } },
        .reshard = { .count = 1, .values = { RESHARD_EACH_PASS } },
        .replicate = { .count = 1, .values = { 0 } },
        .slices = { .count = 1, .values = { 1 } },
        .order = { .count = 1, .values = { ORDER_TENSOR_INSIDE } },
        .turns = { .count = 1, .values = { 1 } },
        .loss_chunks = { .count = 1, .values = { 1 } },
        .bucket = { .count = 1, .values = { USUAL_BUCKET_BYTES } },
    };
}

const struct schedule *space_without_clipping(const struct space *space)
{
    for (int i = 0; i < space->schedule.count; i++)
        if (schedules[space->schedule.values[i]]->updates_each)
            return schedules[space->schedule.values[i]];
    return NULL;
}

bool config_equal_but(const struct config *a, const struct config *b, int but)
{
    struct config like = *a;
    if (but & BUT_PREFETCH)
        like.prefetch = b->prefetch;
    if (but & BUT_EXTRA)
        like.extra = b->extra;
    if (but & BUT_SCHEDULE)
        like.schedule = b->schedule;
    return memcmp(&like, b, sizeof like) == 0;
}

bool config_shares_devices(const struct config *config)
{
    return config_chunks(config) > 1 && !schedules[config->schedule]->copies;
}

int64_t vocab_multiple_of(const struct graph *graph, int tensor)
{
    return graph->vocab_size > 0 ? (int64_t)VOCABULARY_GRAIN * tensor : 1;
}

int64_t config_vocab_multiple(const struct config *config, const struct graph *graph)
{
    return vocab_multiple_of(graph, config_tensor(config));
}

/* ---- configurations ---- */

bool space_listing_ends(struct listing *l)
{
    enum { EVERY = 64 };
    if (l->stop && !l->ended && l->asked++ % EVERY == 0)
        l->ended = l->count > l->stop->most || l->stop->stops(l->stop->self);
    return l->ended;
}

static int expert_ranks(const struct degrees *d)
{
    return d->expert > 1 ? d->expert : 1;
}

static void add_data_atoms(struct mesh *mesh, const struct degrees *d, int group)
{
    int expert = expert_ranks(d);
    if (group < d->data)
        mesh_add(mesh, d->data / group, d->data_dimension);
    if (group > expert || expert == 1)
        mesh_add(mesh, group / expert, d->data_dimension);
    if (expert > 1)
        mesh_add(mesh, expert, DIM_ep);
}

bool mesh_legal(const struct degrees *d, int group)
{
    int expert = expert_ranks(d);
    int atoms = (group < d->data) + (group > expert || expert == 1) + (expert > 1) + (d->context > 1) + 1;
    return d->data % group == 0 && group % expert == 0 && atoms <= MAX_ATOMS;
}

struct mesh space_mesh(const struct degrees *d, enum mesh_order order, int group)
{
    struct mesh mesh = mesh_none();
    if (order == ORDER_DATA_INSIDE)
        mesh_add(&mesh, d->tensor, d->tensor_dimension);
    else
        add_data_atoms(&mesh, d, group);
    if (d->context > 1)
        mesh_add(&mesh, d->context, d->context_dimension);
    if (order == ORDER_DATA_INSIDE)
        add_data_atoms(&mesh, d, group);
    else
        mesh_add(&mesh, d->tensor, d->tensor_dimension);
    return mesh;
}

/* Tensor-parallel dimensions, of which those that share out the sequence as well are sequence parallelism. */
static bool tensor_dimension_legal(const struct listing *l, int dimension, const struct degrees *d)
{
    const struct dimension *of = dimensions[dimension];
    if (dimension_is_tensor(of))
        return allows(&l->space->tensor_dimension, dimension) &&
               (d->tensor == 1 || allows(&l->space->sequence_parallel, 0));
    if (dimension == DIM_none || of->lane != LANE_TP)
        return false;
    return d->tensor > 1 && allows(&l->space->sequence_parallel, 1) &&
           l->graph->sequence % ((int64_t)d->tensor * d->context) == 0;
}

static bool has_legal_context(struct listing *l, const struct mesh *mesh)
{
    uint64_t hash = 0;
    for (int atom = 0; atom < mesh->atom_count; atom++)
        hash = mix64(hash ^ ((uint64_t)mesh->size[atom] << 8 | (uint64_t)mesh->dim[atom]));
    struct known_context *known = &l->context[hash % SPACE_MEMO];
    if (!mesh_equal(&known->mesh, mesh))
        *known = (struct known_context){ *mesh, context_legal(l->graph, mesh) };
    return known->legal;
}

static void add_mesh(struct listing *l, struct config config, const struct degrees *d, enum mesh_order order, int group)
{
    if (!mesh_legal(d, group))
        return;
    config.mesh = space_mesh(d, order, group);
    if ((d->context == 1 || has_legal_context(l, &config.mesh)) && space_strategies(l->space, &config.mesh, NULL) > 0)
        space_add_schedules(l, config);
}

/* A mesh with groups of shards has the strategies without them as well. Which ranks are neighbours matters where there
 * are some of two kinds. */
static void add_orders(struct listing *l, const struct config *config, const struct degrees *d)
{
    struct allowed groups = space_any_layer(l->space, LAYER_HSDP);
    int kinds = (d->tensor > 1) + (d->context > 1) + (d->data > 1);
    bool any_order = false;
    for (int order = 0; order < ORDER_COUNT; order++) {
        bool split = false;
        if (!allows(&l->space->order, order) || (any_order && kinds < 2))
            continue;
        any_order = true;
        for (int i = 0; i < groups.count; i++) {
            int64_t group = groups.values[i];
            if (group < 1 || group >= d->data || !dimensions[d->data_dimension]->shard || !mesh_legal(d, (int)group))
                continue;
            split = true;
            add_mesh(l, *config, d, (enum mesh_order)order, (int)group);
        }
        if (!split)
            add_mesh(l, *config, d, (enum mesh_order)order, d->data);
    }
}

/* Every number of ranks that shares out the experts of all layers evenly. */
static void add_expert_degrees(struct listing *l, const struct config *config, struct degrees d)
{
    for (int64_t expert = 1; expert <= l->expert_most && expert <= d.data; expert++) {
        d.expert = (int)expert;
        if (l->expert_most % expert == 0 && d.data % expert == 0 && allows(&l->space->expert, expert))
            add_orders(l, config, &d);
    }
}

/* One data-parallel rank goes by the first of them. */
static void add_data_dimensions(struct listing *l, const struct config *config, struct degrees d)
{
    bool any = false;
    for (int data = 0; data < DIM_COUNT && !(any && d.data == 1); data++) {
        d.data_dimension = (enum dimension_index)data;
        if (!dimension_is_data(dimensions[data]) || !allows(&l->space->data_dimension, data))
            continue;
        any = true;
        add_expert_degrees(l, config, d);
    }
}

/* One tensor-parallel rank goes by the first of them. */
void space_add_variants(struct listing *l, const struct config *config, struct degrees d)
{
    bool any = false;
    if (space_listing_ends(l))
        return;
    for (int tensor = 0; tensor < DIM_COUNT && !(any && d.tensor == 1); tensor++) {
        d.tensor_dimension = (enum dimension_index)tensor;
        if (!tensor_dimension_legal(l, tensor, &d))
            continue;
        any = true;
        if (d.context == 1)
            add_data_dimensions(l, config, d);
        for (int context = 0; context < DIM_COUNT && d.context > 1; context++) {
            d.context_dimension = (enum dimension_index)context;
            if (dimensions[context]->lane == LANE_CP && allows(&l->space->context_dimension, context))
                add_data_dimensions(l, config, d);
        }
    }
}

void space_add_micro_batches(struct listing *l, struct config config, const struct degrees *d)
{
    int64_t share = l->space->batch / d->data;
    for (int64_t b = 1; b <= share && !l->ended; b++) {
        if (share % b != 0 || !allows(&l->space->micro, b) || share / b > PLAN_MAX_MICRO_BATCHES)
            continue;
        config.micro = b;
        config.micro_batch_count = (int)(share / b);
        if (config.meshes == 0 || space_set_turns(l, &config))
            space_add_variants(l, &config, *d);
    }
}

bool space_shares_batch(struct listing *l, int data)
{
    const struct allowed *micro = &l->space->micro;
    int64_t batch = l->space->batch;
    if (!allows(&l->space->data, data))
        return false;
    for (int i = 0; i < max_i64(micro->count, 1); i++) {
        int64_t unit = micro->count > 0 ? data * max_i64(micro->values[i], 1) : data;
        l->batch_below = max_i64(l->batch_below, (batch - 1) / unit * unit);
        l->batch_above = min_i64(l->batch_above, batch / unit * unit + unit);
    }
    return batch % data == 0;
}

/* ranks: what tensor and context parallelism leave. */
static void add_stages(struct listing *l, int ranks, struct degrees d)
{
    for (int stages = 1; allows(&l->space->turns, 1) && stages <= l->graph->layer_count && stages <= ranks; stages++) {
        d.data = ranks / stages;
        if (ranks % stages == 0 && allows(&l->space->pipeline, stages) && space_shares_batch(l, d.data))
            space_add_micro_batches(l, (struct config){ .stages = stages }, &d);
    }
    space_add_turns(l, ranks, d);
}

static void list_configs(struct listing *l)
{
    int devices = l->cluster->device_count, node = cluster_node_size(l->cluster);
    for (int tensor = 1; tensor <= node && tensor <= devices && !l->ended; tensor++) {
        if (devices % tensor != 0 || !allows(&l->space->tensor, tensor) || !tensor_legal(l->graph, tensor))
            continue;
        for (int context = 1; context <= devices / tensor; context++)
            if (devices / tensor % context == 0 && allows(&l->space->context, context))
                add_stages(l, devices / tensor / context, (struct degrees){ .tensor = tensor, .context = context });
    }
}

static struct listing list_of(const struct space *space, const struct graph *graph, const struct cluster *cluster)
{
    return (struct listing){
        .space = space, .graph = graph, .cluster = cluster, .expert_most = expert_most(graph), .batch_above = INT64_MAX
    };
}

int space_count(const struct space *space, const struct graph *graph, const struct cluster *cluster)
{
    struct listing l = list_of(space, graph, cluster);
    list_configs(&l);
    return l.count;
}

/* From one batch that some degrees divide to the next, until all other rules are kept too. */
int64_t space_nearest_batch(const struct space *space, const struct graph *graph, const struct cluster *cluster,
                            bool above)
{
    enum { TRIES = 64 };
    struct space other = *space;
    for (int i = 0; i <= TRIES; i++) {
        struct listing l = list_of(&other, graph, cluster);
        list_configs(&l);
        if (i > 0 && l.count > 0)
            return other.batch;
        other.batch = above ? l.batch_above : l.batch_below;
        if (other.batch < 1 || other.batch == INT64_MAX)
            break;
    }
    return 0;
}

/* All of the listing, in the arena. */
static bool keep_configs(struct listing *l, struct config **out, int *count, struct arena *arena, struct error *err)
{
    l->keeps = true;
    l->arena = arena;
    list_configs(l);
    *out = l->out;
    *count = l->count;
    return !l->out_of_memory ||
           fail_kind(err, ERROR_ENVIRONMENT, "search: out of memory for %d configurations", l->count);
}

bool space_configs_until(struct config **out, int *count, struct arena *arena, const struct space *space,
                         const struct graph *graph, const struct cluster *cluster, const struct space_stop *stop,
                         bool *ended, struct error *err)
{
    struct listing l = list_of(space, graph, cluster);
    l.stop = stop;
    if (!space_check_turns(space, err) || !keep_configs(&l, out, count, arena, err))
        return false;
    *ended = l.ended;
    if (l.ended)
        *count = 0;
    return true;
}

bool space_configs_beside(struct config **out, int *count, struct arena *arena, const struct space *space,
                          const struct graph *graph, const struct cluster *cluster, struct error *err)
{
    struct listing l = list_of(space, graph, cluster);
    l.beside = true;
    *out = NULL;
    *count = 0;
    if (!space_has_bounded(space))
        return true;
    return keep_configs(&l, out, count, arena, err);
}

bool space_configs(struct config **out, int *count, struct arena *arena, const struct space *space,
                   const struct graph *graph, const struct cluster *cluster, struct error *err)
{
    return space_configs_until(out, count, arena, space, graph, cluster, NULL, &(bool){ false }, err);
}
