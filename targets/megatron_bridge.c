/* Megatron-Bridge: a recipe, a Python function that sets members of cfg. */
#include "base/num.h"
#include "targets/launch_text.h"
#include "targets/megatron.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool begins(const char *text, const char *with)
{
    return strncmp(text, with, strlen(with)) == 0;
}

/* What the recipe's base or the provider may have otherwise is always said. */
static bool is_written(const struct megatron_args *args, const struct megatron_option *option)
{
    static const char *const latent[] = { "--q-lora-rank", "--kv-lora-rank", "--qk-head-dim",   "--qk-pos-emb-head-dim",
                                          "--v-head-dim",  "--rope-type",    "--no-rope-fusion" };
    static const char *const always[] = { "--tensor-model-parallel-size",
                                          "--pipeline-model-parallel-size",
                                          "--context-parallel-size",
                                          "--expert-model-parallel-size",
                                          "--sequence-parallel",
                                          "--use-distributed-optimizer",
                                          "--clip-grad",
                                          "--normalization",
                                          "--norm-epsilon",
                                          "--position-embedding-type",
                                          "--disable-bias-linear",
                                          "--init-method-std" };
    static const char *const elsewhere[] = {
        "--num-layers",   "--hidden-size",      "--num-attention-heads",    "--moe-layer-freq",
        "--cp-comm-type", "--num-query-groups", "--multi-latent-attention", "--window-attn-skip-freq",
        "--kv-channels"
    };
    if (!option->path || begins(option->path, "comm_overlap."))
        return false;
    for (size_t i = 0; i < sizeof elsewhere / sizeof *elsewhere; i++)
        if (strcmp(option->flag, elsewhere[i]) == 0)
            return false;
    for (size_t i = 0; i < sizeof always / sizeof *always; i++)
        if (strcmp(option->flag, always[i]) == 0)
            return true;
    for (size_t i = 0; args->latent && i < sizeof latent / sizeof *latent; i++)
        if (strcmp(option->flag, latent[i]) == 0)
            return strcmp(option->flag, "--q-lora-rank") != 0 || args->query_rank > 0;
    if (strcmp(option->flag, "--rope-scaling-factor") == 0)
        return args->rope_scaling;
    return megatron_says(args, option);
}

static const char *precision_of(const struct megatron_args *args)
{
    return args->fp4                                             ? "bf16_with_nvfp4_mixed"
           : args->fp8 && strcmp(args->fp8_recipe, "mxfp8") == 0 ? "bf16_with_mxfp8_mixed"
           : args->fp8                                           ? "bf16_with_fp8_current_scaling_mixed"
           : args->bf16                                          ? "bf16_mixed"
                                                                 : "fp16_mixed";
}

bool megatron_has_specs(const struct megatron_args *args)
{
    return args->latent || (args->expert_pattern && strcmp(args->expert_pattern, "1") != 0);
}

static void put_model(struct text *out, const struct megatron_args *args)
{
    text_printf(out,
                "    cfg.model = %s(\n        num_layers=%lld,\n        hidden_size=%lld,\n        "
                "num_attention_heads=%lld,\n    )\n",
                args->latent ? "MLAModelProvider" : "GPTModelProvider", (long long)args->layers,
                (long long)args->hidden, (long long)args->heads);
    /* a layer that predicts further tokens takes the last one's (mtp_block_spec) */
    if (megatron_has_specs(args))
        text_add(out, "    cfg.model.transformer_layer_spec = partial(get_gpt_decoder_block_spec, "
                      "use_transformer_engine=True)\n");
    if (args->grouped_query)
        text_printf(out, "    cfg.model.num_query_groups = %lld\n", (long long)args->query_groups);
    if (!args->latent)
        text_printf(out, "    cfg.model.kv_channels = %lld\n",
                    (long long)(args->kv_channels > 0 ? args->kv_channels : args->hidden / max_i64(1, args->heads)));
    if (args->latent && args->query_rank == 0)
        text_add(out, "    cfg.model.q_lora_rank = None\n");
    if (args->swiglu)
        text_add(out, "    cfg.model.gated_linear_unit = True\n    cfg.model.activation_func = F.silu\n");
    if (args->squared_relu)
        text_add(out, "    cfg.model.activation_func = squared_relu\n    cfg.model.bias_activation_fusion = False\n");
    text_printf(out, "    cfg.model.share_embeddings_and_output_weights = %s\n", args->untied ? "False" : "True");
    text_add(out, "    cfg.model.should_pad_vocab = True\n    cfg.model.hidden_dropout = 0.0\n    "
                  "cfg.model.attention_dropout = 0.0\n");
    if (args->window)
        text_printf(out, "    cfg.model.window_size = (%s)\n", args->window);
    if (args->window_pattern)
        text_printf(out, "    cfg.model.window_attn_skip_freq = %s\n", args->window_pattern);
    if (args->expert_pattern)
        text_printf(out, "    cfg.model.moe_layer_freq = %s\n", args->expert_pattern);
    if (args->context > 1)
        text_printf(out, "    cfg.model.cp_comm_type = \"%s\"\n", args->context_type);
}

/* Whether something is said in words of torch. */
static bool says_dtypes(const struct megatron_args *args)
{
    for (const struct megatron_option *option = megatron_options; option->flag; option++)
        if (option->path && strstr(option->path, "_dtype") && megatron_says(args, option))
            return true;
    return false;
}

static void put_recipe(struct text *out, const struct megatron_args *args, const struct launch *launch,
                       const struct launch_context *context)
{
    text_add(out, "\"\"\"");
    launch_text_model(out, context, "a model");
    text_printf(
        out,
        " on %lld devices, for Megatron-Bridge 0.7. See README.md.\n\n"
        "torchrun --nproc_per_node %lld --nnodes %lld ... recipe.py trains on made-up data.\"\"\"\n\n"
        "import sys\n%s\n%simport torch.nn.functional as F\n"
        "%s%s"
        "from megatron.bridge.models.%s\n"
        "from megatron.bridge.recipes.common import _pretrain_common\n"
        "from megatron.bridge.training.comm_overlap import CommOverlapConfig\n"
        "from megatron.bridge.training.gpt_step import forward_step\n"
        "from megatron.bridge.training.mixed_precision import get_mixed_precision_config\n"
        "from megatron.bridge.training.pretrain import pretrain\n"
        "from megatron.bridge.training.utils.theoretical_memory_utils import (\n"
        "    estimate_training_memory,\n    format_training_memory_estimate,\n)\n\n\n"
        "def pretrain_%lldgpu_config():\n"
        "    cfg = _pretrain_common()\n",
        (long long)launch_devices(launch), (long long)launch_devices_per_node(launch, context),
        (long long)launch_nodes(launch, context), megatron_has_specs(args) ? "from functools import partial\n" : "",
        says_dtypes(args) ? "import torch\n" : "",
        args->squared_relu ? "from megatron.core.activations import squared_relu\n" : "",
        megatron_has_specs(args) ? "from megatron.core.models.gpt.gpt_layer_specs import get_gpt_decoder_block_spec\n"
                                 : "",
        args->latent ? "mla_provider import MLAModelProvider" : "gpt_provider import GPTModelProvider",
        (long long)launch_devices(launch));
    put_model(out, args);
    for (const struct megatron_option *option = megatron_options; option->flag; option++)
        if (is_written(args, option)) {
            text_printf(out, "    cfg.%s = ", option->path);
            megatron_put_value(out, args, option, true);
            text_add(out, "\n");
        }
    text_printf(out, "    cfg.dataset.seq_length = %lld\n", (long long)args->sequence);
    text_add(out, "    cfg.tokenizer.tokenizer_type = \"NullTokenizer\"\n");
    text_printf(out, "    cfg.tokenizer.vocab_size = %lld\n", (long long)args->vocabulary);
    text_printf(out, "    cfg.optimizer.use_distributed_optimizer = %s\n", args->sharded_optimizer ? "True" : "False");
    if (launch->dtype == DTYPE_FP32)
        text_add(out, "    cfg.mixed_precision = None\n");
    else
        text_printf(out,
                    "    cfg.mixed_precision = get_mixed_precision_config(\"%s\")\n"
                    "    cfg.mixed_precision.grad_reduce_in_fp32 = %s\n",
                    precision_of(args), args->wide_gradients ? "True" : "False");
    text_printf(out, "    cfg.ddp.grad_reduce_in_fp32 = %s\n",
                launch->dtype == DTYPE_FP32 || args->wide_gradients ? "True" : "False");
    text_printf(out,
                "    cfg.comm_overlap = CommOverlapConfig(tp_comm_overlap=False, overlap_grad_reduce=%s, "
                "overlap_param_gather=%s",
                args->overlap_reduce ? "True" : "False", args->overlap_gather ? "True" : "False");
    if (args->bucket > 0)
        text_printf(out, ", bucket_size=%lld", (long long)args->bucket);
    text_printf(out,
                ")\n"
                "    cfg.env_vars = {\"CUDA_DEVICE_MAX_CONNECTIONS\": 1, \"PYTORCH_CUDA_ALLOC_CONF\": "
                "\"expandable_segments:True\"}\n"
                "    cfg.train.train_iters = 50\n"
                "    cfg.validation.eval_iters = 0\n"
                "    cfg.checkpoint.save = None  # the base recipe's folder would get all weights after the last step\n"
                "    cfg.checkpoint.load = None  # and the next run would go on from there\n"
                "    return cfg\n\n\n"
                "if __name__ == \"__main__\":\n"
                "    config = pretrain_%lldgpu_config()\n"
                "    if \"--report-memory\" in sys.argv:\n"
                "        estimate = estimate_training_memory(config, num_microbatches=%lld)\n"
                "        print(format_training_memory_estimate(estimate, unit=\"GB\"))\n"
                "    else:\n"
                "        pretrain(config=config, forward_step_func=forward_step)\n",
                (long long)launch_devices(launch),
                (long long)(launch->batch / max_i64(1, launch->micro_batch * launch->data)));
}

static void put_run(struct text *out, const struct launch *launch, const struct launch_context *context)
{
    text_printf(out,
                "#!/usr/bin/env bash\n"
                "# On each node, with NODE_RANK and MASTER_ADDR set; or sbatch train.sbatch.\n"
                "set -euo pipefail\n"
                "export CUDA_DEVICE_MAX_CONNECTIONS=${CUDA_DEVICE_MAX_CONNECTIONS:-1}\n"
                "export PYTORCH_CUDA_ALLOC_CONF=${PYTORCH_CUDA_ALLOC_CONF:-expandable_segments:True}\n"
                "torchrun --nproc_per_node \"${GPUS_PER_NODE:-%lld}\" --nnodes \"${NNODES:-%lld}\" --node_rank "
                "\"${NODE_RANK:-0}\" \\\n"
                "    --master_addr \"${MASTER_ADDR:-localhost}\" --master_port \"${MASTER_PORT:-29500}\" \\\n"
                "    \"$(dirname \"$0\")/recipe.py\" \"$@\"\n",
                (long long)launch_devices_per_node(launch, context), (long long)launch_nodes(launch, context));
}

static const char commands[] =
    "Files: `recipe.py` (all settings), `train.sh` (torchrun), `train.sbatch` (Slurm).\n\n"
    "## Verify before it costs anything\n\n"
    "What Megatron-Bridge itself thinks of the memory (its docs/training/memory-estimator.md, no GPU needed):\n\n"
    "    ./train.sh --report-memory\n\n"
    "## Feed the measured step back\n\n"
    "    ./train.sh 2>&1 | tee log.txt\n";

static bool write_launch(struct launch_files *out, const struct launch *launch, const struct launch_context *context)
{
    extern const struct target target_megatron_bridge;
    struct arena arena = { 0 };
    struct megatron_args args = megatron_defaults;
    args.narrow_gradients = true;
    megatron_of_launch(&args, &arena, launch, context);
    args.chunks = launch->chunks > 1 ? launch->chunks : 0;
    struct text *recipe = launch_files_add(out, "recipe.py", false);
    struct text *script = launch_files_add(out, "train.sh", true);
    struct text *batch = launch_files_add(out, "train.sbatch", true);
    struct text *readme = launch_files_add(out, "README.md", false);
    bool ok = recipe && script && batch && readme && !arena_failed(&arena);
    if (ok) {
        put_recipe(recipe, &args, launch, context);
        put_run(script, launch, context);
        megatron_put_sbatch(batch, launch, context, "train.sh");
        megatron_put_readme(readme, &target_megatron_bridge, launch, context, commands);
        launch_text_calibrate_command(readme, &target_megatron_bridge, launch, context, "recipe.py", "log.txt");
        ok = !recipe->failed && !script->failed && !batch->failed && !readme->failed;
    }
    arena_free(&arena);
    return ok;
}

extern const struct target target_megatron_bridge;
const struct target target_megatron_bridge = {
    .name = "megatron-bridge",
    .short_name = "bridge",
    .framework = "megatron-core",
    .release = "Megatron-Bridge 0.7",
    .slack = .051,
    .slack_source =
        "docs/accuracy.md: published peaks of 67 runs of Megatron were that much above predictions in the median",
    .doc = "Megatron-Bridge: a recipe in Python, with torchrun and sbatch scripts",
    .say_positions = megatron_bridge_say_positions,
    .rules = megatron_bridge_rules,
    .offload_needs = "with the precision-aware one",
    .allow = megatron_allow,
    .write = write_launch,
    .read = megatron_read_recipe,
};
