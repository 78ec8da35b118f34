#include "planner/search/space.h"
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

struct space space_default(int64_t batch, int64_t sequence, enum dtype dtype)
{
    return (struct space){
        .batch = batch,
        .sequence = sequence,
        .dtype = dtype,
        .bucket_bytes = INT64_C(25) << 20,
        .clip_norm = 1,
        .recompute = { .count = 2, .values = { RECOMPUTE_NONE, RECOMPUTE_FULL } },
        .offload = { .count = 1, .values = { OFFLOAD_NONE } },
        .prefetch = { .count = 3, .values = { 1, 0, 2 } },
        .context = { .count = 1, .values = { 1 } },
        .data_dimension = { .count = 1, .values = { DIM_dp } },
        .shard_group = { .count = 1, .values = { 0 } },
        .slices = { .count = 1, .values = { 1 } },
        .order = { .count = 1, .values = { ORDER_TENSOR_INSIDE } },
        .turns = { .count = 1, .values = { 1 } },
        .spread = { .count = 1, .values = { 1 } },
        .layouts = { .count = 1, .values = { 1 } },
    };
}

const struct schedule *space_without_clipping(const struct space *space)
{
    for (int i = 0; i < space->schedule.count; i++)
        if (schedules[space->schedule.values[i]]->updates_each)
            return schedules[space->schedule.values[i]];
    return NULL;
}

int config_first_rank(const struct config *config, int stage)
{
    return (config->reversed ? config->stages - 1 - stage : stage) * mesh_ranks(&config->mesh);
}

int64_t vocab_multiple_of(const struct graph *graph, int tensor)
{
    return graph->vocab_size > 0 ? (int64_t)VOCABULARY_GRAIN * tensor : 1;
}

/* The axis that tensor parallelism would split, or -1. */
static int tensor_axis(const struct segment *segment)
{
    for (int i = 0; i < segment->axis_count; i++)
        if (segment->axes[i].tag == TAG_HEAD || segment->axes[i].tag == TAG_FFN)
            return i;
    return -1;
}

bool tensor_legal(const struct graph *graph, int tensor)
{
    bool splits = tensor == 1;
    int64_t heads = 0;
    for (int s = 0; s < graph->segment_count; s++) {
        int axis = kernel_facts[graph->segments[s].kernel].attends ? tensor_axis(&graph->segments[s]) : -1;
        heads = axis >= 0 ? max_i64(heads, graph->segments[s].axes[axis].size) : heads;
    }
    for (int s = 0; s < graph->segment_count; s++) {
        const struct segment *segment = &graph->segments[s];
        const struct kernel_facts *facts = &kernel_facts[segment->kernel];
        int axis = facts->multiplies || facts->attends ? tensor_axis(segment) : -1;
        if (axis < 0)
            continue;
        int64_t size = segment->axes[axis].size;
        bool replicated = segment->axes[axis].tag == TAG_HEAD && size < heads && tensor % size == 0;
        if (size % tensor != 0 && !replicated)
            return false;
        splits = true;
    }
    return splits;
}

bool context_legal(const struct graph *graph, const struct mesh *mesh)
{
    for (int s = 0; s < graph->segment_count; s++) {
        const struct segment *segment = &graph->segments[s];
        int64_t left[MAX_AXES];
        if (!kernel_facts[segment->kernel].multiplies && segment->kernel != KERNEL_ATTENTION)
            continue;
        for (int i = 0; i < segment->axis_count; i++)
            left[i] = segment->axes[i].size;
        for (int atom = mesh->atom_count - 1; atom >= 0; atom--) {
            const struct dimension *dimension = dimensions[mesh->dim[atom]];
            int axis = mesh->size[atom] > 1 ? dimension_axis(dimension, segment, mesh->size[atom], left) : 0;
            if (mesh->size[atom] > 1 && axis < 0 && dimension->lane == LANE_CP)
                return false;
            if (mesh->size[atom] > 1 && axis >= 0)
                left[axis] /= mesh->size[atom];
        }
    }
    return true;
}

struct config config_of_layout(const struct config *config, int layout)
{
    struct config own = *config;
    memcpy(own.mesh.dim, config->layout[layout], sizeof own.mesh.dim);
    own.micro = config->micro * mesh_data(&config->mesh) / mesh_data(&own.mesh);
    own.runs = 0;
    return own;
}

/* The atom that grows with a stage's meshes; -1: none. */
static int spread_atom(const struct mesh *mesh)
{
    int atom = 0;
    while (atom < mesh->atom_count && !dimension_is_data(dimensions[mesh->dim[atom]]))
        atom++;
    return atom < mesh->atom_count ? atom : -1;
}

struct config config_of_spread(const struct config *config, int meshes)
{
    struct config own = *config;
    own.mesh.size[spread_atom(&config->mesh)] *= meshes;
    own.micro = config->micro / meshes;
    own.meshes = own.turn_count = 0;
    own.turns = NULL;
    own.spread = false;
    return own;
}

/* ---- configurations ---- */

struct listing {
    const struct space *space;
    const struct graph *graph;
    const struct cluster *cluster;
    struct config *out; /* NULL: only count */
    int count;
    int64_t expert_most;
    int several[SPACE_VALUES]; /* meshes that a stage of the present configuration may have */
    struct arena *arena;       /* of out */
    bool out_of_memory;
};

/* Ascending, each once; the number of them. */
static int list_several(struct listing *l, const struct config *config, int64_t most)
{
    const struct allowed *allowed = config->spread ? &l->space->spread : &l->space->turns;
    int count = 0;
    for (int value = 1; value <= SPACE_MOST_TURNS && value <= most; value++)
        if (allowed->count > 0 && allows(allowed, value) && (!config->spread || config->micro % value == 0))
            l->several[count++] = value;
    return count;
}

static void add_config(struct listing *l, const struct config *config)
{
    if (l->out)
        l->out[l->count] = *config;
    l->count++;
}

/* In both orders of the cluster's types. */
static void add_directions(struct listing *l, struct config config)
{
    add_config(l, &config);
    config.reversed = true;
    if (config.stages > 1 && l->cluster->type_count > 1)
        add_config(l, &config);
}

/* A schedule that is not searched by itself must be named, or asked for by its chunks. So asynchronous ones, which are
 * other mathematics, never win unless somebody wants them. */
static bool offers(const struct space *space, int schedule)
{
    const struct schedule *s = schedules[schedule];
    bool named = space->schedule.count > 0 || (s->interleaves && space->interleave.count > 0);
    return (s->searched || named) && allows(&space->schedule, schedule);
}

/* The chunks that schedule, micro-batches and layers allow of those that the space does; the number of them. */
static int chunk_choices(const struct listing *l, const struct config *config, int out[SPACE_VALUES])
{
    const struct schedule *schedule = schedules[config->schedule];
    const struct allowed *asked = &l->space->interleave;
    if (config->meshes > 0) { /* what a replica does depends on nothing but the replicas from it on */
        out[0] = 1;
        return schedule->searched && !schedule->interleaves && allows(asked, 1);
    }
    int count = 0, values = asked->count > 0 ? asked->count : 1;
    for (int i = 0; i < values; i++) {
        int64_t chunks = asked->count > 0 ? asked->values[i] : schedule_least_chunks(schedule);
        bool fits = chunks >= 1 && chunks <= PLAN_MAX_CHUNKS &&
                    (config->runs < 2 || (chunks == 1 && schedule->searched)) &&
                    config->micro_batch_count <= PLAN_MAX_MICRO_BATCHES / chunks &&
                    schedule_pieces(schedule, config->stages, (int)chunks) <= l->graph->layer_count;
        if (fits && schedule_takes(schedule, config->stages, (int)chunks, config->micro_batch_count))
            out[count++] = (int)chunks;
    }
    return count;
}

static void add_prefetches(struct listing *l, struct config config)
{
    int prefetches = l->space->prefetch.count > 0 ? l->space->prefetch.count : 1;
    bool shards = mesh_shards(&config.mesh) > 1 || (config.spread && config.turns[config.turn_count - 1] > 1);
    for (int p = 0; p < prefetches && (p == 0 || shards); p++) {
        config.prefetch = l->space->prefetch.count > 0 ? (int)l->space->prefetch.values[p] : 1;
        add_directions(l, config);
    }
}

/* Choices that make no difference are listed once: one stage has no schedule, one data-parallel rank gathers nothing.
 */
static void add_schedules(struct listing *l, struct config config)
{
    bool any_schedule = false;
    for (int s = 0; schedules[s]; s++) {
        int chunks[SPACE_VALUES];
        if (!offers(l->space, s) || (any_schedule && config.stages == 1))
            continue;
        config.schedule = s;
        int count = chunk_choices(l, &config, chunks);
        any_schedule |= count > 0;
        for (int c = 0; c < count; c++) {
            config.chunks = chunks[c];
            add_prefetches(l, config);
        }
    }
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

/* Tensor-parallel dimensions, of which those that share out the sequence as well are sequence parallelism. Deferred
 * sums are left to plan files. */
static bool tensor_dimension_legal(const struct listing *l, int dimension, const struct degrees *d)
{
    const struct dimension *of = dimensions[dimension];
    if (dimension == DIM_none || of->lane != LANE_TP || of->defer)
        return false;
    if (!dimension_prefers(of, TAG_SEQUENCE))
        return d->tensor == 1 || allows(&l->space->sequence_parallel, 0);
    return d->tensor > 1 && allows(&l->space->sequence_parallel, 1) &&
           l->graph->sequence % ((int64_t)d->tensor * d->context) == 0;
}

static bool layout_legal(const struct listing *l, const struct degrees *d, const struct mesh *mesh)
{
    return (d->context == 1 || context_legal(l->graph, mesh)) && space_strategies(l->space, mesh, NULL) > 0;
}

/* The tensor-parallel ranks as something else, where a mesh may have that too. */
static void add_layout(const struct listing *l, struct config *config, const struct degrees *d, int dimension,
                       enum mesh_order order, int group)
{
    struct degrees other = *d;
    other.tensor_dimension = (enum dimension_index)dimension;
    struct mesh mesh = space_mesh(&other, order, group);
    if (config->layout_count < MOST_LAYOUTS && layout_legal(l, d, &mesh))
        memcpy(config->layout[config->layout_count++], mesh.dim, sizeof mesh.dim);
}

/* Several layouts in one plan: of ranks that are tensor-parallel in one layer and with sequences of their own, or
 * sequence-parallel, in another. Listed once, beside the first of the tensor-parallel dimensions. */
static void add_layouts(struct listing *l, struct config config, const struct degrees *d, enum mesh_order order,
                        int group)
{
    for (int i = 0; i < l->space->layouts.count; i++)
        config.runs = (int)max_i64(config.runs, min_i64(l->space->layouts.values[i], MOST_RUNS));
    if (config.runs < 2 || d->tensor == 1 || config.meshes > 0 || l->cluster->type_count > 1 ||
        !graph_is_chain(l->graph))
        return;
    for (int dimension = 0; dimension < DIM_COUNT; dimension++) {
        if (!tensor_dimension_legal(l, dimension, d))
            continue;
        if (config.layout_count == 0 && dimension != (int)d->tensor_dimension)
            return;
        add_layout(l, &config, d, dimension, order, group);
    }
    if (config.micro % d->tensor == 0)
        add_layout(l, &config, d, (int)d->data_dimension, order, group);
    if (config.layout_count > 1)
        add_schedules(l, config);
}

static void add_mesh(struct listing *l, struct config config, const struct degrees *d, enum mesh_order order, int group)
{
    if (!mesh_legal(d, group))
        return;
    config.mesh = space_mesh(d, order, group);
    if (!layout_legal(l, d, &config.mesh) || (config.spread && spread_atom(&config.mesh) < 0))
        return;
    add_schedules(l, config);
    add_layouts(l, config, d, order, group);
}

/* A mesh with groups of shards has the strategies without them as well. */
static void add_orders(struct listing *l, const struct config *config, const struct degrees *d)
{
    const struct allowed *groups = &l->space->shard_group;
    bool any_order = false;
    for (int order = 0; order < ORDER_COUNT; order++) {
        bool split = false;
        if (!allows(&l->space->order, order) ||
            (any_order && (d->tensor * d->context == 1 || (d->data == 1 && !config->spread))))
            continue;
        any_order = true;
        for (int i = 0; i < groups->count; i++) {
            int64_t group = groups->values[i];
            if (group < 1 || group >= d->data || d->data % group != 0 || config->spread)
                continue;
            split = true;
            add_mesh(l, *config, d, (enum mesh_order)order, (int)group);
        }
        if (!split)
            add_mesh(l, *config, d, (enum mesh_order)order, d->data);
    }
}

int64_t expert_most(const struct graph *graph)
{
    int64_t most = 0;
    for (int s = 0; s < graph->segment_count; s++)
        for (int i = 0; i < graph->segments[s].axis_count; i++) {
            const struct axis *axis = &graph->segments[s].axes[i];
            if (axis->tag == TAG_EXPERT)
                most = common_divisor(most, axis->size);
        }
    return most ? most : 1;
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

static void add_variants(struct listing *l, const struct config *config, struct degrees d)
{
    for (int tensor = 0; tensor < DIM_COUNT; tensor++) {
        d.tensor_dimension = (enum dimension_index)tensor;
        if (!tensor_dimension_legal(l, tensor, &d))
            continue;
        if (d.context == 1)
            add_data_dimensions(l, config, d);
        for (int context = 0; context < DIM_COUNT && d.context > 1; context++) {
            d.context_dimension = (enum dimension_index)context;
            if (dimensions[context]->lane == LANE_CP && allows(&l->space->context_dimension, context))
                add_data_dimensions(l, config, d);
        }
    }
}

/* Whether so many stages of the present numbers of meshes can have all of them together. */
static bool share_out(const struct listing *l, int count, int stages, int meshes)
{
    int fewest[MOST_SPREAD + 1] = { 0 }, left = meshes - stages * l->several[0];
    if (left < 0 || left > MOST_SPREAD)
        return false;
    for (int sum = 1; sum <= left; sum++) { /* stages that need more than the least, to have so many more */
        fewest[sum] = stages + 1;
        for (int i = 1; i < count; i++)
            if (l->several[i] - l->several[0] <= sum)
                fewest[sum] = (int)min_i64(fewest[sum], fewest[sum - l->several[i] + l->several[0]] + 1);
    }
    return fewest[left] <= stages;
}

/* No replica is without a micro-batch, no mesh without a sequence of each. False: a stage has no more than one, or some
 * meshes are left even when there are no more stages than layers, or than are given. */
static bool set_several(struct listing *l, struct config *config)
{
    int64_t stages = config->stages > 0 ? config->stages : l->graph->layer_count,
            most = config->spread ? config->meshes - config->stages + 1
                                  : min_i64(config->meshes, config->micro_batch_count);
    config->turn_count = list_several(l, config, most);
    config->turns = l->several;
    if (config->turn_count == 0 || l->several[config->turn_count - 1] == 1 ||
        stages * l->several[config->turn_count - 1] < config->meshes ||
        (config->spread && !share_out(l, config->turn_count, config->stages, config->meshes)))
        return false;
    int *kept = l->out ? arena_alloc(l->arena, (size_t)config->turn_count, sizeof *kept) : l->several;
    l->out_of_memory = l->out_of_memory || !kept;
    if (l->out && kept)
        config->turns = memcpy(kept, l->several, (size_t)config->turn_count * sizeof *kept);
    return true;
}

static void add_micro_batches(struct listing *l, struct config config, const struct degrees *d)
{
    int64_t share = l->space->batch / d->data;
    for (int64_t b = 1; b <= share; b++) {
        if (share % b != 0 || !allows(&l->space->micro, b) || share / b > PLAN_MAX_MICRO_BATCHES)
            continue;
        config.micro = b;
        config.micro_batch_count = (int)(share / b);
        if (config.meshes == 0 || set_several(l, &config))
            add_variants(l, &config, *d);
    }
}

static bool only_one(const struct allowed *allowed)
{
    return allowed->count == 1 && allowed->values[0] == 1;
}

/* With every number of stages at once, unless they are restricted. */
static void add_turns(struct listing *l, struct config config, const struct degrees *d)
{
    const struct allowed *stages = &l->space->pipeline;
    if (stages->count == 0)
        add_micro_batches(l, config, d);
    for (int i = 0; i < stages->count; i++) {
        config.stages = (int)min_i64(stages->values[i], l->graph->layer_count + 1);
        if (config.stages <= l->graph->layer_count && config.stages < config.meshes)
            add_micro_batches(l, config, d);
    }
}

/* What is in flight depends on the number of stages, so that each is a configuration of its own. */
static void add_spread(struct listing *l, struct config config, const struct degrees *d)
{
    config.spread = true;
    for (config.stages = 2; config.stages <= l->graph->layer_count && config.stages < config.meshes; config.stages++)
        if (config.meshes <= MOST_SPREAD && allows(&l->space->pipeline, config.stages))
            add_micro_batches(l, config, d);
}

/* Stages of several meshes. */
static void add_several(struct listing *l, int ranks, struct degrees d)
{
    bool turns = !only_one(&l->space->turns) && allows(&l->space->spread, 1) && l->cluster->type_count == 1,
         spread = !only_one(&l->space->spread) && allows(&l->space->turns, 1);
    for (d.data = 1; (turns || spread) && 2 * d.data <= ranks; d.data++) {
        struct config config = { .meshes = ranks / d.data };
        if (ranks % d.data != 0 || !allows(&l->space->data, d.data) || l->space->batch % d.data != 0)
            continue;
        if (turns)
            add_turns(l, config, &d);
        if (spread)
            add_spread(l, config, &d);
    }
}

/* ranks: what tensor and context parallelism leave. */
static void add_stages(struct listing *l, int ranks, struct degrees d)
{
    for (int stages = 1; stages <= l->graph->layer_count && stages <= ranks; stages++) {
        d.data = ranks / stages;
        if (ranks % stages == 0 && allows(&l->space->pipeline, stages) && allows(&l->space->data, d.data) &&
            l->space->batch % d.data == 0 && allows(&l->space->turns, 1) && allows(&l->space->spread, 1))
            add_micro_batches(l, (struct config){ .stages = stages }, &d);
    }
    add_several(l, ranks, d);
}

static void list_configs(struct listing *l)
{
    int devices = l->cluster->device_count, node = cluster_node_size(l->cluster);
    for (int tensor = 1; tensor <= node && tensor <= devices; tensor++) {
        if (devices % tensor != 0 || !allows(&l->space->tensor, tensor) || !tensor_legal(l->graph, tensor))
            continue;
        for (int context = 1; context <= devices / tensor; context++)
            if (devices / tensor % context == 0 && allows(&l->space->context, context))
                add_stages(l, devices / tensor / context, (struct degrees){ .tensor = tensor, .context = context });
    }
}

static bool asks_for_more(const struct allowed *allowed)
{
    for (int i = 0; i < allowed->count; i++)
        if (allowed->values[i] > 1)
            return true;
    return false;
}

/* The schedules and clusters whose stages can have several meshes: what replicas exchange is priced for one type. */
static bool check_several(const struct space *space, const struct cluster *cluster, struct error *err)
{
    bool searched = space->schedule.count == 0, turns = asks_for_more(&space->turns),
         asked = turns || asks_for_more(&space->spread);
    const char *name = turns ? "turns" : "spread", *what = turns ? "replicas" : "meshes";
    for (int i = 0; i < space->schedule.count; i++)
        searched = searched || schedules[space->schedule.values[i]]->searched;
    if (turns && cluster->type_count > 1)
        return fail(err,
                    "plan: turns: the search gives stages several replicas on clusters of one type of device, found %d "
                    "types; leave turns out of --fix and --space, or give spread",
                    cluster->type_count);
    return !asked || searched ||
           fail(err,
                "plan: %s: the search gives stages several %s with schedules 1f1b and gpipe, found %s; leave %s or the "
                "schedule out of --fix and --space",
                name, what, schedules[space->schedule.values[0]]->name, name);
}

int space_count(const struct space *space, const struct graph *graph, const struct cluster *cluster)
{
    struct listing l = { .space = space, .graph = graph, .cluster = cluster, .expert_most = expert_most(graph) };
    list_configs(&l);
    return l.count;
}

bool space_configs(struct config **out, int *count, struct arena *arena, const struct space *space,
                   const struct graph *graph, const struct cluster *cluster, struct error *err)
{
    struct listing l = {
        .space = space, .graph = graph, .cluster = cluster, .expert_most = expert_most(graph), .arena = arena
    };
    if (!check_several(space, cluster, err))
        return false;
    int listed = space_count(space, graph, cluster);
    l.out = arena_alloc(arena, (size_t)listed, sizeof *l.out);
    if (l.out)
        list_configs(&l);
    if (!l.out || l.out_of_memory)
        return fail_kind(err, ERROR_ENVIRONMENT, "search: out of memory for %d configurations", listed);
    *out = l.out;
    *count = l.count;
    return true;
}
