#include "targets/torchtitan/torchtitan.h"
#include "planner/space/space.h"
#include "targets/launch_text.h"
#include <string.h>
#include <strings.h>

const struct titan_model titan_models[] = {
    { "llama3", "8B", "llama3_8b", 4096, 32, 32, 8, 14336, 0, 128256, NULL, NULL },
    { "llama3", "70B", "llama3_70b", 8192, 80, 64, 8, 28672, 0, 128256, NULL, NULL },
    { "llama3", "405B", "llama3_70b", 16384, 126, 128, 8, 53248, 0, 128256, NULL, NULL },
    { "qwen3", "0.6B", "qwen3_0_6b", 1024, 28, 16, 8, 3072, 0, 151936, NULL, "Qwen/Qwen3-0.6B" },
    { "qwen3", "1.7B", "qwen3_1_7b", 2048, 28, 16, 8, 6144, 0, 151936, NULL, "Qwen/Qwen3-1.7B" },
    { "qwen3", "4B", "qwen3_1_7b", 2560, 36, 32, 8, 9728, 0, 151936, NULL, "Qwen/Qwen3-4B" },
    { "qwen3", "8B", "qwen3_14b", 4096, 36, 32, 8, 12288, 0, 151936, "qwen3-8b", NULL },
    { "qwen3", "14B", "qwen3_14b", 5120, 40, 40, 8, 17408, 0, 151936, NULL, "Qwen/Qwen3-14B" },
    { "qwen3", "32B", "qwen3_32b", 5120, 64, 64, 8, 25600, 0, 151936, "qwen3-32b", NULL },
    { "qwen3", "30B-A3B", "qwen3_30b_a3b", 2048, 48, 32, 4, 0, 128, 151936, "qwen3-30b-a3b", NULL },
    { "qwen3", "235B-A22B", "qwen3_30b_a3b", 4096, 94, 64, 4, 0, 128, 151936, "qwen3-235b-a22b", NULL },
    { "deepseek_v3", "16B", "deepseek_v3_16b", 2048, 27, 16, 16, 10944, 64, 102400, NULL,
      "deepseek-ai/DeepSeek-V2-Lite" },
    { "deepseek_v3", "671B", "deepseek_v3_671b", 7168, 61, 128, 128, 18432, 256, 129280, "deepseek-v3", NULL },
    { "gpt_oss", "20b", "gpt_oss_20b", 2880, 24, 64, 8, 0, 32, 201088, "gpt-oss-20b", NULL },
    { "gpt_oss", "120b", "gpt_oss_120b", 2880, 36, 64, 8, 0, 128, 201088, "gpt-oss-120b", NULL },
    { 0 },
};

bool titan_describes(const struct titan_model *model)
{
    return !model || strcmp(model->module, "llama3") == 0;
}

const struct titan_model *titan_model_of(const struct decoder *decoder)
{
    for (const struct titan_model *m = titan_models; m->module; m++)
        if (m->hidden == decoder->hidden && m->blocks == decoder->blocks && m->heads == decoder->heads &&
            m->kv_heads == decoder->kv_heads && m->experts == decoder->experts &&
            (m->inner == 0 || m->inner == decoder->inner) && m->vocab_size == decoder->vocab_size)
            return m;
    return NULL;
}

uint64_t titan_kept(bool exchanged)
{
    uint64_t set = 0;
    operators_read(&set, exchanged ? "q+k+v+core+gate+down+shared_gate+shared_down+dispatch+expert_down"
                                   : "q+k+v+core+gate+down");
    return set;
}

/* get_schedule_class(): names of torch, and of those that are the same here. */
static const struct {
    const char *name;
    int schedule;
} pipelines[] = {
    { "1F1B", SCHEDULE_one_f_one_b },
    { "GPipe", SCHEDULE_gpipe },
    { "Interleaved1F1B", SCHEDULE_interleaved },
    { "ZBVZeroBubble", SCHEDULE_zb_v },
    { "LoopedBFS", -1 },
    { "InterleavedZeroBubble", -1 },
    { "DualPipeV", -1 },
};
enum { PIPELINES = sizeof pipelines / sizeof *pipelines };

const char *titan_schedule(int schedule)
{
    for (int i = 0; i < PIPELINES; i++)
        if (pipelines[i].schedule == schedule)
            return pipelines[i].name;
    return NULL;
}

int titan_schedule_named(const char *name)
{
    for (int i = 0; i < PIPELINES; i++)
        if (strcasecmp(pipelines[i].name, name) == 0)
            return pipelines[i].schedule;
    return -2;
}

static int64_t kv_heads(const struct launch_context *context)
{
    return context->model ? decoder_of(context->model).kv_heads : 0;
}
static bool has_experts(const struct launch_context *context)
{
    return context->model && decoder_of(context->model).experts > 0;
}

static bool model_is_known(const struct launch *launch, const struct launch_context *context)
{
    (void)launch;
    struct decoder decoder = { 0 };
    if (context->model)
        decoder = decoder_of(context->model);
    return !context->model || titan_model_of(&decoder) || decoder.llama;
}
static bool kv_heads_divide(const struct launch *launch, const struct launch_context *context)
{
    return kv_heads(context) % launch->tensor == 0;
}
static bool sequence_divides(const struct launch *launch, const struct launch_context *context)
{
    (void)context;
    int64_t parts = (launch->sequence_parallel ? launch->tensor : 1) * (launch->context > 1 ? 2 * launch->context : 1);
    return launch->sequence % parts == 0;
}
static bool sp_has_tp(const struct launch *launch, const struct launch_context *context)
{
    (void)context;
    return !launch->sequence_parallel || launch->tensor > 1;
}
static bool context_gathers(const struct launch *launch, const struct launch_context *context)
{
    (void)context;
    return launch->context == 1 || launch->context_dimension == DIM_cp_gather;
}
static bool shards_all_or_nothing(const struct launch *launch, const struct launch_context *context)
{
    (void)context;
    return launch->zero == 3 || (launch->zero == 0 && launch->context == 1);
}
static bool groups_divide(const struct launch *launch, const struct launch_context *context)
{
    (void)context;
    return launch->shard_group == 0 || (launch->zero == 3 && launch->data % launch->shard_group == 0);
}
static bool kept_in_pipelines(const struct launch *launch, const struct launch_context *context)
{
    (void)context;
    return launch->zero < 3 || launch->reshard == RESHARD_EACH_PASS || launch->pipeline > 1 ||
           launch_micro_batches(launch) == 1;
}
/* The innermost ranks: those of the tensor degree, whose experts are whole, then of context, then of shards, which
 * there are none of where weights are replicated. */
static bool experts_are_innermost(const struct launch *launch, const struct launch_context *context)
{
    (void)context;
    int64_t ranks = launch->tensor * launch->context, group = launch->zero == 0         ? 1
                                                              : launch->shard_group > 0 ? launch->shard_group
                                                                                        : launch->data;
    return launch->expert == 1 ||
           (launch->experts_whole == (launch->tensor > 1) && launch->sequence_parallel == (launch->tensor > 1) &&
            launch->expert % ranks == 0 && group * ranks % launch->expert == 0);
}
static bool schedule_is_known(const struct launch *launch, const struct launch_context *context)
{
    (void)context;
    return launch->pipeline == 1 || (launch->schedule != SCHEDULE_zb_v && titan_schedule(launch->schedule) != NULL);
}
static bool chunks_fit(const struct launch *launch, const struct launch_context *context)
{
    (void)context;
    if (launch->pipeline == 1)
        return launch->chunks == 1;
    bool loops = launch->schedule == SCHEDULE_interleaved, folds = launch->schedule == SCHEDULE_zb_v;
    return loops ? launch->chunks > 1 : launch->chunks == (folds ? 2 : 1);
}
static bool fills_1f1b(const struct launch *launch, const struct launch_context *context)
{
    (void)context;
    return launch->pipeline == 1 || launch->schedule != SCHEDULE_one_f_one_b ||
           launch_micro_batches(launch) >= launch->pipeline;
}
static bool rounds_fit(const struct launch *launch, const struct launch_context *context)
{
    (void)context;
    int64_t count = launch_micro_batches(launch), rounds = count / launch->pipeline;
    int64_t group = launch->chunk_group > 0 ? launch->chunk_group : launch->pipeline;
    return launch->pipeline == 1 || launch->schedule != SCHEDULE_interleaved || rounds == 0 ||
           (count % rounds == 0 && count / rounds == group);
}
static bool pieces_fit(const struct launch *launch, const struct launch_context *context)
{
    (void)context;
    if (launch->pipeline == 1)
        return true;
    if (!launch->piece_blocks)
        return launch->chunks <= 2;
    for (int i = 1; i + 1 < launch->piece_count; i++)
        if (launch->piece_blocks[i] < 1)
            return false;
    return launch->piece_count == launch->pipeline * launch->chunks;
}
static bool no_tied_pipeline(const struct launch *launch, const struct launch_context *context)
{
    return launch->pipeline == 1 || !context->model || !context->model->tied_embedding;
}
static bool recompute_is_known(const struct launch *launch, const struct launch_context *context)
{
    bool exchanged = has_experts(context) && launch->expert > 1,
         selective = launch->recompute == RECOMPUTE_BLOCK && launch->excepted == titan_kept(exchanged);
    if (launch->recompute_first > 0)
        return false;
    return launch->excepted == 0 ? launch->recompute == RECOMPUTE_NONE || launch->recompute == RECOMPUTE_BLOCK
                                 : selective;
}
/* It is FSDP2 that offloads, which one rank does not have. */
static bool offloads_all_or_nothing(const struct launch *launch, const struct launch_context *context)
{
    (void)context;
    return launch->offload == OFFLOAD_NONE || (launch->offload == (OFFLOAD_OPTIMIZER | OFFLOAD_PARAMETERS) &&
                                               launch->zero == 3 && launch->data * launch->context > 1);
}
static bool dtype_is_known(const struct launch *launch, const struct launch_context *context)
{
    (void)context;
    return launch->dtype == DTYPE_BF16 || launch->dtype == DTYPE_FP32 || launch->dtype == DTYPE_FP8;
}
/* Products with an extent that is no multiple of 16 would stay in 16 bit. */
static bool widths_convert(const struct launch *launch, const struct launch_context *context)
{
    struct decoder d = { 0 };
    if (context->model)
        d = decoder_of(context->model);
    return launch->dtype != DTYPE_FP8 || (d.hidden % 16 == 0 && d.inner % 16 == 0 && d.expert_inner % 16 == 0 &&
                                          d.heads * d.head_dim % 16 == 0 && d.kv_heads * d.head_dim % 16 == 0);
}
const struct optimizer titan_narrow = { .moments = MOMENTS_BF16, .master = MASTER_NONE, .gradients = GRADIENTS_BF16 };

/* Its training.dtype: weights, gradients and state all in bf16, or all in 32 bit. */
static bool optimizer_is_known(const struct launch *launch, const struct launch_context *context)
{
    (void)context;
    return optimizer_is_usual(&launch->optimizer) || optimizer_equal(&launch->optimizer, &titan_narrow);
}
static bool chunks_are_even(const struct launch *launch, const struct launch_context *context)
{
    (void)context;
    return launch->sequence % launch->loss_chunks == 0;
}
static void chunks_detail(struct text *out, const struct launch *launch, const struct launch_context *context)
{
    (void)context;
    text_printf(out, "%lld of %lld tokens", (long long)launch->loss_chunks, (long long)launch->sequence);
}
static bool blocks_are_buckets(const struct launch *launch, const struct launch_context *context)
{
    (void)context;
    return launch->bucket_bytes == TITAN_BUCKET_BYTES && launch->prefetch == 1;
}
static bool clips(const struct launch *launch, const struct launch_context *context)
{
    (void)context;
    return launch->clip_norm > 0;
}

/* Rules of what is written, which blocks that are not compiled go beyond. */
const char *const titan_uncompiled[] = { "schedule", NULL };

static const struct target_rule rules[] = {
    LAUNCH_RULE_NODES,
    LAUNCH_RULE_CAUSAL("torchtitan/models/*/__init__.py"),
    { "model",
      "the model is of a shape that the release has, or a llama: RMS norm, SwiGLU, rotary positions, no biases",
      "torchtitan/models/*/__init__.py", model_is_known, NULL },
    { "model", "all weights are trained: its adapters are for fused matrices, and what is frozen stays in 32 bit",
      "torchtitan/components/lora.py, LoRAConverter; config/configs.py, TrainingConfig.dtype", launch_trains_all,
      NULL },
    { "kv-heads", "the tensor degree divides the key and value heads", "models/common/decoder.py, update_from_config",
      kv_heads_divide, NULL },
    { "sequence",
      "the sequence divides by the tensor degree under sequence parallelism, and by twice the context degree",
      "trainer.py, Trainer.__init__", sequence_divides, NULL },
    { "sp-needs-tp", "sequence parallelism goes with a tensor degree",
      "config/configs.py, ParallelismConfig.enable_sequence_parallel", sp_has_tp, NULL },
    { "cp-gathers", "context parallelism gathers keys and values (FlexAttention)",
      "distributed/full_dtensor.py, validate_config; models/common/decoder_sharding.py", context_gathers, NULL },
    { "zero", "ZeRO is 3 (FSDP2), or 0 without context parallelism, whose ranks share out shards",
      "distributed/fsdp.py, apply_fsdp_to_decoder; distributed/parallel_dims.py", shards_all_or_nothing, NULL },
    { "hsdp", "groups of shards divide the data-parallel ranks", "distributed/parallel_dims.py, ParallelDims._validate",
      groups_divide, NULL },
    { "reshard",
      "weights are kept gathered through a step in a pipeline, or where a step is one micro-batch; else until "
      "the micro-batch's backward pass (cleave estimate MODEL --framework torchtitan-compile --zero 2 is nearest)",
      "distributed/fsdp.py, get_fsdp_reshard_after_forward_policy; torch.distributed.pipelining, stage.py",
      kept_in_pipelines, NULL },
    { "experts",
      "expert-parallel ranks are all of the tensor degree, with sequence parallelism, and of context, and of the "
      "data-parallel ones of one group of shards as many as are left: none without ZeRO",
      "distributed/parallel_dims.py, ParallelDims.build_mesh; models/common/moe_sharding.py", experts_are_innermost,
      NULL },
    { "schedule",
      "the schedule is 1f1b, gpipe or interleaved: zb-v goes backward by input and by weight apart, which blocks under "
      "torch.compile do not bear",
      "torch.distributed.pipelining, schedules.py, get_schedule_class; pytorch#161904; torchtitan, "
      "experiments/graph_trainer/tests/test_numerics.py",
      schedule_is_known, NULL },
    { "chunks", "a stage has one piece of the model under 1f1b and gpipe, at least two interleaved",
      "distributed/pipeline_parallel.py, _get_pipeline_metadata, _get_pp_rank_to_stage_indices_mapping", chunks_fit,
      NULL },
    { "1f1b-fills", "1f1b has at least as many micro-batches as stages",
      "torch.distributed.pipelining, schedules.py, Schedule1F1B", fills_1f1b, NULL },
    { "rounds",
      "interleaved micro-batches divide into rounds of equal size, one for each time that they fill the stages",
      "torch.distributed.pipelining, schedules.py, ScheduleInterleaved1F1B", rounds_fit, NULL },
    { "pieces",
      "each piece of the model but the first and last has a block, and their number is stages by pieces of each",
      "distributed/pipeline_parallel.py, _pipeline_module_split", pieces_fit, NULL },
    { "tied-pipeline", "a tied embedding goes without a pipeline", "models/common/decoder.py, update_from_config",
      no_tied_pipeline, NULL },
    { "recompute",
      "blocks are all kept, all computed again, or but for q+k+v+core+gate+down (SelectiveAC), where experts exchange "
      "tokens also for shared_gate+shared_down+dispatch+expert_down",
      "distributed/activation_checkpoint.py", recompute_is_known, NULL },
    { "offload",
      "nothing is kept in host memory, or with ZeRO 3 over two ranks or more weights and all state at once "
      "(enable_cpu_offload)",
      "distributed/fsdp.py, CPUOffloadPolicy", offloads_all_or_nothing, NULL },
    { "optimizer",
      "the optimizer is AdamW, with moments and copies of weights in 32 bit, or with moments bf16, master_weights none "
      "and gradient_dtype bf16",
      "config/configs.py, TrainingConfig.dtype", optimizer_is_known, launch_optimizer_detail },
    { "dtype", "it computes in bf16, fp32, or fp8 by rows",
      "config/configs.py, TrainingConfig.mixed_precision_param; components/quantization/float8.py", dtype_is_known,
      NULL },
    { "fp8-widths", "fp8 goes with matrices whose extents 16 divides",
      "components/quantization/utils.py, module_filter_fn", widths_convert, NULL },
    { "fsdp-units",
      "gradients are reduced block by block, and one block is gathered ahead (buckets of 1 TiB, prefetch 1)",
      "distributed/fsdp.py, apply_fsdp_to_decoder", blocks_are_buckets, NULL },
    { "loss-chunks", "the chunks of the loss divide the sequence", "components/loss.py, ChunkedLossWrapper",
      chunks_are_even, chunks_detail },
    { "clip", "gradients are clipped", "trainer.py, Trainer.train_step: clip_grad_norm_", clips, NULL },
    { 0 },
};

static void allow(struct space *space, const struct graph *graph)
{
    bool experts = legal_most_experts(graph) > 1;
    /* Heads of keys as the attention's second input has them. */
    int64_t heads = 0;
    for (int s = 0; s < graph->segment_count; s++) {
        const struct segment *segment = &graph->segments[s];
        if (!kernel_facts[segment->kernel].attends)
            continue;
        const struct value *keys = &graph->values[segment->in[1].id];
        for (int d = 0; d < keys->dim_count; d++)
            if (keys->tag[d] == TAG_HEAD && (heads == 0 || keys->size[d] < heads))
                heads = keys->size[d];
    }
    if (experts && space_is_default(space, CHOICE_CP))
        space->context = allowed_only(1);
    if (heads > 0) {
        space->tensor.count = 0;
        for (int64_t t = 1; t <= heads && space->tensor.count < SPACE_VALUES; t++)
            if (heads % t == 0)
                space->tensor.values[space->tensor.count++] = t;
    }
    space->context_dimension = allowed_only(DIM_cp_gather);
    space->experts_over = allowed_only(EXPERTS_OVER_TENSOR);
    space->tensor_dimension = allowed_only(DIM_tp);
    space->data_dimension = allowed_only(DIM_dp);
    space->mesh_order = allowed_only(ORDER_TENSOR_INSIDE);
    space->turns = allowed_only(1);
    space->schedule = (struct allowed){ 3, { SCHEDULE_one_f_one_b, SCHEDULE_gpipe, SCHEDULE_interleaved } };
    space->extra = allowed_only(0);
    space->bucket_bytes = allowed_only(TITAN_BUCKET_BYTES);
    space->prefetch = allowed_only(1);
    int64_t chunks = TITAN_LOSS_CHUNKS;
    while (graph->sequence % chunks != 0)
        chunks--;
    space->loss_chunks = allowed_only(chunks);
    if (experts && space_is_default(space, CHOICE_ZERO)) /* else experts go no further than the tensor degree */
        space->zero = allowed_only(3);
    else
        space->zero = (struct allowed){ 2, { 0, 3 } };
    space->reshard = (struct allowed){ 2, { RESHARD_EACH_PASS, RESHARD_EACH_STEP } };
    space->recompute = (struct allowed){ 2, { RECOMPUTE_NONE, RECOMPUTE_BLOCK } };
    space->excepted = experts ? allowed_only(0) : (struct allowed){ 2, { 0, (int64_t)titan_kept(false) } };
    space->offload =
        target_offloads(space, (struct allowed){ 2, { OFFLOAD_NONE, OFFLOAD_OPTIMIZER | OFFLOAD_PARAMETERS } });
    space->slices = allowed_only(1);
    space->replicate = allowed_only(0);
}

/* As the rules zero and hsdp have it. */
static void narrow(struct space *space)
{
    if (space->zero.values[0] == 0 && (space->context.count == 0 || allowed_has(&space->context, 1)))
        space->context = allowed_only(1);
}

extern const struct target target_torchtitan;
const struct target target_torchtitan = {
    .name = "torchtitan",
    .short_name = "titan",
    .framework = "torchtitan-compile",
    .release = "torchtitan 0.3.0",
    .slack = .065,
    .slack_source =
        "docs/accuracy.md: published peaks of 12 runs of torchtitan were that much above predictions in the median",
    .doc = "PyTorch's own trainer: FSDP2, tensor, context, expert and pipeline parallelism; a recipe in Python",
    .rules = rules,
    .allow = allow,
    .narrow = narrow,
    .write = titan_write,
    .read = titan_read,
};
