/* What stands beside the arguments in a folder that is launched. */
#include "models/layer_kind.h"
#include "models/operators.h"
#include "planner/plan/dim.h"
#include "targets/launch_text.h"
#include "targets/megatron.h"
#include <string.h>

static void put_words(struct text *out, const struct launch *l, const struct launch_context *c)
{
    launch_text_title(out, l, c);
    text_printf(out, "%s: tensor %lld%s, context %lld, pipeline %lld", c->device_name ? " devices" : "",
                (long long)l->tensor, l->sequence_parallel ? " with sequence parallelism" : "", (long long)l->context,
                (long long)l->pipeline);
    if (l->chunks > 1)
        text_printf(out, " of %lld chunks", (long long)l->chunks);
    text_printf(out, ", data %lld, experts %lld, ZeRO %lld, %s, batch %lld in micro-batches of %lld",
                (long long)l->data, (long long)l->expert, (long long)l->zero, dtype_names[l->dtype],
                (long long)l->batch, (long long)l->micro_batch);
}

void megatron_put_readme(struct text *out, const struct target *target, const struct launch *launch,
                         const struct launch_context *context, const char *command)
{
    char words[TEXT_NUMBER_BYTES];
    text_printf(out, "# Launch for %s\n\n", target->release);
    put_words(out, launch, context);
    text_add(out, ".\n\n");
    if (context->step_ns > 0) {
        text_printf(out, "Predicted: a step of %s", text_duration_ns(words, context->step_ns));
        text_printf(out, ", %.0f tokens/s",
                    (double)launch->batch * (double)launch->sequence * 1e9 / (double)context->step_ns);
        text_printf(out, ", priced by the facts of `%s`.\n\n", launch_text_priced_by(target, context));
    }
    if (context->peak_bytes && context->stage_count > 0) {
        text_add(out, "Memory of one device, predicted:\n\n| pipeline stage | peak |\n|---|---|\n");
        for (int s = 0; s < context->stage_count; s++)
            text_printf(out, "| %d | %s |\n", s, text_bytes(words, context->peak_bytes[s]));
        text_add(out, "\n");
    }
    text_printf(out, "%s", command);
}

void megatron_put_sbatch(struct text *out, const struct launch *launch, const struct launch_context *context,
                         const char *script)
{
    text_add(out, "#!/usr/bin/env bash\n#SBATCH --job-name=");
    launch_text_model(out, context, "train");
    text_printf(
        out,
        "\n#SBATCH --nodes=%lld\n"
        "#SBATCH --ntasks-per-node=1\n"
        "#SBATCH --gpus-per-node=%lld\n"
        "#SBATCH --exclusive\n"
        "# Nodes are numbered in the order of the job's list: neighbours in it are neighbours in the pipeline.\n"
        "set -euo pipefail\n"
        "export MASTER_ADDR=$(scontrol show hostnames \"$SLURM_JOB_NODELIST\" | head -n 1)\n"
        "export MASTER_PORT=${MASTER_PORT:-29500}\n"
        "export NNODES=$SLURM_NNODES\n"
        "export LAUNCH_DIR=${LAUNCH_DIR:-$SLURM_SUBMIT_DIR}\n"
        "srun bash -c 'NODE_RANK=$SLURM_NODEID \"$LAUNCH_DIR/%s\"'\n",
        (long long)launch_nodes(launch, context), (long long)launch_devices_per_node(launch, context), script);
}

static bool is_latent(const struct model *model)
{
    bool latent = false;
    for (int i = 0; i < model->layer_count; i++)
        latent = latent || strcmp(model->layers[i].kind->name, "latent_attention") == 0;
    return latent;
}

/* Yarn alone has settings of its own. */
static bool is_yarn(const struct model_left_out *left)
{
    return left->positions && strcmp(left->positions, "yarn") == 0 && left->factor > 0;
}

void megatron_say_positions(struct text *out, const struct model *model)
{
    const struct model_left_out *left = &model->left_out;
    const double fixed[] = { 32, 1 }, own[] = { left->beta_fast, left->beta_slow };
    bool latent = is_latent(model);
    if (!is_yarn(left))
        return;
    const char *flag = latent ? "--rope-type" : "--position-embedding-type";
    text_printf(
        out, " In MODEL_ARGS of `train.sh` put `%s yarn --rotary-scaling-factor %g --mscale %.9g --mscale-all-dim %g",
        flag, left->factor, left->mscale, left->mscale_all_dim);
    if (!latent)
        text_printf(out, " --yarn-original-max-position-embeddings %lld --yarn-beta-fast %g --yarn-beta-slow %g%s",
                    (long long)left->original, left->beta_fast, left->beta_slow,
                    left->exact ? " --no-yarn-correction-range-round-to-int" : "");
    text_printf(out, "` in place of `%s rope`.", flag);
    /* multi_latent_attention.py takes these from a configuration to which no argument leads */
    if (latent && (left->original != 4096 || memcmp(fixed, own, sizeof own) != 0))
        text_printf(out,
                    " No argument says the model's %lld original positions, beta_fast %g and beta_slow %g: Megatron-LM "
                    "takes 4096, 32 and 1 with latent attention.",
                    (long long)left->original, own[0], own[1]);
}

void megatron_bridge_say_positions(struct text *out, const struct model *model)
{
    const struct model_left_out *left = &model->left_out;
    const struct {
        const char *name;
        double value;
    } settings[] = { { "rotary_scaling_factor", left->factor },
                     { "original_max_position_embeddings", (double)left->original },
                     { "beta_fast", left->beta_fast },
                     { "beta_slow", left->beta_slow },
                     { "mscale", left->mscale },
                     { "mscale_all_dim", left->mscale_all_dim } };
    char number[TEXT_NUMBER_BYTES];
    bool latent = is_latent(model);
    if (!is_yarn(left))
        return;
    const char *type = latent ? "rope_type" : "position_embedding_type", *before = latent ? "" : "yarn_";
    text_printf(out,
                " In `recipe.py` put these in place of `cfg.model.%s = \"rope\"`:\n\n      cfg.model.%s = \"yarn\"\n",
                type, type);
    for (size_t i = 0; i < sizeof settings / sizeof *settings; i++)
        text_printf(out, "      cfg.model.%s%s = %s\n", before, settings[i].name,
                    text_double(number, settings[i].value));
    if (!latent)
        text_printf(out, "      cfg.model.yarn_correction_range_round_to_int = %s\n", left->exact ? "False" : "True");
}
