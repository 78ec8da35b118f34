/* DeepSpeed: its JSON, and accelerate's YAML that names it; the Trainer's arguments behind the script. What the JSON
 * cannot say of a launch stands in it under "x-cleave", which DeepSpeed does not read. */
#include "base/json.h"
#include "base/num.h"
#include "planner/program/schedule.h"
#include "planner/space/space.h"
#include "targets/decoder.h"
#include "targets/deepspeed.h"
#include "targets/launch_text.h"
#include "targets/settings.h"
#include "targets/target.h"
#include "targets/trainer.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

enum {
    BUCKET_BYTES = 100000000,   /* of one gather, as the framework's facts have it: stage3_prefetch_bucket_size */
    BUCKET_ELEMENTS = 500000000 /* reduce_bucket_size, allgather_bucket_size: its own numbers, which the facts have */
};

static bool context_is_ulysses(const struct launch *launch, const struct launch_context *context)
{
    struct decoder decoder = { 0 };
    if (context->model)
        decoder = decoder_of(context->model);
    return launch->context == 1 || (launch->context_dimension == DIM_cp_ulysses && launch->tensor == 1 &&
                                    decoder.heads % launch->context == 0 && launch->sequence % launch->context == 0);
}
static bool zero_has_ranks(const struct launch *launch, const struct launch_context *context)
{
    (void)context;
    return launch->zero == 0 || launch->data * launch->context > 1;
}
static bool groups_are_mics(const struct launch *launch, const struct launch_context *context)
{
    (void)context;
    return launch->shard_group == 0 ||
           (launch->zero == 3 && launch->shard_group > 1 && launch->data % launch->shard_group == 0 &&
            launch->context == 1 && launch->offload == OFFLOAD_NONE);
}
static bool gives_up(const struct launch *launch, const struct launch_context *context)
{
    (void)context;
    return launch->reshard == RESHARD_EACH_PASS;
}
/* Gives the stage that the file names: one rank shares out nothing, but only ZeRO offloads. */
static int64_t stage_of(const struct launch *launch)
{
    bool alone = launch->data * launch->context == 1;
    return !alone || launch->offload == OFFLOAD_NONE ? launch->zero : launch->offload & OFFLOAD_PARAMETERS ? 3 : 2;
}
static bool offload_is_known(const struct launch *launch, const struct launch_context *context)
{
    (void)context;
    return launch->offload == OFFLOAD_NONE || (launch->offload == OFFLOAD_OPTIMIZER && stage_of(launch) >= 1) ||
           (!(launch->offload & OFFLOAD_ACTIVATIONS) && stage_of(launch) == 3);
}
static bool buckets_are_facts(const struct launch *launch, const struct launch_context *context)
{
    (void)context;
    return launch->bucket_bytes == BUCKET_BYTES && launch->prefetch <= 1 && launch->loss_chunks == 1;
}

static const struct target_rule rules[] = {
    LAUNCH_RULE_NODES,
    { "no-pipeline",
      "there is no pipeline: models of transformers are no PipelineModule, and those exclude ZeRO 2 and 3",
      "deepspeed/runtime/pipe/engine.py, PipelineEngine.__init__", trainer_no_pipeline, NULL },
    { "no-experts", "experts are not shared out: that takes deepspeed.moe layers", "deepspeed/moe/layer.py",
      trainer_no_experts, NULL },
    TRAINER_RULES_OF_MODELS,
    { "kv-heads", "the tensor degree divides the key and value heads",
      "deepspeed/runtime/engine.py, _apply_autotp_partitioning", trainer_kv_heads_divide, NULL },
    { "no-sp", "there is no sequence parallelism with the tensor degree", "deepspeed/module_inject/layers.py",
      trainer_no_sequence_parallel, NULL },
    { "ulysses-attention",
      "context parallelism wants fused attention, which transformers has neither with soft caps of scores, nor with "
      "sinks or ALiBi",
      "deepspeed/runtime/sequence_parallel/ulysses_sp.py, unsupported_attn_implementation", trainer_attention_is_fused,
      NULL },
    { "ulysses", "context parallelism is Ulysses', without a tensor degree, and divides heads and sequence",
      "deepspeed/runtime/sequence_parallel/ulysses_sp.py, UlyssesSPAttentionHF", context_is_ulysses, NULL },
    { "zero", "ZeRO has two ranks or more to share out over", "deepspeed/runtime/zero/config.py", zero_has_ranks,
      NULL },
    { "mics",
      "groups of shards go with ZeRO 3 (MiCS), divide the data-parallel ranks, without offload or context "
      "parallelism",
      "deepspeed/runtime/zero/mics.py", groups_are_mics, NULL },
    { "reshard", "gathered weights are given up after each pass",
      "deepspeed/runtime/zero/partitioned_param_coordinator.py", gives_up, NULL },
    { "offload", "nothing is kept in host memory but the optimizer's state, with ZeRO 1 to 3, and weights, with ZeRO 3",
      "deepspeed/runtime/zero/offload_config.py", offload_is_known, NULL },
    { "recompute", "blocks are all kept or all computed again",
      "transformers/modeling_utils.py, gradient_checkpointing_enable", trainer_recompute_is_known, NULL },
    { "optimizer", "the optimizer is AdamW, with moments and copies of weights in 32 bit",
      "transformers/training_args.py, optim; deepspeed/runtime/bf16_optimizer.py", launch_optimizer_is_usual,
      launch_optimizer_detail },
    { "dtype", "it computes in bf16, fp16 or fp32", "deepspeed/runtime/precision_config.py", trainer_dtype_is_known,
      NULL },
    { "buckets", "buckets are its own, one layer or none is gathered ahead, and the loss runs at once",
      "deepspeed/runtime/zero/config.py, DeepSpeedZeroConfig", buckets_are_facts, NULL },
    { 0 },
};

static void allow(struct space *space, const struct graph *graph)
{
    trainer_allow_context(space, graph);
    space->tensor_dimension = allowed_only(DIM_tp);
    space->data_dimension = allowed_only(DIM_dp);
    space->mesh_order = allowed_only(ORDER_TENSOR_INSIDE);
    space->sequence_parallel = allowed_only(0);
    space->context_dimension = allowed_only(DIM_cp_ulysses);
    space->stages = allowed_only(1);
    space->turns = allowed_only(1);
    space->expert = allowed_only(1);
    space->schedule = allowed_only(SCHEDULE_one_f_one_b);
    space->chunks = allowed_only(1);
    space->extra = allowed_only(0);
    space->bucket_bytes = allowed_only(BUCKET_BYTES);
    space->prefetch = allowed_only(1);
    space->loss_chunks = allowed_only(1);
    space->zero = (struct allowed){ 4, { 0, 1, 2, 3 } };
    space->reshard = allowed_only(RESHARD_EACH_PASS);
    space->recompute = (struct allowed){ 2, { RECOMPUTE_NONE, RECOMPUTE_BLOCK } };
    space->excepted = allowed_only(0);
    space->offload = target_offloads(
        space, (struct allowed){ 3, { OFFLOAD_NONE, OFFLOAD_OPTIMIZER, OFFLOAD_OPTIMIZER | OFFLOAD_PARAMETERS } });
    space->slices = allowed_only(1);
    space->replicate = allowed_only(0);
}

extern const struct target target_deepspeed;

static void write_pair(struct json_writer *w, const char *key, int64_t value)
{
    json_write_key(w, key);
    json_write_int(w, value);
}
static void write_truth(struct json_writer *w, const char *key, bool value)
{
    json_write_key(w, key);
    json_write_bool(w, value);
}

static void write_offload(struct json_writer *w, const char *key)
{
    json_write_key(w, key);
    json_begin_object(w);
    json_write_key(w, "device");
    json_write_string(w, "cpu");
    write_truth(w, "pin_memory", true);
    json_end_object(w);
}

static void write_zero(struct json_writer *w, const struct launch *launch)
{
    json_write_key(w, "zero_optimization");
    json_begin_object(w);
    write_pair(w, "stage", stage_of(launch));
    write_truth(w, "overlap_comm", stage_of(launch) > 0);
    write_truth(w, "contiguous_gradients", true);
    write_truth(w, "reduce_scatter", true);
    write_pair(w, "reduce_bucket_size", BUCKET_ELEMENTS);
    write_pair(w, "allgather_bucket_size", BUCKET_ELEMENTS);
    if (stage_of(launch) == 3) {
        write_pair(w, "stage3_prefetch_bucket_size", launch->prefetch > 0 ? 50000000 : 0);
        write_pair(w, "stage3_param_persistence_threshold", 100000);
        write_truth(w, "stage3_gather_16bit_weights_on_model_save", false);
        if (launch->shard_group > 0)
            write_pair(w, "mics_shard_size", launch->shard_group);
    }
    if (launch->offload & OFFLOAD_OPTIMIZER)
        write_offload(w, "offload_optimizer");
    if (launch->offload & OFFLOAD_PARAMETERS)
        write_offload(w, "offload_param");
    json_end_object(w);
}

static void add_json(struct text *out, const struct launch *launch, const struct launch_context *context)
{
    (void)context;
    struct json_writer w = { .text = *out };
    json_begin_object(&w);
    if (launch->tensor * launch->context ==
        1) /* else who reads it counts ranks in different ways, and finds it himself */
        write_pair(&w, "train_batch_size", launch->batch);
    write_pair(&w, "train_micro_batch_size_per_gpu", launch->micro_batch);
    write_pair(&w, "gradient_accumulation_steps", launch_micro_batches(launch));
    json_write_key(&w, "gradient_clipping");
    json_write_double(&w, launch->clip_norm);
    if (launch->dtype != DTYPE_FP32) {
        json_write_key(&w, launch->dtype == DTYPE_BF16 ? "bf16" : "fp16");
        json_begin_object(&w);
        write_truth(&w, "enabled", true);
        json_end_object(&w);
    }
    write_zero(&w, launch);
    if (launch->tensor > 1) {
        json_write_key(&w, "tensor_parallel");
        json_begin_object(&w);
        write_pair(&w, "autotp_size", launch->tensor);
        json_end_object(&w);
    }
    if (launch->context > 1)
        write_pair(&w, "sequence_parallel_size", launch->context);
    write_truth(&w, "wall_clock_breakdown", false);
    write_pair(&w, "steps_per_print", 1);
    json_write_key(&w, "x-cleave");
    json_begin_object(&w);
    write_pair(&w, "devices", launch_devices(launch));
    write_pair(&w, "sequence", launch->sequence);
    write_truth(&w, "gradient_checkpointing", launch->recompute == RECOMPUTE_BLOCK);
    json_end_object(&w);
    json_end_object(&w);
    *out = w.text;
    text_add(out, "\n");
}

static void add_yaml(struct text *out, const struct launch *launch, const struct launch_context *context)
{
    text_add(out, "# ");
    launch_text_title(out, launch, context);
    text_printf(out,
                ": accelerate launch --config_file accelerate.yaml train.py ...\n"
                "compute_environment: LOCAL_MACHINE\n"
                "distributed_type: DEEPSPEED\n"
                "deepspeed_config:\n"
                "  deepspeed_config_file: ds_config.json\n"
                "  zero3_init_flag: %s\n"
                "  deepspeed_multinode_launcher: standard\n"
                "num_machines: %lld\n"
                "num_processes: %lld\n",
                stage_of(launch) == 3 ? "true" : "false", (long long)launch_nodes(launch, context),
                (long long)launch_devices(launch));
    if (launch->context > 1)
        text_printf(out,
                    "parallelism_config:\n"
                    "  parallelism_config_dp_replicate_size: 1\n"
                    "  parallelism_config_dp_shard_size: %lld\n"
                    "  parallelism_config_tp_size: 1\n"
                    "  parallelism_config_cp_size: 1\n"
                    "  parallelism_config_sp_size: %lld\n"
                    "  parallelism_config_sp_backend: deepspeed\n"
                    "  parallelism_config_sp_seq_length: %lld\n"
                    "  parallelism_config_sp_seq_length_is_variable: false\n"
                    "  parallelism_config_sp_attn_implementation: sdpa\n",
                    (long long)launch->data, (long long)launch->context, (long long)launch->sequence);
}

static void add_script(struct text *out, const struct launch *launch, const struct launch_context *context)
{
    launch_text_shell(out, &target_deepspeed, launch, context);
    text_add(out,
             "exec accelerate launch --config_file accelerate.yaml --machine_rank \"${NODE_RANK:-0}\" \\\n"
             "    --main_process_ip \"${MASTER_ADDR:-localhost}\" --main_process_port \"${MASTER_PORT:-29500}\" \\\n"
             "    ");
    trainer_arguments(out, launch, launch->recompute == RECOMPUTE_BLOCK);
    text_add(out, " \"$@\"\n");
}

static void add_readme(struct text *out, const struct launch *launch, const struct launch_context *context)
{
    launch_text_readme(out, &target_deepspeed, launch, context);
    text_printf(
        out,
        "\n## Run\n\n"
        "    MODEL=FOLDER ./train.sh             # one node; FOLDER has config.json, or a checkpoint\n"
        "    MODEL=FOLDER sbatch train.sbatch    # %lld nodes under Slurm\n\n"
        "With DeepSpeed's own launcher, and a hostfile with a line `NAME slots=%lld` for each node:\n\n"
        "    deepspeed --hostfile hostfile train.py --deepspeed ds_config.json ...    # as train.sh has them\n\n"
        "## Verify memory\n\n"
        "    python3 -c \"from deepspeed.runtime.zero.%s import %s as f; f(PARAMETERS, "
        "num_gpus_per_node=%lld, num_nodes=%lld%s)\"\n\n"
        "prints what weights, gradients and state take of each device, without activations; each rank of a run "
        "prints what its allocator had\nreserved at most, `STEPS=3 MODEL=FOLDER ./train.sh`.\n",
        (long long)launch_nodes(launch, context), (long long)launch_devices_per_node(launch, context),
        stage_of(launch) == 3 ? "stage3" : "stage_1_and_2",
        stage_of(launch) == 3 ? "estimate_zero3_model_states_mem_needs_all_cold"
                              : "estimate_zero2_model_states_mem_needs_all_cold",
        (long long)launch_devices_per_node(launch, context), (long long)launch_nodes(launch, context),
        stage_of(launch) == 3 ? ", largest_layer_params=LARGEST" : "");
    trainer_readme(out, context);
    launch_text_calibrate(out, &target_deepspeed, launch, context, "ds_config.json --model MODEL");
}

static bool write(struct launch_files *out, const struct launch *launch, const struct launch_context *context)
{
    static const struct launch_part files[] = {
        { "ds_config.json", false, add_json },
        { "accelerate.yaml", false, add_yaml },
        { "train.sh", true, add_script },
        { "train.py", false, trainer_script },
        { "train.sbatch", true, launch_text_sbatch },
        { "README.md", false, add_readme },
    };
    return launch_files_fill(out, files, sizeof files / sizeof *files, launch, context);
}

/* Takes "auto", which the Trainer fills in, as if nobody had said it. True when the type is among them; *clips: whether
 * gradient_clipping is, which the Trainer always says. */
static bool drop_auto(struct settings *settings, const char *device, bool *clips)
{
    static const char *const unset[] = { "null", "~", NULL };
    bool type = false;
    for (int i = 0; i < settings->count; i++) {
        struct setting *one = &settings->list[i];
        bool own = strcmp(one->key, "bf16") == 0, named = own || strcmp(one->key, "fp16") == 0;
        bool empty = named && settings_is_one_of(one->value, unset), automatic = strcmp(one->value, "auto") == 0;
        if (own && automatic)
            trainer_resolve_auto(settings, one, device);
        if ((own && automatic) || !(empty || automatic))
            continue;
        type = type || strcmp(one->key, "bf16.enabled") == 0 || strcmp(one->key, "fp16.enabled") == 0;
        *clips = *clips || strcmp(one->key, "gradient_clipping") == 0;
        one->key = "auto";
    }
    settings_take(settings, "auto");
    return type;
}

static bool read_zero(struct launch_read *out, struct settings *settings, struct error *err)
{
    struct launch *launch = &out->launch;
    static const char *const devices[] = { "none", "cpu", "nvme", NULL };
    int optimizer = 0, parameters = 0;
    bool old_optimizer = false, old_parameters = false; /* names that are still taken (zero/config.py) */
    int64_t mics = 0, hpz = 1;
    double ahead = 1, live = 1; /* older versions of transformers wrote fractions for "auto" */
    const struct settings_option options[] = {
        { "zero_stage", .integer = &launch->zero, .most = 3 },
        { "deepspeed_config.zero_stage", .integer = &launch->zero, .most = 3 },
        { "zero_optimization.stage", .integer = &launch->zero, .most = 3 },
        { "offload_optimizer_device", .word = &optimizer, .words = devices },
        { "deepspeed_config.offload_optimizer_device", .word = &optimizer, .words = devices },
        { "zero_optimization.offload_optimizer.device", .word = &optimizer, .words = devices },
        { "offload_param_device", .word = &parameters, .words = devices },
        { "deepspeed_config.offload_param_device", .word = &parameters, .words = devices },
        { "zero_optimization.offload_param.device", .word = &parameters, .words = devices },
        { "zero_optimization.cpu_offload", .flag = &old_optimizer },
        { "zero_optimization.cpu_offload_param", .flag = &old_parameters },
        { "zero_optimization.mics_shard_size", .integer = &mics, .least = -1, .most = MOST_DEGREE },
        { "zero_optimization.zero_hpz_partition_size", .integer = &hpz, .least = 1, .most = MOST_DEGREE },
        { "zero_optimization.stage3_prefetch_bucket_size", .real = &ahead },
        { "zero_optimization.stage3_max_live_parameters", .real = &live },
    };
    if (!settings_read(settings, options, sizeof options / sizeof *options, err))
        return false;
    optimizer = old_optimizer && optimizer == 0 ? 1 : optimizer;
    parameters = old_parameters && parameters == 0 ? 1 : parameters;
    if (optimizer == 2 || parameters == 2)
        return fail(err, "%s: %s on NVMe is not planned; cpu is", settings->name,
                    optimizer == 2 ? "offload_optimizer: state" : "offload_param: weights");
    if (parameters == 1 && launch->zero != 3)
        return fail(err, "%s: offload_param: expected zero_optimization.stage 3 with it, found %lld", settings->name,
                    (long long)launch->zero);
    if (optimizer == 1 && launch->zero == 0)
        return fail(err, "%s: offload_optimizer: expected zero_optimization.stage 1 to 3 with it, found 0",
                    settings->name);
    if (mics > 0 && launch->zero != 3)
        return fail(err, "%s: mics_shard_size: expected zero_optimization.stage 3 with it, found %lld", settings->name,
                    (long long)launch->zero);
    if (hpz > 1)
        return fail(err,
                    "%s: zero_hpz_partition_size %lld: second shards within nodes are not planned: expected 1, or "
                    "mics_shard_size, whose groups hold all shards",
                    settings->name, (long long)hpz);
    launch->prefetch = ahead > 0 && live > 0; /* partitioned_param_coordinator.py, fetch_sub_module() */
    launch->offload = (optimizer ? OFFLOAD_OPTIMIZER : 0) | (parameters ? OFFLOAD_PARAMETERS : 0);
    launch->shard_group = max_i64(mics, 0);
    return true;
}

/* open: one of the types is "auto", so that the other's "false" does not say fp32. */
static bool read_precision(struct launch_read *out, struct settings *settings, bool open, struct error *err)
{
    bool bf16 = false, fp16 = false, bf16_said, fp16_said, also, half;
    static const char *const precisions[] = { "no", "bf16", "fp16", NULL };
    int type = -1;
    const struct settings_option options[] = {
        { "bf16.enabled", .flag = &bf16, .said = &bf16_said },     { "bf16", .flag = &bf16, .said = &also },
        { "fp16.enabled", .flag = &fp16, .said = &fp16_said },     { "fp16", .flag = &fp16, .said = &half },
        { "mixed_precision", .word = &type, .words = precisions },
    };
    if (!settings_read(settings, options, sizeof options / sizeof *options, err))
        return false;
    if (bf16 && fp16)
        return fail(err, "%s: expected bf16 or fp16, found both enabled", settings->name);
    if ((type == 1 && fp16) || (type == 2 && bf16))
        return fail(err, "%s: mixed_precision %s: expected %s to be enabled with it", settings->name, precisions[type],
                    precisions[type]);
    bool ours = settings_take(settings, "x-cleave.devices") != NULL;
    out->says_dtype =
        bf16 || fp16 || type >= 0 || (also && half) || (!open && (bf16_said || fp16_said || also || ours));
    out->launch.dtype = bf16 || type == 1 ? DTYPE_BF16 : fp16 || type == 2 ? DTYPE_FP16 : DTYPE_FP32;
    return true;
}

/* What DeepSpeed counts for each rank of a tensor group is one sequence to whoever counts what differs. */
static bool say_copies(struct launch_read *out, struct arena *arena, struct error *err)
{
    char words[160];
    int length =
        snprintf(words, sizeof words, "train_batch_size (of %lld sequences: each rank of autotp counts its copy)",
                 (long long)out->launch.batch);
    return out->launch.tensor == 1 || !out->says_batch ||
           launch_read_add_unknown(out, arena, words, (size_t)length, err);
}

static bool read_degrees(struct launch_read *out, struct settings *settings, struct error *err)
{
    struct launch *launch = &out->launch;
    const struct settings_option options[] = {
        { "tensor_parallel.autotp_size", .integer = &launch->tensor, .most = MOST_DEGREE },
        { "parallelism_config.parallelism_config_sp_size", .integer = &launch->context, .least = 1,
          .most = MOST_DEGREE },
        { "sequence_parallel_size", .integer = &launch->context, .least = 1, .most = MOST_DEGREE },
        { "x-cleave.devices", .integer = &out->devices, .least = 1, .most = MOST_COUNT },
    };
    if (!settings_read(settings, options, sizeof options / sizeof *options, err))
        return false;
    /* Degrees of data, which accelerate states beside the others, follow from the devices. */
    static const char *const of_data[] = { "parallelism_config.parallelism_config_dp_", NULL };
    out->ignored_count += settings_take_all(settings, of_data);
    launch->tensor = launch->tensor > 0 ? launch->tensor : 1;
    int64_t others = launch->tensor * launch->context;
    if (launch->context > 1)
        launch->context_dimension = DIM_cp_ulysses;
    if (launch->context > 1 && launch->tensor > 1)
        return fail(err, "%s: expected autotp_size or sequence_parallel_size, found both", settings->name);
    if (out->devices % others != 0)
        return fail(err, "%s: %lld devices: expected a multiple of tensor %lld x sequence %lld", settings->name,
                    (long long)out->devices, (long long)launch->tensor, (long long)launch->context);
    launch->data = out->devices / others;
    out->says_data = launch->data > 0;
    return true;
}

static bool read(struct launch_read *out, struct arena *arena, const char *name, const char *text, size_t length,
                 struct error *err)
{
    struct settings settings = { .arena = arena, .name = name, .place = &out->place, .beside = out->beside };
    struct launch *launch = &out->launch;
    struct trainer_said said;
    size_t first = 0;
    while (first < length && strchr(" \t\r\n", text[first]))
        first++;
    const char *dot = strrchr(name, '.');
    bool json = (first < length && text[first] == '{') || (dot && strcmp(dot, ".json") == 0);
    bool yaml = dot && (strcmp(dot, ".yaml") == 0 || strcmp(dot, ".yml") == 0);
    launch_read_begin(out);
    launch->bucket_bytes = BUCKET_BYTES;
    if (!(json   ? settings_read_json(&settings, text, length, err)
          : yaml ? settings_read_yaml(&settings, text, length, err)
                 : settings_read_flags(&settings, text, length, err)))
        return false;
    static const char *const of_accelerate[] = { "config_file", NULL }; /* beside which the Trainer names its own */
    if (!trainer_split_words(&settings, err) || !settings_follow(&settings, of_accelerate, out->beside, err) ||
        !settings_follow(&settings, deepspeed_files, out->beside, err) ||
        !trainer_refuse_methods(&settings, err) || !deepspeed_name_keys(&settings, err))
        return false;
    bool clips = false, open = drop_auto(&settings, out->device_name, &clips);
    if (!deepspeed_agrees(&settings, err))
        return false;
    bool again = false, again_said = false;
    int64_t sequence = 0;
    double clip = 0;
    bool clip_said = false;
    const struct settings_option options[] = {
        { "x-cleave.sequence", .integer = &sequence, .least = 1, .most = MOST_COUNT, .said = &out->says_sequence },
        { "parallelism_config.parallelism_config_sp_seq_length", .integer = &sequence, .least = 1, .most = MOST_COUNT },
        { "x-cleave.gradient_checkpointing", .flag = &again, .said = &again_said },
        { "gradient_clipping", .real = &clip, .said = &clip_said },
        { "deepspeed_config.gradient_clipping", .real = &clip, .said = &clip_said },
    };
    bool alone; /* by accelerate, which the Trainer then tells to start DeepSpeed (training_args.py, __post_init__) */
    if (!settings_read(&settings, options, sizeof options / sizeof *options, err) ||
        !trainer_read_type(&settings, "DEEPSPEED", "FSDP", "accelerate-fsdp2",
                           trainer_says_deepspeed(&settings) ? &alone : NULL, err) ||
        !trainer_read_devices(&out->devices, &settings, err) || !read_degrees(out, &settings, err) ||
        !read_zero(out, &settings, err) || !trainer_read(&said, &settings, err) ||
        !read_precision(out, &settings, open, err) || !deepspeed_read_batch(out, &settings, &said, err))
        return false;
    launch->recompute = again || said.recompute ? RECOMPUTE_BLOCK : RECOMPUTE_NONE;
    out->recompute_is_open = !again_said && !said.recompute_said;
    launch->sequence = sequence > 0 ? sequence : said.sequence;
    out->says_sequence = launch->sequence > 0;
    trainer_usual_length(out, &settings);
    bool own_optimizer = true; /* the CPU's AdamW in place of whatever the script has (accelerate, accelerator.py) */
    const struct settings_option force = { "zero_force_ds_cpu_optimizer", .flag = &own_optimizer };
    if (!settings_read(&settings, &force, 1, err))
        return false;
    if (!(launch->offload & OFFLOAD_OPTIMIZER) || !own_optimizer)
        launch->optimizer = said.optimizer;
    launch->clip_norm = clip_said ? clip : said.clip_said || clips ? said.clip : 0;
    if (launch->data * launch->context == 1)
        launch->zero = 0;
    if (launch->shard_group > 0 && launch->data > 0 && launch->data % launch->shard_group != 0)
        return fail(err, "%s: mics_shard_size %lld: expected a divisor of the %lld data-parallel ranks", settings.name,
                    (long long)launch->shard_group, (long long)launch->data);
    if (launch->shard_group == launch->data)
        launch->shard_group = 0;
    static const char expected[] = "settings of DeepSpeed, such as zero_optimization.stage, bf16.enabled or "
                                   "train_micro_batch_size_per_gpu";
    if (!json && !trainer_names_deepspeed(&settings))
        return fail(err, "%s: expected %s; found none (--from accelerate-fsdp2 reads launches without DeepSpeed)",
                    settings.name, expected);
    if (!trainer_refuse_left(out, &settings, "tensor_parallel.autotp_size and sequence_parallel_size", err))
        return false;
    /* The optimizer is the user's own, which DeepSpeed wraps; who quantizes experts, as axolotl does, does so by
     * itself. */
    static const char *const client[] = { "quantized", "optimizer", NULL };
    out->beyond = out->quantizes_experts ? client : client + 1;
    out->ignored_count += deepspeed_take_ignored(&settings, (int)launch->zero, json);
    return settings_say_something(&settings, expected, err) &&
           (settings_left(&settings, &out->unknown_count, &out->unknown) || fail_memory(err)) &&
           (settings_take(&settings, "x-cleave.devices") || say_copies(out, settings.arena, err));
}

const struct target target_deepspeed = {
    .name = "deepspeed",
    .short_name = "ds",
    .framework = "deepspeed-transformers",
    .release = "DeepSpeed 0.19.8",
    .slack = .052,
    .slack_source = "docs/accuracy.md: published peaks of 80 runs were that much above predictions in the median",
    .doc = "DeepSpeed with transformers' Trainer: ZeRO 0 to 3, offload, Ulysses, autotp; started by accelerate",
    .trains_configuration = true,
    .rules = rules,
    .allow = allow,
    .write = write,
    .read = read,
};
