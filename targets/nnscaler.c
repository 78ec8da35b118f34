/* nnScaler: train.yaml, the arguments of its Trainer, with the model and the data in train.py. What autodist would
 * choose by itself is left no choice: one device for each stage, blocks that begin a stage have a class of that name
 * and those that are computed again another. */
#include "base/num.h"
#include "planner/program/schedule.h"
#include "planner/space/space.h"
#include "targets/decoder.h"
#include "targets/nnscaler.h"
#include "targets/launch_text.h"
#include "targets/settings.h"
#include "targets/trainer.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SOME_BATCH (INT64_C(1) << 50)

static bool has_no_tensor(const struct launch *launch, const struct launch_context *context)
{
    (void)context;
    return launch->tensor == 1;
}
static bool has_no_context(const struct launch *launch, const struct launch_context *context)
{
    (void)context;
    return launch->context == 1;
}
static bool has_no_experts(const struct launch *launch, const struct launch_context *context)
{
    (void)context;
    return launch->expert == 1;
}
static bool model_is_known(const struct launch *launch, const struct launch_context *context)
{
    (void)launch;
    struct decoder decoder = { 0 };
    if (context->model)
        decoder = decoder_of(context->model);
    return !context->model || (decoder.blocks > 0 && decoder.experts == 0 && !decoder_scans(context->model));
}
static bool runs_1f1b(const struct launch *launch, const struct launch_context *context)
{
    (void)context;
    return launch->pipeline == 1 || (launch->schedule == SCHEDULE_one_f_one_b && launch->chunks == 1);
}
static bool shards_states(const struct launch *launch, const struct launch_context *context)
{
    (void)context;
    return launch->zero <= 1;
}
static bool shards_over_all(const struct launch *launch, const struct launch_context *context)
{
    (void)context;
    return launch->shard_group == 0;
}
static bool keeps_on_device(const struct launch *launch, const struct launch_context *context)
{
    (void)context;
    return launch->offload == OFFLOAD_NONE;
}
static bool dtype_is_known(const struct launch *launch, const struct launch_context *context)
{
    (void)context;
    return launch->dtype == DTYPE_BF16 || launch->dtype == DTYPE_FP32;
}
static bool buckets_are_whole(const struct launch *launch, const struct launch_context *context)
{
    (void)context;
    return launch->bucket_bytes > 0 && launch->bucket_bytes % NNSCALER_MIB == 0;
}
static bool loss_is_whole(const struct launch *launch, const struct launch_context *context)
{
    (void)context;
    return launch->loss_chunks == 1;
}

static const struct target_rule rules[] = {
    LAUNCH_RULE_NODES,
    { "no-tensor", "operators are not split: how, autodist would choose, whose constraints name classes of modules",
      "docs/source/autodist/solver_interface/partition_constraint.md", has_no_tensor, NULL },
    { "no-cp", "there is no context parallelism", "examples/customized_ops/ring_attention: an operator of the model's",
      has_no_context, NULL },
    LAUNCH_RULE_CAUSAL("transformers/models/auto/modeling_auto.py, MODEL_FOR_CAUSAL_LM_MAPPING_NAMES"),
    { "model", "the model has no experts and no scans (--framework prices others)",
      "docs/source/control_flow.md: it does not trace what depends on data; register_custom_op.md: nor operators that "
      "are not registered, as those of scans",
      model_is_known, NULL },
    { "model", "all weights are trained", "nnscaler/cli/trainer_args.py, TrainerArgs", launch_trains_all, NULL },
    { "no-experts", "experts are not shared out", "nnscaler/autodist/spmd_solver.py", has_no_experts, NULL },
    { "schedule", "stages are of one chunk and run 1f1b", "nnscaler/policies.py, pas_autodist", runs_1f1b, NULL },
    { "zero", "ZeRO is 0 or 1", "nnscaler/autodist/autodist_config.py, AutoDistConfig._validate_config", shards_states,
      NULL },
    { "zero-groups", "ZeRO shards over all data-parallel ranks: groups would reduce whole gradients first",
      "nnscaler/parallel.py, ComputeConfig.__post_init__; runtime/adapter/reducer.py", shards_over_all, NULL },
    { "recompute", "blocks are all kept or all computed again",
      "nnscaler/autodist/model_graph.py, init_recompute_nodes", trainer_recompute_is_known, NULL },
    { "offload", "nothing is kept in host memory", "nnscaler/parallel.py, ComputeConfig", keeps_on_device, NULL },
    { "optimizer", "the optimizer is AdamW, with moments and copies of weights in 32 bit",
      "nnscaler/runtime/f16_optimizer.py, MixedPrecisionAdamW", launch_optimizer_is_usual, launch_optimizer_detail },
    { "dtype", "it computes in bf16 or fp32", "nnscaler/cli/trainer_args.py; runtime/f16_optimizer.py: no loss scale",
      dtype_is_known, NULL },
    { "buckets", "gradients are reduced in buckets of whole MiB", "nnscaler/parallel.py, reducer_bucket_cap_mb",
      buckets_are_whole, NULL },
    { "loss", "the loss runs at once", "examples/llama: chunks of it are an operator of the model's", loss_is_whole,
      NULL },
    { 0 },
};

static void allow(struct space *space, const struct graph *graph)
{
    (void)graph;
    space->tensor = allowed_only(1);
    space->context = allowed_only(1);
    space->expert = allowed_only(1);
    space->tensor_dimension = allowed_only(DIM_tp);
    space->data_dimension = allowed_only(DIM_dp);
    space->mesh_order = allowed_only(ORDER_TENSOR_INSIDE);
    space->sequence_parallel = allowed_only(0);
    space->turns = allowed_only(1);
    space->schedule = allowed_only(SCHEDULE_one_f_one_b);
    space->chunks = allowed_only(1);
    space->extra = allowed_only(0);
    space->bucket_bytes = allowed_only(USUAL_BUCKET_BYTES);
    space->prefetch = allowed_only(1);
    space->loss_chunks = allowed_only(1);
    space->zero = (struct allowed){ 2, { 0, 1 } };
    space->shard_group = allowed_only(0);
    space->reshard = allowed_only(RESHARD_EACH_PASS);
    space->recompute = (struct allowed){ 2, { RECOMPUTE_NONE, RECOMPUTE_BLOCK } };
    space->excepted = allowed_only(0);
    space->offload = allowed_only(OFFLOAD_NONE);
    space->slices = allowed_only(1);
    space->replicate = allowed_only(0);
}

#define CONFIG(name) "compute_config." name
#define POLICY(name) "compute_config.pas_config." name

/* "[8, 8, 10]", blocks of each stage. */
static bool read_stage_blocks(struct launch *launch, const struct settings *settings, const struct setting *said,
                              struct error *err)
{
    const char *at = said->value + (said->value[0] == '[');
    int *blocks = launch->pipeline <= SETTINGS_MOST
                      ? arena_alloc(settings->arena, (size_t)launch->pipeline, sizeof *blocks)
                      : NULL;
    int count = 0;
    for (bool more = blocks != NULL; more && count < launch->pipeline; count++) {
        char *end;
        long number = strtol(at, &end, 10);
        if (end == at || number < 1 || number > MOST_DEGREE)
            break;
        blocks[count] = (int)number;
        at = end + strspn(end, " ");
        more = *at == ',';
        at += more;
    }
    if (!blocks || count != launch->pipeline || strcmp(at, "]") != 0)
        return setting_fail(settings, said, err, "expected blocks of each of %lld stages, [8, 8], found %.80s",
                            (long long)launch->pipeline, said->value);
    launch->piece_count = count;
    launch->piece_blocks = blocks;
    return true;
}

/* Stages that autodist is left with: blocks of a class that stands where a stage begins, or of one that begins it. */
static bool read_stages(struct launch_read *out, int64_t plan, struct settings *settings, struct error *err)
{
    struct launch *launch = &out->launch;
    static const char *const schedulers[] = { "1f1b", NULL };
    int scheduler = 0;
    double bubble = .2;
    bool end_to_end = false, beside = false, said;
    const struct setting *automatic = settings_take(settings, POLICY("pipeline_nstages"));
    const struct setting *pivots = settings_take(settings, POLICY("pipeline_pivots"));
    const struct setting *blocks = settings_take(settings, "model.args.stage_blocks");
    bool has_pivots = pivots && pivots->value[0] && strcmp(pivots->value, "''") != 0;
    if (automatic && strcmp(automatic->value, "auto") == 0 && has_pivots)
        return setting_fail(settings, automatic, err,
                            "expected a number: autodist chooses how many stages, which is known behind its search");
    if (automatic && strcmp(automatic->value, "auto") != 0 &&
        !settings_int(settings, POLICY("pipeline_nstages"), 1, MOST_DEGREE, &launch->pipeline, &said, err))
        return false;
    const struct settings_option options[] = {
        { POLICY("pipeline_scheduler"), .word = &scheduler, .words = schedulers },
        { POLICY("max_pipeline_bubble_ratio"), .real = &bubble },
        { CONFIG("use_end2end"), .flag = &end_to_end },
        { CONFIG("use_async_reducer"), .flag = &beside },
    };
    if (!settings_read(settings, options, sizeof options / sizeof *options, err))
        return false;
    if (!end_to_end)
        return fail(err, "%s: compute_config.use_end2end: the Trainer expects true", settings->name);
    if (launch->pipeline > 1 && !has_pivots)
        return setting_fail(settings, automatic, err, "expected pipeline_pivots with stages");
    if (launch->pipeline == 1 && has_pivots)
        return setting_fail(settings, pivots, err, "expected no pivots with pipeline_nstages 1");
    if (launch->pipeline > 1 && beside)
        return setting_fail(settings, automatic, err, "expected use_async_reducer false with stages");
    if (plan % launch->pipeline != 0)
        return fail(err, "%s: plan_ngpus %lld: expected a multiple of the %lld stages: others have different degrees",
                    settings->name, (long long)plan, (long long)launch->pipeline);
    int64_t calls = out->micro_batches;
    if (launch->pipeline > 1 && (bubble <= 0 || bubble >= 1))
        return fail(err, "%s: max_pipeline_bubble_ratio %g: expected more than 0 and less than 1", settings->name,
                    bubble);
    if (launch->pipeline > 1 && calls > 0 && (double)launch->pipeline > bubble / (1 - bubble) * (double)calls + 1)
        return fail(err,
                    "%s: max_pipeline_bubble_ratio %g leaves %lld micro-batches at most %lld stages, and "
                    "pipeline_nstages is %lld",
                    settings->name, bubble, (long long)calls, (long long)(bubble / (1 - bubble) * (double)calls + 1),
                    (long long)launch->pipeline);
    launch->tensor = plan / launch->pipeline;
    return !blocks || launch->pipeline == 1 || read_stage_blocks(launch, settings, blocks, err);
}

/* What follows from the policy's name for the devices of one replica. */
static bool read_policy(struct launch_read *out, int64_t plan, struct settings *settings, struct error *err)
{
    static const char *const policies[] = { "autodist", "dp", "tp", "pp", "data", "hybrid", NULL };
    static const char *const why[] = { NULL,
                                       NULL,
                                       "operators are split at random",
                                       "stages are cut by counts of operators",
                                       "each operator is split by its first dimension, if that is a batch's or not",
                                       "stages are cut by counts of operators" };
    int policy = 0;
    const struct setting *named = settings_take(settings, "pas_policy");
    if (!settings_word(settings, "pas_policy", policies, &policy, NULL, err))
        return false;
    if (why[policy])
        return setting_fail(settings, named, err, "%s is not planned: %s", policies[policy], why[policy]);
    if (policy == 1 && plan != 1)
        return setting_fail(settings, named, err, "expected plan_ngpus 1 with dp, found %lld", (long long)plan);
    const struct setting *again = settings_take(settings, POLICY("recompute_modules"));
    if (again && again->value[0] && strcmp(again->value, "''") != 0) {
        if (policy == 1)
            return setting_fail(settings, again, err, "expected none with dp, which computes nothing again");
        if (strcmp(again->value, "ROOT") == 0 || strchr(again->value, ','))
            return setting_fail(settings, again, err, "expected the class of blocks alone");
        out->launch.recompute = RECOMPUTE_BLOCK;
    }
    return read_stages(out, plan, settings, err);
}

static bool read_zero(struct launch *launch, struct settings *settings, struct error *err)
{
    bool zero = false, scatter = false;
    int64_t groups = 1;
    double bucket = 0;
    const struct settings_option options[] = {
        { CONFIG("use_zero"), .flag = &zero },
        { CONFIG("zero_ngroups"), .integer = &groups, .least = 1, .most = MOST_DEGREE },
        { CONFIG("zero_use_reduce_scatter"), .flag = &scatter },
        { CONFIG("reducer_bucket_cap_mb"), .real = &bucket },
    };
    if (!settings_read(settings, options, sizeof options / sizeof *options, err))
        return false;
    if (zero && scatter && groups > 1)
        return fail(err, "%s: zero_use_reduce_scatter: expected zero_ngroups 1 with it, found %lld", settings->name,
                    (long long)groups);
    if (bucket > MOST_DEGREE)
        return fail(err, "%s: reducer_bucket_cap_mb %g: expected at most %d", settings->name, bucket, MOST_DEGREE);
    launch->zero = zero;
    if (zero && groups > 1 && launch->data > 0) {
        if (launch->data % groups != 0)
            return fail(err, "%s: zero_ngroups %lld: expected a divisor of the %lld data-parallel ranks",
                        settings->name, (long long)groups, (long long)launch->data);
        launch->shard_group = launch->data / groups;
    }
    if (bucket > 0)
        launch->bucket_bytes = (int64_t)(bucket * NNSCALER_MIB);
    return true;
}

static bool read_batch(struct launch_read *out, struct settings *settings, struct error *err)
{
    struct launch *launch = &out->launch;
    int64_t micro = 1, calls = 0, batch = 0, each;
    bool batch_said, calls_said;
    const struct settings_option options[] = {
        { "micro_batch_size", .integer = &micro, .least = 1, .most = MOST_COUNT },
        { "grad_accumulation_steps", .integer = &calls, .least = 1, .most = MOST_COUNT, .said = &calls_said },
        { "global_batch_size", .integer = &batch, .least = 1, .most = SOME_BATCH, .said = &batch_said },
    };
    if (!settings_read(settings, options, sizeof options / sizeof *options, err))
        return false;
    launch->micro_batch = micro;
    if (launch->data == 0) { /* of as many replicas as there will be */
        if (batch_said && calls_said && batch % (micro * calls) != 0)
            return fail(err,
                        "%s: global_batch_size %lld: expected a multiple of micro_batch_size x grad_accumulation_steps",
                        settings->name, (long long)batch);
        out->micro_batches = calls_said || !batch_said ? (calls_said ? calls : 1) : 0;
        launch->batch = batch;
        out->says_batch = batch_said;
        return true;
    }
    if (!mul_i64(&each, micro, launch->data))
        return fail(err, "%s: expected a batch of less than 2^63 sequences", settings->name);
    calls = calls_said ? calls : batch_said ? batch / each : 1;
    if (!mul_i64(&launch->batch, each, calls > 0 ? calls : 1))
        return fail(err, "%s: expected a batch of less than 2^63 sequences", settings->name);
    if (batch_said && batch != launch->batch)
        return fail(err,
                    "%s: global_batch_size %lld is not micro_batch_size %lld x %lld data-parallel ranks x "
                    "grad_accumulation_steps %lld",
                    settings->name, (long long)batch, (long long)micro, (long long)launch->data, (long long)calls);
    out->micro_batches = calls;
    out->says_batch = true;
    return true;
}

/* Precision and the optimizer's copy of weights go together. */
static bool read_precision(struct launch_read *out, struct settings *settings, struct error *err)
{
    static const char *const precisions[] = { "bf16", "fp32", "fp16", "none", NULL };
    int precision = 3;
    if (!settings_word(settings, "precision", precisions, &precision, &out->says_dtype, err))
        return false;
    out->says_dtype = precision != 3;
    out->launch.dtype = precision == 1 ? DTYPE_FP32 : precision == 2 ? DTYPE_FP16 : DTYPE_BF16;
    return true;
}

/* Takes what has no effect on time and memory; returns how many. */
static int take_ignored(struct settings *settings)
{
    static const char *const ignored[] = { "vars.",
                                           "compute_config.constant_folding",
                                           "compute_config.trace_strategy",
                                           "compute_config.user_config",
                                           "compute_config.pas_config.mem_constraint",
                                           "compute_config.pas_config.max_pipeline_unbalance_ratio",
                                           "compute_config.pas_config.max_partition_degree",
                                           "compute_config.pas_config.parallel_profile",
                                           "compute_config.pas_config.re_profile",
                                           "compute_config.pas_config.verbose",
                                           "compute_config.pas_config.task_name",
                                           "compute_config.pas_config.transient_mem_coef",
                                           "compute_config.pas_config.save_plan_path",
                                           "compute_config.pas_config.use_",
                                           "gen_",
                                           "run_mode",
                                           "broadcast_strategy",
                                           "instance_name",
                                           "init_",
                                           "tracing_from_weights",
                                           "dummy_sample_gen_fn",
                                           "max_",
                                           "val_every",
                                           "enable_progress_bar",
                                           "log",
                                           "seed",
                                           "model.type",
                                           "model.args.",
                                           "optimizer.args.",
                                           "optimizer.loss_reduction",
                                           "optimizer.grad_reduction",
                                           "optimizer.aggregate_outputs_fn",
                                           "dataset",
                                           "dataloader",
                                           "lr_scheduler",
                                           "checkpoint",
                                           "debug",
                                           "hook",
                                           "master_",
                                           "node_rank",
                                           "rdzv_",
                                           NULL };
    return settings_take_all(settings, ignored);
}

static bool read_sequence(struct launch_read *out, struct settings *settings, struct error *err)
{
    static const char *const names[] = { "dataset.train_args.sequence", "dataset.train_args.block_size",
                                         "dataset.train_args.seq_len", "dataset.train_args.max_length", NULL };
    for (int i = 0; names[i]; i++) {
        bool said;
        if (!settings_int(settings, names[i], 1, MOST_COUNT, &out->launch.sequence, &said, err))
            return false;
        out->says_sequence = out->says_sequence || said;
    }
    return true;
}

/* Devices of one replica, and of all. */
static bool read_devices(int64_t *plan, struct launch_read *out, struct settings *settings, struct error *err)
{
    int64_t launched = 0;
    bool plan_said, all_said;
    if (!settings_int(settings, CONFIG("plan_ngpus"), 1, MOST_DEGREE, plan, &plan_said, err) ||
        !settings_int(settings, CONFIG("runtime_ngpus"), 1, MOST_DEGREE, &out->devices, &all_said, err) ||
        !trainer_read_devices(&launched, settings, err))
        return false;
    if (!plan_said)
        return fail(err, "%s: compute_config.plan_ngpus is missing: the devices of one replica", settings->name);
    if (all_said && launched > 0 && launched != out->devices)
        return fail(err, "%s: runtime_ngpus %lld is not the %lld processes of the launcher", settings->name,
                    (long long)out->devices, (long long)launched);
    if (!all_said)
        out->devices = launched;
    if (out->devices % *plan != 0)
        return fail(err, "%s: runtime_ngpus %lld: expected a multiple of plan_ngpus %lld", settings->name,
                    (long long)out->devices, (long long)*plan);
    out->launch.data = out->devices / *plan;
    out->says_data = out->devices > 0;
    return true;
}

static bool read(struct launch_read *out, struct arena *arena, const char *name, const char *text, size_t length,
                 struct error *err)
{
    struct settings settings = { .arena = arena, .name = name, .place = &out->place, .beside = out->beside };
    struct launch *launch = &out->launch;
    const char *dot = strrchr(name, '.');
    bool yaml = dot && (strcmp(dot, ".yaml") == 0 || strcmp(dot, ".yml") == 0);
    bool options = !yaml && (length == 0 || (dot && strcmp(dot, ".sh") == 0));
    bool comment = false;
    for (size_t i = 0; i + 2 < length && !options && !yaml; i++) {
        comment = text[i] == '#' || (comment && text[i] != '\n');
        options = !comment && text[i] == '-' && text[i + 1] == '-' && text[i + 2] != '-' &&
                  (i == 0 || strchr(" \n\t", text[i - 1]));
    }
    launch_read_begin(out);
    launch->clip_norm = 0;
    if (!(options ? settings_read_flags(&settings, text, length, err)
                  : settings_read_yaml(&settings, text, length, err)))
        return false;
    for (int i = 0; i + 1 < settings.count && options; i++)
        if (settings.list[i].word && strcmp(settings.list[i].value, "-f") == 0) {
            if (!settings_read_beside(&settings, &settings.list[i + 1], out->beside, err))
                return false;
            break;
        }
    int64_t plan = 1, calls = 1;
    bool calls_said;
    static const char *const neighbours[] = { "replicas", "stages", NULL };
    int near = 1;
    if (!read_devices(&plan, out, &settings, err) || !read_batch(out, &settings, err) ||
        !settings_word(&settings, "vars.neighbours", neighbours, &near, NULL, err) ||
        !settings_int(&settings, POLICY("update_freq"), 1, MOST_COUNT, &calls, &calls_said, err) ||
        !read_policy(out, plan, &settings, err) || !read_zero(launch, &settings, err) ||
        !read_precision(out, &settings, err) || !read_sequence(out, &settings, err) ||
        !settings_double(&settings, "optimizer.clip_gnorm", 0, &launch->clip_norm, NULL, err))
        return false;
    if (calls_said && out->micro_batches > 0 && calls != out->micro_batches)
        return fail(err, "%s: update_freq %lld: autodist plans for other micro-batches than the step's %lld", name,
                    (long long)calls, (long long)out->micro_batches);
    if (launch->pipeline > 1 && launch->data != 1 && near != 0)
        return fail(err,
                    "%s: stages of a replica are neighbours, which is not planned: the train.py of `cleave export` "
                    "numbers ranks otherwise and says vars.neighbours: replicas",
                    name);
    if (out->says_batch)
        out->micro_batches = 0; /* the micro-batch is said */
    const struct setting *optimizer = settings_take(&settings, "optimizer.type");
    bool copies = optimizer && strstr(optimizer->value, "MixedPrecision");
    if (optimizer && out->says_dtype && copies != (launch->dtype != DTYPE_FP32))
        return setting_fail(&settings, optimizer, err, "expected %s with this precision, found %.80s",
                            copies ? "an optimizer of fp32" : "one that keeps weights in fp32, MixedPrecisionAdamW",
                            optimizer->value);
    out->ignored_count = take_ignored(&settings);
    return settings_left(&settings, &out->unknown_count, &out->unknown) || fail_memory(err);
}

const struct target target_nnscaler = {
    .name = "nnscaler",
    .short_name = "nnscaler",
    .framework = "nnscaler",
    .release = "nnScaler 0.8",
    .slack = .25,
    .slack_source = "nnscaler/policies.py, pas_autodist: 80 % of the memory are used, for fragments and other buffers",
    .doc = "nnScaler's Trainer with autodist: pipelines and data parallelism",
    .trains_configuration = true,
    .rules = rules,
    .allow = allow,
    .write = nnscaler_write,
    .read = read,
};
