#include "base/num.h"
#include "targets/decoder.h"
#include "targets/target.h"
#include "models/whole_blocks.h"
#include "planner/program/schedule.h"
#include "planner/space/space.h"
#include <stddef.h>
#include <string.h>

const struct launch launch_plain = { .tensor = 1,
                                     .context = 1,
                                     .pipeline = 1,
                                     .data = 1,
                                     .expert = 1,
                                     .context_dimension = DIM_cp_gather,
                                     .chunks = 1,
                                     .micro_batch = 1,
                                     .dtype = DTYPE_BF16,
                                     .recompute = RECOMPUTE_NONE,
                                     .prefetch = 1,
                                     .loss_chunks = 1,
                                     .bucket_bytes = USUAL_BUCKET_BYTES,
                                     .clip_norm = 1 };

/* Members that are choices of a space. */
static const struct member {
    size_t offset, bytes;
} members[CHOICE_COUNT] = {
#define MEMBER(choice, name) [CHOICE_##choice] = { offsetof(struct launch, name), sizeof(((struct launch *)0)->name) }
    MEMBER(TP, tensor),
    MEMBER(CP, context),
    MEMBER(PP, pipeline),
    MEMBER(EP, expert),
    MEMBER(MICRO, micro_batch),
    MEMBER(SP, sequence_parallel),
    MEMBER(CP_DIMENSION, context_dimension),
    MEMBER(HSDP, shard_group),
    MEMBER(SCHEDULE, schedule),
    MEMBER(INTERLEAVE, chunks),
    MEMBER(BUCKET, bucket_bytes),
    MEMBER(PREFETCH, prefetch),
    MEMBER(LOSS_CHUNKS, loss_chunks),
    MEMBER(ZERO, zero),
    MEMBER(RECOMPUTE, recompute),
    MEMBER(EXCEPT, excepted),
    MEMBER(OFFLOAD, offload),
    MEMBER(RESHARD, reshard),
#undef MEMBER
};

bool launch_says(enum space_choice choice)
{
    return members[choice].bytes > 0 || choice == CHOICE_DP || choice == CHOICE_EP_OVER;
}

bool launch_choice(int64_t *value, const struct launch *launch, enum space_choice choice)
{
    const char *at = (const char *)launch + members[choice].offset;
    if (members[choice].bytes == sizeof(int64_t))
        memcpy(value, at, sizeof(int64_t));
    else if (members[choice].bytes == sizeof(int))
        *value = *(const int *)(const void *)at;
    else if (members[choice].bytes == sizeof(bool))
        *value = *(const bool *)at;
    return members[choice].bytes > 0;
}

bool launch_set_choice(struct launch *launch, enum space_choice choice, int64_t value)
{
    char *at = (char *)launch + members[choice].offset;
    if (members[choice].bytes == sizeof(int64_t))
        memcpy(at, &value, sizeof(int64_t));
    else if (members[choice].bytes == sizeof(int))
        *(int *)(void *)at = (int)value;
    else if (members[choice].bytes == sizeof(bool))
        *(bool *)at = value != 0;
    return members[choice].bytes > 0;
}

int launch_experts_over(const struct launch *launch)
{
    return launch->expert > 1 && launch->experts_whole ? EXPERTS_OVER_TENSOR : EXPERTS_OVER_CONTEXT;
}

/* The dimension whose ranks go by this one where they share out experts as well. */
static int without_experts(int over)
{
    for (int i = 0; i < DIM_COUNT; i++)
        if (dimension_over_experts(i) == over)
            return i;
    return over;
}

/* The degrees that the dimensions of all layers make of the mesh's atoms. */
static bool read_mesh(struct launch *out, const struct plan *plan, struct error *err)
{
    const struct plan_stage *first = &plan->stages[0];
    const struct plan_layer *any = &plan->layers[0];
    struct degrees degrees = { .tensor = 1,
                               .context = 1,
                               .data = 1,
                               .expert = 1,
                               .tensor_dimension = DIM_tp,
                               .context_dimension = DIM_cp_gather,
                               .data_dimension = DIM_dp };
    int replicas = 1;
    enum experts_over reach = EXPERTS_OVER_CONTEXT;
    for (int s = 1; s < plan->stage_count; s++)
        if (memcmp(plan->stages[s].atom, first->atom, sizeof first->atom) != 0 || plan->stages[s].turn > 0)
            return fail(err, "stage %d: its mesh is not that of stage 0, or it takes turns; a launch has one mesh", s);
    for (int l = 1; l < plan->layer_count; l++)
        if (memcmp(plan->layers[l].dim, any->dim, sizeof any->dim) != 0)
            return fail(err, "layer %d: it is split otherwise than layer 0; a launch splits all alike", l);
    for (int a = 0; a < plan->atom_count; a++) {
        int size = first->atom[a], dim = any->dim[a];
        const struct dimension *dimension = dimensions[dim];
        if (size == 1)
            continue;
        if (dimension_is_over_experts(dimension)) {
            degrees.expert *= size;
            reach = dimension->lane == LANE_TP ? EXPERTS_OVER_TENSOR : reach;
            dim = without_experts(dim);
        }
        if (dimension->splits_batch) {
            degrees.data *= size;
            degrees.expert *= dim == DIM_ep ? size : 1;
            replicas *= dim == DIM_rp ? size : 1;
            degrees.data_dimension = dim == DIM_ps ? DIM_ps : degrees.data_dimension;
        } else if (dimension->lane == LANE_CP) {
            degrees.context *= size;
            degrees.context_dimension = (enum dimension_index)dim;
        } else {
            degrees.tensor *= size;
            degrees.tensor_dimension = (enum dimension_index)dim;
        }
    }
    out->tensor = degrees.tensor;
    out->sequence_parallel = degrees.tensor_dimension == DIM_tp_sp;
    out->context = degrees.context;
    out->context_dimension = degrees.context_dimension;
    out->data = degrees.data;
    out->expert = degrees.expert;
    out->experts_whole = reach == EXPERTS_OVER_TENSOR;
    out->shard_group = replicas > 1 ? degrees.data / replicas : 0;
    if (degrees.data_dimension == DIM_ps ||
        (degrees.tensor > 1 && degrees.tensor_dimension != DIM_tp && degrees.tensor_dimension != DIM_tp_sp))
        return fail(err, "dimension %s: a launch has dp, ep, tp, tp_sp and context parallelism alone",
                    dimensions[degrees.data_dimension == DIM_ps ? DIM_ps : degrees.tensor_dimension]->name);
    return true;
}

/* What all blocks do alike but for recomputation; what stands before and behind them is sharded like them, and not
 * computed again. */
static bool read_layers(struct launch *out, const struct plan *plan, const struct graph *graph, struct error *err)
{
    const struct plan_layer *like = NULL;
    for (int l = 0; l < plan->layer_count; l++) {
        const struct plan_layer *layer = &plan->layers[l];
        const char *name = graph->layers[l].name;
        bool block = graph->layers[l].block >= 0;
        if (layer->slices > 1 || layer->replicate)
            return fail(err, "layer %s: slices and replicated operators cannot be launched", name);
        if (!block && layer->recompute != RECOMPUTE_NONE && layer->recompute != RECOMPUTE_BLOCK)
            return fail(err, "layer %s: it is computed again, which only blocks are in a launch", name);
        if (!block)
            continue;
        if (!like) {
            like = layer;
            continue;
        }
        if (layer->zero != like->zero || layer->excepted != like->excepted || layer->offload != like->offload ||
            layer->reshard != like->reshard)
            return fail(err, "layer %s: it is treated otherwise than the blocks before it; a launch treats all alike",
                        name);
    }
    if (!like)
        return fail(err, "the model has no repeated blocks");
    for (int l = 0; l < plan->layer_count; l++)
        if (graph_layer_has_weights(graph, l) && plan->layers[l].zero != like->zero)
            return fail(err, "layer %s: ZeRO %d where the blocks have %d; a launch has one stage",
                        graph->layers[l].name, plan->layers[l].zero, like->zero);
    out->zero = like->zero;
    out->excepted = like->excepted;
    out->offload = like->offload;
    out->reshard = like->reshard;
    return true;
}

static bool in_trunk(const struct graph *graph, int layer)
{
    return graph->layers[layer].block >= 0 && !graph_layer_predicts_further(graph, layer);
}

/* Of a piece's blocks the first ones that are computed again, and all of them. */
static void count_again(int *first, int *blocks, const struct plan *plan, const struct graph *graph,
                        struct layer_range range)
{
    *first = *blocks = 0;
    for (int l = range.first; l < range.first + range.count; l++)
        if (in_trunk(graph, l)) {
            *first += plan->layers[l].recompute != RECOMPUTE_NONE && *first == *blocks;
            ++*blocks;
        }
}

/* All blocks are computed again, none, or of each piece so many as of the others, the first ones, and then none of
 * those that predict further tokens. */
static bool read_recompute(struct launch *out, const struct plan *plan, const struct graph *graph, struct error *err)
{
    int most = 0, first, blocks;
    bool some_kept = false;
    out->recompute = RECOMPUTE_NONE;
    for (int s = 0; s < plan->stage_count; s++)
        for (int c = 0; c < plan->chunk_count; c++) {
            count_again(&first, &blocks, plan, graph, plan_stage_chunk(plan, s, c));
            most = max_int(most, first);
            some_kept = some_kept || first < blocks;
        }
    for (int l = 0; l < plan->layer_count; l++)
        some_kept =
            some_kept || (graph_layer_predicts_further(graph, l) && plan->layers[l].recompute == RECOMPUTE_NONE);
    for (int s = 0; s < plan->stage_count; s++)
        for (int c = 0, at = 0; c < plan->chunk_count; c++, at = 0) {
            struct layer_range range = plan_stage_chunk(plan, s, c);
            for (int l = range.first; l < range.first + range.count; l++) {
                int own = plan->layers[l].recompute == RECOMPUTE_FULL ? RECOMPUTE_BLOCK : plan->layers[l].recompute;
                if (graph->layers[l].block < 0)
                    continue;
                bool again = in_trunk(graph, l) ? at++ < most : most > 0 && !some_kept;
                bool other = own != RECOMPUTE_NONE && out->recompute != RECOMPUTE_NONE && own != (int)out->recompute;
                out->recompute = own != RECOMPUTE_NONE ? own : out->recompute;
                if ((own != RECOMPUTE_NONE) != again || other || (some_kept && own == RECOMPUTE_SELECTIVE))
                    return fail(err,
                                "layer %s: it is computed again where other blocks are not; a launch has all, none, "
                                "or the first ones of each piece",
                                graph->layers[l].name);
            }
        }
    out->recompute_first = most > 0 && some_kept ? most : 0;
    return true;
}

void launch_keep_others(const struct launch *launch, struct plan *plan, const struct graph *graph)
{
    for (int s = 0; launch->recompute_first > 0 && s < plan->stage_count; s++)
        for (int c = 0; c < plan->chunk_count; c++) {
            struct layer_range range = plan_stage_chunk(plan, s, c);
            for (int l = range.first, at = 0; l < range.first + range.count; l++)
                if (graph_layer_predicts_further(graph, l) ||
                    (graph->layers[l].block >= 0 && at++ >= launch->recompute_first))
                    plan->layers[l].recompute = RECOMPUTE_NONE;
        }
}

int64_t launch_most_blocks(const struct launch *launch, int64_t blocks)
{
    int64_t pieces = launch->pipeline * launch->chunks, most = (blocks + pieces - 1) / pieces;
    for (int i = 0; i < launch->piece_count; i++)
        most = i == 0 || launch->piece_blocks[i] > most ? launch->piece_blocks[i] : most;
    return most;
}

/* Blocks of each piece. */
static bool read_pieces(struct launch *out, struct arena *arena, const struct plan *plan, const struct graph *graph,
                        struct error *err)
{
    const struct schedule *schedule = schedules[plan->schedule];
    int count = schedule_pieces(schedule, plan->stage_count, plan->chunk_count);
    int *blocks = arena_alloc(arena, (size_t)count, sizeof *blocks);
    if (!blocks)
        return fail_memory(err);
    for (int s = 0; s < plan->stage_count; s++)
        for (int c = 0; c < plan->chunk_count; c++) {
            struct layer_range range = plan_stage_chunk(plan, s, c);
            int piece = schedule_piece(schedule, plan->stage_count, s, c);
            for (int l = range.first; l < range.first + range.count; l++) {
                bool further = graph_layer_predicts_further(graph, l);
                if (further && out->further > 0 && out->further_piece != piece)
                    return fail(err,
                                "layer %s: blocks that predict further tokens stand apart; a launch has them together",
                                graph->layers[l].name);
                blocks[piece] += in_trunk(graph, l);
                out->further += further;
                out->further_piece = further ? piece : out->further_piece;
            }
        }
    out->piece_count = count;
    out->piece_blocks = blocks;
    return true;
}

/* Ranks in the order in which a launcher numbers them. */
static bool in_order(const struct plan *plan, const struct launch *launch, struct error *err)
{
    struct degrees degrees = { .tensor = (int)launch->tensor,
                               .context = (int)launch->context,
                               .data = (int)launch->data,
                               .expert = (int)launch->expert,
                               .experts_over = (enum experts_over)launch_experts_over(launch),
                               .tensor_dimension = launch->sequence_parallel ? DIM_tp_sp : DIM_tp,
                               .context_dimension = (enum dimension_index)launch->context_dimension,
                               .data_dimension = DIM_dp };
    int group = (int)(launch->shard_group > 0 ? launch->shard_group : launch->data);
    int replicas = (int)launch->data / group; /* of all shards: they are outermost */
    struct mesh all = space_mesh(&degrees, ORDER_TENSOR_INSIDE, group), wanted = mesh_none(), own = mesh_none();
    for (int a = 0; a < all.atom_count; a++) {
        int replica = replicas > 1 ? dimension_replica(all.dim[a]) : -1;
        if (all.size[a] > 1)
            mesh_add(&wanted, all.size[a], (enum dimension_index)(replica < 0 ? all.dim[a] : replica));
        replicas /= replica < 0 ? 1 : all.size[a];
    }
    for (int a = 0; a < plan->atom_count; a++)
        if (plan->stages[0].atom[a] > 1)
            mesh_add(&own, plan->stages[0].atom[a], (enum dimension_index)plan->layers[0].dim[a]);
    wanted = mesh_joined(&wanted);
    own = mesh_joined(&own);
    if (!mesh_equal(&wanted, &own))
        return fail(err, "the ranks of a stage are not in a launcher's order: tensor-parallel ones innermost, then "
                         "context-parallel ones, then those of data");
    for (int s = 1; s < plan->stage_count; s++)
        if (plan->stages[s].first_rank < plan->stages[s - 1].first_rank)
            return fail(err, "stage %d stands before stage %d on the cluster; a launcher numbers stages in order", s,
                        s - 1);
    return true;
}

bool launch_of_plan(struct launch *out, struct arena *arena, const struct plan *plan, const struct graph *graph,
                    struct error *err)
{
    *out = launch_plain;
    if (!plan->whole_blocks)
        return fail(err, "the plan cuts and treats layers within blocks, which no framework can be told: make one with "
                         "cleave plan ... --target NAME");
    if (plan->order)
        return fail(err, "the plan has another order of layers than the model's");
    if (plan->clock != CLOCK_EVEN)
        return fail(err, "the plan has an order of receives of its own, which no framework can be told");
    if (!read_mesh(out, plan, err) || !read_layers(out, plan, graph, err) || !read_recompute(out, plan, graph, err) ||
        !read_pieces(out, arena, plan, graph, err) || !in_order(plan, out, err))
        return false;
    out->pipeline = plan->stage_count;
    out->schedule = plan->schedule;
    out->chunks = plan->chunk_count;
    if (schedules[plan->schedule]->grouped && schedule_group(plan) != plan->stage_count)
        out->chunk_group = schedule_group(plan);
    out->micro_batch = plan->batch / plan->micro_batch_count / out->data;
    out->batch = plan->batch;
    out->sequence = plan->sequence;
    out->dtype = plan->dtype;
    out->optimizer = plan->optimizer;
    out->prefetch = plan->prefetch;
    out->loss_chunks = plan->loss_chunks;
    out->bucket_bytes = plan->bucket_bytes;
    out->clip_norm = plan->clip_norm;
    return true;
}

bool launch_is_causal(const struct launch *launch, const struct launch_context *context)
{
    (void)launch;
    return !context->model || !decoder_other(context->model);
}

void launch_causal_detail(struct text *out, const struct launch *launch, const struct launch_context *context)
{
    (void)launch;
    text_add(out, decoder_other(context->model));
}

bool launch_trains_all(const struct launch *launch, const struct launch_context *context)
{
    (void)launch;
    return !context->model || decoder_trains(NULL, context->model) == TRAINS_ALL;
}

bool launch_optimizer_is_usual(const struct launch *launch, const struct launch_context *context)
{
    (void)context;
    return optimizer_is_usual(&launch->optimizer);
}

void launch_optimizer_detail(struct text *out, const struct launch *launch, const struct launch_context *context)
{
    (void)context;
    optimizer_describe(out, &launch->optimizer);
}

enum { LAUNCH_NUMBERS = 25 };

/* What the launch says in whole numbers; where there is nothing to say, 0. */
static void put_numbers(int64_t out[LAUNCH_NUMBERS], const struct launch *l)
{
    const int64_t numbers[LAUNCH_NUMBERS] = {
        l->tensor,
        l->context,
        l->pipeline,
        l->data,
        l->expert,
        l->experts_whole,
        l->shard_group,
        l->sequence_parallel,
        l->context > 1 ? l->context_dimension : 0,
        l->schedule,
        l->chunks,
        l->chunk_group,
        l->micro_batch,
        l->batch,
        l->sequence,
        l->dtype,
        l->zero,
        l->reshard,
        l->recompute,
        l->recompute_first,
        (int64_t)l->excepted,
        l->offload,
        l->prefetch,
        l->loss_chunks,
        l->bucket_bytes,
    };
    memcpy(out, numbers, sizeof numbers);
}

bool launch_equal(const struct launch *a, const struct launch *b)
{
    int64_t of_a[LAUNCH_NUMBERS], of_b[LAUNCH_NUMBERS];
    bool whole = a->pipeline == 1 && a->chunks == 1;
    put_numbers(of_a, a);
    put_numbers(of_b, b);
    if (memcmp(of_a, of_b, sizeof of_a) != 0 || !optimizer_equal(&a->optimizer, &b->optimizer) ||
        a->clip_norm != b->clip_norm || a->further != b->further)
        return false;
    for (int i = 0; !whole && i < a->piece_count; i++)
        if (a->piece_count != b->piece_count || a->piece_blocks[i] != b->piece_blocks[i])
            return false;
    return whole || (a->piece_count == b->piece_count && (a->further == 0 || a->further_piece == b->further_piece));
}

int64_t launch_score_bytes(const struct launch *launch, const struct launch_context *context)
{
    int64_t most = 0;
    for (int i = 0; context->graph && i < context->graph->segment_count; i++) {
        const struct segment *segment = &context->graph->segments[i];
        if (!segment_keeps_scores(segment))
            continue;
        int64_t bytes = element_bytes(launch->dtype, segment->arguments.kept_scores);
        const int64_t sizes[] = { launch->micro_batch, launch->sequence, launch->sequence,
                                  ceil_div(segment->axes[segment_axis(segment, TAG_HEAD)].size, launch->tensor) };
        for (int k = 0; k < 4; k++)
            mul_i64(&bytes, bytes, sizes[k]);
        most = max_i64(most, bytes);
    }
    return most;
}
