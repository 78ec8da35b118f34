/* Hugging Face accelerate with FSDP2: accelerate.yaml, or the same as options of `accelerate launch`, and the Trainer's
 * arguments behind the script. */
#include "base/num.h"
#include "planner/program/schedule.h"
#include "planner/space/space.h"
#include "targets/accelerate.h"
#include "targets/launch_text.h"
#include "targets/trainer.h"
#include <stdio.h>
#include <string.h>
#include <strings.h>

static bool no_tensor_degree(const struct launch *launch, const struct launch_context *context)
{
    (void)context;
    return launch->tensor == 1;
}
static bool context_is_known(const struct launch *launch, const struct launch_context *context)
{
    (void)context;
    bool known = launch->context_dimension == DIM_cp_gather || launch->context_dimension == DIM_cp_ring;
    return launch->context == 1 || (known && launch->sequence % (2 * launch->context) == 0);
}
static bool shards(const struct launch *launch, const struct launch_context *context)
{
    (void)context;
    return launch->zero == 3 && launch->data * launch->context > 1;
}
static bool groups_divide(const struct launch *launch, const struct launch_context *context)
{
    (void)context;
    return launch->shard_group == 0 || (launch->shard_group > 1 && launch->data % launch->shard_group == 0);
}
static bool kept_for_one(const struct launch *launch, const struct launch_context *context)
{
    (void)context;
    return launch->reshard == RESHARD_EACH_PASS || launch_micro_batches(launch) == 1;
}
static bool offload_is_known(const struct launch *launch, const struct launch_context *context)
{
    (void)context;
    bool state = launch->offload & OFFLOAD_OPTIMIZER, weights = launch->offload & OFFLOAD_PARAMETERS;
    return state == weights && (!(launch->offload & OFFLOAD_ACTIVATIONS) || launch->recompute == RECOMPUTE_BLOCK);
}
static bool blocks_are_buckets(const struct launch *launch, const struct launch_context *context)
{
    (void)context;
    return launch->bucket_bytes == ACCELERATE_BUCKET_BYTES && launch->prefetch == 1 && launch->loss_chunks == 1;
}

static const struct target_rule rules[] = {
    LAUNCH_RULE_NODES,
    { "no-pipeline", "there is no pipeline", "accelerate/parallelism_config.py, ParallelismConfig", trainer_no_pipeline,
      NULL },
    { "no-experts", "experts are not shared out", "accelerate/parallelism_config.py, ParallelismConfig",
      trainer_no_experts, NULL },
    TRAINER_RULES_OF_MODELS,
    { "no-tp", "there is no tensor degree beside FSDP2: transformers lays it over all ranks",
      "transformers/distributed/utils.py, initialize_distributed_mesh: its mesh has as many ranks as the job",
      no_tensor_degree, NULL },
    { "cp",
      "context parallelism gathers keys and values or passes them around, and twice its degree divides the sequence",
      "accelerate/utils/dataclasses.py, TorchContextParallelConfig; accelerator.py, maybe_context_parallel",
      context_is_known, NULL },
    { "cp-attention",
      "context parallelism wants fused attention, which transformers has neither with soft caps of scores, nor with "
      "sinks or ALiBi",
      "torch/distributed/tensor/experimental/_context_parallel: it stands in for scaled_dot_product_attention",
      trainer_attention_is_fused, NULL },
    { "zero",
      "ZeRO is 3, over two data- or context-parallel ranks or more; one device is launched by --target deepspeed",
      "accelerate/parallelism_config.py, ParallelismConfig._validate_accelerator", shards, NULL },
    { "hsdp", "groups of shards divide the data-parallel ranks and have two or more",
      "accelerate/parallelism_config.py, ParallelismConfig.__post_init__", groups_divide, NULL },
    { "reshard",
      "weights are kept gathered through a step only where it is one micro-batch (of the nearest to what it does else, "
      "cleave estimate MODEL --framework accelerate-fsdp2 --zero 2 tells the price)",
      "torch/distributed/fsdp/_fully_shard: reshard_after_forward=False lasts until backward", kept_for_one, NULL },
    { "recompute", "blocks are all kept or all computed again", "accelerate/utils/fsdp_utils.py, fsdp2_apply_ac",
      trainer_recompute_is_known, NULL },
    { "offload",
      "what enters blocks that are computed again is kept in host memory, weights with all state, or nothing",
      "accelerate/utils/dataclasses.py, FullyShardedDataParallelPlugin.activation_checkpointing_offload, cpu_offload",
      offload_is_known, NULL },
    { "optimizer", "the optimizer is AdamW, with moments in 32 bit or 8bit, or SGD without momentum",
      "transformers/training_args.py, OptimizerNames", trainer_optimizer_is_known, launch_optimizer_detail },
    { "dtype", "it computes in bf16, fp16 or fp32", "accelerate/commands/launch.py, --mixed_precision",
      trainer_dtype_is_known, NULL },
    { "fsdp-units", "gradients are reduced block by block, one block is gathered ahead, and the loss runs at once",
      "accelerate/utils/fsdp_utils.py, fsdp2_prepare_model", blocks_are_buckets, NULL },
    { 0 },
};

static void allow(struct space *space, const struct graph *graph)
{
    trainer_allow_context(space, graph);
    space->tensor = allowed_only(1);
    space->tensor_dimension = allowed_only(DIM_tp);
    space->data_dimension = allowed_only(DIM_dp);
    space->mesh_order = allowed_only(ORDER_TENSOR_INSIDE);
    space->sequence_parallel = allowed_only(0);
    space->context_dimension = (struct allowed){ 2, { DIM_cp_gather, DIM_cp_ring } };
    space->stages = allowed_only(1);
    space->turns = allowed_only(1);
    space->expert = allowed_only(1);
    space->schedule = allowed_only(SCHEDULE_one_f_one_b);
    space->chunks = allowed_only(1);
    space->extra = allowed_only(0);
    space->bucket_bytes = allowed_only(ACCELERATE_BUCKET_BYTES);
    space->prefetch = allowed_only(1);
    space->loss_chunks = allowed_only(1);
    space->zero = allowed_only(3);
    space->reshard = allowed_only(RESHARD_EACH_PASS);
    space->recompute = (struct allowed){ 2, { RECOMPUTE_NONE, RECOMPUTE_BLOCK } };
    space->excepted = allowed_only(0);
    space->offload =
        target_offloads(space, (struct allowed){ 2, { OFFLOAD_NONE, OFFLOAD_OPTIMIZER | OFFLOAD_PARAMETERS } });
    space->slices = allowed_only(1);
    space->replicate = allowed_only(0);
}

static const char *precision(const struct launch *launch)
{
    return launch->dtype == DTYPE_BF16 ? "bf16" : launch->dtype == DTYPE_FP16 ? "fp16" : "no";
}

/* Names and values of both forms: of the section, or "" for the file's own. */
struct setting_pair {
    const char *section, *key;
    char value[48];
};
enum { PAIRS = 24 };
static int pairs_of(struct setting_pair out[PAIRS], const struct launch *launch)
{
    int count = 0;
    int64_t group = launch->shard_group > 0 ? launch->shard_group : launch->data;
#define PAIR(of, name, ...)                                                                                            \
    do {                                                                                                               \
        out[count].section = of;                                                                                       \
        out[count].key = name;                                                                                         \
        snprintf(out[count++].value, sizeof out[0].value, __VA_ARGS__);                                                \
    } while (0)
    PAIR("", "mixed_precision", "%s", precision(launch));
    PAIR("", "num_processes", "%lld", (long long)launch_devices(launch));
    PAIR("fsdp_config", "fsdp_version", "2");
    PAIR("fsdp_config", "fsdp_reshard_after_forward", "%s", launch->reshard == RESHARD_EACH_PASS ? "true" : "false");
    PAIR("fsdp_config", "fsdp_auto_wrap_policy", "TRANSFORMER_BASED_WRAP");
    PAIR("fsdp_config", "fsdp_activation_checkpointing", "%s", launch->recompute == RECOMPUTE_BLOCK ? "true" : "false");
    PAIR("fsdp_config", "fsdp_activation_checkpointing_offload", "%s",
         launch->offload & OFFLOAD_ACTIVATIONS ? "true" : "false");
    PAIR("fsdp_config", "fsdp_offload_params", "%s", launch->offload & OFFLOAD_PARAMETERS ? "true" : "false");
    PAIR("fsdp_config", "fsdp_state_dict_type", "SHARDED_STATE_DICT");
    PAIR("parallelism_config", "parallelism_config_dp_replicate_size", "%lld", (long long)(launch->data / group));
    PAIR("parallelism_config", "parallelism_config_dp_shard_size", "%lld", (long long)group);
    PAIR("parallelism_config", "parallelism_config_tp_size", "%lld", (long long)launch->tensor);
    PAIR("parallelism_config", "parallelism_config_cp_size", "%lld", (long long)launch->context);
    if (launch->context > 1)
        PAIR("parallelism_config", "parallelism_config_cp_comm_strategy", "%s",
             launch->context_dimension == DIM_cp_ring ? "alltoall" : "allgather");
#undef PAIR
    return count;
}

static void add_yaml(struct text *out, const struct launch *launch, const struct launch_context *context)
{
    struct setting_pair pairs[PAIRS];
    int count = pairs_of(pairs, launch);
    text_add(out, "# ");
    launch_text_title(out, launch, context);
    text_printf(out,
                ": accelerate launch --config_file accelerate.yaml train.py ...\n"
                "# train.sh says the same by options, and what the script is told.\n"
                "compute_environment: LOCAL_MACHINE\n"
                "distributed_type: FSDP\n"
                "num_machines: %lld\n",
                (long long)launch_nodes(launch, context));
    const char *section = "";
    for (int i = 0; i < count; i++) {
        if (strcmp(section, pairs[i].section) != 0)
            text_printf(out, "%s:\n", pairs[i].section);
        section = pairs[i].section;
        bool no = strcmp(pairs[i].value, "no") == 0; /* which YAML has for false */
        text_printf(out, "%s%s: %s%s%s\n", section[0] ? "  " : "", pairs[i].key, no ? "'" : "", pairs[i].value,
                    no ? "'" : "");
    }
}

extern const struct target target_accelerate_fsdp2;

static void add_script(struct text *out, const struct launch *launch, const struct launch_context *context)
{
    struct setting_pair pairs[PAIRS];
    int count = pairs_of(pairs, launch);
    launch_text_shell(out, &target_accelerate_fsdp2, launch, context);
    text_printf(out,
                "exec accelerate launch --num_machines %lld --machine_rank \"${NODE_RANK:-0}\" \\\n"
                "    --main_process_ip \"${MASTER_ADDR:-localhost}\" --main_process_port \"${MASTER_PORT:-29500}\" \\\n"
                "    --use_fsdp --use_parallelism_config",
                (long long)launch_nodes(launch, context));
    for (int i = 0; i < count; i++)
        text_printf(out, " \\\n    --%s %s", pairs[i].key, pairs[i].value);
    text_add(out, " \\\n    ");
    trainer_arguments(out, launch, false);
    /* Else gradients of all micro-batches would be added up whole, and reduced once. */
    text_add(
        out,
        " \\\n    --accelerator_config '{\"gradient_accumulation_kwargs\": {\"sync_each_batch\": true}}' \"$@\"\n");
}

static void add_readme(struct text *out, const struct launch *launch, const struct launch_context *context)
{
    launch_text_readme(out, &target_accelerate_fsdp2, launch, context);
    text_printf(
        out,
        "\n## Run\n\n"
        "    MODEL=FOLDER ./train.sh             # one node; FOLDER has config.json, or a checkpoint\n"
        "    MODEL=FOLDER sbatch train.sbatch    # %lld nodes under Slurm\n\n"
        "`accelerate.yaml` says the same for `accelerate launch --config_file accelerate.yaml`. `train.py` trains "
        "on random tokens; a script of\none's own with the Trainer takes its place. Ranks: context-parallel "
        "ones are neighbours, then those of data.\n\n"
        "## Verify memory\n\n"
        "    accelerate estimate-memory MODEL --library_name transformers --dtypes bfloat16\n\n"
        "tells the weights' bytes without a device (of one rank without shards); each rank of a run prints what "
        "its allocator had reserved at\nmost, `STEPS=3 MODEL=FOLDER ./train.sh`.\n",
        (long long)launch_nodes(launch, context));
    trainer_readme(out, context);
    launch_text_calibrate(out, &target_accelerate_fsdp2, launch, context, "train.sh --model MODEL");
}

static bool write(struct launch_files *out, const struct launch *launch, const struct launch_context *context)
{
    static const struct launch_part files[] = {
        { "accelerate.yaml", false, add_yaml }, { "train.sh", true, add_script },
        { "train.py", false, trainer_script },  { "train.sbatch", true, launch_text_sbatch },
        { "README.md", false, add_readme },
    };
    return launch_files_fill(out, files, sizeof files / sizeof *files, launch, context);
}

/* The options stand alone, or in their section. */
static const char *const of_mesh[] = { "", "parallelism_config", NULL };

static bool read_degrees(struct launch_read *out, struct settings *settings, struct error *err)
{
    struct launch *launch = &out->launch;
    int64_t replicas = 1, group = 1, ulysses = 1;
    static const char *const strategies[] = { "allgather", "alltoall", NULL };
    int strategy = 0;
    bool said, also, tensor_open, context_open;
    const struct settings_option options[] = {
        /* axolotl's names, which it hands to accelerate */
        { "dp_replicate_size", .integer = &replicas, .least = 1, .most = MOST_DEGREE, .said = &said },
        { "dp_shard_size", .integer = &group, .least = 1, .most = MOST_DEGREE, .said = &also },
        { "tensor_parallel_size", .integer = &launch->tensor, .least = 1, .most = MOST_DEGREE, .said = &tensor_open },
        { "context_parallel_size", .integer = &launch->context, .least = 1, .most = MOST_DEGREE,
          .said = &context_open },
        { "parallelism_config_dp_replicate_size", .integer = &replicas, .least = 1, .most = MOST_DEGREE,
          .sections = of_mesh, .said = &said },
        { "parallelism_config_dp_shard_size", .integer = &group, .least = 1, .most = MOST_DEGREE, .sections = of_mesh,
          .said = &also },
        { "parallelism_config_tp_size", .integer = &launch->tensor, .least = 1, .most = MOST_DEGREE,
          .sections = of_mesh },
        { "parallelism_config_cp_size", .integer = &launch->context, .least = 1, .most = MOST_DEGREE,
          .sections = of_mesh },
        { "parallelism_config_sp_size", .integer = &ulysses, .least = 1, .most = MOST_DEGREE, .sections = of_mesh },
        { "parallelism_config_cp_comm_strategy", .word = &strategy, .words = strategies, .sections = of_mesh },
    };
    if (!settings_read(settings, options, sizeof options / sizeof *options, err))
        return false;
    settings_take_all(settings, (const char *const[]){ "parallelism_config.parallelism_config_cp_backend",
                                                       "parallelism_config_cp_backend", NULL });
    if (launch->context > 1 && strategy == 1)
        launch->context_dimension = DIM_cp_ring;
    int64_t others, all;
    if (!mul_i64(&others, launch->tensor, launch->context) || !mul_i64(&all, others, replicas) ||
        !mul_i64(&all, all, group) || all > (INT64_C(1) << 40))
        return fail(err, "%s: expected at most %lld devices, found more", settings->name,
                    (long long)(INT64_C(1) << 40));
    if (ulysses > 1)
        return fail(err, "%s: parallelism_config_sp_size %lld: expected DeepSpeed for it (--from deepspeed)",
                    settings->name, (long long)ulysses);
    if (replicas > 1 && group == 1)
        return fail(
            err,
            "%s: parallelism_config_dp_replicate_size %lld: expected parallelism_config_dp_shard_size 2 or more "
            "with it",
            settings->name, (long long)replicas);
    /* FSDP over all processes, of which axolotl gives shards those that its other degrees leave
     * (axolotl/utils/distributed.py, _get_parallel_config_kwargs). */
    if (!said && !also && (tensor_open || context_open || others == 1)) {
        all = out->devices > 0 ? max_i64(out->devices, out->cluster_devices) : 0; /* templates count a few */
        if (all % others != 0)
            return fail(err, "%s: %lld processes: expected a multiple of tensor %lld x context %lld", settings->name,
                        (long long)all, (long long)launch->tensor, (long long)launch->context);
        group = all / others;
    } else if (out->devices > 0 && all != out->devices) {
        return fail(
            err,
            "%s: replicas %lld x shards %lld x tensor %lld x context %lld are %lld processes, and num_processes is "
            "%lld",
            settings->name, (long long)replicas, (long long)group, (long long)launch->tensor,
            (long long)launch->context, (long long)all, (long long)out->devices);
    }
    out->says_data = all > 0;
    out->devices = said || also || out->devices == 0 ? all : out->devices;
    launch->data = all > 0 ? replicas * group : 0;
    launch->shard_group = replicas > 1 ? group : 0;
    launch->zero = 3;
    if (all > 0 && launch->data * launch->context == 1 && all > 1)
        return fail(err, "%s: FSDP has nothing to shard over: expected dp_shard_size or cp_size above 1",
                    settings->name);
    if (launch->data == 1 && launch->context == 1)
        launch->zero = 0;
    return true;
}

/* Whether it is one line of words, with a file in YAML among them: "axolotl train a.yaml". */
static bool names_one_file(const char *text, size_t length)
{
    const char *end = text + length, *file = NULL;
    while (end > text && strchr(" \n", end[-1]))
        end--;
    for (const char *at = text; at + 5 <= end; at++)
        file = strncmp(at, ".yaml", 5) == 0 || strncmp(at, ".yml ", 5) == 0 ? at : file;
    if (!file && end - text > 4 && strncmp(end - 4, ".yml", 4) == 0)
        file = end - 4;
    return file && !memchr(text, '\n', (size_t)(end - text)) && !memchr(text, ':', (size_t)(file - text));
}

/* Rules that it need not keep. Where nothing is shared out few are asked, and whoever quantizes experts, as axolotl
 * does, does so by itself. */
static bool add_beyond(struct launch_read *out, struct arena *arena, const struct accelerate_fsdp *fsdp, bool meshed,
                       struct error *err)
{
    bool whole = fsdp->alone || fsdp->shards_nothing;
    const struct {
        const char *rule;
        bool beyond;
    } rules_beyond[] = {
        { "zero", whole },
        { "fsdp-units", whole },
        { "no-tp", whole || meshed },
        { "quantized", whole || out->quantizes_experts },
        { "reshard", fsdp->keeps_gathered },
    };
    enum { RULES = sizeof rules_beyond / sizeof *rules_beyond };
    const char **names = arena_alloc(arena, RULES + 1, sizeof *names);
    int count = 0;
    if (!names)
        return fail_memory(err);
    for (int i = 0; i < RULES; i++)
        if (rules_beyond[i].beyond)
            names[count++] = rules_beyond[i].rule;
    names[count] = NULL;
    out->beyond = count > 0 ? names : NULL;
    return true;
}

/* DeepSpeed's launches, whatever accelerate's file has for processes alone. */
static bool refuse_deepspeed(const struct settings *settings, struct error *err)
{
    const struct setting *named = trainer_says_deepspeed(settings);
    for (int i = 0; i < settings->count; i++) {
        const struct setting *one = &settings->list[i];
        if ((strcmp(one->key, "distributed_type") == 0 && strcasecmp(one->value, "FSDP") == 0) ||
            (strcmp(one->key, "use_fsdp") == 0 && settings_is_true(one->value)))
            return true;
    }
    return !named || setting_fail(settings, named, err, "DeepSpeed shards, not FSDP: --from deepspeed reads it");
}

static bool read(struct launch_read *out, struct arena *arena, const char *name, const char *text, size_t length,
                 struct error *err)
{
    struct settings settings = { .arena = arena, .name = name, .place = &out->place, .beside = out->beside };
    struct launch *launch = &out->launch;
    struct trainer_said said;
    const char *dot = strrchr(name, '.');
    bool yaml = dot && (strcmp(dot, ".yaml") == 0 || strcmp(dot, ".yml") == 0);
    bool options = !yaml && length > 1, overruled;
    struct accelerate_fsdp fsdp = { 0 };
    if (!yaml && !(dot && strcmp(dot, ".sh") == 0)) { /* options have "--", files have keys with ":" */
        options = false;
        for (size_t i = 0; i + 2 < length && !options; i++)
            options =
                text[i] == '-' && text[i + 1] == '-' && text[i + 2] != '-' && (i == 0 || strchr(" \n\t", text[i - 1]));
        options = options || names_one_file(text, length);
    }
    launch_read_begin(out);
    launch->bucket_bytes = ACCELERATE_BUCKET_BYTES;
    if (!(options ? settings_read_flags(&settings, text, length, err)
                  : settings_read_yaml(&settings, text, length, err)))
        return false;
    static const char *const files[] = { "config_file", NULL };
    if (!trainer_split_words(&settings, err) || !settings_follow(&settings, files, out->beside, err) ||
        !trainer_refuse_methods(&settings, err) ||
        !trainer_read_type(&settings, "FSDP", "DEEPSPEED", "deepspeed", &fsdp.alone, err) ||
        !refuse_deepspeed(&settings, err) || !accelerate_follow(&fsdp, &settings, out->beside, err) ||
        !accelerate_name_keys(&settings, err) || !accelerate_read_words(&fsdp, &settings, err))
        return false;
    fsdp.alone = !fsdp.by_trainer && (fsdp.alone || trainer_shards_nothing(&settings));
    if (!trainer_read_devices(&out->devices, &settings, err) || !read_degrees(out, &settings, err) ||
        !accelerate_read_fsdp(out, &fsdp, &settings, err) || !trainer_read_precision(out, &overruled, &settings, err) ||
        !trainer_read(&said, &settings, err))
        return false;
    if (said.recompute)
        launch->recompute = RECOMPUTE_BLOCK;
    out->recompute_is_open = !said.recompute_said && launch->recompute == RECOMPUTE_NONE;
    launch->micro_batch = said.micro_said ? said.micro : launch->micro_batch;
    out->micro_batch_is_open = !said.micro_said;
    out->accumulation = said.accumulation_said ? said.accumulation : 0;
    out->micro_batches = said.micro_said ? 0 : out->accumulation;
    launch->clip_norm = said.clip_said ? said.clip : launch->clip_norm;
    launch->optimizer = said.optimizer;
    launch->sequence = said.sequence;
    out->says_sequence = said.sequence_said;
    trainer_usual_length(out, &settings);
    out->says_batch = said.micro_said && launch->data > 0;
    if (out->says_batch && (!mul_i64(&launch->batch, said.micro, said.accumulation) ||
                            !mul_i64(&launch->batch, launch->batch, launch->data)))
        return fail(err, "%s: expected a batch of less than 2^63 sequences", settings.name);
    if (said.micro_said && launch->data == 0 && !mul_i64(&out->rank_batch, said.micro, said.accumulation))
        return fail(err, "%s: expected a batch of less than 2^63 sequences", settings.name);
    if (launch->context > 1 && said.sequence_said && said.sequence % (2 * launch->context) != 0)
        return fail(err, "%s: max_length %lld: expected a multiple of %lld, twice the context degree", settings.name,
                    (long long)said.sequence, (long long)(2 * launch->context));
    static const char *const ignored[] = { "use_fsdp", "use_parallelism_config", "downcast_bf16", NULL };
    if (!trainer_refuse_left(out, &settings,
                             "parallelism_config_tp_size, _cp_size, _dp_shard_size and _dp_replicate_size", err))
        return false;
    bool meshed = launch->tensor > 1; /* by a script that hands accelerate's mesh to from_pretrained */
    if (!add_beyond(out, arena, &fsdp, meshed, err))
        return false;
    out->ignored_count += settings_take_all(&settings, ignored) + trainer_take_ignored(&settings) +
                          accelerate_take_ignored(&settings, fsdp.alone);
    static const char mesh[] = "tensor parallelism beside FSDP2 (priced as of a script that hands its mesh to "
                               "from_pretrained; the Trainer by itself lays it over all ranks)";
    static const char before[] = "mixed_precision (the Trainer's bf16 or fp16 goes before it)";
    if (!settings_left(&settings, &out->unknown_count, &out->unknown))
        return fail_memory(err);
    for (int i = 0; i < fsdp.note_count; i++)
        if (!launch_read_add_unknown(out, arena, fsdp.notes[i], strlen(fsdp.notes[i]), err))
            return false;
    return (!meshed || launch_read_add_unknown(out, arena, mesh, sizeof mesh - 1, err)) &&
           (!overruled || launch_read_add_unknown(out, arena, before, sizeof before - 1, err));
}

const struct target target_accelerate_fsdp2 = {
    .name = "accelerate-fsdp2",
    .short_name = "accelerate",
    .framework = "accelerate-fsdp2",
    .release = "accelerate 1.15.0",
    .slack = .065,
    .slack_source = "docs/accuracy.md: published peaks of 12 runs of torchtitan, whose FSDP2 it is, were that much "
                    "above predictions in the median",
    .doc = "Hugging Face accelerate with FSDP2 and the Trainer: hybrid shards and context parallelism",
    .trains_configuration = true,
    .rules = rules,
    .allow = allow,
    .write = write,
    .read = read,
};
