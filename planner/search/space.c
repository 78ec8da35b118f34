#include "planner/search/space.h"
#include "base/num.h"
#include "planner/program/schedule.h"

enum { VOCABULARY_GRAIN = 128 }; /* rows per tensor rank come in multiples of it, as in Megatron-LM */

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
        .recompute = { .count = 2, .values = { RECOMPUTE_NONE, RECOMPUTE_FULL } },
        .prefetch = { .count = 2, .values = { 1, 0 } },
    };
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
        int axis = segment->kernel == KERNEL_MATMUL || kernel_facts[segment->kernel].attends ? tensor_axis(segment) : -1;
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

/* Sequence parallelism shares out what tensor parallelism replicates, where the sequence divides. */
static int tensor_dimensions(const struct space *space, const struct graph *graph, int tensor, int out[2])
{
    int count = 0;
    if (tensor == 1 || allows(&space->sequence_parallel, 0))
        out[count++] = DIM_tp;
    if (tensor > 1 && allows(&space->sequence_parallel, 1) && graph->sequence % tensor == 0)
        out[count++] = DIM_tp_sp;
    return count;
}

struct listing {
    const struct space *space;
    const struct graph *graph;
    const struct cluster *cluster;
    struct config *out; /* NULL: only count */
    int count;
};

static void add_config(struct listing *l, struct config config)
{
    if (l->out)
        l->out[l->count] = config;
    l->count++;
}

/* In both orders of the cluster's types. */
static void add_orders(struct listing *l, struct config config)
{
    add_config(l, config);
    config.reversed = true;
    if (config.stages > 1 && l->cluster->type_count > 1)
        add_config(l, config);
}

/* Choices that make no difference are listed once: one stage has no schedule, one data-parallel rank gathers nothing.
 */
static void add_variants(struct listing *l, struct config config, int tensor, int data)
{
    int dimensions_[2], dimension_count = tensor_dimensions(l->space, l->graph, tensor, dimensions_);
    for (int d = 0; d < dimension_count; d++) {
        config.mesh = mesh_none();
        mesh_add(&config.mesh, data, DIM_dp);
        mesh_add(&config.mesh, tensor, (enum dimension_index)dimensions_[d]);
        bool any_schedule = false;
        for (int s = 0; schedules[s]; s++) {
            bool offered = l->space->schedule.count > 0 || schedules[s]->searched;
            if (schedules[s]->asynchronous || !offered || !allows(&l->space->schedule, s) ||
                (any_schedule && config.stages == 1))
                continue;
            any_schedule = true;
            config.schedule = s;
            int prefetches = l->space->prefetch.count > 0 ? l->space->prefetch.count : 1;
            for (int p = 0; p < prefetches && (p == 0 || data > 1); p++) {
                config.prefetch = l->space->prefetch.count > 0 ? (int)l->space->prefetch.values[p] : 1;
                add_orders(l, config);
            }
        }
    }
}

static void add_micro_batches(struct listing *l, int stages, int tensor, int data)
{
    struct config config = { .stages = stages };
    int64_t share = l->space->batch / data;
    for (int64_t b = 1; b <= share; b++) {
        if (share % b != 0 || !allows(&l->space->micro, b) || share / b > PLAN_MAX_MICRO_BATCHES)
            continue;
        config.micro = b;
        config.micro_batch_count = (int)(share / b);
        add_variants(l, config, tensor, data);
    }
}

static void list_configs(struct listing *l)
{
    int devices = l->cluster->device_count, node = cluster_node_size(l->cluster);
    for (int tensor = 1; tensor <= node && tensor <= devices; tensor++) {
        if (devices % tensor != 0 || !allows(&l->space->tensor, tensor) || !tensor_legal(l->graph, tensor))
            continue;
        for (int stages = 1; stages <= l->graph->layer_count && stages <= devices / tensor; stages++) {
            int data = devices / tensor / stages;
            if (devices / tensor % stages != 0 || !allows(&l->space->pipeline, stages) ||
                !allows(&l->space->data, data) || l->space->batch % data != 0)
                continue;
            add_micro_batches(l, stages, tensor, data);
        }
    }
}

bool space_configs(struct config **out, int *count, struct arena *arena, const struct space *space,
                   const struct graph *graph, const struct cluster *cluster, struct error *err)
{
    struct listing l = { space, graph, cluster, NULL, 0 };
    list_configs(&l);
    l.out = arena_alloc(arena, (size_t)l.count, sizeof *l.out);
    if (!l.out)
        return fail_kind(err, ERROR_ENVIRONMENT, "search: out of memory for %d configurations", l.count);
    l.count = 0;
    list_configs(&l);
    *out = l.out;
    *count = l.count;
    return true;
}

bool space_explain_empty(const struct space *space, const struct graph *graph, const struct cluster *cluster,
                         struct error *err)
{
    struct space free_space = space_default(space->batch, space->sequence, space->dtype);
    struct listing l = { &free_space, graph, cluster, NULL, 0 };
    list_configs(&l);
    if (l.count > 0)
        return fail(err,
                    "plan: no configuration of %d devices and a batch of %lld sequences has the fixed degrees (tensor "
                    "x pipeline x data "
                    "must be %d, data must divide the batch); leave some of them out of --fix and --space",
                    cluster->device_count, (long long)space->batch, cluster->device_count);
    int64_t unit = cluster->device_count;
    return fail(err,
                "plan: a batch of %lld sequences cannot be shared out over %d devices: no product of tensor degree (a "
                "divisor of heads and "
                "feed-forward width, inside a node), stages (at most %d layers) and a divisor of the batch is %d; a "
                "batch of %lld sequences would do",
                (long long)space->batch, cluster->device_count, graph->layer_count, cluster->device_count,
                (long long)round_up(space->batch, unit));
}
