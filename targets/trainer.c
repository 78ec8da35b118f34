#include "targets/trainer.h"
#include "models/layer_kind.h"
#include "planner/space/space.h"
#include "targets/decoder.h"
#include "targets/launch_text.h"
#include <string.h>
#include <strings.h>

/* A name that a model's file has, as Python's string: of what no name has nothing is left. */
static void put_name(struct text *out, const char *name, size_t length)
{
    text_add(out, "\"");
    for (size_t i = 0; i < length; i++)
        if (strchr("-_.", name[i]) || (name[i] >= '0' && name[i] <= '9') ||
            ((name[i] | 32) >= 'a' && (name[i] | 32) <= 'z'))
            text_add_bytes(out, name + i, 1);
    text_add(out, "\"");
}

/* How frozen matrices are quantized as they are loaded. Those that ranks share out are stored in numbers of the model's
 * type (transformers, quantization/bitsandbytes.md). */
static void add_quantization(struct text *out, int quantized)
{
    if (quantized == QUANTIZED_INT8)
        text_add(out, "            quantization_config=BitsAndBytesConfig(load_in_8bit=True),\n");
    else
        text_printf(out,
                    "            quantization_config=BitsAndBytesConfig(\n"
                    "                load_in_4bit=True,\n"
                    "                bnb_4bit_quant_type=\"nf4\",\n"
                    "                bnb_4bit_use_double_quant=%s,\n"
                    "                bnb_4bit_compute_dtype=dtype,\n"
                    "                bnb_4bit_quant_storage=dtype,\n"
                    "            ),\n",
                    quantized == QUANTIZED_NF4_DOUBLE ? "True" : "False");
}

/* Adapters, which PEFT puts beside the matrices of the model and freezes all else. */
static void add_adapters(struct text *out, const struct decoder_adapters *adapters, const struct model_left_out *left)
{
    char number[TEXT_NUMBER_BYTES];
    const char *names = left->adapter_modules;
    text_printf(out,
                "    if arguments.gradient_checkpointing:  # blocks whose input needs no gradient would have none\n"
                "        model.enable_input_require_grads()\n"
                "    adapters = LoraConfig(\n"
                "        task_type=\"CAUSAL_LM\",\n"
                "        r=%lld,\n"
                "        lora_alpha=%s,\n",
                (long long)adapters->rank, text_double(number, adapters->alpha));
    if (left->adapter_dropout > 0)
        text_printf(out, "        lora_dropout=%s,\n", text_double(number, left->adapter_dropout));
    if (left->adapter_init) {
        text_add(out, "        init_lora_weights=");
        put_name(out, left->adapter_init, strlen(left->adapter_init));
        text_add(out, ",\n");
    }
    text_add(out, "        target_modules=");
    if (names && strcmp(names, "all-linear") == 0) {
        put_name(out, names, strlen(names));
    } else {
        text_add(out, "[");
        for (int i = 0; !names && i < adapters->module_count; i++)
            text_printf(out, "%s\"%s\"", i ? ", " : "", adapters->modules[i]);
        for (const char *name = names; name && *name;) {
            size_t length = strcspn(name, ",");
            text_add(out, name == names ? "" : ", ");
            put_name(out, name, length);
            name += length + (name[length] == ',');
        }
        text_add(out, "]");
    }
    text_add(out, ",\n    )\n    model = get_peft_model(model, adapters)\n");
}

void trainer_readme(struct text *out, const struct launch_context *context)
{
    struct decoder_adapters adapters = { 0 };
    if (!context->model || decoder_trains(&adapters, context->model) != TRAINS_ADAPTERS)
        return;
    text_printf(out, "\n## Adapters\n\nAdapters of rank %lld alone are trained, by peft.", (long long)adapters.rank);
    if (adapters.quantized == QUANTIZED_INT4)
        text_add(out, " FOLDER is a checkpoint whose matrices GPTQ or AWQ quantized.");
    else if (adapters.quantized)
        text_printf(out, " FOLDER is a checkpoint: its matrices are stored in %s as they are loaded, by bitsandbytes.",
                    quantized_names[adapters.quantized]);
    text_add(out,
             " What is told above of a model whose weights are all trained in 16 bits is more than such a run "
             "takes. For `cleave calibrate`\nand `cleave estimate --from` MODEL is the file with adapters that was "
             "planned, not the checkpoint's config.json.\n");
}

/* int4 is of checkpoints that have it, so that nothing is quantized as they are loaded. */
static bool quantizes(const struct decoder_adapters *adapters)
{
    return adapters->quantized && adapters->quantized != QUANTIZED_INT4;
}

/* Begins main() with the model, a checkpoint's or one of random weights. */
static void add_model(struct text *out, const struct decoder_adapters *adapters, bool adapts)
{
    text_add(
        out,
        "def main():\n"
        "    job, arguments = HfArgumentParser((Job, TrainingArguments)).parse_args_into_dataclasses()\n"
        "    config = AutoConfig.from_pretrained(job.model).get_text_config()  # towers beside it are not trained\n"
        "    config.use_cache = False\n"
        "    dtype = torch.bfloat16 if arguments.bf16 else torch.float32\n"
        "    files = [path for kind in (\"*.safetensors\", \"pytorch_model*.bin\") for path in "
        "glob.glob(os.path.join(job.model, kind))]\n"
        "    if files or not os.path.isdir(job.model):\n"
        "        model, loaded = AutoModelForCausalLM.from_pretrained(\n"
        "            job.model,\n"
        "            config=config,\n"
        "            dtype=dtype,\n"
        "            output_loading_info=True,\n"
        "            key_mapping={r\"^language_model\\.\": \"\", r\"^model\\.language_model\\.\": \"model.\"},"
        "  # of towers' checkpoints\n");
    text_add(out, adapts
                      ? "            adapter_kwargs={\"subfolder\": \"none\"},  # adapter_config.json beside it says "
                        "what is made below\n"
                      : "");
    if (quantizes(adapters))
        add_quantization(out, adapters->quantized);
    text_add(
        out,
        "        )\n"
        "        if loaded[\"missing_keys\"]:\n"
        "            raise SystemExit(f\"{job.model} lacks {len(loaded['missing_keys'])} weights of the model, \"\n"
        "                             f\"one of them {min(loaded['missing_keys'])}\")\n"
        "    else:\n");
    text_add(
        out,
        adapters->quantized
            ? "        raise SystemExit(f\"{job.model} has no *.safetensors and no pytorch_model*.bin, of which the "
              "\"\n"
              "                         \"matrices are made that are quantized\")\n"
            : "        if arguments.process_index == 0:\n"
              "            print(f\"{job.model} has no *.safetensors and no pytorch_model*.bin: weights are random\", "
              "flush=True)\n"
              "        model = AutoModelForCausalLM.from_config(config, dtype=dtype)\n");
}

void trainer_script(struct text *out, const struct launch *launch, const struct launch_context *context)
{
    struct decoder_adapters adapters = { 0 };
    bool adapts = context->model && decoder_trains(&adapters, context->model) == TRAINS_ADAPTERS;
    text_add(out, adapts ? "\"\"\"Trains adapters of " : "\"\"\"Trains ");
    launch_text_title(out, launch, context);
    text_add(out, " on random tokens: in its place comes a script with data, which the Trainer takes alike.\n\n"
                  "    --model FOLDER    a configuration, config.json, or a checkpoint\n\"\"\"\n\n"
                  "import glob\n"
                  "import os\n"
                  "import time\n"
                  "from dataclasses import dataclass\n\n"
                  "import torch\n");
    text_add(out, adapts ? "from peft import LoraConfig, get_peft_model\n" : "");
    text_add(out, "from transformers import (\n"
                  "    AutoConfig,\n"
                  "    AutoModelForCausalLM,\n");
    text_add(out, quantizes(&adapters) ? "    BitsAndBytesConfig,\n" : "");
    text_add(out,
             "    HfArgumentParser,\n"
             "    Trainer,\n"
             "    TrainerCallback,\n"
             "    TrainingArguments,\n"
             ")\n\n\n"
             "@dataclass\n"
             "class Job:\n"
             "    model: str = \"model\"\n"
             "    max_length: int = 4096\n\n\n"
             "class RandomTokens(torch.utils.data.Dataset):\n"
             "    def __init__(self, vocabulary, length):\n"
             "        self.vocabulary, self.length = vocabulary, length\n\n"
             "    def __len__(self):\n"
             "        return 1 << 20\n\n"
             "    def __getitem__(self, index):\n"
             "        tokens = torch.randint(self.vocabulary, (self.length,), generator=torch.manual_seed(index))\n"
             "        return {\"input_ids\": tokens, \"labels\": tokens}\n\n\n"
             "class StepTimes(TrainerCallback):\n"
             "    \"\"\"Prints what each step took, as `cleave calibrate` reads it.\"\"\"\n\n"
             "    ended = None\n\n"
             "    def on_step_end(self, args, state, control, **kwargs):\n"
             "        now = time.monotonic()\n"
             "        if self.ended and state.is_world_process_zero:\n"
             "            print(f\"elapsed time per iteration (ms): {1000 * (now - self.ended):.1f}\", flush=True)\n"
             "        self.ended = now\n\n\n");
    text_add(out, adapts ? "class AdapterTrainer(Trainer):\n"
                           "    def _fsdp_qlora_plugin_updates(self):\n"
                           "        \"\"\"Keeps the units that the launch names: those of peft are FSDP 1's, by which "
                           "FSDP 2 has none.\"\"\"\n\n\n"
                         : "");
    add_model(out, &adapters, adapts);
    if (adapts)
        add_adapters(out, &adapters, &context->model->left_out);
    text_printf(out,
                "    data = RandomTokens(config.vocab_size, job.max_length)\n"
                "    %s(model=model, args=arguments, train_dataset=data, callbacks=[StepTimes()]).train()\n",
                adapts ? "AdapterTrainer" : "Trainer");
    text_add(out, "    gib = torch.cuda.max_memory_reserved() / 2**30\n"
                  "    print(f\"rank {arguments.process_index}: at most {gib:.2f} GiB reserved\", flush=True)\n\n\n"
                  "if __name__ == \"__main__\":\n"
                  "    main()\n");
}

/* The Trainer's names (transformers/training_args.py, OptimizerNames; trainer_optimizer.py: sgd has no momentum); what
 * is written is the first that is so. */
static const struct {
    const char *name;
    struct optimizer optimizer;
} optims[] = {
    { "adamw_torch", { .rule = OPTIMIZER_ADAMW } },       { "adamw_torch_fused", { .rule = OPTIMIZER_ADAMW } },
    { "adamw_apex_fused", { .rule = OPTIMIZER_ADAMW } },  { "adamw_hf", { .rule = OPTIMIZER_ADAMW } },
    { "adamw_torch_8bit", { .moments = MOMENTS_EIGHT } }, { "adamw_bnb_8bit", { .moments = MOMENTS_EIGHT } },
    { "adamw_8bit", { .moments = MOMENTS_EIGHT } },       { "sgd", { .rule = OPTIMIZER_SGD } },
    { "paged_adamw_32bit", { .rule = OPTIMIZER_ADAMW } }, { "paged_adamw_8bit", { .moments = MOMENTS_EIGHT } },
};
enum { OPTIMS = sizeof optims / sizeof *optims };

static const char *optim_of(const struct optimizer *optimizer)
{
    for (int i = 0; i < OPTIMS; i++)
        if (optimizer_equal(&optims[i].optimizer, optimizer))
            return optims[i].name;
    return NULL;
}

bool trainer_optimizer_is_known(const struct launch *launch, const struct launch_context *context)
{
    (void)context;
    return optim_of(&launch->optimizer) != NULL;
}

void trainer_arguments(struct text *out, const struct launch *launch, bool checkpoints)
{
    char number[TEXT_NUMBER_BYTES];
    text_printf(
        out,
        "train.py --model \"${MODEL:-model}\" --output_dir out --max_steps \"${STEPS:-20}\" \\\n"
        "    --per_device_train_batch_size %lld --gradient_accumulation_steps %lld --max_length %lld \\\n"
        "    --max_grad_norm %s%s --gradient_checkpointing %s --logging_steps 1 --report_to none --save_strategy "
        "no",
        (long long)launch->micro_batch, (long long)launch_micro_batches(launch), (long long)launch->sequence,
        text_double(number, launch->clip_norm),
        launch->dtype == DTYPE_BF16   ? " --bf16 true"
        : launch->dtype == DTYPE_FP16 ? " --fp16 true"
                                      : "",
        checkpoints ? "true" : "false");
    if (!optimizer_is_usual(&launch->optimizer))
        text_printf(out, " --optim %s", optim_of(&launch->optimizer));
}

bool trainer_names_llama_factory(const struct settings *settings)
{
    static const char *const others[] = { "template", "finetuning_type", "cutoff_len", NULL };
    bool stage = false, other = false;
    for (int i = 0; i < settings->count; i++) {
        const struct setting *one = &settings->list[i];
        stage = stage || (!one->word && strcmp(one->key, "stage") == 0);
        other = other || (!one->word && settings_is_one_of(one->key, others));
    }
    return stage && other;
}

bool trainer_read(struct trainer_said *out, struct settings *settings, struct error *err)
{
    const char *names[OPTIMS + 1] = { NULL };
    int optim = 0;
    *out = (struct trainer_said){ .micro = 1, .accumulation = 1, .clip = 1 };
    for (int i = 0; i < OPTIMS; i++)
        names[i] = optims[i].name;
    static const char *const elsewhere[] = { "offload", "offload_disk", "unsloth", NULL };
    struct setting *again = NULL;
    for (int i = 0; i < settings->count; i++)
        if (strcmp(settings->list[i].key, "gradient_checkpointing") == 0)
            again = &settings->list[i];
    bool plain = !again || !settings_is_one_of(again->value, elsewhere);
    const struct settings_option options[] = {
        { "optim", .word = &optim, .words = names },
        { "per_device_train_batch_size", .integer = &out->micro, .least = 1, .most = MOST_COUNT,
          .said = &out->micro_said },
        { "train_batch_size_per_device", .integer = &out->micro, .least = 1, .most = MOST_COUNT,
          .said = &out->micro_said },
        { "micro_batch_size", .integer = &out->micro, .least = 1, .most = MOST_COUNT, .said = &out->micro_said },
        { "max_length", .integer = &out->sequence, .least = 1, .most = MOST_COUNT, .said = &out->sequence_said },
        { "max_seq_len", .integer = &out->sequence, .least = 1, .most = MOST_COUNT, .said = &out->sequence_said },
        { "cutoff_len", .integer = &out->sequence, .least = 1, .most = MOST_COUNT, .said = &out->sequence_said },
        { "sequence_len", .integer = &out->sequence, .least = 1, .most = MOST_COUNT, .said = &out->sequence_said },
        { "model_max_length", .integer = &out->sequence, .least = 1, .most = MOST_COUNT, .said = &out->sequence_said },
        { "max_sequence_length", .integer = &out->sequence, .least = 1, .most = MOST_COUNT,
          .said = &out->sequence_said },
        { "max_seq_length", .integer = &out->sequence, .least = 1, .most = MOST_COUNT, .said = &out->sequence_said },
        { "block_size", .integer = &out->sequence, .least = 1, .most = MOST_COUNT, .said = &out->sequence_said },
        { "seq_length", .integer = &out->sequence, .least = 1, .most = MOST_COUNT, .said = &out->sequence_said },
        { "seq_len", .integer = &out->sequence, .least = 1, .most = MOST_COUNT, .said = &out->sequence_said },
        { "sequence_length", .integer = &out->sequence, .least = 1, .most = MOST_COUNT, .said = &out->sequence_said },
        { "gradient_accumulation_steps", .integer = &out->accumulation, .least = 1, .most = MOST_COUNT,
          .said = &out->accumulation_said },
        { "max_grad_norm", .real = &out->clip, .said = &out->clip_said },
        { plain ? "gradient_checkpointing" : "", .flag = &out->recompute, .said = &out->recompute_said },
    };
    if (!settings_read(settings, options, sizeof options / sizeof *options, err))
        return false;
    if (!plain) { /* axolotl's: what is kept goes elsewhere, too, which is told */
        out->recompute = out->recompute_said = true;
        again->unusual = true;
    }
    if (trainer_names_llama_factory(settings)) {
        bool off = false; /* blocks are computed again unless it is told not to (model_utils/checkpointing.py) */
        const struct settings_option option = { "disable_gradient_checkpointing", .flag = &off };
        if (!settings_read(settings, &option, 1, err))
            return false;
        out->recompute = !off;
        out->recompute_said = true;
    }
    for (int i = 0; i < settings->count; i++) { /* axolotl's name of it; others have other words behind it */
        struct setting *one = &settings->list[i];
        for (int o = 0; o < OPTIMS && strcmp(one->key, "optimizer") == 0 && !one->taken; o++)
            if (strcmp(one->value, names[o]) == 0) {
                one->taken = true;
                optim = o;
            }
    }
    out->optimizer = optims[optim].optimizer;
    return true;
}

/* LLaMA-Factory takes what stands behind its file as OmegaConf does (hparams/parser.py, read_args). */
bool trainer_split_words(struct settings *settings, struct error *err)
{
    bool behind = false;
    for (int i = 0; i < settings->count; i++) {
        struct setting *one = &settings->list[i];
        size_t key = one->word ? strspn(one->value, "abcdefghijklmnopqrstuvwxyz_0123456789") : 0;
        behind = behind || (one->word && (strstr(one->value, ".yaml") || strstr(one->value, ".yml")));
        if (!behind || key == 0 || one->value[key] != '=')
            continue;
        one->key = arena_strndup(settings->arena, one->value, key);
        if (!one->key)
            return fail_memory(err);
        one->value += key + 1;
        one->word = false;
    }
    return true;
}

const struct setting *trainer_says_deepspeed(const struct settings *settings)
{
    static const char *const keys[] = { "deepspeed", "use_deepspeed", NULL };
    const struct setting *found = NULL;
    for (int i = 0; i < settings->count; i++) {
        const struct setting *one = &settings->list[i];
        found = !one->word && settings_is_one_of(one->key, keys) && !settings_is_nothing(one->value) ? one : found;
    }
    return found;
}

bool trainer_shards_nothing(const struct settings *settings)
{
    static const char *const sharding[] = { "fsdp",          "use_fsdp",          "parallelism_config",
                                            "dp_shard_size", "dp_replicate_size", NULL },
                             *const batches[] = { "per_device_train_batch_size", "train_batch_size_per_device",
                                                  "micro_batch_size", NULL };
    bool of_trainer = false;
    for (int i = 0; i < settings->count; i++) {
        const struct setting *one = &settings->list[i];
        bool shards = settings_begins_as(one->key, sharding) || strstr(one->key, "deepspeed");
        if ((shards && !settings_is_nothing(one->value)) || (one->word && strstr(one->value, "deepspeed")))
            return false;
        of_trainer = of_trainer || settings_is_one_of(one->key, batches);
    }
    return of_trainer;
}

bool trainer_read_type(struct settings *settings, const char *own, const char *other, const char *target, bool *alone,
                       struct error *err)
{
    static const char *const plain[] = { "NO", "MULTI_GPU", NULL };
    const struct setting *type = settings_take(settings, "distributed_type");
    if (!type || strcasecmp(type->value, own) == 0)
        return true;
    if (strcasecmp(type->value, other) == 0)
        return fail(err, "%s: distributed_type: expected %s, found %s: --from %s reads it", settings->name, own, other,
                    target);
    bool shards = !settings_is_one_of(type->value, plain);
    if (alone)
        *alone = !shards;
    if (!shards)
        return alone ||
               setting_fail(settings, type, err, "expected %s, found %s, which shards nothing: --from %s reads it", own,
                            type->value, target);
    return setting_fail(settings, type, err, "expected %s, or %s, which --from %s reads; found %.80s", own, other,
                        target, type->value);
}

bool trainer_no_pipeline(const struct launch *launch, const struct launch_context *context)
{
    (void)context;
    return launch->pipeline == 1;
}

bool trainer_no_experts(const struct launch *launch, const struct launch_context *context)
{
    (void)context;
    return launch->expert == 1;
}

bool trainer_one_token(const struct launch *launch, const struct launch_context *context)
{
    (void)launch;
    return !context->model || decoder_further(context->model) == 0;
}

bool trainer_adapters_are_alike(const struct launch *launch, const struct launch_context *context)
{
    (void)launch;
    return !context->model || decoder_trains(NULL, context->model) != TRAINS_OTHERS;
}

bool trainer_quantized_is_known(const struct launch *launch, const struct launch_context *context)
{
    struct decoder_adapters adapters = { 0 };
    if (context->model)
        decoder_trains(&adapters, context->model);
    bool shared_out = adapters.quantized == QUANTIZED_NF4 || adapters.quantized == QUANTIZED_NF4_DOUBLE;
    return !adapters.quantized_experts &&
           (!adapters.quantized || (launch->tensor == 1 && (shared_out || launch->zero < 3)));
}

bool trainer_attention_is_fused(const struct launch *launch, const struct launch_context *context)
{
    return launch->context == 1 || launch_score_bytes(launch, context) == 0;
}

void trainer_allow_context(struct space *space, const struct graph *graph)
{
    struct launch launch = launch_plain;
    launch.micro_batch = launch.sequence = 1;
    if (launch_score_bytes(&launch, &(struct launch_context){ .graph = graph }) > 0)
        space->context = allowed_only(1);
}

bool trainer_no_sequence_parallel(const struct launch *launch, const struct launch_context *context)
{
    (void)context;
    return !launch->sequence_parallel;
}

bool trainer_recompute_is_known(const struct launch *launch, const struct launch_context *context)
{
    (void)context;
    return launch->excepted == 0 && launch->recompute_first == 0 &&
           (launch->recompute == RECOMPUTE_NONE || launch->recompute == RECOMPUTE_BLOCK);
}

bool trainer_kv_heads_divide(const struct launch *launch, const struct launch_context *context)
{
    return !context->model || decoder_of(context->model).kv_heads % launch->tensor == 0;
}

bool trainer_dtype_is_known(const struct launch *launch, const struct launch_context *context)
{
    (void)context;
    return launch->dtype == DTYPE_BF16 || launch->dtype == DTYPE_FP16 || launch->dtype == DTYPE_FP32;
}
