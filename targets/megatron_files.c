/* What stands beside the arguments in a folder that is launched. */
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
        text_printf(out, ", priced by the facts of `%s`.\n\n", target->framework);
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
