/* What is written for nnScaler: arguments of its Trainer, and the program with the model and the data. */
#include "base/num.h"
#include "targets/launch_text.h"
#include "targets/nnscaler.h"

static const char *truth(bool is)
{
    return is ? "true" : "false";
}

/* What autodist is told so that one plan is left. Its own guess of memory is not what decides. */
static void add_policy(struct text *out, const struct launch *launch, const struct launch_context *context)
{
    int64_t room = 0;
    for (int s = 0; s < context->stage_count && context->available_bytes; s++)
        room = max_i64(room, context->available_bytes[s]);
    text_printf(out, "  pas_config:\n    update_freq: %lld\n    max_partition_degree: 1\n    pipeline_nstages: %lld\n",
                (long long)launch_micro_batches(launch), (long long)launch->pipeline);
    if (launch->pipeline > 1)
        text_add(out, "    pipeline_pivots: PlannedBlockOfStage\n    pipeline_scheduler: 1f1b\n"
                      "    max_pipeline_bubble_ratio: 0.999\n    max_pipeline_unbalance_ratio: 0.001\n");
    if (launch->recompute == RECOMPUTE_BLOCK)
        text_add(out, "    recompute_modules: PlannedBlock\n");
    if (room > 0)
        text_printf(out, "    mem_constraint: %lld\n", (long long)(room >> 30));
    text_printf(out, "    use_bf16: %s\n    parallel_profile: false\n", truth(launch->dtype == DTYPE_BF16));
}

static void add_yaml(struct text *out, const struct launch *launch, const struct launch_context *context)
{
    char number[TEXT_NUMBER_BYTES];
    bool narrow = launch->dtype == DTYPE_BF16;
    text_add(out, "# ");
    launch_text_title(out, launch, context);
    text_printf(out,
                ": torchrun ... train.py -f train.yaml (train.sh), for %s\n"
                "vars:\n  neighbours: replicas # train.py numbers ranks so\n"
                "compute_config:\n  plan_ngpus: %lld\n  runtime_ngpus: %lld\n  constant_folding: true\n"
                "  use_end2end: true\n  use_zero: %s\n  zero_use_reduce_scatter: %s\n  use_async_reducer: %s\n"
                "  reducer_bucket_cap_mb: %lld\n",
                target_nnscaler.release, (long long)launch->pipeline, (long long)launch_devices(launch),
                truth(launch->zero == 1), truth(launch->zero == 1), truth(launch->pipeline == 1),
                (long long)(launch->bucket_bytes / NNSCALER_MIB));
    add_policy(out, launch, context);
    text_printf(out,
                "pas_policy: autodist\nrun_mode: run\nbroadcast_strategy: none # all nodes see this folder\n"
                "precision: %s\nmicro_batch_size: %lld\ngrad_accumulation_steps: %lld\nglobal_batch_size: %lld\n"
                "max_train_steps: 20\nenable_progress_bar: false\nlog_progress_every_n_train_steps: 1\nseed: 0\n"
                "model:\n  type: train.Model\n  args:\n    config: $(MODEL)\n",
                narrow ? "bf16" : "fp32", (long long)launch->micro_batch, (long long)launch_micro_batches(launch),
                (long long)launch->batch);
    if (launch->pipeline > 1) {
        text_add(out, "    stage_blocks: [");
        for (int p = 0; p < launch->piece_count; p++)
            text_printf(out, "%s%d", p > 0 ? ", " : "", launch->piece_blocks[p]);
        text_add(out, "]\n");
    }
    text_printf(out,
                "optimizer:\n  type: %s\n  args:\n    lr: 0.0003\n    betas: [0.9, 0.95]\n    weight_decay: 0.1\n"
                "    fused: true\n  clip_gnorm: %s\n"
                "dataset:\n  type: train.RandomTokens\n  train_args:\n    config: $(MODEL)\n    sequence: %lld\n"
                "dataloader:\n  train_args:\n    drop_last: true\ndataset_sampler:\n  train_args:\n    shuffle: false\n"
                "checkpoint:\n  no_save: true\n"
                "hook:\n  on_step_end: train.step_ends\n  on_train_end: train.training_ends\n",
                narrow ? "nnscaler.runtime.f16_optimizer.MixedPrecisionAdamW" : "torch.optim.AdamW",
                text_double(number, launch->clip_norm), (long long)launch->sequence);
}

static void add_program(struct text *out, const struct launch *launch, const struct launch_context *context)
{
    text_add(out, "\"\"\"Trains ");
    launch_text_title(out, launch, context);
    text_add(
        out,
        " on random tokens: in place of RandomTokens comes a data set of one's own.\n\n"
        "    torchrun ... train.py -f train.yaml\n\"\"\"\n\n"
        "import os\n"
        "import sys\n"
        "import time\n\n"
        "import torch\n"
        "import yaml\n"
        "from transformers import AutoConfig, AutoModelForCausalLM\n\n\n"
        "def named(block, name, classes={}):\n"
        "    \"\"\"The block, of a class of that name: autodist's pivots and recompute_modules are names of "
        "classes.\"\"\"\n"
        "    kind = type(block)\n"
        "    if (kind, name) not in classes:\n"
        "        classes[kind, name] = type(name, (kind,), {\"__module__\": __name__})\n"
        "    block.__class__ = classes[kind, name]\n\n\n"
        "class Model(torch.nn.Module):\n"
        "    \"\"\"The loss of a causal model of transformers. stage_blocks: how many blocks each stage has.\"\"\"\n\n"
        "    def __init__(self, config, stage_blocks=()):\n"
        "        super().__init__()\n"
        "        config = AutoConfig.from_pretrained(config).get_text_config()  # towers beside it are not trained\n"
        "        config.use_cache = False\n"
        "        self.model = AutoModelForCausalLM.from_config(config)\n"
        "        lists = [m for m in self.model.modules() if isinstance(m, torch.nn.ModuleList)]\n"
        "        blocks = next(m for m in lists if len(m) == config.num_hidden_layers)\n"
        "        starts = {sum(stage_blocks[:s]) for s in range(1, len(stage_blocks))}\n"
        "        for i, block in enumerate(blocks):\n"
        "            named(block, \"PlannedBlockOfStage\" if i in starts else \"PlannedBlock\")\n\n"
        "    def forward(self, sample):\n"
        "        logits = self.model(input_ids=sample[\"tokens\"], use_cache=False, return_dict=False)[0]\n"
        "        logits = logits.view(-1, logits.size(-1)).float()\n"
        "        return torch.nn.functional.cross_entropy(logits, sample[\"labels\"].view(-1))\n\n\n"
        "class RandomTokens(torch.utils.data.Dataset):\n"
        "    def __init__(self, config, sequence):\n"
        "        self.vocabulary, self.sequence = AutoConfig.from_pretrained(config).get_text_config().vocab_size, "
        "sequence\n\n"
        "    def __len__(self):\n"
        "        return 1 << 24\n\n"
        "    def __getitem__(self, index):\n"
        "        shape, seed = (self.sequence + 1,), torch.Generator().manual_seed(index)\n"
        "        tokens = torch.randint(self.vocabulary, shape, generator=seed)\n"
        "        return {\"tokens\": tokens[:-1], \"labels\": tokens[1:].clone()}\n\n\n"
        "def step_ends(trainer, *unused, last=[]):\n"
        "    \"\"\"Prints what each step took, as `cleave calibrate` reads it.\"\"\"\n"
        "    now = time.monotonic()\n"
        "    if last and trainer.rank == 0:\n"
        "        print(f\"elapsed time per iteration (ms): {1000 * (now - last[0]):.1f}\", flush=True)\n"
        "    last[:] = [now]\n\n\n"
        "def training_ends(trainer):\n"
        "    gib = torch.cuda.max_memory_reserved() / 2**30\n"
        "    print(f\"rank {trainer.rank}: at most {gib:.2f} GiB reserved in the last step\", flush=True)\n\n\n"
        "def number_ranks(stages):\n"
        "    \"\"\"Replicas of a stage are neighbours, as planned; nnScaler would make the stages of a replica "
        "so.\"\"\"\n"
        "    stage, replica = divmod(int(os.environ[\"RANK\"]), int(os.environ[\"WORLD_SIZE\"]) // stages)\n"
        "    os.environ[\"RANK\"] = str(replica * stages + stage)\n\n\n"
        "def main():\n"
        "    with open(sys.argv[sys.argv.index(\"-f\") + 1]) as file:\n"
        "        number_ranks(yaml.safe_load(file)[\"compute_config\"][\"plan_ngpus\"])\n"
        "    import nnscaler\n"
        "    from nnscaler.cli.trainer import Trainer\n\n"
        "    try:\n"
        "        Trainer(sys.argv[1:]).run()\n"
        "    finally:\n"
        "        nnscaler.uninit()\n\n\n"
        "if __name__ == \"__main__\":\n"
        "    main()\n");
}

static void add_script(struct text *out, const struct launch *launch, const struct launch_context *context)
{
    launch_text_shell(out, &target_nnscaler, launch, context);
    text_printf(out,
                "export MODEL=\"${MODEL:-model}\"\n"
                "exec torchrun --nnodes %lld --nproc_per_node %lld --node_rank \"${NODE_RANK:-0}\" \\\n"
                "    --master_addr \"${MASTER_ADDR:-localhost}\" --master_port \"${MASTER_PORT:-29500}\" \\\n"
                "    train.py -f train.yaml \"$@\"\n",
                (long long)launch_nodes(launch, context), (long long)launch_devices_per_node(launch, context));
}

static void add_readme(struct text *out, const struct launch *launch, const struct launch_context *context)
{
    launch_text_readme(out, &target_nnscaler, launch, context);
    text_printf(
        out,
        "\n## Run\n\n"
        "    MODEL=FOLDER ./train.sh             # one node; FOLDER has config.json\n"
        "    MODEL=FOLDER sbatch train.sbatch    # %lld nodes under Slurm, which all see this folder\n\n"
        "The first run traces the model and generates code into `.nnscaler`, which later ones take again; rank 0 alone "
        "does so, with the model in\nits host's memory. `--max_train_steps N` and other arguments of the Trainer come "
        "behind `train.sh`. train.py numbers ranks so that\nreplicas of a stage are neighbours; data of one's own "
        "takes "
        "the place of RandomTokens in it.\n",
        (long long)launch_nodes(launch, context));
    if (launch->pipeline > 1)
        text_add(out, "With stages gradients are reduced behind the last backward pass (use_async_reducer does not go "
                      "with them), which the prediction lets\nrun beside it.\n");
    text_add(out,
             "\n## Verify memory\n\n"
             "autodist logs what it estimates of each stage before a step runs (`stage 0 on devices ... with mem`); "
             "each rank prints at the end\nwhat its allocator had reserved, `MODEL=FOLDER ./train.sh "
             "--max_train_steps 3`.\n");
    launch_text_calibrate(out, &target_nnscaler, launch, context, "train.yaml --model MODEL");
}

bool nnscaler_write(struct launch_files *out, const struct launch *launch, const struct launch_context *context)
{
    static const struct launch_part files[] = {
        { "train.yaml", false, add_yaml },  { "train.py", false, add_program },
        { "train.sh", true, add_script },   { "train.sbatch", true, launch_text_sbatch },
        { "README.md", false, add_readme },
    };
    return launch_files_fill(out, files, sizeof files / sizeof *files, launch, context);
}
