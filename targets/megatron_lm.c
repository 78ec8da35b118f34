/* Megatron-LM's own training script, pretrain_gpt.py. */
#include "targets/launch_text.h"
#include "targets/megatron.h"
#include "targets/shell.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

extern const struct target target_megatron_lm;

/* Of every launch, whatever its plan: what the prediction takes for granted. */
static const char always[] = "    --transformer-impl transformer_engine\n"
                             "    --cross-entropy-loss-fusion\n"
                             "    --cross-entropy-fusion-impl native\n"
                             "    --attention-dropout 0.0\n"
                             "    --hidden-dropout 0.0\n";

static bool is_written(const struct megatron_args *args, const struct megatron_option *option)
{
    static const char *const shown[] = { "--tensor-model-parallel-size",
                                         "--pipeline-model-parallel-size",
                                         "--context-parallel-size",
                                         "--clip-grad",
                                         "--kv-channels",
                                         "--rotary-base",
                                         "--position-embedding-type",
                                         "--normalization",
                                         "--norm-epsilon" };
    bool shows = megatron_says(args, option);
    for (size_t i = 0; i < sizeof shown / sizeof *shown && !shows; i++)
        shows = strcmp(option->flag, shown[i]) == 0;
    if (strcmp(option->flag, "--rotary-base") == 0)
        shows = shows && strcmp(args->position, "rope") == 0;
    if (strcmp(option->flag, "--kv-channels") == 0)
        shows = shows && args->kv_channels > 0 && !args->latent;
    return shows;
}

static void put_sections(struct text *out, const struct megatron_args *args, bool unfused)
{
    for (int section = 0; section < SECTION_COUNT; section++) {
        text_printf(out, "%s=(\n", megatron_section_names[section]);
        for (const struct megatron_option *option = megatron_options; option->flag; option++)
            if ((int)option->section == section && is_written(args, option)) {
                text_printf(out, "    %s", option->flag);
                if (option->kind != MEGATRON_FLAG && option->kind != MEGATRON_NOT)
                    text_add(out, " ");
                megatron_put_value(out, args, option, false);
                text_add(out, "\n");
            }
        if (section == SECTION_TRAINING)
            text_printf(out, "%s%s", always, unfused ? "    --attention-backend unfused\n" : "");
        text_add(out, ")\n");
    }
}

static void put_script(struct text *out, const struct megatron_args *args, const struct launch *launch,
                       const struct launch_context *context)
{
    long long devices = launch_devices(launch);
    text_add(out, "#!/usr/bin/env bash\n# ");
    launch_text_model(out, context, "a model");
    text_printf(out,
                " on %lld devices, for Megatron-LM with Megatron-Core 0.19. See README.md.\n"
                "# Run it on each node with NODE_RANK and MASTER_ADDR set, or with sbatch train.sbatch.\n"
                "# ./train.sh --dry-run: one device allocates what rank ${RANK:-0} of all would.\n"
                "# Data and tokenizer: DATA_ARGS, in place of data that is made up.\n"
                "set -euo pipefail\n"
                "MEGATRON_DIR=${MEGATRON_DIR:-Megatron-LM}\n"
                "GPUS_PER_NODE=${GPUS_PER_NODE:-%lld}\n"
                "NNODES=${NNODES:-%lld}\n"
                "NODE_RANK=${NODE_RANK:-0}\n"
                "MASTER_ADDR=${MASTER_ADDR:-localhost}\n"
                "MASTER_PORT=${MASTER_PORT:-29500}\n"
                "TRAIN_ITERS=${TRAIN_ITERS:-50}\n"
                "export CUDA_DEVICE_MAX_CONNECTIONS=${CUDA_DEVICE_MAX_CONNECTIONS:-1}\n"
                "export PYTORCH_CUDA_ALLOC_CONF=${PYTORCH_CUDA_ALLOC_CONF:-expandable_segments:True}\n\n",
                devices, (long long)launch_devices_per_node(launch, context), (long long)launch_nodes(launch, context));
    put_sections(out, args, strcmp(launch_text_priced_by(&target_megatron_lm, context), MEGATRON_UNFUSED) == 0);
    text_printf(out,
                "RUN_ARGS=(\n"
                "    --train-iters \"$TRAIN_ITERS\"\n"
                "    --lr 1.0e-4\n"
                "    --min-lr 1.0e-5\n"
                "    --lr-decay-style cosine\n"
                "    --weight-decay 0.1\n"
                "    --log-interval 1\n"
                "    --log-throughput\n"
                "    --eval-iters 0\n"
                "    --no-create-attention-mask-in-dataloader\n"
                "    --manual-gc\n"
                ")\n"
                "DATA_ARGS=(${DATA_ARGS:---mock-data --tokenizer-type NullTokenizer})\n"
                "ALL_ARGS=(\"${MODEL_ARGS[@]}\" \"${PARALLEL_ARGS[@]}\" \"${MEMORY_ARGS[@]}\" \"${TRAINING_ARGS[@]}\"\n"
                "    \"${RUN_ARGS[@]}\" \"${DATA_ARGS[@]}\")\n\n"
                "if [[ \"${1:-}\" == --dry-run ]]; then\n"
                "    WORLD_SIZE=%lld RANK=${RANK:-0} LOCAL_RANK=0 MASTER_ADDR=localhost MASTER_PORT=$MASTER_PORT \\\n"
                "        python \"$MEGATRON_DIR/pretrain_gpt.py\" \"${ALL_ARGS[@]}\" --fake-process-group\n"
                "elif [[ \"${1:-}\" == --report-memory ]]; then\n"
                "    WORLD_SIZE=%lld RANK=0 LOCAL_RANK=0 MASTER_ADDR=localhost MASTER_PORT=$MASTER_PORT \\\n"
                "        python \"$MEGATRON_DIR/tools/report_theoretical_memory.py\" \"${ALL_ARGS[@]}\"\n"
                "else\n"
                "    torchrun --nproc_per_node \"$GPUS_PER_NODE\" --nnodes \"$NNODES\" --node_rank \"$NODE_RANK\" \\\n"
                "        --master_addr \"$MASTER_ADDR\" --master_port \"$MASTER_PORT\" \\\n"
                "        \"$MEGATRON_DIR/pretrain_gpt.py\" \"${ALL_ARGS[@]}\" \"$@\"\n"
                "fi\n",
                devices, devices);
}

static const char commands[] =
    "Files: `train.sh` (torchrun; all arguments), `train.sbatch` (Slurm).\n\n"
    "    MEGATRON_DIR=/path/to/Megatron-LM sbatch train.sbatch\n\n"
    "Without Slurm, on each node:\n\n"
    "    NODE_RANK=0 MASTER_ADDR=first-node MEGATRON_DIR=/path/to/Megatron-LM ./train.sh\n\n"
    "## Verify before it costs anything\n\n"
    "What Megatron-LM itself thinks of the memory (its tools/report_theoretical_memory.py, no GPU needed):\n\n"
    "    ./train.sh --report-memory\n\n"
    "What one rank really allocates, on one GPU (`--fake-process-group`; RANK chooses the rank):\n\n"
    "    RANK=0 ./train.sh --dry-run\n\n"
    "## Feed the measured step back\n\n"
    "    ./train.sh 2>&1 | tee log.txt\n";

static bool write_launch(struct launch_files *out, const struct launch *launch, const struct launch_context *context)
{
    struct arena arena = { 0 };
    struct megatron_args args = megatron_defaults;
    megatron_of_launch(&args, &arena, launch, context);
    struct text *script = launch_files_add(out, "train.sh", true);
    struct text *batch = launch_files_add(out, "train.sbatch", true);
    struct text *readme = launch_files_add(out, "README.md", false);
    bool ok = script && batch && readme && !arena_failed(&arena);
    if (ok) {
        put_script(script, &args, launch, context);
        megatron_put_sbatch(batch, launch, context, "train.sh");
        megatron_put_readme(readme, &target_megatron_lm, launch, context, commands);
        launch_text_calibrate_command(readme, &target_megatron_lm, launch, context, "train.sh", "log.txt");
        ok = !script->failed && !batch->failed && !readme->failed;
    }
    arena_free(&arena);
    return ok;
}

/* ---- reading ---- */

static int options_in(const struct shell_command *command)
{
    int count = 0;
    for (int i = 0; i < command->count; i++)
        for (const struct megatron_option *option = megatron_options; option->flag; option++) {
            size_t length = strlen(option->flag);
            count += strncmp(command->words[i], option->flag, length) == 0 &&
                     (!command->words[i][length] || command->words[i][length] == '=');
        }
    return count;
}

/* The command with most of Megatron-LM's arguments; of equals the last. *others: further ones that have several. */
static const struct shell_command *find_command(const struct shell_script *script, int *others)
{
    const struct shell_command *best = NULL;
    int most = 0;
    *others = -1;
    for (int i = 0; i < script->count; i++) {
        int count = options_in(&script->commands[i]);
        *others += count > 3;
        if (count > 0 && count >= most) {
            most = count;
            best = &script->commands[i];
        }
    }
    return best;
}

static bool add_notes(struct launch_read *out, struct arena *arena, const struct shell_script *script,
                      struct error *err)
{
    for (int i = 0; i < script->note_count; i++)
        if (!launch_read_add_unknown(out, arena, script->notes[i], strlen(script->notes[i]), err))
            return false;
    return true;
}

static bool read_launch(struct launch_read *out, struct arena *arena, const char *name, const char *text, size_t length,
                        struct error *err)
{
    struct shell_script script;
    struct megatron_args args = megatron_defaults;
    launch_read_begin(out);
    if (!shell_read(&script, arena, name, text, length, &out->place, out->beside, err))
        return false;
    int others;
    char more[128];
    const struct shell_command *command = find_command(&script, &others);
    if (!command)
        return fail(err,
                    "%s: expected a command with arguments of Megatron-LM, such as --tensor-model-parallel-size 4; "
                    "found none",
                    name);
    out->hidden = command->hidden;
    snprintf(more, sizeof more, "%d more launches in it: what says most is priced, of equals the last", others);
    return megatron_parse(&args, out, arena, name, command->words, command->count, err) &&
           (others <= 0 || launch_read_add_unknown(out, arena, more, strlen(more), err)) &&
           megatron_check_words(&args, command->words, command->count, name, err) &&
           megatron_say_words(out, arena, command->words, command->count, err) &&
           megatron_say_uncarried(out, arena, &args, command->words, command->count, err) &&
           (out->devices > 0 || (out->devices = megatron_script_devices(&script, NULL), true)) &&
           add_notes(out, arena, &script, err) && megatron_launch(out, arena, &args, false, name, err);
}

const struct target target_megatron_lm = {
    .name = "megatron-lm",
    .short_name = "megatron",
    .framework = "megatron-lm-te",
    .release = "Megatron-Core 0.19",
    .slack = .051,
    .slack_source =
        "docs/accuracy.md: published peaks of 67 runs of Megatron were that much above predictions in the median",
    .doc = "Megatron-LM's pretrain_gpt.py: its command line, torchrun and sbatch scripts",
    .say_positions = megatron_say_positions,
    .rules = megatron_rules,
    .offload_needs = "with the precision-aware one",
    .allow = megatron_allow,
    .write = write_launch,
    .read = read_launch,
};
