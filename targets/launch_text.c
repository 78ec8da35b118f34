#include "targets/launch_text.h"
#include "base/num.h"
#include "planner/program/schedule.h"
#include <string.h>

int64_t launch_devices_per_node(const struct launch *launch, const struct launch_context *context)
{
    int64_t devices = launch_devices(launch), each = max_i64(1, min_i64(context->devices_per_node, devices));
    while (devices % each != 0)
        each--;
    return context->devices_per_node > 0 ? each : devices;
}

bool launch_nodes_are_alike(const struct launch *launch, const struct launch_context *context)
{
    (void)launch;
    return !context->nodes_differ;
}

int64_t launch_nodes(const struct launch *launch, const struct launch_context *context)
{
    return launch_devices(launch) / launch_devices_per_node(launch, context);
}

void launch_text_name(struct text *out, const char *name)
{
    const int most = 80;
    for (int i = 0; i < most && name[i]; i++) {
        bool plain = (name[i] >= 'a' && name[i] <= 'z') || (name[i] >= 'A' && name[i] <= 'Z') ||
                     (name[i] >= '0' && name[i] <= '9') || strchr("-._+", name[i]);
        text_printf(out, "%c", plain ? name[i] : '_');
    }
}

void launch_text_model(struct text *out, const struct launch_context *context, const char *instead)
{
    launch_text_name(out, context->model ? context->model->name : instead);
}

void launch_text_title(struct text *out, const struct launch *launch, const struct launch_context *context)
{
    launch_text_model(out, context, "model");
    text_printf(out, " on %lld ", (long long)launch_devices(launch));
    launch_text_name(out, context->device_name ? context->device_name : "devices");
}

static void add_degrees(struct text *out, const struct launch *launch)
{
    text_printf(out, "- %lld data-parallel ranks", (long long)launch->data);
    if (launch->zero > 0 && launch->shard_group > 0)
        text_printf(out, " in groups of %lld that share out ZeRO %lld's shards", (long long)launch->shard_group,
                    (long long)launch->zero);
    else if (launch->zero > 0)
        text_printf(out, ", ZeRO %lld%s", (long long)launch->zero,
                    launch->zero < 3                       ? ""
                    : launch->reshard == RESHARD_EACH_PASS ? ", weights gathered for each pass"
                                                           : ", weights kept gathered through the step");
    text_add(out, "\n");
    if (launch->tensor > 1)
        text_printf(out, "- tensor parallel over %lld%s\n", (long long)launch->tensor,
                    launch->sequence_parallel ? ", with sequence parallelism" : "");
    if (launch->context > 1)
        text_printf(out, "- context parallel over %lld (%s)\n", (long long)launch->context,
                    dimensions[launch->context_dimension]->name);
    if (launch->expert > 1)
        text_printf(out, "- experts shared out over %lld %sranks\n", (long long)launch->expert,
                    launch->tensor * launch->context == 1 ? "data-parallel " : "");
    if (launch->pipeline > 1)
        text_printf(out, "- %lld stages, schedule %s, %lld %s of the model on each\n", (long long)launch->pipeline,
                    schedules[launch->schedule]->name, (long long)launch->chunks,
                    launch->chunks == 1 ? "piece" : "pieces");
    text_printf(out, "- a step of %lld sequences of %lld tokens: %lld micro-batches of %lld a rank\n",
                (long long)launch->batch, (long long)launch->sequence, (long long)launch_micro_batches(launch),
                (long long)launch->micro_batch);
    char names[OPERATORS_TEXT_BYTES];
    if (launch->recompute != RECOMPUTE_NONE)
        text_printf(out, "- recomputation: %s%s%s", recompute_names[launch->recompute],
                    launch->excepted ? " but for " : "",
                    launch->excepted ? operators_text(names, launch->excepted) : "");
    if (launch->recompute_first > 0)
        text_printf(out, " of the first %lld of each piece's blocks", (long long)launch->recompute_first);
    if (launch->recompute != RECOMPUTE_NONE)
        text_add(out, "\n");
    if (launch->offload != OFFLOAD_NONE)
        text_printf(out, "- in host memory: %s\n", offload_names[launch->offload]);
    text_printf(out, "- %s", dtype_names[launch->dtype]);
    if (!optimizer_is_usual(&launch->optimizer)) {
        text_add(out, ", optimizer ");
        optimizer_describe(out, &launch->optimizer);
    }
    text_add(out, "\n");
}

const char *launch_text_priced_by(const struct target *target, const struct launch_context *context)
{
    return context->framework ? context->framework : target->framework;
}

void launch_text_readme(struct text *out, const struct target *target, const struct launch *launch,
                        const struct launch_context *context)
{
    char number[TEXT_NUMBER_BYTES], other[TEXT_NUMBER_BYTES];
    text_add(out, "# ");
    launch_text_title(out, launch, context);
    text_printf(out, "\n\nFor %s. Written by cleave %s.\n\n## Plan\n\n", target->release, CLEAVE_VERSION);
    add_degrees(out, launch);
    text_add(out, "\n## Predicted\n\n");
    if (context->step_ns > 0)
        text_printf(out, "- step: %s, %.0f tokens/s on each device\n", text_duration_ns(number, context->step_ns),
                    (double)(launch->batch * launch->sequence) / (double)launch_devices(launch) /
                        ((double)context->step_ns / 1e9));
    else
        text_add(out, "- step: nobody has predicted it (`cleave estimate`)\n");
    for (int s = 0; s < context->stage_count && context->peak_bytes; s++) {
        text_printf(out, "- memory of each device of stage %d: %s", s, text_bytes(number, context->peak_bytes[s]));
        if (context->available_bytes)
            text_printf(out, " of %s", text_bytes(other, context->available_bytes[s]));
        text_add(out, "\n");
    }
    int64_t scores = launch_score_bytes(launch, context);
    if (scores > 0)
        text_printf(out, "- with %s of attention's scores for each block and micro-batch: nothing fuses it here\n",
                    text_bytes(number, scores));
    const char *framework = launch_text_priced_by(target, context);
    text_printf(out, "- of the framework `%s` (`cleave plan --framework %s`)\n", framework, framework);
}

void launch_text_calibrate_command(struct text *out, const struct target *target, const struct launch *launch,
                                   const struct launch_context *context, const char *file, const char *log)
{
    text_printf(out, "    cleave calibrate --from %s %s --cluster %lldx%lld:", target->name, file,
                (long long)launch_nodes(launch, context), (long long)launch_devices_per_node(launch, context));
    launch_text_name(out, context->device_name ? context->device_name : "DEVICE");
    text_printf(out, " --log %s -o calibration.json\n", log);
}

void launch_text_calibrate(struct text *out, const struct target *target, const struct launch *launch,
                           const struct launch_context *context, const char *file)
{
    text_add(out, "\n## What was measured\n\nWhat the run prints corrects later predictions:\n\n"
                  "    ./train.sh 2>&1 | tee train.log\n");
    launch_text_calibrate_command(out, target, launch, context, file, "train.log");
    text_add(out, "\nThen `cleave plan ... --profile calibration.json`.\n");
}

void launch_text_sbatch(struct text *out, const struct launch *launch, const struct launch_context *context)
{
    text_add(out, "#!/usr/bin/env bash\n#SBATCH --job-name=");
    launch_text_model(out, context, "train");
    text_printf(out,
                "\n#SBATCH --nodes=%lld\n"
                "#SBATCH --ntasks-per-node=1\n"
                "#SBATCH --gpus-per-node=%lld\n"
                "#SBATCH --exclusive\n"
                "#SBATCH --output=%%x-%%j.log\n"
                "# Stages lie on neighbouring nodes: keep the order of the nodes.\n"
                "set -euo pipefail\n"
                "cd \"${SLURM_SUBMIT_DIR:-$(dirname \"$0\")}\"\n"
                "MASTER_ADDR=$(scontrol show hostnames \"$SLURM_JOB_NODELIST\" | head -n 1)\n"
                "export MASTER_ADDR MASTER_PORT=\"${MASTER_PORT:-29500}\"\n"
                "srun --kill-on-bad-exit=1 bash -c 'NODE_RANK=$SLURM_NODEID ./train.sh'\n",
                (long long)launch_nodes(launch, context), (long long)launch_devices_per_node(launch, context));
}

void launch_text_shell(struct text *out, const struct target *target, const struct launch *launch,
                       const struct launch_context *context)
{
    text_add(out, "#!/usr/bin/env bash\n# ");
    launch_text_title(out, launch, context);
    text_printf(out,
                ", for %s.\n"
                "# On several nodes it runs on each, with MASTER_ADDR and NODE_RANK set (train.sbatch does).\n"
                "set -euo pipefail\n"
                "cd \"$(dirname \"$0\")\"\n"
                "export PYTORCH_ALLOC_CONF=\"${PYTORCH_ALLOC_CONF:-expandable_segments:True}\"\n",
                target->release);
}

/* ---- several nodes ---- */

/* Stages are outermost in the numbering of every target; a node may have several, or a part of one. */
static void put_hostfile(struct text *out, const struct launch *launch, const char *const *node_devices, int64_t nodes,
                         int64_t per_node)
{
    int64_t each = launch_devices(launch) / launch->pipeline;
    text_printf(
        out,
        "# One node a line, in the order of ranks: put your names in place of node-0, node-1, ...\n"
        "# Tensor-parallel ranks are neighbours (%lld), then context-parallel ones (%lld), then those of data (%lld); "
        "stages (%lld) are outermost.\n",
        (long long)launch->tensor, (long long)launch->context, (long long)launch->data, (long long)launch->pipeline);
    for (int64_t node = 0, next; node < nodes; node = next) {
        int64_t first = node * per_node / each, last = ((node + 1) * per_node - 1) / each;
        const char *on = node_devices ? node_devices[node] : NULL;
        for (next = node + 1; first == last && next < nodes && ((next + 1) * per_node - 1) / each == first &&
                              (!on || strcmp(node_devices[next], on) == 0);)
            next++;
        text_printf(out, "# ranks %lld to %lld: stage%s %lld", (long long)(node * per_node),
                    (long long)(next * per_node - 1), first == last ? "" : "s", (long long)first);
        if (first != last)
            text_printf(out, " to %lld", (long long)last);
        if (on) {
            text_add(out, ", which must be on ");
            launch_text_name(out, on);
        }
        text_add(out, "\n");
        for (int64_t i = node; i < next; i++)
            text_printf(out, "node-%lld slots=%lld\n", (long long)i, (long long)per_node);
    }
}

static void put_start(struct text *out, int64_t nodes)
{
    text_printf(out,
                "#!/usr/bin/env bash\n"
                "# Runs train.sh over ssh on each node of the hostfile (HOSTFILE=FILE ./start.sh takes another), in "
                "its order: the first has\n"
                "# rank 0. This folder lies at the same place on all of them. Arguments go to train.sh.\n"
                "set -euo pipefail\n"
                "cd \"$(dirname \"$0\")\"\n"
                "mapfile -t nodes < <(awk '!/^[[:space:]]*(#|$)/ { print $1 }' \"${HOSTFILE:-hostfile}\")\n"
                "if [ \"${#nodes[@]}\" -ne %lld ]; then\n"
                "    echo \"start.sh: expected %lld nodes in ${HOSTFILE:-hostfile}, found ${#nodes[@]}\" >&2\n"
                "    exit 2\n"
                "fi\n"
                "given=\n"
                "for name in MODEL MEGATRON_DIR DATA_ARGS TRAIN_ITERS STEPS; do\n"
                "    [ -z \"${!name:-}\" ] || given+=\"$name=$(printf %%q \"${!name}\") \"\n"
                "done\n"
                "[ $# -eq 0 ] || printf -v arguments ' %%q' \"$@\"\n"
                "for rank in \"${!nodes[@]}\"; do\n"
                "    ssh -n \"${nodes[$rank]}\" \"cd $(printf %%q \"$PWD\") && NODE_RANK=$rank NNODES=%lld "
                "MASTER_ADDR=${nodes[0]} \" \\\n"
                "        \"MASTER_PORT=${MASTER_PORT:-29500} $given./train.sh${arguments:-}\" &\n"
                "done\n"
                "code=0\n"
                "for job in $(jobs -p); do wait \"$job\" || code=$?; done\n"
                "exit \"$code\"\n",
                (long long)nodes, (long long)nodes, (long long)nodes);
}

static struct text *readme_of(struct launch_files *files)
{
    for (int i = 0; i < files->count; i++)
        if (strcmp(files->list[i].name, "README.md") == 0)
            return &files->list[i].text;
    return NULL;
}

bool launch_text_left_out(struct launch_files *files, struct text *words, const struct target *target,
                          const struct model *model)
{
    const struct model_left_out *left = &model->left_out;
    struct text *readme = readme_of(files);
    bool positions = left->positions && !target->trains_configuration;
    if (!positions && left->further_blocks == 0)
        return true;
    if (!readme)
        return false;
    text_add(readme, "\n## Left out\n\n");
    if (positions) {
        struct text type = { 0 };
        launch_text_name(&type, left->positions);
        if (left->factor > 0)
            text_printf(&type, " (factor %g)", left->factor);
        text_printf(words, "rotary positions of type %s, which the model's config.json has, are not written\n",
                    type.data ? type.data : "");
        text_printf(readme, "- Rotary positions of type %s, which the model's config.json has, are not written.",
                    type.data ? type.data : "");
        if (target->say_positions)
            target->say_positions(readme, model);
        text_add(readme, "\n");
        words->failed = words->failed || type.failed;
        text_free(&type);
    }
    if (left->further_blocks > 0) {
        const char *blocks = left->further_blocks == 1 ? "block that predicts" : "blocks that predict";
        text_printf(words, "%lld %s further tokens (multi-token prediction)\n", (long long)left->further_blocks,
                    blocks);
        text_printf(
            readme,
            "- %lld %s further tokens (multi-token prediction), which the model's config.json has: the plan was "
            "made without (`cleave import --mtp` plans them).\n",
            (long long)left->further_blocks, blocks);
    }
    return !readme->failed && !words->failed;
}

bool launch_text_hosts(struct launch_files *out, const struct launch *launch, const struct launch_context *context)
{
    int64_t nodes = launch_nodes(launch, context), per_node = launch_devices_per_node(launch, context);
    struct text *readme = readme_of(out);
    if (nodes < 2)
        return true;
    struct text *hosts = launch_files_add(out, LAUNCH_HOSTFILE, false),
                *start = launch_files_add(out, "start.sh", true);
    if (!readme || !hosts || !start)
        return false;
    put_hostfile(hosts, launch, context->node_devices, nodes, per_node);
    put_start(start, nodes);
    text_printf(readme,
                "\n## %lld nodes without Slurm\n\nPut the nodes' names into `hostfile`, in the order of ranks that it "
                "states, then\n\n"
                "    ./start.sh\n\n"
                "runs `train.sh` on each of them over ssh, the first with rank 0. A hostfile that is there is kept by "
                "`cleave export`.\n",
                (long long)nodes);
    return !readme->failed && !hosts->failed && !start->failed;
}
