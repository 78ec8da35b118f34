/* Megatron-Bridge: a recipe, a Python function that sets members of cfg. Read are such lines, the same without "cfg."
 * as its command line has them, and members that a constructor is given. */
#include "base/num.h"
#include "targets/launch_text.h"
#include "targets/megatron.h"
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- writing ---- */

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

static void put_model(struct text *out, const struct megatron_args *args)
{
    text_printf(out,
                "    cfg.model = %s(\n        num_layers=%lld,\n        hidden_size=%lld,\n        "
                "num_attention_heads=%lld,\n    )\n",
                args->latent ? "MLAModelProvider" : "GPTModelProvider", (long long)args->layers,
                (long long)args->hidden, (long long)args->heads);
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

static void put_recipe(struct text *out, const struct megatron_args *args, const struct launch *launch,
                       const struct launch_context *context)
{
    text_printf(out,
                "\"\"\"%s on %lld devices, for Megatron-Bridge 0.7. See README.md.\n\n"
                "torchrun --nproc_per_node %lld --nnodes %lld ... recipe.py trains on made-up data.\"\"\"\n\n"
                "import sys\n\nimport torch.nn.functional as F\n"
                "%s"
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
                context->model ? context->model->name : "a model", (long long)megatron_devices(launch),
                (long long)megatron_per_node(launch, context),
                (long long)((megatron_devices(launch) + megatron_per_node(launch, context) - 1) /
                            megatron_per_node(launch, context)),
                args->squared_relu ? "from megatron.core.activations import squared_relu\n" : "",
                args->latent ? "mla_provider import MLAModelProvider" : "gpt_provider import GPTModelProvider",
                (long long)megatron_devices(launch));
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
                "    return cfg\n\n\n"
                "if __name__ == \"__main__\":\n"
                "    config = pretrain_%lldgpu_config()\n"
                "    if \"--report-memory\" in sys.argv:\n"
                "        estimate = estimate_training_memory(config, num_microbatches=%lld)\n"
                "        print(format_training_memory_estimate(estimate, unit=\"GB\"))\n"
                "    else:\n"
                "        pretrain(config=config, forward_step_func=forward_step)\n",
                (long long)megatron_devices(launch),
                (long long)(launch->batch / max_i64(1, launch->micro_batch * launch->data)));
}

static void put_run(struct text *out, const struct launch *launch, const struct launch_context *context)
{
    int64_t per_node = megatron_per_node(launch, context);
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
                (long long)per_node, (long long)((megatron_devices(launch) + per_node - 1) / per_node));
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

/* ---- reading ---- */

struct recipe {
    struct megatron_args *args;
    struct launch_read *out;
    struct arena *arena;
    const char *name;
    int line;
    bool gated, layout_chunks;
    struct error *err;
};

static const struct megatron_option *find_path(const char *path)
{
    static const char *const others[][2] = { { "ddp.overlap_grad_reduce", "comm_overlap.overlap_grad_reduce" },
                                             { "ddp.overlap_param_gather", "comm_overlap.overlap_param_gather" },
                                             { "ddp.bucket_size", "comm_overlap.bucket_size" },
                                             { "optimizer.use_distributed_optimizer", "ddp.use_distributed_optimizer" },
                                             { "dataset.seq_length", "model.seq_length" },
                                             { "dataset.sequence_length", "model.seq_length" },
                                             { "tokenizer.vocab_size", "model.vocab_size" } };
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (strcmp(path, others[i][0]) == 0)
            path = others[i][1];
    for (const struct megatron_option *option = megatron_options; option->flag; option++)
        if (option->path && strcmp(option->path, path) == 0)
            return option;
    return NULL;
}

/* Precision by name: bf16_mixed, fp8_cs, bf16-with-mxfp8-mixed and the like. */
static void set_precision(struct recipe *r, const char *value)
{
    struct megatron_args *a = r->args;
    a->bf16 = strstr(value, "bf16") || strstr(value, "fp8") || strstr(value, "nvfp4");
    a->fp16 = !a->bf16 && strstr(value, "fp16");
    a->fp8 = strstr(value, "fp8") ? "hybrid" : NULL;
    a->fp8_recipe = strstr(value, "mxfp8") || strstr(value, "fp8_mx") ? "mxfp8" : "tensorwise";
    a->fp4 = strstr(value, "nvfp4") ? "e2m1" : NULL;
    a->narrow_gradients = a->narrow_gradients || strstr(value, "_perf_precision"); /* of recipes for speed */
}

/* Settings that are not one of Megatron-LM's. True: it is one of them. */
static bool set_own(struct recipe *r, const char *path, const char *value)
{
    struct megatron_args *a = r->args;
    bool yes = strcmp(value, "True") == 0 || strcmp(value, "true") == 0;
    if (strcmp(path, "model.gated_linear_unit") == 0)
        r->gated = yes;
    else if (strcmp(path, "model.activation_func") == 0)
        a->swiglu = strstr(value, "silu") != NULL, a->squared_relu = strstr(value, "squared_relu") != NULL;
    else if (strcmp(path, "model.share_embeddings_and_output_weights") == 0)
        a->untied = !yes;
    else if (strcmp(path, "mixed_precision") == 0)
        set_precision(r, value);
    else if (strcmp(path, "ddp.grad_reduce_in_fp32") == 0 || strcmp(path, "mixed_precision.grad_reduce_in_fp32") == 0)
        a->narrow_gradients = !yes;
    else if (strcmp(path, "model.window_size") == 0)
        a->window = strcmp(value, "None") == 0 ? NULL : arena_strdup(r->arena, value);
    else
        return false;
    return true;
}

static bool is_idle(const char *path)
{
    static const char *const idle[] = { "train.",
                                        "validation.",
                                        "optimizer.",
                                        "scheduler.",
                                        "dataset.",
                                        "logger.",
                                        "tokenizer.",
                                        "checkpoint.",
                                        "rng.",
                                        "dist.",
                                        "env_vars",
                                        "profiling.",
                                        "peft",
                                        "model.should_pad_vocab",
                                        "model.hidden_dropout",
                                        "model.attention_dropout",
                                        "comm_overlap",
                                        "ddp.check_for_nan_in_grad",
                                        "ddp.average_in_collective",
                                        "model.attention_softmax_in_fp32",
                                        "rerun_state_machine.",
                                        "model",
                                        "ddp",
                                        "train",
                                        "optimizer" };
    for (size_t i = 0; i < sizeof idle / sizeof *idle; i++)
        if (strcmp(path, idle[i]) == 0 || (idle[i][strlen(idle[i]) - 1] == '.' && begins(path, idle[i])))
            return true;
    return false;
}

/* What is switched off changes nothing. */
static bool is_off(const char *value)
{
    return strcmp(value, "False") == 0 || strcmp(value, "false") == 0 || strcmp(value, "None") == 0 ||
           strcmp(value, "null") == 0;
}

static bool add_unknown(struct recipe *r, const char *path)
{
    struct launch_read *out = r->out;
    const char **more = arena_alloc(r->arena, (size_t)out->unknown_count + 1, sizeof *more);
    if (!more || !(more[out->unknown_count] = arena_strdup(r->arena, path)))
        return fail_memory(r->err);
    for (int i = 0; i < out->unknown_count; i++)
        more[i] = out->unknown[i];
    out->unknown = more;
    return ++out->unknown_count <= 1000 || fail(r->err, "%s: more than 1000 settings that are not understood", r->name);
}

/* "[a, b]" as "a b", and words without their quotes. */
static const char *bare_value(struct recipe *r, const struct megatron_option *option, const char *value)
{
    struct text bare = { 0 };
    bool listed = option->kind == MEGATRON_WORDS;
    for (const char *p = value; *p; p++) {
        bool dropped = strchr("\"'", *p) || (listed && strchr("[] ", *p));
        if (listed && *p == ',')
            text_add(&bare, " ");
        else if (!dropped)
            text_add_bytes(&bare, p, 1);
    }
    const char *kept = bare.failed ? NULL : arena_strdup(r->arena, bare.data ? bare.data : "");
    text_free(&bare);
    return kept;
}

static bool set_path(struct recipe *r, const char *path, const char *value)
{
    char at[256];
    const struct megatron_option *option = find_path(path);
    snprintf(at, sizeof at, "%.200s:%d", r->name, r->line);
    if (set_own(r, path, value))
        return true;
    if (!option)
        return is_idle(path) || is_off(value) ? ++r->out->ignored_count > 0 : add_unknown(r, path);
    if (strcmp(value, "None") == 0 || strcmp(value, "null") == 0)
        return true;
    const char *bare = bare_value(r, option, value);
    if (!bare)
        return fail_memory(r->err);
    if (strcmp(option->flag, "--num-query-groups") == 0)
        r->args->grouped_query = true;
    if (option->kind == MEGATRON_FLAG || option->kind == MEGATRON_NOT) {
        bool yes = strcmp(bare, "True") == 0 || strcmp(bare, "true") == 0;
        if (!yes && strcmp(bare, "False") != 0 && strcmp(bare, "false") != 0)
            return fail(r->err, "%s: %s: expected True or False, found \"%.64s\"", at, path, bare);
        *(bool *)((char *)r->args + option->offset) = yes;
        return true;
    }
    return megatron_set(r->args, option, r->arena, bare, at, r->err);
}

/* The end of a value: at a line's end or a comma, outside of brackets and quotes, or at the bracket that closes what is
 * around. */
static const char *value_end(const char *p, const char *end, bool inside)
{
    int depth = 0;
    char quote = 0;
    for (; p < end; p++) {
        if (quote) {
            if (*p == '\\' && p + 1 < end)
                p++;
            else if (*p == quote)
                quote = 0;
            continue;
        }
        if (*p == '"' || *p == '\'')
            quote = *p;
        else if (strchr("([{", *p) && *p)
            depth++;
        else if (strchr(")]}", *p) && *p) {
            if (depth-- == 0)
                return p;
        } else if (depth == 0 && (*p == '#' || *p == '\n' || *p == ';' || (inside && *p == ',')))
            return p;
    }
    return p;
}

static size_t path_length(const char *p, const char *end)
{
    const char *q = p;
    while (q < end && (isalnum((unsigned char)*q) || *q == '_' || *q == '.'))
        q++;
    return (size_t)(q - p);
}

static bool read_settings(struct recipe *r, const char *p, const char *end, const char *around);

/* A recipe's name says for how many devices it is: llama3_70b_pretrain_64gpu_h100_bf16_config. */
static void find_devices(struct recipe *r, const char *name, const char *end)
{
    const char *last = name + path_length(name, end);
    for (const char *p = name; p + 3 <= last; p++)
        if (memcmp(p, "gpu", 3) == 0 && p > name && isdigit((unsigned char)p[-1])) {
            int64_t devices = 0, unit = 1;
            for (const char *d = p; d > name && isdigit((unsigned char)d[-1]) && unit <= 10000000; d--, unit *= 10)
                devices += unit * (d[-1] - '0');
            if (devices > 0 && devices <= 1 << 24)
                r->out->devices = devices;
        }
}

/* One "path = value"; a constructor's members count as the path's. */
static bool read_setting(struct recipe *r, const char *path, size_t length, const char *value, const char *end,
                         const char *around)
{
    char full[256], word[4096];
    bool own = length > 4 && memcmp(path, "cfg.", 4) == 0;
    path += own ? 4 : 0;
    length -= own ? 4 : 0;
    while (value < end && isspace((unsigned char)*value))
        value++;
    while (end > value && isspace((unsigned char)end[-1]))
        end--;
    if (end - value >= (ptrdiff_t)sizeof word || length + strlen(around) + 2 > sizeof full)
        return true; /* none of ours is so long */
    snprintf(full, sizeof full, "%s%s%.*s", around, *around ? "." : "", (int)length, path);
    snprintf(word, sizeof word, "%.*s", (int)(end - value), value);
    bool known = own || *around || memchr(path, '.', length);
    if (begins(word, "MLAModelProvider"))
        r->args->latent = true;
    const char *call = strchr(word, '(');
    if (!known)
        return true; /* a variable of the recipe's own */
    if (call && call > word && isalnum((unsigned char)call[-1]) && strchr(full, '.') == NULL && !*around &&
        strcmp(full, "mixed_precision") != 0)
        return read_settings(r, value + (call - word) + 1, end, full);
    return set_path(r, full, word);
}

/* "--recipe NAME" on a command line: what the recipe sets is not known here. False: out of memory. */
static bool note_recipe(struct recipe *r, const char *option, size_t length, const char *end)
{
    static const char *const options[] = { "recipe", "config", NULL };
    char words[96];
    for (int i = 0; options[i]; i++) {
        if (length != strlen(options[i]) || memcmp(option, options[i], length) != 0)
            continue;
        const char *name = option + length;
        while (name < end && (*name == ' ' || *name == '='))
            name++;
        snprintf(words, sizeof words, "--%s %.*s", options[i], (int)min_i64(64, (int64_t)path_length(name, end)), name);
        return add_unknown(r, words);
    }
    return true;
}

static bool read_settings(struct recipe *r, const char *p, const char *end, const char *around)
{
    const char *begin = p;
    while (p < end) {
        if (*p == '\n')
            r->line++;
        if (*p == '#') {
            while (p < end && *p != '\n')
                p++;
            continue;
        }
        if ((*p == '"' || *p == '\'')) {
            size_t marks = end - p >= 3 && p[1] == *p && p[2] == *p ? 3 : 1;
            const char *stop = p + marks;
            while (stop < end && memcmp(stop, p, min_i64((int64_t)marks, end - stop)) != 0)
                stop++;
            for (; p < stop && p < end; p++)
                r->line += *p == '\n';
            p = stop + marks < end ? stop + marks : end;
            continue;
        }
        size_t length = path_length(p, end);
        if (length == 0) {
            p++;
            continue;
        }
        const char *q = p + length;
        if (!*around && p - begin >= 2 && p[-1] == '-' && p[-2] == '-' && !note_recipe(r, p, length, end))
            return false;
        while (q < end && (*q == ' ' || *q == '\t'))
            q++;
        if (q + 1 < end && *q == '=' && q[1] != '=') {
            const char *stop = value_end(q + 1, end, *around != 0);
            int line = r->line;
            /* on a command line settings are separated by blanks */
            bool bare = q == p + length && q + 1 < end && q[1] != ' ' && !*around;
            if (bare)
                for (const char *s = q + 1; s < stop; s++)
                    if (*s == ' ' && s[-1] != ',') {
                        stop = s;
                        break;
                    }
            if (!read_setting(r, p, length, q + 1, stop, around))
                return false;
            r->line = line;
            for (const char *s = q; s < stop; s++)
                r->line += *s == '\n';
            p = stop;
            continue;
        }
        if (length == 3 && memcmp(p, "def", 3) == 0)
            find_devices(r, q, end);
        p = q > p + length ? q : p + length;
    }
    return true;
}

static bool read_launch(struct launch_read *out, struct arena *arena, const char *name, const char *text, size_t length,
                        struct error *err)
{
    struct megatron_args args = megatron_defaults;
    struct recipe r = { .args = &args, .out = out, .arena = arena, .name = name, .line = 1, .err = err };
    launch_read_begin(out);
    if (memchr(text, 0, length))
        return fail(err, "%s: expected text, found a byte of zero", name);
    /* as _pretrain_common() begins */
    args.bf16 = args.sharded_optimizer = args.overlap_reduce = args.overlap_gather = true;
    args.fp8_recipe = "tensorwise";
    int before = out->unknown_count;
    if (!read_settings(&r, text, text + length, ""))
        return false;
    if (out->ignored_count == 0 && args.tensor == 1 && args.global_batch == 0 && args.micro_batch == 0 &&
        args.layers == 0 && args.pipeline == 1 && out->unknown_count == before)
        return fail(
            err,
            "%s: expected a recipe of Megatron-Bridge, with lines such as cfg.model.tensor_model_parallel_size = 4; "
            "found none",
            name);
    args.swiglu = args.swiglu && r.gated;
    args.qk_norm = args.qk_norm || args.latent;
    args.overlap_gather = args.overlap_gather && args.overlap_reduce && args.sharded_optimizer;
    args.positions =
        strcmp(args.position, "learned_absolute") == 0 ? args.sequence : max_i64(args.positions, args.sequence);
    if (args.layout) /* which says it too */
        args.chunks = 0;
    return megatron_launch(out, arena, &args, true, name, err);
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
    .rules = megatron_bridge_rules,
    .allow = megatron_allow,
    .write = write_launch,
    .read = read_launch,
};
