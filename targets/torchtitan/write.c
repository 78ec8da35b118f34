/* What torchtitan is told: a recipe, of which every line that decides is one assignment. */
#include "targets/launch_text.h"
#include "targets/torchtitan/torchtitan.h"
#include <stdio.h>
#include <string.h>

static void add_model(struct text *out, const struct launch *launch, const struct launch_context *context)
{
    static const char convert[] =
        "    for converter in converters:\n"
        "        config.model_spec.model = converter.build().convert(config.model_spec.model)\n";
    bool fp8 = launch->dtype == DTYPE_FP8;
    if (!context->model) {
        text_add(out, "    config = llama3_8b()  # of another model: its own function of config_registry\n");
        if (fp8) {
            titan_add_converters(out, launch->expert > 1);
            text_add(out, convert);
        }
        return;
    }
    struct decoder decoder = decoder_of(context->model);
    const struct titan_model *known = titan_model_of(&decoder);
    text_printf(out, "    config = %s()\n", known ? known->base : "llama3_8b");
    if (fp8)
        titan_add_converters(out, decoder.experts > 0);
    text_printf(out, "    config.model_spec = model_registry(flavor=\"%s\"%s)\n", known ? known->flavor : "8B",
                fp8 && known ? ", converters=converters" : "");
    if (known)
        return;
    char base[TEXT_NUMBER_BYTES];
    text_printf(
        out,
        "    config.model_spec.model = llama3.Llama3Model.Config(\n"
        "        dim=%lld,\n"
        "        vocab_size=%lld,\n"
        "        enable_weight_tying=%s,\n"
        "        tok_embeddings=llama3.Embedding.Config(\n"
        "            num_embeddings=%lld, embedding_dim=%lld, param_init=llama3._EMBEDDING_INIT\n"
        "        ),\n"
        "        norm=llama3.RMSNorm.Config(normalized_shape=%lld, param_init=llama3._NORM_INIT),\n"
        "        lm_head=llama3.Linear.Config(\n"
        "            in_features=%lld, out_features=%lld, param_init=llama3._output_linear_init(%lld)\n"
        "        ),\n"
        "        layers=llama3._build_llama3_layers(\n"
        "            n_layers=%lld,\n"
        "            dim=%lld,\n"
        "            n_heads=%lld,\n"
        "            n_kv_heads=%lld,\n"
        "            hidden_dim=%lld,\n"
        "            attn_backend=\"flex\",\n"
        "            rope=llama3.ComplexRoPE.Config(dim=%lld, max_seq_len=131072, theta=%s, scaling=\"none\"),\n"
        "        ),\n"
        "    )\n"
        "    config.loss.loss_fn.global_vocab_size = %lld\n",
        (long long)decoder.hidden, (long long)decoder.vocab_size, decoder.tied ? "True" : "False",
        (long long)decoder.vocab_size, (long long)decoder.hidden, (long long)decoder.hidden, (long long)decoder.hidden,
        (long long)decoder.vocab_size, (long long)decoder.hidden, (long long)decoder.blocks, (long long)decoder.hidden,
        (long long)decoder.heads, (long long)decoder.kv_heads, (long long)decoder.inner, (long long)decoder.head_dim,
        text_double(base, decoder.rope_base), (long long)decoder.vocab_size);
    if (fp8)
        text_add(out, convert);
}

static void add_pieces(struct text *out, const struct launch *launch)
{
    int block = 0;
    text_add(out, "    config.parallelism.module_fqns_per_model_part = [\n");
    for (int p = 0; p < launch->piece_count; p++) {
        bool first = true;
        text_add(out, "        [");
        if (p == 0) {
            text_add(out, "\"tok_embeddings\"");
            first = false;
        }
        for (int i = 0; i < launch->piece_blocks[p]; i++, first = false)
            text_printf(out, "%s\"layers.%d\"", first ? "" : ", ", block++);
        if (p == launch->piece_count - 1)
            text_printf(out, "%s\"norm\", \"lm_head\"", first ? "" : ", ");
        text_add(out, "],\n");
    }
    text_add(out, "    ]\n");
}

static void add_recipe(struct text *out, const struct launch *launch, const struct launch_context *context)
{
    char number[TEXT_NUMBER_BYTES];
    struct decoder decoder = { 0 };
    if (context->model)
        decoder = decoder_of(context->model);
    const struct titan_model *known = titan_model_of(&decoder);
    const char *module = known ? known->module : "llama3";
    bool selective = launch->recompute == RECOMPUTE_BLOCK && launch->excepted != 0;
    int64_t shard = launch->zero == 0 ? 1 : launch->shard_group > 0 ? launch->shard_group : launch->data;
    text_add(out, "\"\"\"");
    launch_text_title(out, launch, context);
    text_printf(out,
                ": a recipe for torchtitan 0.3.0.\n\n"
                "torchrun ... -m torchtitan.train --module cleave_recipe --config train (train.sh)\n\"\"\"\n\n"
                "from torchtitan.models.%s import model_registry\n"
                "from torchtitan.models.%s.config_registry import %s\n",
                module, module, known ? known->base : "llama3_8b");
    if (context->model && !known)
        text_add(out, "from torchtitan.models import llama3\n");
    if (launch->recompute == RECOMPUTE_BLOCK)
        text_printf(out, "from torchtitan.distributed.activation_checkpoint import %s\n",
                    selective ? "SelectiveAC" : "FullAC");
    if (launch->dtype == DTYPE_FP8)
        text_printf(out, "from torchtitan.components.quantization import Float8LinearConverter%s\n",
                    decoder.experts > 0 || launch->expert > 1 ? ", Float8GroupedExpertsConverter" : "");
    text_add(out, "\n\ndef train():\n");
    add_model(out, launch, context);
    text_printf(out,
                "    config.training.local_batch_size = %lld\n"
                "    config.training.global_batch_size = %lld\n"
                "    config.training.seq_len = %lld\n"
                "    config.training.max_norm = %s\n"
                "    config.training.mixed_precision_param = \"%s\"\n"
                "    config.training.enable_cpu_offload = %s\n"
                "    config.training.disable_cuda_graphs = True  # the prediction is without\n",
                (long long)(launch->pipeline > 1 ? launch->batch / launch->data : launch->micro_batch),
                (long long)launch->batch, (long long)launch->sequence, text_double(number, launch->clip_norm),
                launch->dtype == DTYPE_FP32 ? "float32" : "bfloat16",
                launch->offload & OFFLOAD_PARAMETERS ? "True" : "False");
    if (optimizer_equal(&launch->optimizer, &titan_narrow))
        text_add(out, "    config.training.dtype = \"bfloat16\"\n");
    text_printf(out,
                "    config.parallelism.data_parallel_replicate_degree = %lld\n"
                "    config.parallelism.data_parallel_shard_degree = %lld\n"
                "    config.parallelism.fsdp_reshard_after_forward = \"%s\"\n"
                "    config.parallelism.tensor_parallel_degree = %lld\n"
                "    config.parallelism.enable_sequence_parallel = %s\n"
                "    config.parallelism.context_parallel_degree = %lld\n"
                "    config.parallelism.expert_parallel_degree = %lld\n"
                "    config.parallelism.pipeline_parallel_degree = %lld\n",
                (long long)(launch->data / shard), (long long)shard,
                launch->zero == 3 && launch->reshard == RESHARD_EACH_STEP ? "never" : "always",
                (long long)launch->tensor, launch->sequence_parallel || launch->tensor == 1 ? "True" : "False",
                (long long)launch->context, (long long)launch->expert, (long long)launch->pipeline);
    if (launch->pipeline > 1) {
        text_printf(out,
                    "    config.parallelism.pipeline_parallel_schedule = \"%s\"\n"
                    "    config.parallelism.pipeline_parallel_microbatch_size = %lld\n",
                    titan_schedule(launch->schedule), (long long)launch->micro_batch);
        if (launch->piece_blocks)
            add_pieces(out, launch);
        else /* as many blocks on each: the embedding and the head count as none */
            text_add(out, "    config.parallelism.pipeline_parallel_first_stage_less_layers = 0\n"
                          "    config.parallelism.pipeline_parallel_last_stage_less_layers = 0\n");
    }
    text_printf(out,
                "    config.loss.num_chunks = %lld\n"
                "    config.activation_checkpoint = %s\n"
                "    config.compile.enable = True\n"
                "    config.compile.components = [\"model\"]\n"
                "    config.compile.enable_async_tensor_parallel = False\n"
                "    return config\n",
                (long long)launch->loss_chunks,
                launch->recompute == RECOMPUTE_NONE ? "None"
                : selective                         ? "SelectiveAC.Config()"
                                                    : "FullAC.Config()");
}

static void add_script(struct text *out, const struct launch *launch, const struct launch_context *context)
{
    extern const struct target target_torchtitan;
    launch_text_shell(out, &target_torchtitan, launch, context);
    text_printf(out,
                "export PYTHONPATH=\"$PWD${PYTHONPATH:+:$PYTHONPATH}\"\n"
                "exec torchrun --nnodes=%lld --nproc-per-node=%lld --node-rank=\"${NODE_RANK:-0}\" \\\n"
                "    --rdzv-backend=static --master-addr=\"${MASTER_ADDR:-localhost}\" \\\n"
                "    --master-port=\"${MASTER_PORT:-29500}\" --local-ranks-filter=0 --role=rank --tee=3 \\\n"
                "    -m torchtitan.train --module cleave_recipe --config train \"$@\"\n",
                (long long)launch_nodes(launch, context), (long long)launch_devices_per_node(launch, context));
}

static void add_readme(struct text *out, const struct launch *launch, const struct launch_context *context)
{
    extern const struct target target_torchtitan;
    launch_text_readme(out, &target_torchtitan, launch, context);
    text_printf(
        out,
        "\n## Run\n\n"
        "    ./train.sh                # one node\n"
        "    sbatch train.sbatch       # %lld nodes under Slurm\n\n"
        "Options behind it overrule the recipe, as `./train.sh --training.steps 20`. Ranks are numbered so that "
        "tensor-parallel ones are\nneighbours, then context-parallel ones, then those of data; stages are "
        "outermost. The recipe names the tokenizer's folder of its base\n(`--hf_assets_path`).\n\n"
        "## Verify memory\n\n"
        "Without devices, that the settings go together:\n\n"
        "    NGPU=%lld LOCAL_RANK=0 PYTHONPATH=. python3 -m torchtitan.train --module cleave_recipe --config "
        "train \\\n        --comm.mode=fake_backend --training.steps 1\n\n"
        "On one device the same measures the memory of a rank of stage 0. Each line of a run, `memory: "
        "44.91GiB(56.75%%)`, is the most that the\nallocator had reserved.\n",
        (long long)launch_nodes(launch, context), (long long)launch_devices(launch));
    struct decoder decoder = { 0 };
    if (context->model)
        decoder = decoder_of(context->model);
    launch_text_calibrate(out, &target_torchtitan, launch, context,
                          titan_describes(titan_model_of(&decoder)) ? "cleave_recipe.py"
                                                                    : "cleave_recipe.py --model MODEL");
}

bool titan_write(struct launch_files *out, const struct launch *launch, const struct launch_context *context)
{
    static const struct launch_part files[] = {
        { "cleave_recipe.py", false, add_recipe },
        { "train.sh", true, add_script },
        { "train.sbatch", true, launch_text_sbatch },
        { "README.md", false, add_readme },
    };
    return launch_files_fill(out, files, sizeof files / sizeof *files, launch, context);
}
