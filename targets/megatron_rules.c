/* Which launches Megatron-Core can be told. */
#include "base/num.h"
#include "targets/decoder.h"
#include "models/kinds/layers.h"
#include "planner/program/schedule.h"
#include "planner/space/space.h"
#include "targets/launch_text.h"
#include "targets/megatron.h"
#include <string.h>

static const struct attention_layer *attention_of(const struct launch_context *context)
{
    const struct model *model = context->model;
    for (int i = 0; model && i < model->layer_count; i++)
        if (strcmp(model->layers[i].kind->name, "attention") == 0)
            return model->layers[i].fields;
    return NULL;
}

static const struct moe_layer *experts_of(const struct launch_context *context)
{
    const struct model *model = context->model;
    for (int i = 0; model && i < model->layer_count; i++)
        if (strcmp(model->layers[i].kind->name, "moe") == 0)
            return model->layers[i].fields;
    return NULL;
}

static int64_t heads_of(const struct launch_context *context)
{
    const struct model *model = context->model;
    const struct attention_layer *attention = attention_of(context);
    for (int i = 0; model && !attention && i < model->layer_count; i++)
        if (strcmp(model->layers[i].kind->name, "latent_attention") == 0)
            return ((const struct latent_attention_layer *)model->layers[i].fields)->heads;
    return attention ? attention->heads : 0;
}

int64_t megatron_blocks(const struct model *model)
{
    enum { OTHERS = 3, OF_BLOCK = 2, OF_FURTHER = 4 }; /* embedding, head, loss; what joins, two of a block, its loss */
    return (model_unfolded_count(model) - OTHERS - OF_FURTHER * decoder_further(model)) / OF_BLOCK;
}

static int64_t blocks_of(const struct launch_context *context)
{
    return context->model ? megatron_blocks(context->model) : 0;
}

static bool interleaves(const struct launch *l)
{
    return l->schedule == SCHEDULE_interleaved;
}

static bool describes(struct text *why, const struct launch_context *c)
{
    struct megatron_args args = megatron_defaults;
    struct arena arena = { 0 };
    bool holds = !c->model || megatron_of_model(&args, &arena, why, c->model);
    arena_free(&arena);
    return holds;
}

static bool model_rule(const struct launch *l, const struct launch_context *c)
{
    struct text why = { 0 };
    (void)l;
    bool holds = describes(&why, c) || why.failed; /* want of memory is no refusal: what is written is read back */
    text_free(&why);
    return holds;
}

static void model_detail(struct text *out, const struct launch *l, const struct launch_context *c)
{
    (void)l;
    describes(out, c);
}

static bool devices_rule(const struct launch *l, const struct launch_context *c)
{
    return l->data == 0 || c->device_count == 0 || launch_devices(l) == c->device_count;
}

static bool sp_rule(const struct launch *l, const struct launch_context *c)
{
    (void)c;
    return !l->sequence_parallel || l->tensor > 1;
}

static bool experts_sp_rule(const struct launch *l, const struct launch_context *c)
{
    return l->tensor == 1 || l->sequence_parallel || !experts_of(c);
}

static bool heads_rule(const struct launch *l, const struct launch_context *c)
{
    return heads_of(c) % l->tensor == 0;
}

static bool groups_rule(const struct launch *l, const struct launch_context *c)
{
    const struct attention_layer *f = attention_of(c);
    return !f || f->kv_heads % l->tensor == 0 || l->tensor % f->kv_heads == 0;
}

static bool experts_rule(const struct launch *l, const struct launch_context *c)
{
    const struct moe_layer *f = experts_of(c);
    return l->expert == 1 || !c->model || (f && f->experts % l->expert == 0);
}

static bool expert_ranks_rule(const struct launch *l, const struct launch_context *c)
{
    (void)c;
    int64_t tensor = l->experts_whole ? l->tensor : 1, ranks = tensor * l->context;
    return l->expert == 1 || (l->expert % ranks == 0 && (l->data == 0 || l->data * ranks % l->expert == 0));
}

static void expert_ranks_detail(struct text *out, const struct launch *l, const struct launch_context *c)
{
    (void)c;
    int64_t ranks = (l->experts_whole ? l->tensor : 1) * l->context;
    text_printf(out, "%lld over %lld of data", (long long)l->expert, (long long)l->data);
    if (l->expert % ranks == 0)
        text_printf(out, "; it takes a multiple of %lld devices",
                    (long long)(l->tensor * l->context * l->pipeline * (l->expert / ranks)));
}

static bool expert_tensor_rule(const struct launch *l, const struct launch_context *c)
{
    (void)c;
    return !l->experts_whole || (l->tensor > 1 && l->sequence_parallel && l->expert > 1);
}

static bool schedule_rule(const struct launch *l, const struct launch_context *c)
{
    (void)c;
    return l->schedule == SCHEDULE_one_f_one_b || interleaves(l);
}

static bool chunks_rule(const struct launch *l, const struct launch_context *c)
{
    (void)c;
    return interleaves(l) ? l->chunks > 1 && l->pipeline > 1 : l->chunks <= 1;
}

static bool batch_rule(const struct launch *l, const struct launch_context *c)
{
    (void)c;
    return l->micro_batch > 0 && (l->data == 0 || l->batch == 0 || l->batch % (l->micro_batch * l->data) == 0);
}

static void batch_detail(struct text *out, const struct launch *l, const struct launch_context *c)
{
    (void)c;
    text_printf(out, "a batch of %lld, micro-batches of %lld on %lld data-parallel ranks", (long long)l->batch,
                (long long)l->micro_batch, (long long)l->data);
}

static bool group_rule(const struct launch *l, const struct launch_context *c)
{
    (void)c;
    int64_t counts = l->data > 0 && l->micro_batch > 0 ? l->batch / (l->micro_batch * l->data) : 0;
    int64_t group = l->chunk_group > 0 ? l->chunk_group : l->pipeline;
    return !interleaves(l) || counts == 0 ||
           (counts <= PLAN_MAX_MICRO_BATCHES && group <= counts &&
            schedule_group_legal((int)l->pipeline, (int)counts, (int)group));
}

static bool pieces_rule(const struct launch *l, const struct launch_context *c)
{
    int64_t chunks = max_i64(l->chunks, 1), blocks = blocks_of(c), sum = 0;
    if (!l->piece_blocks)
        return blocks % (l->pipeline * chunks) == 0;
    for (int i = 0; i < l->piece_count; i++) {
        if (l->piece_blocks[i] < 0)
            return false;
        sum += l->piece_blocks[i];
    }
    return l->piece_count == l->pipeline * chunks && (blocks == 0 || sum == blocks);
}

static bool further_rule(const struct launch *l, const struct launch_context *c)
{
    int64_t pieces = l->pipeline * l->chunks;
    bool last = true; /* no block of the trunk behind them */
    if (c->model && l->further != decoder_further(c->model))
        return false;
    for (int i = l->further_piece + 1; l->piece_blocks && i < l->piece_count; i++)
        last = last && l->piece_blocks[i] == 0;
    return l->further == 0 || (last && l->further_piece >= pieces - l->pipeline && l->further_piece < pieces &&
                               (l->further == 1 || l->further_piece == pieces - 1));
}

static bool sequence_rule(const struct launch *l, const struct launch_context *c)
{
    (void)c;
    return l->context == 1 || l->sequence % (2 * l->context) == 0;
}

static bool positions_rule(const struct launch *l, const struct launch_context *c)
{
    const struct embedding_layer *f = c->model ? c->model->layers[0].fields : NULL;
    bool learned = f && strcmp(c->model->layers[0].kind->name, "embedding") == 0 && f->learned_positions > 0;
    return !learned || l->sequence <= f->learned_positions;
}

static bool sp_sequence_rule(const struct launch *l, const struct launch_context *c)
{
    (void)c;
    return !l->sequence_parallel || l->sequence % (l->tensor * l->context) == 0;
}

static bool context_rule(const struct launch *l, const struct launch_context *c)
{
    const struct attention_layer *f = attention_of(c);
    if (l->context == 1)
        return true;
    if (l->context_dimension == DIM_cp_ulysses)
        return heads_of(c) % (l->tensor * l->context) == 0 && (!f || f->kv_heads % (l->tensor * l->context) == 0);
    return l->context_dimension == DIM_cp_ring || l->context_dimension == DIM_cp_gather;
}

static bool zero_rule(const struct launch *l, const struct launch_context *c)
{
    (void)c;
    return l->zero == 0 || l->zero == 1;
}

static bool instances_rule(const struct launch *l, const struct launch_context *c)
{
    (void)c;
    return l->shard_group == 0 || l->shard_group == l->data || l->data == 0 ||
           (l->zero == 1 && l->data % l->shard_group == 0);
}

static bool recompute_rule(const struct launch *l, const struct launch_context *c)
{
    (void)c;
    return (l->recompute == RECOMPUTE_NONE && l->recompute_first == 0) ||
           (l->recompute == RECOMPUTE_BLOCK && l->recompute_first >= 0 && l->excepted == 0);
}

static bool modules_rule(const struct launch *l, const struct launch_context *c)
{
    return l->recompute != RECOMPUTE_NONE || megatron_modules(NULL, l->excepted, c);
}

static bool offload_rule(const struct launch *l, const struct launch_context *c)
{
    (void)c;
    bool alone = l->data * l->context == 1;
    return l->offload == OFFLOAD_NONE || (l->offload == OFFLOAD_OPTIMIZER && (l->zero == 1 || alone));
}

/* All in 32 bit; or the precision-aware one, which with weights in bf16 keeps the remainders of the copy alone, and
 * under fp8 that it does not scale by history all of it. */
static bool optimizer_rule(const struct launch *l, const struct launch_context *c)
{
    (void)c;
    const struct optimizer *o = &l->optimizer;
    if (megatron_is_precision_aware(o))
        return o->rule == OPTIMIZER_ADAMW && o->moments != MOMENTS_EIGHT && o->gradients != GRADIENTS_FP16 &&
               l->dtype != DTYPE_FP32 && (o->master == MASTER_FP16 || o->master == megatron_kept_master(l->dtype));
    return o->gradients != GRADIENTS_FP16;
}

static bool bridge_optimizer_rule(const struct launch *l, const struct launch_context *c)
{
    return l->optimizer.rule == OPTIMIZER_ADAMW && l->optimizer.gradients != GRADIENTS_BF16 && optimizer_rule(l, c);
}

/* Names the copy of weights, too, where it is at fault, and what to type for it. */
static void optimizer_detail(struct text *out, const struct launch *l, const struct launch_context *c)
{
    const struct optimizer *o = &l->optimizer;
    launch_optimizer_detail(out, l, c);
    if (o->rule == OPTIMIZER_ADAMW && o->moments != MOMENTS_FULL && o->master == MASTER_KEPT && l->dtype != DTYPE_FP32)
        text_printf(out, ", master_weights %s (type --master-weights %s)", optimizer_master_names[MASTER_KEPT],
                    optimizer_master_names[megatron_kept_master(l->dtype)]);
}

static bool optimizer_offload_rule(const struct launch *l, const struct launch_context *c)
{
    (void)c;
    return !megatron_is_precision_aware(&l->optimizer) || l->offload == OFFLOAD_NONE;
}

static void optimizer_offload_detail(struct text *out, const struct launch *l, const struct launch_context *c)
{
    launch_optimizer_detail(out, l, c);
    text_printf(out, ", offload %s", offload_names[l->offload]);
}

static bool optimizer_zero_rule(const struct launch *l, const struct launch_context *c)
{
    (void)c;
    if (megatron_is_precision_aware(&l->optimizer))
        return l->zero == 1 || l->data * l->context == 1;
    return l->optimizer.rule == OPTIMIZER_ADAMW || (l->zero == 0 && l->offload == OFFLOAD_NONE);
}

static bool loss_rule(const struct launch *l, const struct launch_context *c)
{
    (void)c;
    return l->loss_chunks <= 1;
}

static bool dtype_rule(const struct launch *l, const struct launch_context *c)
{
    (void)c;
    return l->dtype != DTYPE_FP64;
}

static bool bucket_rule(const struct launch *l, const struct launch_context *c)
{
    (void)c;
    return (l->bucket_bytes == 0 || l->bucket_bytes >= 8) && l->bucket_bytes <= INT64_C(1) << 40 &&
           l->bucket_bytes % 4 == 0;
}

static bool bridge_positions_rule(const struct launch *l, const struct launch_context *c)
{
    const struct embedding_layer *f = c->model ? c->model->layers[0].fields : NULL;
    bool learned = f && strcmp(c->model->layers[0].kind->name, "embedding") == 0 && f->learned_positions > 0;
    return !learned || l->sequence == f->learned_positions;
}

#define TRANSFORMER "megatron/core/transformer/transformer_config.py, TransformerConfig.__post_init__"
#define ARGUMENTS "megatron/training/arguments.py, validate_args"
#define SCHEDULES "megatron/core/pipeline_parallel/schedules.py, forward_backward_pipelining_with_interleaving"
/* clang-format off */
#define RULES \
    LAUNCH_RULE_NODES, { "ranks-are-devices", "tensor x context x pipeline x data is the number of devices", ARGUMENTS, devices_rule, \
      NULL }, \
    { "sp-needs-tp", "sequence parallelism needs a tensor degree above 1", ARGUMENTS, sp_rule, NULL }, \
    { "experts-with-tp-need-sp", "a mixture of experts with a tensor degree above 1 needs sequence parallelism", \
      "megatron/core/transformer/moe/moe_layer.py, MoELayer.forward", experts_sp_rule, NULL }, \
    { "tp-divides-heads", "the tensor degree divides the attention heads", TRANSFORMER, heads_rule, NULL }, \
    { "tp-and-query-groups", "the key and value heads are a multiple or a divisor of the tensor degree", TRANSFORMER, \
      groups_rule, NULL }, \
    { "ep-divides-experts", "the expert degree divides the experts, and is 1 without any", ARGUMENTS, experts_rule, \
      NULL }, \
    { "etp", "experts are whole on each rank, with an expert tensor degree of 1, where a tensor degree with sequence " \
      "parallelism leaves ranks other tokens and the experts are shared out", \
      "megatron/core/parallel_state.py, initialize_model_parallel", expert_tensor_rule, NULL }, \
    { "ep-divides-data", "the expert degree divides the ranks that have other tokens, and takes those of context, and " \
      "of the tensor degree where experts are whole, all together", \
      "megatron/core/parallel_state.py, initialize_model_parallel", expert_ranks_rule, expert_ranks_detail }, \
    { "schedules", "the schedule is 1f1b or interleaved", \
      "megatron/core/pipeline_parallel/schedules.py, get_forward_backward_func", schedule_rule, NULL }, \
    { "interleaved-needs-stages", \
      "the interleaved schedule has several chunks of a stage and several stages, others one chunk", ARGUMENTS, \
      chunks_rule, NULL }, \
    { "batch-divides", "the batch is a multiple of the micro-batch times the data degree", \
      "megatron/core/num_microbatches_calculator.py", batch_rule, batch_detail }, \
    { "interleaved-groups", "under the interleaved schedule the micro-batches are a multiple of the stages, or of " \
      "--microbatch-group-size-per-virtual-pipeline-stage but for a rest of at least as many as stages", SCHEDULES, \
      group_rule, NULL }, \
    { "layout", "the pieces hold all blocks of the model, in whole blocks, or as many each", \
      "megatron/core/transformer/pipeline_parallel_layer_layout.py, validate_layer_layout", pieces_rule, NULL }, \
    { "mtp", "blocks that predict further tokens are the model's, behind all others in the last chunk of one stage, " \
      "several with the loss", \
      "megatron/core/transformer/pipeline_parallel_layer_layout.py, validate_layer_layout", further_rule, NULL }, \
    { "cp-divides-sequence", "the sequence is a multiple of twice the context degree", ARGUMENTS, sequence_rule, NULL }, \
    { "positions", "the sequence has no more tokens than the model has learned positions", ARGUMENTS, positions_rule, \
      NULL }, \
    { "sp-divides-sequence", "with sequence parallelism the sequence is a multiple of tensor times context degree", \
      "megatron/core/tensor_parallel/mappings.py, _split_along_first_dim", sp_sequence_rule, NULL }, \
    { "cp-kind", \
      "context ranks go by ring or gather, or by all-to-all where they and the tensor ranks divide all heads", \
      "megatron/core/transformer/transformer_config.py, cp_comm_type", context_rule, NULL }, \
    { "zero", "ZeRO is 0 or 1, the distributed optimizer", \
      "megatron/core/distributed/distributed_data_parallel_config.py", zero_rule, NULL }, \
    { "optimizer-instances", "groups of shards need the distributed optimizer and divide the data ranks", \
      "megatron/core/parallel_state.py, initialize_model_parallel", instances_rule, NULL }, \
    { "recompute", "blocks are computed again as a whole, all or the first ones of each piece, or modules of blocks that are kept", TRANSFORMER, \
      recompute_rule, NULL }, \
    { "recompute-modules", "what is computed again of a block is what modules of --recompute-modules make", TRANSFORMER, \
      modules_rule, NULL }, \
    { "offload", "nothing is kept in host memory but the optimizer's state, with ZeRO 1", ARGUMENTS, offload_rule, \
      NULL }, \
    { "loss-in-one", "head and loss run in one chunk", "megatron/core/models/gpt/gpt_model.py", loss_rule, NULL }, \
    { "dtype", "the dtype is not fp64", ARGUMENTS, dtype_rule, NULL }, \
    { "bucket", "buckets hold whole gradients, at most 1 TiB, which is one bucket of all", \
      "megatron/core/distributed/distributed_data_parallel.py", bucket_rule, NULL }, \
    LAUNCH_RULE_CAUSAL("megatron/core/models/gpt/gpt_model.py"), \
    { "model", "the model is one that the arguments describe", "megatron/training/arguments.py, _add_network_size_args", \
      model_rule, model_detail },
#define OFFLOAD_OF_NARROW \
    { "optimizer-offload", "moments and copies of weights in fewer than 32 bits are not offloaded: they go with " \
      "offload none (--fix offload=none, no --optimizer-cpu-offload), what is offloaded with --moments fp32 " \
      "--master-weights fp32", \
      "megatron/core/optimizer/optimizer_config.py, use_precision_aware_optimizer", optimizer_offload_rule, \
      optimizer_offload_detail }
/* clang-format on */

const struct target_rule megatron_rules[] = {
    RULES{ "optimizer",
           "the optimizer is AdamW, SGD or Muon; --moments bf16 or fp8 go with --master-weights remainder (fp32 under "
           "fp8) or fp16",
           "megatron/core/optimizer/optimizer_config.py, use_precision_aware_optimizer, store_param_remainders",
           optimizer_rule, optimizer_detail },
    OFFLOAD_OF_NARROW,
    { "optimizer-zero", "narrow moments go with the distributed optimizer, SGD and Muon without it",
      "megatron/core/optimizer/distrib_optimizer.py", optimizer_zero_rule, launch_optimizer_detail },
    { 0 }
};
const struct target_rule megatron_bridge_rules[] = {
    RULES{ "learned-positions", "learned positions are as many as the sequence has tokens",
           "Megatron-Bridge, models/gpt_provider.py, provide", bridge_positions_rule, NULL },
    { "optimizer",
      "the optimizer is AdamW, all in 32 bit, or the precision-aware one: --moments fp32, bf16 or fp8 with "
      "--master-weights remainder (of weights in bf16; fp32 under fp8) or fp16; gradients in 16 or 32",
      "Megatron-Bridge, recipes/utils/optimizer_utils.py, recipes/deepseek/h100/deepseek_v3.py", bridge_optimizer_rule,
      optimizer_detail },
    OFFLOAD_OF_NARROW,
    { "optimizer-zero", "narrow moments go with the distributed optimizer",
      "megatron/core/optimizer/optimizer_config.py", optimizer_zero_rule, launch_optimizer_detail },
    { 0 }
};

/* ---- the space ---- */

/* Keeps of the choice's values those that are allowed; the first of these where none was. */
static void only(struct allowed *choice, const int64_t *values, int count)
{
    struct allowed kept = { 0 };
    for (int i = 0; i < count; i++)
        if (choice->count == 0 || allowed_has(choice, values[i]))
            kept.values[kept.count++] = values[i];
    if (kept.count == 0)
        kept = allowed_only(values[0]);
    *choice = kept;
}
#define ONLY_VALUES(choice, ...)                                                                                       \
    only(choice, (const int64_t[]){ __VA_ARGS__ }, sizeof((const int64_t[]){ __VA_ARGS__ }) / sizeof(int64_t))

static uint64_t set_of(const char *names, uint64_t has)
{
    uint64_t set = 0;
    return operators_read(&set, names) ? set & has : 0;
}

static void allow_modules(struct space *space, const struct graph *graph)
{
    static const char *const sets[] = {
        "core",
        "norm",
        "gate+up+act",
        "norm+gate+up+act",
        "expert_act",
        "norm+expert_act",
        "dispatch+expert_gate+expert_up+expert_act+expert_down+shared_gate+shared_up+shared_act",
        "norm+dispatch+expert_gate+expert_up+expert_act+expert_down+shared_gate+shared_up+shared_act"
    };
    uint64_t has = megatron_graph_operators(graph);
    bool latent = (has & set_of("kv_down", has)) != 0;
    uint64_t projections = latent ? set_of("q+k+v+rope_q+join_k", has) : 0;
    /* Of latent attention the projections are the first to go: they cost little and hold much. */
    bool usual = space_is_default(space, CHOICE_EXCEPT);
    struct allowed kept = { .count = 1 };
    for (size_t i = 0; i < sizeof sets / sizeof *sets; i++)
        for (int up = usual && projections; up <= (projections != 0); up++) {
            int64_t set = (int64_t)(set_of(sets[i], has) | (up ? projections : 0));
            if (set && !allowed_has(&kept, set) && kept.count < SPACE_VALUES)
                kept.values[kept.count++] = set;
        }
    if (usual)
        space->excepted = kept;
    else
        only(&space->excepted, kept.values, kept.count);
}

/* What is tried where nobody says it: many experts are whole, of which there are enough for all ranks (to
 * share them over context ranks too takes 1.15 to 1.3 of the time of `plan --target megatron-lm` for deepseek-v3,
 * qwen3-30b-a3b and deepseek-moe-16b, and the plans are the same); context parallelism, of three kinds for each way to
 * share them out, is for long sequences and whoever asks for it (qwen3-30b-a3b on 64 H100: steps of 131,072 tokens a
 * sequence are 3.4 % shorter with it, of 32,768 1.6 % in three times the time to plan, of 4096 the same). */
static void allow_experts(struct space *space, const struct graph *graph, int64_t experts)
{
    enum { MANY_EXPERTS = 64, LONG_SEQUENCE = 65536 };
    if (experts > 1 && graph->sequence < LONG_SEQUENCE && space_is_default(space, CHOICE_CP))
        space->context = allowed_only(1);
    if (!space_is_default(space, CHOICE_EP_OVER))
        ONLY_VALUES(&space->experts_over, EXPERTS_OVER_CONTEXT, EXPERTS_OVER_TENSOR);
    else if (experts >= MANY_EXPERTS)
        space->experts_over = allowed_only(EXPERTS_OVER_TENSOR);
    else
        space->experts_over = (struct allowed){ 2, { EXPERTS_OVER_CONTEXT, EXPERTS_OVER_TENSOR } };
}

void megatron_allow(struct space *space, const struct graph *graph)
{
    bool default_bucket = space_is_default(space, CHOICE_BUCKET);
    ONLY_VALUES(&space->schedule, SCHEDULE_one_f_one_b, SCHEDULE_interleaved);
    ONLY_VALUES(&space->tensor_dimension, DIM_tp);
    ONLY_VALUES(&space->data_dimension, DIM_dp);
    ONLY_VALUES(&space->context_dimension, DIM_cp_ring, DIM_cp_gather, DIM_cp_ulysses);
    allow_experts(space, graph, legal_most_experts(graph));
    ONLY_VALUES(&space->mesh_order, ORDER_TENSOR_INSIDE);
    ONLY_VALUES(&space->turns, 1);
    ONLY_VALUES(&space->extra, 0);
    ONLY_VALUES(&space->loss_chunks, 1);
    ONLY_VALUES(&space->prefetch, 1);
    if (megatron_is_precision_aware(&space->optimizer))
        ONLY_VALUES(&space->zero, 1);
    else if (space->optimizer.rule != OPTIMIZER_ADAMW)
        ONLY_VALUES(&space->zero, 0);
    else
        ONLY_VALUES(&space->zero, 0, 1);
    if (space_is_default(space, CHOICE_RECOMPUTE))
        space->recompute = (struct allowed){ 2, { RECOMPUTE_NONE, RECOMPUTE_BLOCK } };
    else
        ONLY_VALUES(&space->recompute, RECOMPUTE_NONE, RECOMPUTE_BLOCK);
    ONLY_VALUES(&space->slices, 1);
    ONLY_VALUES(&space->reshard, RESHARD_EACH_PASS);
    ONLY_VALUES(&space->replicate, 0);
    if (space_is_default(space, CHOICE_OFFLOAD))
        ONLY_VALUES(&space->offload, OFFLOAD_NONE);
    else
        ONLY_VALUES(&space->offload, OFFLOAD_NONE, OFFLOAD_OPTIMIZER);
    allow_modules(space, graph);
    if (default_bucket) /* of 40 million gradients (distributed_data_parallel.py) */
        space_set_bucket_bytes(space, 40000000 * optimizer_gradient_bytes(
                                                     &space->optimizer, graph->keeping.narrow_gradients, space->dtype));
}
