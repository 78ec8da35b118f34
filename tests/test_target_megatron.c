/* Megatron-LM as a target: what is written is read back as the same launch and the same model, of random launches that
 * the rules allow; what people have is read; what Megatron-LM would refuse is refused by its rule. */
#include "tests/megatron_launches.h"
#include "tests/random_launches.h"
#include "tests/target_launches.h"

static const char *const models[] = { "llama-3-8b", "llama-3-70b",      "llama-3-405b", "mixtral-8x7b",
                                      "gpt3-175b",  "deepseek-moe-16b", "further" };

START_TEST(test_round_trip)
{
    const struct target *target = target_find(both[_i % 2].name);
    const char *file = both[_i % 2].file;
    _i /= 2;
    struct model *model = model_of_name(models[_i]);
    struct graph *graph = graph_of(model, 1, 1024, 128);
    uint64_t state = 41 + (uint64_t)_i;
    const int rounds = small_share() ? 100 : share_stride() > 1 ? 300 : 600;
    int written = 0;
    for (int round = 0; round < rounds; round++) {
        struct arena arena = { 0 };
        struct launch_files files = { 0 };
        struct launch_read read = { 0 };
        struct error err = { 0 };
        struct launch launch = random_launch(&state, &arena, model);
        launch.excepted &= graph_operators(graph);
        struct launch_context context = { .model = model,
                                          .graph = graph,
                                          .devices_per_node = 8,
                                          .device_count =
                                              (int)(launch.tensor * launch.context * launch.pipeline * launch.data),
                                          .device_name = round % 2 ? "h100-sxm" : "b200" };
        if (!target_broken_rule(target, &launch, &context)) {
            ck_assert(target->write(&files, &launch, &context));
            const struct text *script = file_named(&files, file);
            ck_assert_msg(target->read(&read, &arena, file, script->data, script->length, &err), "%s\n%s", err.message,
                          script->data);
            ck_assert_msg(launch_equal(&launch, &read.launch), "read otherwise:\n%s", script->data);
            ck_assert(read.says_data && read.says_batch && read.says_sequence && read.says_dtype);
            ck_assert_int_eq(read.unknown_count, 0);
            ck_assert_ptr_nonnull(read.model);
            check_model(model, read.model, 1024);
            model_free(read.model);
            written++;
        }
        launch_files_free(&files);
        arena_free(&arena);
    }
    ck_assert_int_gt(written, rounds / 30);
    graph_free(graph);
    model_free(model);
}
END_TEST

START_TEST(test_golden)
{
    const struct target *target = target_find(both[_i % 2].name);
    const struct launch *launch = &launches_by_hand[_i / 2].launch;
    struct model *model = model_of_name(launches_by_hand[_i / 2].model);
    struct graph *graph = graph_of(model, 1, launch->sequence, 128);
    int64_t peaks[8];
    for (int s = 0; s < 8; s++)
        peaks[s] = (int64_t)(60 - s) << 30;
    struct launch_context context = { .model = model,
                                      .graph = graph,
                                      .devices_per_node = 8,
                                      .device_count =
                                          (int)(launch->tensor * launch->context * launch->pipeline * launch->data),
                                      .device_name = "h100-sxm",
                                      .step_ns = INT64_C(6543210987),
                                      .stage_count = (int)launch->pipeline,
                                      .peak_bytes = peaks };
    const struct target_rule *rule = target_broken_rule(target, launch, &context);
    ck_assert_msg(!rule, "%s", rule ? rule->name : "");
    char folder[128];
    snprintf(folder, sizeof folder, "%s/%s", target->name, launches_by_hand[_i / 2].name);
    check_golden(target, launch, &context, folder);
    graph_free(graph);
    model_free(model);
}
END_TEST

#define SIZES "--num-layers 32 --hidden-size 4096 --ffn-hidden-size 14336 --num-attention-heads 32 --vocab-size 128256 "
#define LLAMA                                                                                                          \
    SIZES                                                                                                              \
    "--group-query-attention --num-query-groups 8 --normalization RMSNorm --swiglu --disable-bias-linear "             \
    "--position-embedding-type rope --rotary-base 500000 --untie-embeddings-and-output-weights --seq-length 8192 "     \
    "--max-position-embeddings 8192 "

START_TEST(test_command_line)
{
    struct arena arena = { 0 };
    struct launch_read read = read_text(
        megatron(), &arena, "args",
        "torchrun --nproc_per_node=8 --nnodes=4 pretrain_gpt.py " LLAMA
        "--tensor-model-parallel-size 2 --sequence-parallel --pipeline-model-parallel-size=4 "
        "--num-layers-per-virtual-pipeline-stage 4 "
        "--micro-batch-size 1 --global-batch-size 64 --bf16 --use-distributed-optimizer --overlap-grad-reduce "
        "--overlap-param-gather "
        "--microbatch-group-size-per-virtual-pipeline-stage 6 --recompute-granularity selective --lr 3e-4 "
        "--train-iters 100 --no-such-thing 3 --tp-comm-overlap --position-embedding-type yarn --vocab-size 128000 "
        "--rotary-scaling-factor 4 --mscale 1 --yarn-beta-fast 32 --padded-vocab-size 128256");
    ck_assert_int_eq(read.devices, 32);
    ck_assert_int_eq(read.launch.tensor, 2);
    ck_assert_int_eq(read.launch.data, 4);
    ck_assert_int_eq(read.launch.chunks, 2);
    ck_assert_int_eq(read.launch.chunk_group, 6); /* and a rest of 4 */
    ck_assert_int_eq(read.launch.schedule, SCHEDULE_interleaved);
    ck_assert_int_eq(read.launch.piece_count, 8);
    for (int i = 0; i < 8; i++)
        ck_assert_int_eq(read.launch.piece_blocks[i], 4);
    ck_assert_int_eq(read.launch.zero, 1);
    ck_assert_uint_eq(read.launch.excepted, operator_set("core", 4));
    ck_assert_int_eq(read.launch.bucket_bytes, INT64_C(160000000));
    ck_assert_int_eq(read.unknown_count, 2);
    ck_assert_str_eq(read.unknown[0], "--no-such-thing");
    ck_assert_str_eq(read.unknown[1], "--tp-comm-overlap");
    ck_assert_int_eq(read.ignored_count, 5);
    struct graph *graph = graph_of(read.model, 1, 8192, 128);
    ck_assert_int_eq(graph_parameter_count(graph), 8030261248);
    graph_free(graph);
    model_free(read.model);
    arena_free(&arena);
}
END_TEST

/* Megatron-FSDP's strategies are ZeRO 0 to 3, in groups of as many ranks as instances leave; the last goes layer by
 * layer. Without it they mean nothing. */
START_TEST(test_fsdp)
{
    static const char *const strategies[] = { "no_shard", "optim", "optim_grads", "optim_grads_params" };
    for (int i = 0; i < 8; i++) {
        struct arena arena = { 0 };
        char text[1024];
        snprintf(text, sizeof text,
                 "torchrun --nproc_per_node=8 --nnodes=4 pretrain_gpt.py " LLAMA "--bf16 --overlap-grad-reduce "
                 "--overlap-param-gather --use-distributed-optimizer --num-distributed-optimizer-instances 4 "
                 "--micro-batch-size 1 --data-parallel-sharding-strategy %s%s",
                 strategies[i % 4], i < 4 ? " --use-megatron-fsdp --ckpt-format=fsdp_dtensor" : "");
        struct launch_read read = read_text(megatron(), &arena, "args", text);
        ck_assert_int_eq(read.launch.zero, i < 4 ? i : 1);
        ck_assert_int_eq(read.launch.shard_group, i == 0 ? 0 : 8);
        ck_assert_int_eq(read.launch.bucket_bytes, i == 3 ? INT64_C(1) << 40 : INT64_C(160000000));
        ck_assert_int_eq(read.unknown_count, i > 4);
        model_free(read.model);
        arena_free(&arena);
    }
}
END_TEST

/* An example's one node becomes the cluster's eight; the first five blocks of each virtual stage are computed again. */
START_TEST(test_more_devices)
{
    static const char text[] =
        "torchrun --nproc_per_node=8 pretrain_gpt.py " LLAMA
        "--tensor-model-parallel-size 4 --pipeline-model-parallel-size 4 --num-virtual-stages-per-pipeline-rank 1 "
        "--micro-batch-size 2 --bf16 --recompute-granularity full --recompute-method block --recompute-num-layers %d";
    for (int layers = 5; layers <= 8; layers += 3) {
        struct arena arena = { 0 };
        struct launch_read read = { .cluster_devices = 64 };
        struct error err = { 0 };
        char words[4096];
        snprintf(words, sizeof words, text, layers);
        ck_assert_msg(target_find("megatron-lm")->read(&read, &arena, "launch", words, strlen(words), &err), "%s",
                      err.message);
        ck_assert_int_eq(read.devices, 8);
        ck_assert_int_eq(read.launch.data, 4);
        ck_assert_int_eq(read.launch.batch, 8);
        ck_assert_int_eq(read.launch.recompute_first, layers < 8 ? layers : 0); /* eight are all of a stage's */
        ck_assert_int_eq(read.unknown_count, 0);
        model_free(read.model);
        arena_free(&arena);
    }
}
END_TEST

/* As Megatron-LM's own examples are written. */
START_TEST(test_script)
{
    static const char script[] =
        "#!/bin/bash\n"
        "export CUDA_DEVICE_MAX_CONNECTIONS=1\n"
        "GPUS_PER_NODE=8\n# Change for multinode config\nMASTER_ADDR=${MASTER_ADDR:-localhost}\nNUM_NODES=2\n"
        "WORLD_SIZE=$(($GPUS_PER_NODE*$NUM_NODES))\nCHECKPOINT_PATH=${1:-\"some where\"}\nTP_SIZE=2\nDTYPE=\"fp8\"\n"
        "DISTRIBUTED_ARGS=(\n    --nproc_per_node $GPUS_PER_NODE\n    --nnodes $NUM_NODES # nodes\n)\n"
        "MODEL_ARGS=(\n  --num-layers 12 \n  --hidden-size 512\n  --num-attention-heads 8\n"
        "  --seq-length 1024\n  --max-position-embeddings 1024\n)\n"
        "DTYPE_ARGS=()\nif [[ \"$DTYPE\" == \"fp8\" ]]; then\n  DTYPE_ARGS+=(\n    \"--fp8-format hybrid\"\n  )\nelse\n"
        "  DTYPE_ARGS+=(--fp16)\nfi\n"
        "DATA_ARGS_LIST=()\nif [[ -z \"$2\" ]] || [[ \"$2\" == \"MOCK\" ]]; then\n DATA_ARGS_LIST+=(\"--vocab-size "
        "50304\" \"--split '99,1,0'\")\nfi\n"
        "if [ ! -f \"pretrain_gpt.py\" ]; then\n  echo \"Error: --num-layers\"\n  exit 1\nfi\n"
        "torchrun ${DISTRIBUTED_ARGS[@]} \\\n    \"pretrain_gpt.py\" \\\n    ${MODEL_ARGS[@]} --bf16 \\\n    "
        "${DTYPE_ARGS[@]} "
        "${DATA_ARGS_LIST[@]} --tensor-model-parallel-size $TP_SIZE --sequence-parallel --micro-batch-size 4 "
        "--global-batch-size 64 "
        "--save \"$CHECKPOINT_PATH\"\n\nset +x\n";
    struct arena arena = { 0 };
    struct launch_read read = read_text(megatron(), &arena, "args", script);
    ck_assert_int_eq(read.devices, 16);
    ck_assert_int_eq(read.launch.tensor, 2);
    ck_assert_int_eq(read.launch.data, 8);
    ck_assert_int_eq(read.launch.dtype, DTYPE_FP8);
    ck_assert_int_eq(read.launch.batch, 64);
    ck_assert_int_eq(read.unknown_count, 0);
    ck_assert_int_eq(read.launch.bucket_bytes, INT64_C(1) << 40);
    ck_assert_ptr_nonnull(read.model);
    model_free(read.model);
    arena_free(&arena);
}
END_TEST

START_TEST(test_contradictions)
{
    static const struct {
        const char *args, *words;
    } cases[] = {
        { "--tensor-model-parallel-size 3", "tp-divides-heads" },
        { "--tensor-model-parallel-size 16 --num-query-groups 6", "attention" },
        { "--pipeline-model-parallel-size 5", "layout" },
        { "--pipeline-model-parallel-size 2 --pipeline-model-parallel-layout Et*15|t*16L",
          "has 31 layers, --num-layers says 32" },
        { "--pipeline-model-parallel-size 2 --pipeline-model-parallel-layout t*16|t*16L", "expected E" },
        { "--pipeline-model-parallel-size 2 --pipeline-model-parallel-layout Et*16|t*16", "expected L" },
        { "--pipeline-model-parallel-size 2 --pipeline-model-parallel-layout E(t*16|t*16L", "expected a layout" },
        { "--pipeline-model-parallel-size 3 --pipeline-model-parallel-layout Et*16|t*16L", "multiple of --pipeline" },
        { "--pipeline-model-parallel-size 2 --pipeline-model-parallel-layout Et*16|t*16L "
          "--num-virtual-stages-per-pipeline-rank 2",
          "one-layout" },
        { "--num-virtual-stages-per-pipeline-rank 2", "interleaved-needs-stages" },
        { "--pipeline-model-parallel-size 2 --num-virtual-stages-per-pipeline-rank 2 --no-overlap-p2p-communication",
          "interleaved-needs-stages" },
        { "--recompute-granularity full", "recompute" },
        { "--recompute-granularity selective --recompute-method uniform", "recompute" },
        { "--recompute-granularity selective --recompute-modules core", "expected core_attn" },
        { "--recompute-granularity selective --recompute-modules mla_up_proj", "mla_up_proj" },
        { "--overlap-param-gather --overlap-grad-reduce", "overlap" },
        { "--optimizer-cpu-offload", "offload" },
        { "--bf16 --fp16", "dtype" },
        { "--pipeline-model-parallel-size 2 --pipeline-model-parallel-layout Et*16|t*16mL", "an m for each" },
        { "--mtp-num-layers 1 --pipeline-model-parallel-size 2 --pipeline-model-parallel-layout Et*16m|t*16L",
          "every t before" },
        { "--mtp-num-layers 2 --pipeline-model-parallel-size 3 --pipeline-model-parallel-layout Et*16|t*16m|mL",
          "on one stage" },
        { "--mtp-num-layers 2 --pipeline-model-parallel-size 3 --pipeline-model-parallel-layout Et*16|t*16mm|L",
          "mtp" },
        { "--mtp-num-layers 99", "0 to 16" },
        { "--mtp-num-layers 1 --position-embedding-type learned_absolute", "rope or none" },
        { "--expert-model-parallel-size 2", "ep-divides-experts" },
        { "--num-experts 8 --tensor-model-parallel-size 4 --sequence-parallel --expert-tensor-parallel-size 2",
          "--expert-tensor-parallel-size 2 beside --tensor-model-parallel-size 4" },
        { "--num-experts 8 --context-parallel-size 4 --expert-model-parallel-size 2",
          "over a part of 4 context-parallel ranks" },
        { "--use-megatron-fsdp --ckpt-format fsdp_dtensor --data-parallel-sharding-strategy all", "not planned" },
        { "--use-megatron-fsdp --ckpt-format torch_dist", "needs --ckpt-format fsdp_dtensor (fsdp)" },
        { "--use-megatron-fsdp --ckpt-format", "needs --ckpt-format fsdp_dtensor (fsdp)" },
        { "--exp-avg-dtype bf16", "without --use-precision-aware-optimizer (optimizer)" },
        { "--use-precision-aware-optimizer --use-distributed-optimizer --main-params-dtype bf16", "fp32 or fp16" },
        { "--swiglu --squared-relu", "exclude each other (activation)" },
        { "--data-parallel-size 3", "there is no --data-parallel-size" },
        { "--use-torch-fsdp2 --pipeline-model-parallel-size 2", "goes without pipeline" },
        { "--use-torch-fsdp2 --use-distributed-optimizer", "goes without --use-distributed-optimizer" },
        { "--cpu-offloading-num-layers 2 --pipeline-model-parallel-size 2", "goes without pipeline" },
        { "--cpu-offloading-num-layers 2 --recompute-granularity selective", "goes without recomputation" },
        { "--tp-comm-overlap --tensor-model-parallel-size 2", "needs --sequence-parallel" },
        { "--delay-wgrad-compute", "needs --overlap-moe-expert-parallel-comm" },
        { "--overlap-param-gather-with-optimizer-step --use-distributed-optimizer --overlap-grad-reduce "
          "--overlap-param-gather",
          "virtual pipeline stages" },
        { "--first-last-layers-bf16 --fp8-format hybrid", "another --fp8-recipe" },
        { "--cross-entropy-loss-fusion --cross-entropy-fusion-impl te", "expected native (loss)" },
        { "--cp-comm-type a2a+p2p", "a2a+p2p is not planned" },
        { "--cpu-offloading-num-layers 0 --pipeline-model-parallel-size 2 --cross-entropy-loss-fusion", "" },
        { "--context-parallel-size 3", "cp-divides-sequence" },
        { "--batch-size 4", "no longer" },
        { "--global-batch-sise 512", "did you mean --global-batch-size?" },
        { "--global-bacth-size 512", "did you mean --global-batch-size?" },
        { "--num-experts 8 --tensor-model-parallel-size 2", "experts-with-tp-need-sp" },
        { "--num-experts 8 --moe-router-topk 1", "experts-gates" },
        { "--moe-layer-freq ([0]*3+[1]*29) --num-experts 8 --moe-layer-freq '[0,1'", "--moe-layer-freq" },
        { "--seq-length 10000", "positions" },
        { "--num-layers many", "expected a whole number" },
        { "--num-layers", "expected a value" },
        { "--hidden-size -4", "at least 0" },
        { "--tensor-model-parallel-size 0", "parallel degrees" },
        { "--rotary-percent 0.00001", "" },
        { "--normalization Batch", "--normalization" },
        { "--cp-comm-type star", "--cp-comm-type" },
        { "\"--micro-batch-size 1", "ends nowhere" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[4096];
        struct arena arena = { 0 };
        struct launch_read read = { 0 };
        struct error err = { 0 };
        snprintf(text, sizeof text, "python pretrain_gpt.py " LLAMA "--micro-batch-size 1 %s", cases[i].args);
        bool ok = megatron()->read(&read, &arena, "args", text, strlen(text), &err);
        if (*cases[i].words)
            ck_assert_msg(!ok && strstr(err.message, cases[i].words), "%s: %s", cases[i].args,
                          ok ? "accepted" : err.message);
        ck_assert_msg(ok || !strstr(err.message, "args: args:"), "%s", err.message);
        if (ok)
            model_free(read.model);
        arena_free(&arena);
    }
}
END_TEST

/* Models that recipes name have the parameters that their makers state, and degrees by the recipe's own words ("TP=4,
 * PP=4, VPP=5, CP=2"); what a line says afterwards counts, and None undoes it. */
START_TEST(test_named_recipes)
{
    static const struct {
        const char *text;
        int64_t parameters, tensor, pipeline, chunks, context, expert, micro_batch;
        int unknown;
    } cases[] = {
        { "run.py --recipe llama3_8b_pretrain_config", 8030261248, 1, 1, 1, 2, 1, 1, 0 },
        { "from r import llama3_70b_pretrain_config as c, x\ncfg = recipes.llama3_70b_pretrain_config()\n", 70553706496,
          4, 4, 5, 2, 1, 1, 1 },
        { "cfg = llama3_70b_pretrain_config()\ncfg.model.virtual_pipeline_model_parallel_size = None\n"
          "cfg.model.context_parallel_size = 1\n",
          70553706496, 4, 4, 1, 1, 1, 1, 1 },
        { "run.py --recipe llama31_405b_pretrain_256gpu_h100_bf16_config", 405853388800, 8, 8, 2, 4, 1, 1, 1 },
        { "cfg = qwen3_30b_a3b_pretrain_8gpu_h100_bf16_config()", 30532122624, 4, 2, 1, 1, 4, 2, 0 },
        { "cfg = qwen3_235b_a22b_pretrain_config()", 235093634560, 4, 16, 1, 2, 8, 1, 0 },
        { "cfg = deepseek_v3_pretrain_config_32nodes()", 682636487424, 2, 8, 1, 1, 32, 1, 0 },
        { "cfg = gpt3_175b_pretrain_config()", 174379917312, 4, 8, 6, 1, 1, 2, 1 },
        { "cfg = mixtral_8x7b_pretrain_config()\ncfg.train.micro_batch_size = 3", 0, 1, 1, 1, 1, 1, 3, 1 },
    };
    const struct target *bridge = target_find("megatron-bridge");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct arena arena = { 0 };
        struct launch_read read = { 0 };
        struct error err = { 0 };
        const struct launch *l = &read.launch;
        ck_assert_msg(bridge->read(&read, &arena, "r", cases[i].text, strlen(cases[i].text), &err), "%s: %s",
                      cases[i].text, err.message);
        ck_assert_msg(l->tensor == cases[i].tensor && l->pipeline == cases[i].pipeline &&
                          l->chunks == cases[i].chunks && l->context == cases[i].context &&
                          l->expert == cases[i].expert && l->micro_batch == cases[i].micro_batch &&
                          read.unknown_count == cases[i].unknown,
                      "%s: tp %lld pp %lld x %lld cp %lld ep %lld of %lld, %d not understood", cases[i].text,
                      (long long)l->tensor, (long long)l->pipeline, (long long)l->chunks, (long long)l->context,
                      (long long)l->expert, (long long)l->micro_batch, read.unknown_count);
        ck_assert(!read.model == (cases[i].parameters == 0));
        if (read.model) {
            struct graph *graph = graph_of(read.model, 1, 2048, 128);
            ck_assert_int_eq(graph_parameter_count(graph), cases[i].parameters);
            graph_free(graph);
        }
        model_free(read.model);
        arena_free(&arena);
    }
}
END_TEST

/* As Megatron-Bridge's own recipes and its command line are written. */
START_TEST(test_recipes)
{
    static const char recipe[] =
        "\"\"\"H100: cfg.model.num_layers = 5\"\"\"\n"
        "from x import (\n    CommOverlapConfig,\n)\n\n"
        "def llama3_70b_pretrain_64gpu_h100_bf16_config() -> ConfigContainer:\n"
        "    cfg = llama3_70b_pretrain_config()\n    cfg.mixed_precision = _perf_precision(\"bf16\")\n"
        "    cfg.tokenizer.vocab_size = 128256\n    cfg.model.should_pad_vocab = True\n"
        "    cfg.model.tensor_model_parallel_size = 4\n    cfg.model.pipeline_model_parallel_size = 4\n"
        "    cfg.model.context_parallel_size = 2\n    cfg.model.virtual_pipeline_model_parallel_size = 5  # five\n"
        "    cfg.model.sequence_parallel = True\n    cfg.train.global_batch_size = 256\n    cfg.train.micro_batch_size "
        "= 1\n"
        "    cfg.comm_overlap = CommOverlapConfig(\n        tp_comm_overlap=True,\n        bucket_size=1000,\n    )\n"
        "    cfg.model.recompute_granularity = \"selective\"\n    cfg.model.recompute_modules = [\"core_attn\", "
        "'mlp']\n"
        "    cfg.env_vars = {\n        **COMMON,\n        \"NCCL\": 0,\n    }\n    return cfg\n";
    const struct target *bridge = target_find("megatron-bridge");
    struct arena arena = { 0 };
    struct launch_read read = { 0 };
    struct error err = { 0 };
    ck_assert_msg(bridge->read(&read, &arena, "r.py", recipe, sizeof recipe - 1, &err), "%s", err.message);
    ck_assert_int_eq(read.devices, 64);
    ck_assert_int_eq(read.launch.data, 2);
    ck_assert_int_eq(read.launch.chunks, 5);
    ck_assert_int_eq(read.launch.batch, 256);
    ck_assert_int_eq(read.launch.bucket_bytes, 2000);
    ck_assert_int_eq(read.unknown_count, 1);
    ck_assert_str_eq(read.unknown[0], "comm_overlap.tp_comm_overlap");
    uint64_t set = 0;
    ck_assert(operators_read(&set, "core+gate+up+act"));
    ck_assert_uint_eq(read.launch.excepted, set);
    model_free(read.model);
    static const char line[] = "torchrun x.py --recipe a model.tensor_model_parallel_size=2 train.micro_batch_size=1 "
                               "model.recompute_modules=[core_attn,mlp] model.recompute_granularity=selective";
    ck_assert_msg(bridge->read(&read, &arena, "args", line, sizeof line - 1, &err), "%s", err.message);
    ck_assert_int_eq(read.launch.tensor, 2);
    ck_assert_uint_eq(read.launch.excepted, set);
    ck_assert_int_eq(read.unknown_count, 1);
    ck_assert(strncmp(read.unknown[0], "recipe a (what it sets is not known", 35) == 0);
    /* what the precision says of gradients goes over what ddp says, wherever it stands */
    for (int i = 0; i < 4; i++) {
        char text[512];
        const char *width = i % 2 ? "True" : "False", *other = i % 2 ? "False" : "True";
        snprintf(text, sizeof text,
                 "x.py --recipe a mixed_precision=bf16_mixed %s.grad_reduce_in_fp32=%s %s.grad_reduce_in_fp32=%s "
                 "train.micro_batch_size=1",
                 i < 2 ? "ddp" : "mixed_precision", i < 2 ? other : width, i < 2 ? "mixed_precision" : "ddp",
                 i < 2 ? width : other);
        ck_assert_msg(bridge->read(&read, &arena, "args", text, strlen(text), &err), "%s", err.message);
        ck_assert_int_eq(optimizer_gradient_bytes(&read.launch.optimizer, NARROW_ALL, DTYPE_BF16), i % 2 ? 4 : 2);
    }
#define PROVIDER(kind, more)                                                                                           \
    "cfg.model = " kind "ModelProvider(num_layers=2, hidden_size=64, num_attention_heads=4)\ncfg.model." more "\n"
    static const struct {
        const char *text;
        enum dtype dtype;
        int unknown;
    } named[] = { { "--recipe llama3_8b_pretrain_2gpu_h100_fp8mx_config", DTYPE_FP8, 0 },
                  { "--recipe=llama3_8b_low_precision_pretrain_config", DTYPE_FP8, 2 }, /* first and last block bf16 */
                  { "--recipe llama3_8b_pretrain_2gpu_h100_nvfp4_config", DTYPE_NVFP4, 1 },
                  { "--recipe 'llama3_8b_pretrain_config' mixed_precision=bf16_with_mxfp8_mixed", DTYPE_FP8, 0 },
                  { "cfg = llama3_8b_pretrain_config()\ncfg.mixed_precision = mine", DTYPE_BF16, 1 },
                  { "def mine():\n    return llama3_8b_pretrain_config( )\n", DTYPE_BF16, 0 },
                  { "from r import (llama3_8b_pretrain_config as a_sft_config)\ncfg = a_sft_config()", DTYPE_BF16, 0 },
                  { "cfg = llama3_8b_pretrain_config(tp=2)", DTYPE_BF16, 1 },
                  { "cfg = llama3_8b_pretrain_config()\ncfg.model.transformer_layer_spec = partial(\n    "
                    "get_gpt_decoder_block_spec, use_transformer_engine=True)",
                    DTYPE_BF16, 0 },
                  { "cfg = llama3_8b_pretrain_config()\ncfg.model.position_embedding_type = \"yarn\"\n"
                    "cfg.model.yarn_rotary_scaling_factor = 4\ncfg.model.beta_fast = 32",
                    DTYPE_BF16, 0 },
                  { "cfg = llama3_8b_pretrain_config()\ncfg.model.transformer_layer_spec = local_layer_spec",
                    DTYPE_BF16, 1 },
                  { PROVIDER("MLA", "kv_lora_rank = 32"), DTYPE_BF16, 1 }, /* the specification is absent */
                  { PROVIDER("GPT", "num_moe_experts = 8\ncfg.model.moe_layer_freq = [0, 1]"), DTYPE_BF16, 1 },
                  { PROVIDER("GPT", "num_moe_experts = 8\ncfg.model.moe_layer_freq = 1"), DTYPE_BF16, 0 },
                  { PROVIDER("MLA", "transformer_layer_spec = partial(get_gpt_decoder_block_spec)"), DTYPE_BF16, 0 },
                  { "--recipe llama3_70b_pretrain_config comm_overlap.tp_comm_overlap=False", DTYPE_BF16, 0 },
                  { "--recipe $R model.tensor_model_parallel_size=2", DTYPE_BF16, 1 } };
    for (size_t i = 0; i < sizeof named / sizeof *named; i++) {
        const char *text = named[i].text;
        ck_assert_msg(bridge->read(&read, &arena, "r", text, strlen(text), &err), "%s: %s", text, err.message);
        ck_assert_msg(read.launch.dtype == named[i].dtype && read.unknown_count == named[i].unknown, "%s: %s, %d", text,
                      dtype_names[read.launch.dtype], read.unknown_count);
        ck_assert(strstr(text, "Provider") || !read.model == !strstr(text, "llama"));
        model_free(read.model);
    }
    static const char wrong[] = "cfg.model.tensor_model_parallel_size = 2\ncfg.model.sequence_parallel = maybe\n";
    ck_assert(!bridge->read(&read, &arena, "r.py", wrong, sizeof wrong - 1, &err));
    ck_assert_msg(strstr(err.message, "r.py:2: model.sequence_parallel: expected True or False"), "%s", err.message);
    err = (struct error){ 0 };
    ck_assert(!bridge->read(&read, &arena, "r.py", "print(1)\n", 9, &err));
    arena_free(&arena);
}
END_TEST

/* Recipes that nobody calls are jobs of their own; one that another calls is part of it. */
START_TEST(test_several_recipes)
{
#define DEF(name, more) "def " name "_pretrain_config():\n    cfg.train.micro_batch_size = 2\n" more
    static const struct {
        const char *text, *words;
    } cases[] = {
        { DEF("one", "") DEF("two", ""), "found several: one_pretrain_config, two_pretrain_config: give one" },
        { DEF("a", "") DEF("b", "") DEF("c", "") DEF("d", "") DEF("e", ""), "d_pretrain_config, ...: give one" },
        { DEF("base", "") DEF("one", "    cfg = base_pretrain_config()\n"), "" },
        { DEF("one", "") "def small(x: int, cfg: C) -> C:\n    cfg.train.micro_batch_size = 1\n", "" },
        { DEF("one", "") "# def old_pretrain_config():\nclass A:\n  def set(self):\n    cfg.x = 1\ndef f(a", "" },
        { DEF("one", "") "def f():\n  print(1)\nprint(2)\n", "" },
        { DEF("one", "") "def main():\n    cfg = one_pretrain_config()\n    cfg.model.y = b.c(1)\n\nmain()\n", "" },
        { DEF("one", "") "def tuned(\n) -> C:\n    # as said\n    cfg.train.micro_batch_size = 1\n",
          "one_pretrain_config, tuned" },
        { DEF("one", "") "def two():\n    return recipes.llama3_8b_finetune_config()\n",
          "one_pretrain_config, two: give" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct arena arena = { 0 };
        struct launch_read read = { 0 };
        struct error err = { 0 };
        bool ok =
            target_find("megatron-bridge")->read(&read, &arena, "r.py", cases[i].text, strlen(cases[i].text), &err);
        ck_assert_msg(ok == !*cases[i].words && strstr(err.message, cases[i].words), "%s", err.message);
        arena_free(&arena);
    }
}
END_TEST

/* A file of settings that nobody knows is no recipe, and nobody reads a list of thousands. */
START_TEST(test_too_many_unknown)
{
    const struct target *bridge = target_find("megatron-bridge");
    for (int i = 0; i < 3; i++) { /* the last is what a recipe is called with */
        struct arena arena = { 0 };
        struct launch_read read = { 0 };
        struct error err = { 0 };
        struct text text = { 0 };
        text_printf(&text, "def mine():\n");
        for (int k = 0; k < 1000 + (i == 1); k++)
            text_printf(&text, "    cfg.model.own_%d = 2\n", k);
        text_printf(&text, "    return llama3_8b_pretrain_config(%s)\n", i == 2 ? "tp=2" : "");
        bool good = bridge->read(&read, &arena, "r.py", text.data, text.length, &err);
        ck_assert_msg(good == (i == 0), "%d: %s", i, err.message);
        ck_assert(good || strstr(err.message, "r.py: more than 1000 settings that are not understood"));
        model_free(read.model);
        text_free(&text);
        arena_free(&arena);
    }
}
END_TEST

START_TEST(test_layouts)
{
    static const struct {
        const char *layout;
        int pipeline, blocks[6];
    } cases[] = { { "Et*2|(t*3|)*2,t*2L", 4, { 2, 3, 3, 2 } },
                  { "E|tt|ttt|L", 4, { 0, 2, 3, 0 } },
                  { "Ettt|(tt|)*2,t|L", 5, { 3, 2, 2, 1, 0 } } };
    static const char further[] = "--mtp-num-layers 1 --pipeline-model-parallel-size 5 --micro-batch-size 1 "
                                  "--pipeline-model-parallel-layout Ettt|(tt|)*2m|L";
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[512];
        struct arena arena = { 0 };
        snprintf(text, sizeof text,
                 "--pipeline-model-parallel-size %d --micro-batch-size 1 --pipeline-model-parallel-layout '%s'",
                 cases[i].pipeline, cases[i].layout);
        struct launch_read read = read_text(megatron(), &arena, "args", text);
        ck_assert_int_eq(read.launch.piece_count, cases[i].pipeline);
        for (int p = 0; p < cases[i].pipeline; p++)
            ck_assert_int_eq(read.launch.piece_blocks[p], cases[i].blocks[p]);
        arena_free(&arena);
    }
    struct arena arena = { 0 };
    struct launch_read read = read_text(megatron(), &arena, "args", further); /* apart from the loss, one may stand */
    ck_assert(read.launch.further == 1 && read.launch.further_piece == 3 && read.launch.piece_blocks[2] == 2);
    read = read_text(megatron(), &arena, "args",
                     "--pipeline-model-parallel-size 4 --micro-batch-size 1 --num-layers 30 "
                     "--account-for-embedding-in-pipeline-split --account-for-loss-in-pipeline-split");
    for (int p = 0; p < 4; p++)
        ck_assert_int_eq(read.launch.piece_blocks[p], p == 0 || p == 3 ? 7 : 8);
    read = read_text(megatron(), &arena, "args",
                     "--pipeline-model-parallel-size 4 --micro-batch-size 1 --num-layers 30 "
                     "--decoder-first-pipeline-num-layers 6 --decoder-last-pipeline-num-layers 8");
    ck_assert_int_eq(read.launch.piece_blocks[0], 6);
    ck_assert_int_eq(read.launch.piece_blocks[1], 8);
    ck_assert_int_eq(read.launch.piece_blocks[3], 8);
    arena_free(&arena);
}
END_TEST

/* Blocks that take turns are blocks as all others are: each is counted, once, and those that repeat together are
 * written together. */
START_TEST(test_blocks_that_take_turns)
{
    static const struct {
        const char *args;
        int blocks; /* of the model's description, with embedding and head */
    } cases[] = {
        { "--window-size 128,0 --window-attn-skip-freq 2", 3 },
        { "--num-experts 8 --moe-router-topk 2 --moe-layer-freq '[0,1]*16'", 3 },
        { "--num-experts 8 --moe-router-topk 2 --moe-layer-freq '[0]+[1]*31'", 3 },
        { "--window-size 128,0 --window-attn-skip-freq '[1,1,0]*10+[1,1]' --mtp-num-layers 1", 4 },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[4096];
        struct arena arena = { 0 };
        struct launch_read read = { 0 };
        struct error err = { 0 };
        snprintf(text, sizeof text, "python pretrain_gpt.py " LLAMA "--micro-batch-size 1 %s", cases[i].args);
        ck_assert_msg(megatron()->read(&read, &arena, "args", text, strlen(text), &err), "%s", err.message);
        ck_assert_int_eq(read.model->block_count, cases[i].blocks);
        struct graph *graph = graph_of(read.model, 1, 8, 128);
        int count = 0;
        for (int l = 1; l < graph->layer_count; l++)
            count += graph->layers[l].block >= 0 && graph->layers[l].block != graph->layers[l - 1].block;
        ck_assert_int_eq(count, 32 + (strstr(cases[i].args, "--mtp") != NULL));
        graph_free(graph);
        model_free(read.model);
        arena_free(&arena);
    }
}
END_TEST

static Suite *target_megatron_suite(void)
{
    Suite *suite = suite_create("target_megatron");
    CHECK_ADD_LOOP(suite, test_round_trip, 2 * (int)(sizeof models / sizeof *models));
    CHECK_ADD_LOOP(suite, test_golden, 2 * (int)(sizeof launches_by_hand / sizeof *launches_by_hand));
    CHECK_ADD(suite, test_command_line);
    CHECK_ADD(suite, test_more_devices);
    CHECK_ADD(suite, test_script);
    CHECK_ADD(suite, test_fsdp);
    CHECK_ADD(suite, test_contradictions);
    CHECK_ADD(suite, test_named_recipes);
    CHECK_ADD(suite, test_recipes);
    CHECK_ADD(suite, test_too_many_unknown);
    CHECK_ADD(suite, test_layouts);
    CHECK_ADD(suite, test_blocks_that_take_turns);
    CHECK_ADD(suite, test_several_recipes);
    return suite;
}
CHECK_MAIN(target_megatron_suite)
