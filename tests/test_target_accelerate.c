/* Launches for accelerate with FSDP2 are read back to what they were written of, from options and from YAML; what its
 * users have is read, and its own refusals are ours. The package reads the files in tests/targets_accept_torch.py. */
#include "tests/target_launches.h"

extern const struct target target_accelerate_fsdp2;
static const struct target *const accelerate = &target_accelerate_fsdp2;

static void vary(struct launch *l, uint64_t *state)
{
    l->bucket_bytes = INT64_C(1) << 40;
    l->pipeline = l->chunks = l->loss_chunks = 1;
    l->schedule = l->piece_count = 0;
    l->piece_blocks = NULL;
    l->sequence_parallel = false;
    l->zero = 3;
    if (l->context > 1 && random_below(state, 2))
        l->context_dimension = DIM_cp_ring;
    if (l->recompute == RECOMPUTE_BLOCK && random_below(state, 3) == 0)
        l->offload = OFFLOAD_ACTIVATIONS;
    if (random_below(state, 4) == 0)
        l->offload |= OFFLOAD_OPTIMIZER | OFFLOAD_PARAMETERS;
    if (random_below(state, 6) == 0)
        l->dtype = DTYPE_FP16;
    if (random_below(state, 4) == 0)
        l->optimizer.moments = MOMENTS_EIGHT;
    else if (random_below(state, 4) == 0)
        l->optimizer.rule = OPTIMIZER_SGD;
}

START_TEST(what_is_written_is_read_back)
{
    struct model *model = model_of_zoo(_i % 2 ? "llama-3-70b" : "mixtral-8x7b");
    struct launch_context context = { .model = model, .devices_per_node = 8, .device_name = "h100-sxm" };
    uint64_t state = 300 + (uint64_t)_i;
    int pieces[64];
    for (int n = 0; n < 60; n++) {
        struct launch l = draw_legal(accelerate, &context, &state, 80, pieces, vary);
        check_round(accelerate, &l, &context, "train.sh");
        /* The YAML says all but what the script is told. */
        struct launch_files files = { 0 };
        struct arena arena = { 0 };
        ck_assert(accelerate->write(&files, &l, &context));
        struct launch_read read =
            read_text(accelerate, &arena, "accelerate.yaml", file_named(&files, "accelerate.yaml")->data);
        ck_assert(read.says_data && read.says_dtype && !read.says_batch && !read.says_sequence);
        ck_assert_int_eq(read.unknown_count, 0);
        read.launch.batch = l.batch;
        read.launch.micro_batch = l.micro_batch;
        read.launch.sequence = l.sequence;
        read.launch.clip_norm = l.clip_norm;
        read.launch.optimizer = l.optimizer;
        ck_assert(launch_equal(&read.launch, &l));
        launch_files_free(&files);
        arena_free(&arena);
    }
    model_free(model);
}
END_TEST

static struct launch golden_launch(int number)
{
    struct launch l = launch_plain;
    l.bucket_bytes = INT64_C(1) << 40;
    l.zero = 3;
    l.recompute = RECOMPUTE_BLOCK;
    l.sequence = 8192;
    if (number == 0) {
        l.data = 64;
        l.shard_group = 8;
        l.batch = 128;
        l.micro_batch = 2;
    } else {
        l.context = 8;
        l.context_dimension = DIM_cp_ring;
        l.data = 4;
        l.batch = 16;
        l.offload = OFFLOAD_ACTIVATIONS;
        l.dtype = DTYPE_FP32;
    }
    return l;
}

START_TEST(files_stay_as_they_are)
{
    static const int64_t peak[] = { INT64_C(61) << 30 }, available[] = { INT64_C(79) << 30 };
    struct model *model = model_of_zoo("llama-3-8b");
    struct launch l = golden_launch(_i);
    struct launch_context context = { .model = model,
                                      .devices_per_node = 8,
                                      .device_name = "h100-sxm",
                                      .step_ns = INT64_C(2345678901),
                                      .stage_count = 1,
                                      .peak_bytes = peak,
                                      .available_bytes = available };
    check_golden(accelerate, &l, &context, _i ? "accelerate/8b-cp" : "accelerate/8b-hsdp");
    check_round(accelerate, &l, &context, "train.sh");
    model_free(model);
}
END_TEST

START_TEST(files_of_users_are_read)
{
    struct arena arena = { 0 };
    /* examples/torch_native_parallelism/configs/tp_hsdp.yaml of the release, with a line that nobody knows. */
    struct launch_read r =
        read_text(accelerate, &arena, "tp_hsdp.yaml",
                  "compute_environment: LOCAL_MACHINE\ndebug: false\ndistributed_type: FSDP\n"
                  "downcast_bf16: 'no'\nenable_cpu_affinity: false\nfsdp_config:\n"
                  "  fsdp_activation_checkpointing: false\n"
                  "  fsdp_auto_wrap_policy: TRANSFORMER_BASED_WRAP\n  fsdp_cpu_ram_efficient_loading: true\n"
                  "  fsdp_offload_params: false\n  fsdp_reshard_after_forward: true\n"
                  "  fsdp_state_dict_type: SHARDED_STATE_DICT\n"
                  "  fsdp_transformer_layer_cls_to_wrap: LlamaDecoderLayer\n  fsdp_version: 2\n"
                  "machine_rank: 0\nmain_training_function: main\nmixed_precision: bf16\nnum_machines: 1\n"
                  "num_processes: 8\nparallelism_config:\n  parallelism_config_dp_replicate_size: 2\n"
                  "  parallelism_config_dp_shard_size: 2\n  parallelism_config_tp_size: 2\n"
                  "  parallelism_config_cp_size: 1\n  surprise: 3 # odd\nrdzv_backend: static\n"
                  "same_network: true\ntpu_env: []\ntpu_use_cluster: false\ntpu_use_sudo: false\n"
                  "use_cpu: false\n");
    ck_assert_int_eq(r.launch.data, 4);
    ck_assert_int_eq(r.launch.shard_group, 2);
    ck_assert_int_eq(r.launch.tensor, 2);
    ck_assert_int_eq(r.devices, 8);
    ck_assert_int_eq(r.launch.zero, 3);
    ck_assert_int_eq(r.launch.recompute, RECOMPUTE_NONE);
    ck_assert_int_eq(r.unknown_count, 2);
    ck_assert_str_eq(r.unknown[0], "parallelism_config.surprise = 3");
    ck_assert(strstr(r.unknown[1], "tensor parallelism beside FSDP2") && strcmp(r.beyond[0], "no-tp") == 0);
    r = read_text(accelerate, &arena, "run",
                  "accelerate launch --use_fsdp --fsdp_version=2 --num_processes 16 --mixed_precision bf16 sft.py "
                  "--per_device_train_batch_size 2 --gradient_accumulation_steps 3 --max_seq_length 2048 "
                  "--gradient_checkpointing\n");
    ck_assert_int_eq(r.launch.data, 16);
    ck_assert_int_eq(r.launch.batch, 96);
    ck_assert_int_eq(r.launch.sequence, 2048);
    ck_assert_int_eq(r.launch.recompute, RECOMPUTE_BLOCK);
    /* What alignment-handbook and LLaMA-Factory have is FSDP 1, with processes that a cluster has more of. */
    r = read_text(accelerate, &arena, "fsdp.yaml",
                  "distributed_type: FSDP\nfsdp_config:\n  fsdp_auto_wrap_policy: TRANSFORMER_BASED_WRAP\n"
                  "  fsdp_backward_prefetch: BACKWARD_PRE\n  fsdp_sharding_strategy: FULL_SHARD\n"
                  "  fsdp_use_orig_params: true\nmixed_precision: bf16\nnum_processes: 2\n");
    ck_assert_int_eq(r.launch.zero, 3);
    ck_assert_int_eq(r.launch.data, 2);
    ck_assert_int_eq(r.unknown_count, 1);
    ck_assert(strstr(r.unknown[0], "fsdp_version 1 (priced as 2"));
    r = read_text(accelerate, &arena, "ddp.yaml",
                  "distributed_type: MULTI_GPU\nmixed_precision: fp16\nnum_processes: 2\n");
    ck_assert_int_eq(r.launch.zero, 0);
    ck_assert_int_eq(r.launch.dtype, DTYPE_FP16);
    ck_assert_int_eq(r.launch.bucket_bytes, 25 << 20); /* torch/nn/parallel/distributed.py */
    ck_assert_int_eq(r.unknown_count, 0);
    /* TRL's fsdp1.yaml, and axolotl's configuration with its own names (docs/nd_parallelism.qmd). */
    r = read_text(accelerate, &arena, "fsdp1.yaml",
                  "distributed_type: FSDP\nfsdp_config:\n  fsdp_activation_checkpointing: true\n"
                  "  fsdp_reshard_after_forward: FULL_SHARD\n  fsdp_version: 1\nnum_processes: 8\n");
    ck_assert_int_eq(r.launch.zero, 3);
    ck_assert_int_eq(r.launch.data, 8);
    ck_assert_int_eq(r.launch.recompute, RECOMPUTE_BLOCK);
    r = read_text(accelerate, &arena, "axolotl.yaml",
                  "dp_shard_size: 4\ndp_replicate_size: 2\ncontext_parallel_size: 2\ntensor_parallel_size: 1\n"
                  "fsdp_version: 2\nfsdp_config:\n  offload_params: true\n  reshard_after_forward: false\n"
                  "  activation_checkpointing: true\nsequence_len: 2048\nmicro_batch_size: 1\n");
    ck_assert(r.launch.data == 8 && r.launch.shard_group == 4 && r.launch.context == 2 && r.devices == 16);
    ck_assert_int_eq(r.launch.offload, OFFLOAD_OPTIMIZER | OFFLOAD_PARAMETERS);
    ck_assert_int_eq(r.launch.reshard, RESHARD_EACH_STEP);
    ck_assert_int_eq(r.launch.recompute, RECOMPUTE_BLOCK);
    ck_assert(r.launch.sequence == 2048 && r.launch.batch == 8);
    /* Shards get the processes that other degrees leave. */
    r = read_text(accelerate, &arena, "axolotl.yaml",
                  "context_parallel_size: 4\nfsdp_version: 2\nfsdp_config:\n  reshard_after_forward: true\n");
    ck_assert(r.launch.context == 4 && !r.says_data && r.launch.data == 0 && r.devices == 0 && r.launch.zero == 3);
    r = read_text(accelerate, &arena, "axolotl.yaml",
                  "context_parallel_size: 4\nnum_processes: 16\nfsdp_version: 2\nfsdp_config:\n  a: true\n");
    ck_assert(r.launch.context == 4 && r.launch.data == 4 && r.devices == 16);
    ck_assert_int_eq(r.unknown_count, 1);
    ck_assert_str_eq(r.unknown[0], "fsdp_config.a = true");
    arena_free(&arena);
}
END_TEST

static const struct {
    const char *name, *text, *says;
} refused[] = {
    { "a.yaml", "distributed_type: DEEPSPEED\n",
      "a.yaml: distributed_type: expected FSDP, found DEEPSPEED: --from deepspeed reads it" },
    { "a.yaml", "distributed_type: XLA\n",
      "a.yaml:1:1: distributed_type: expected FSDP, or DEEPSPEED, which --from deepspeed reads; found XLA" },
    { "a.yaml", "fsdp_config:\n  fsdp_version: 1\n", "fsdp_version: expected 2, or 1 with" },
    { "a.yaml", "fsdp_config:\n", "fsdp_sharding_strategy FULL_SHARD; found none, which is 1" },
    { "a.yaml", "fsdp_config:\n  fsdp_sharding_strategy: some\n", "fsdp_sharding_strategy: expected" },
    { "a.yaml", "fsdp_config:\n  fsdp_sharding_strategy: HYBRID_SHARD\n",
      "HYBRID_SHARD shards over the devices of a node: expected num_processes and num_machines, or --cluster" },
    { "a.yaml", "fsdp_config:\n  fsdp_sharding_strategy: 4\nparallelism_config:\n  parallelism_config_cp_size: 2\n",
      "HYBRID_SHARD: expected no parallelism_config beside it" },
    { "a.yaml", "fsdp: hybrid_shard auto_wrap\nfsdp_config:\n  fsdp_version: 2\n",
      "fsdp: expected full_shard or shard_grad_op with fsdp_version 2, found hybrid_shard: write version 1" },
    { "a.yaml", "a: &x 1\n", "a.yaml:1:4: expected a value, found \"&\"" },
    { "a.yaml", "a: 1\na: 2\n", "a.yaml:2:1: a: expected each key once, found it also in line 1" },
    { "a.yaml", "\ta: 1\n", "a.yaml:1:1: expected spaces before a key, found a tab" },
    { "a.yaml", "a\n", "expected : behind the key" },
    { "a.yaml", "- a\n", "expected a key before a list" },
    { "a.yaml", "a: 'x\n", "expected ' at the end of a string" },
    { "a.yaml", "fsdp_config:\n  fsdp_version: 2\n  fsdp_reshard_after_forward: FULL_SHARD\n",
      "a.yaml:3:3: fsdp_reshard_after_forward: expected true or false, found FULL_SHARD" },
    { "a.yaml", "fsdp_config:\n  fsdp_version: 2\n  fsdp_activation_checkpointing_offload: true\n",
      "expected fsdp_activation_checkpointing with it" },
    { "a.yaml",
      "num_processes: 8\nfsdp_config:\n  fsdp_version: 2\nparallelism_config:\n  parallelism_config_tp_size: 2\n",
      "replicas 1 x shards 1 x tensor 2 x context 1 are 2 processes, and num_processes is 8" },
    { "a.yaml",
      "num_processes: 2\nfsdp_config:\n  fsdp_version: 2\nparallelism_config:\n  parallelism_config_tp_size: 2\n",
      "FSDP has nothing to shard over" },
    { "a.yaml", "fsdp_config:\n  fsdp_version: 2\nparallelism_config:\n  parallelism_config_dp_replicate_size: 2\n",
      "expected parallelism_config_dp_shard_size 2 or more" },
    { "a.yaml", "fsdp_config:\n  fsdp_version: 2\nparallelism_config:\n  parallelism_config_sp_size: 2\n",
      "expected DeepSpeed for it" },
    { "a.yaml", "fsdp_config:\n  fsdp_version: 2\ncontext_parallel_size: 4\nnum_processes: 6\n",
      "6 processes: expected a multiple of tensor 1 x context 4" },
    { "a.yaml", "fsdp_config:\n  fsdp_version: 2\nexpert_parallel_size: 4\n",
      "a.yaml:3:1: expert_parallel_size: expected 1, found 4: degrees of this target are parallelism_config_tp_size" },
    { "a.yaml", "fsdp_config: {fsdp_version: 2,\n  fsdp_offload_params: 3}\n",
      "a.yaml:2:3: fsdp_offload_params: expected true or false, found 3" },
    { "a.yaml", "a: 1\nfsdp_config: {fsdp_version: 2, b: [1, 2}\n", "a.yaml:2:40: expected , or ], found \"}\"" },
    { "a.yaml", "fsdp_config: {fsdp_version: 2,\n  b: 1\nc: 3\n", "a.yaml:3:2: expected , or }, found \":\"" },
    { "a.yaml", "fsdp_config: {fsdp_version: 2,\n", "a.yaml:1:14: expected } for this bracket, found the end" },
    { "a.yaml", "fsdp_config: {fsdp_version:2}\n", "a.yaml:1:27: expected a blank behind the : of a key" },
    { "a.yaml", "fsdp_config: {fsdp_version}\n", "a.yaml:1:27: expected : behind the key" },
    { "a.yaml", "fsdp_config: {, a: 1}\n", "a.yaml:1:15: expected a key or }, found \",\"" },
    { "a.yaml", "fsdp_config: {a: b: 1}\n", "a.yaml:1:19: expected , or }, found \":\"" },
    { "a.yaml", "fsdp_config: {a: 1} b\n", "a.yaml:1:21: expected the end of the line, found \"b\"" },
    { "a.yaml", "fsdp_config: {a: 1, a: 2}\n", "a.yaml:1:21: fsdp_config.a: expected each key once" },
    { "a.yaml", "fsdp_config: {a: *x}\n", "a.yaml:1:18: expected a value, found \"*\": anchors" },
    { "a.yaml", "a: {{ b }}\n", "a.yaml:1:5: expected a key, found \"{\"" },
    { "a.yaml", "[a, b]\n", "expected a key before a list" },
    { "a.sh", "accelerate launch --config_file x.yaml train.py\n", "the settings are in x.yaml: read it" },
    { "a.sh", "torchrun train.py --fsdp --fsdp_config x.json\n", "the settings are in x.json: read it" },
    { "a.sh", "torchrun train.py \\\n  --fsdp_config '{\"version\": }'\n", "a.sh:2:3: fsdp_config:1:13: expected a JSON value" },
    { "a.yaml", "fsdp: [full_shard, auto_warp]\n", "a.yaml:1:1: fsdp: expected full_shard," },
    { "a.sh", "accelerate launch --fsdp_version 2 --parallelism_config_cp_size 4 t.py --max_length 1028\n",
      "max_length 1028: expected a multiple of 8" },
};

START_TEST(contradictions_are_refused_with_their_place)
{
    check_refusal(accelerate, refused[_i].name, refused[_i].text, refused[_i].says);
}
END_TEST

START_TEST(rules_refuse_by_name)
{
    struct model *model = model_of_zoo("llama-3-8b");
    struct launch_context context = { .model = model, .devices_per_node = 8 };
    struct launch good = golden_launch(0), l;
    ck_assert_ptr_null(target_broken_rule(accelerate, &good, &context));
#define BROKEN(rule, ...)                                                                                              \
    l = good;                                                                                                          \
    __VA_ARGS__;                                                                                                       \
    ck_assert_ptr_nonnull(target_broken_rule(accelerate, &l, &context));                                               \
    ck_assert_str_eq(target_broken_rule(accelerate, &l, &context)->name, rule)
    BROKEN("no-pipeline", l.pipeline = 2);
    BROKEN("no-experts", l.expert = 2);
    BROKEN("no-tp", l.tensor = 2);
    BROKEN("cp", l.context = 2; l.context_dimension = DIM_cp_ulysses);
    BROKEN("zero", l.zero = 2);
    BROKEN("hsdp", l.shard_group = 1);
    BROKEN("reshard", l.reshard = RESHARD_EACH_STEP; l.batch = 256);
    BROKEN("recompute", l.recompute = RECOMPUTE_SELECTIVE);
    BROKEN("offload", l.offload = OFFLOAD_OPTIMIZER);
    BROKEN("offload", l.offload = OFFLOAD_PARAMETERS);
    BROKEN("dtype", l.dtype = DTYPE_FP8);
    BROKEN("fsdp-units", l.loss_chunks = 2);
    model_free(model);
    l = good;
    l.context = 2;
    l.context_dimension = DIM_cp_gather;
    check_unfused(accelerate, "cp-attention", l);
}
END_TEST

/* Strategies of FSDP 1 are ZeRO's stages, and groups of shards that are nodes. */
START_TEST(strategies_are_read)
{
    static const struct {
        const char *text;
        int64_t node_devices;
        int zero, reshard, group;
        const char *beyond;
    } cases[] = {
        { "fsdp_sharding_strategy: FULL_SHARD", 0, 3, RESHARD_EACH_PASS, 0, NULL },
        { "fsdp_sharding_strategy: SHARD_GRAD_OP", 0, 3, RESHARD_EACH_STEP, 0, "reshard" },
        { "fsdp_sharding_strategy: 2", 0, 3, RESHARD_EACH_STEP, 0, "reshard" },
        { "fsdp_reshard_after_forward: NO_SHARD", 0, 0, RESHARD_EACH_PASS, 0, "zero" },
        { "fsdp_sharding_strategy: HYBRID_SHARD\nnum_machines: 4", 0, 3, RESHARD_EACH_PASS, 8, NULL },
        { "fsdp_sharding_strategy: HYBRID_SHARD\nnum_machines: 1", 0, 3, RESHARD_EACH_PASS, 0, NULL },
        { "fsdp_sharding_strategy: HYBRID_SHARD", 4, 3, RESHARD_EACH_PASS, 4, NULL },
        { "fsdp_sharding_strategy: HYBRID_SHARD_ZERO2", 8, 3, RESHARD_EACH_STEP, 8, "reshard" },
        { "fsdp: hybrid_shard_zero2 auto_wrap", 8, 3, RESHARD_EACH_STEP, 8, "reshard" },
        { "fsdp: no_shard auto_wrap", 8, 0, RESHARD_EACH_PASS, 0, "zero" },
        { "fsdp: shard_grad_op auto_wrap\nfsdp_version: 2", 8, 3, RESHARD_EACH_STEP, 0, NULL },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct arena arena = { 0 };
        struct error err = { 0 };
        char text[256];
        struct launch_read r = { .place = { .node_devices = cases[i].node_devices } };
        snprintf(text, sizeof text, "num_processes: 32\nper_device_train_batch_size: 1\n%s\n", cases[i].text);
        ck_assert_msg(accelerate->read(&r, &arena, "a.yaml", text, strlen(text), &err), "%s", err.message);
        ck_assert_msg(r.launch.data == 32 && r.launch.zero == cases[i].zero && r.launch.reshard == cases[i].reshard &&
                          r.launch.shard_group == cases[i].group && r.launch.bucket_bytes == INT64_C(1) << 40,
                      "%s: ZeRO %lld, reshard %lld, groups of %lld", cases[i].text, (long long)r.launch.zero,
                      (long long)r.launch.reshard, (long long)r.launch.shard_group);
        ck_assert_pstr_eq(r.beyond ? r.beyond[0] : NULL, cases[i].beyond);
        arena_free(&arena);
    }
}
END_TEST

/* Mappings and lists in brackets say what they say by indentation. */
START_TEST(flows_are_read_as_blocks)
{
    static const char *const texts[] = {
        "distributed_type: FSDP\nmixed_precision: bf16\nnum_processes: 8\nfsdp_config:\n  fsdp_version: 2\n"
        "  fsdp_offload_params: true\n  surprise: a b\nparallelism_config:\n"
        "  parallelism_config_dp_replicate_size: 2\n  parallelism_config_dp_shard_size: 4\n"
        "datasets:\n  - path: x\nlist: [a, 'b, c']\nodd:\n  deep:\n    one: 1\n  none: {}\n",
        "distributed_type: FSDP\nmixed_precision: bf16\nnum_processes: 8\n"
        "fsdp_config: {fsdp_version: 2, fsdp_offload_params: true, surprise: a b}\n"
        "parallelism_config: { parallelism_config_dp_replicate_size: 2, parallelism_config_dp_shard_size: 4, }\n"
        "datasets: [{path: x, type: y}, {path: z}]\nlist: [a, 'b, c']\nodd: {deep: {one: 1}, none: {}}\n",
        "{distributed_type: FSDP, mixed_precision: bf16, num_processes: 8, # FSDP\n"
        " \"fsdp_config\": {\"fsdp_version\":2, 'fsdp_offload_params' : true,\n    surprise: a\n      b, empty: },\n"
        " parallelism_config: {\n  parallelism_config_dp_replicate_size: 2,\n"
        "  parallelism_config_dp_shard_size: 4},\n datasets: [x, [{path: x}]],\n list: [a, 'b, c'],\n"
        " odd: {deep: {one: 1}, none: {}}}\n",
        "distributed_type: FSDP\nmixed_precision: bf16\nnum_processes: 8\nfsdp_config:\n"
        "  {fsdp_version: 2, fsdp_offload_params: true, surprise: a b}\nparallelism_config:\n"
        "  parallelism_config_dp_replicate_size: 2\n  parallelism_config_dp_shard_size: 4\n"
        "datasets:\n  - {path: x, type: y}\n  - {path: z, type: y}\nlist:\n  [a, 'b, c']\nodd:\n  deep: {one: 1}\n"
        "  none: {}\n",
    };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        struct arena arena = { 0 };
        struct launch_read r = read_text(accelerate, &arena, "a.yaml", texts[i]);
        ck_assert(r.launch.data == 8 && r.launch.shard_group == 4 && r.launch.zero == 3 && r.devices == 8);
        ck_assert_int_eq(r.launch.offload, OFFLOAD_OPTIMIZER | OFFLOAD_PARAMETERS);
        ck_assert_int_eq(r.unknown_count, 4);
        ck_assert_str_eq(r.unknown[0], "fsdp_config.surprise = a b");
        ck_assert_str_eq(r.unknown[1], "list = [a, 'b, c']");
        ck_assert_str_eq(r.unknown[2], "odd.deep.one = 1");
        ck_assert_str_eq(r.unknown[3], "odd.none = {}");
        arena_free(&arena);
    }
}
END_TEST

/* The Trainer's own arguments say what it computes in, before accelerate's; axolotl's choose by the device. */
START_TEST(precisions_are_the_trainers)
{
    static const char fsdp[] = "fsdp_version: 2\nfsdp_config:\n  reshard_after_forward: true\n";
    static const struct {
        const char *text, *device;
        bool says;
        enum dtype dtype;
        int unknown;
    } cases[] = {
        { "bf16: true\n", NULL, true, DTYPE_BF16, 0 },
        { "fp16: True\n", NULL, true, DTYPE_FP16, 0 },
        { "bf16: false\n", NULL, false, DTYPE_BF16, 0 },
        { "bf16: false\nfp16: false\n", NULL, true, DTYPE_FP32, 0 },
        { "mixed_precision: bf16\nfp16: true\n", NULL, true, DTYPE_FP16, 1 },
        { "mixed_precision: bf16\nbf16: true\n", NULL, true, DTYPE_BF16, 0 },
        { "mixed_precision: fp16\nbf16: false\n", NULL, true, DTYPE_FP16, 0 },
        { "mixed_precision: 'no'\n", NULL, true, DTYPE_FP32, 0 },
        { "base_model: a/b\n", "h100-sxm", true, DTYPE_BF16, 0 },
        { "base_model: a/b\nbf16: auto\n", NULL, true, DTYPE_BF16, 0 },
        { "base_model: a/b\nbf16: auto\n", "v100-sxm", true, DTYPE_FP16, 0 },
        { "base_model: a/b\nbf16: auto\nfp16: true\n", NULL, true, DTYPE_FP16, 0 },
        { "base_model: a/b\nbf16: null\nfp16: ~\n", NULL, true, DTYPE_BF16, 0 },
        { "bf16: null\nfp16: true\n", NULL, true, DTYPE_FP16, 0 },
        { "base_model: a/b\nbf16: true\nfp16: true\n", NULL, true, DTYPE_BF16, 0 },
        { "base_model: a/b\nbfloat16: true\n", NULL, true, DTYPE_BF16, 0 },
    };
    struct arena arena = { 0 };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[256];
        struct error err = { 0 };
        struct launch_read r = { .device_name = cases[i].device };
        snprintf(text, sizeof text, "%s%s", fsdp, cases[i].text);
        ck_assert_msg(accelerate->read(&r, &arena, "a.yaml", text, strlen(text), &err), "%s", err.message);
        ck_assert_msg(r.says_dtype == cases[i].says && r.launch.dtype == cases[i].dtype &&
                          r.unknown_count == cases[i].unknown,
                      "%s: %d, %s, %d not understood", cases[i].text, r.says_dtype, dtype_names[r.launch.dtype],
                      r.unknown_count);
    }
    struct launch_read r = read_text(accelerate, &arena, "a.sh",
                                     "accelerate launch --use_fsdp --fsdp_version 2 sft.py --bf16 True --max_length 64\n");
    ck_assert(r.says_dtype && r.launch.dtype == DTYPE_BF16);
    check_refusal(accelerate, "a.yaml", "fsdp_version: 2\nbf16: true\nfp16: true\n",
                  "a.yaml:3:1: fp16: expected bf16 or fp16, found both, which the Trainer refuses");
    arena_free(&arena);
}
END_TEST

/* What is trained by preferences, rewards or a teacher is not priced as fine-tuning, whoever says it; what only sounds
 * like it goes on. */
START_TEST(methods_beside_fine_tuning_are_refused)
{
    static const char *const cases[][3] = {
        { "a.yaml", "stage: dpo\nfinetuning_type: full\nper_device_train_batch_size: 1\n", "a.yaml:1:1: stage: dpo: " },
        { "a.yaml", "per_device_train_batch_size: 1\nstage: rm\n", "a.yaml:2:1: stage: rm: " },
        { "a.yaml", "stage: ppo\nreward_model: a/b\nper_device_train_batch_size: 1\n", "a.yaml:1:1: stage: ppo: " },
        { "a.yaml", "stage: KTO\nper_device_train_batch_size: 1\n", "a.yaml:1:1: stage: KTO: " },
        { "a.yaml", "base_model: a/b\nrl: orpo\nmicro_batch_size: 1\n", "a.yaml:2:1: rl: orpo: " },
        { "a.yaml", "base_model: a/b\nreward_model: true\nmicro_batch_size: 1\n", "a.yaml:2:1: reward_model: true: " },
        { "a.sh", "trl grpo --per_device_train_batch_size 1\n", "a.sh:1:5: grpo: " },
        { "a.sh", "accelerate launch --multi_gpu x/run_dpo.py --per_device_train_batch_size 1\n", "x/run_dpo.py: " },
        { "a.sh", "torchrun --nproc_per_node 8 dpo.py --per_device_train_batch_size 1\npython merge.py\n",
          "a.sh:1:29: dpo.py: " },
        { "a.sh", "accelerate launch --num_processes 8 -m trl.scripts.reward --learning_rate 1\n",
          "trl.scripts.reward: " },
        { "a.yaml", "stage: sft\nfinetuning_type: full\nper_device_train_batch_size: 1\n", NULL },
        { "a.yaml", "stage: pt\nfinetuning_type: full\nper_device_train_batch_size: 1\n", NULL },
        { "a.yaml", "base_model: a/b\nrl:\nreward_model: false\nmicro_batch_size: 1\n", NULL },
        { "a.sh", "trl sft --per_device_train_batch_size 1 --dataset_name dpo-mix --output_dir out/dpo\n", NULL },
        { "a.sh",
          "python dpo_data.py --out x\naccelerate launch --num_processes 8 sft.py --learning_rate 1 "
          "--per_device_train_batch_size 1\n",
          NULL },
        { "a.sh",
          "rm -rf out\ntorchrun --nproc_per_node 8 train.py --stage dpo --stage sft --finetuning_type full "
          "--per_device_train_batch_size 1\n",
          NULL },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct arena arena = { 0 };
        if (cases[i][2])
            check_refusal(accelerate, cases[i][0], cases[i][1], cases[i][2]);
        else
            ck_assert_int_eq(read_text(accelerate, &arena, cases[i][0], cases[i][1]).launch.micro_batch, 1);
        arena_free(&arena);
    }
}
END_TEST

static Suite *target_accelerate_suite(void)
{
    Suite *s = suite_create("target_accelerate");
    CHECK_ADD_LOOP(s, what_is_written_is_read_back, 6);
    CHECK_ADD_LOOP(s, files_stay_as_they_are, 2);
    CHECK_ADD(s, files_of_users_are_read);
    CHECK_ADD_LOOP(s, contradictions_are_refused_with_their_place, (int)(sizeof refused / sizeof *refused));
    CHECK_ADD(s, rules_refuse_by_name);
    CHECK_ADD(s, strategies_are_read);
    CHECK_ADD(s, flows_are_read_as_blocks);
    CHECK_ADD(s, precisions_are_the_trainers);
    CHECK_ADD(s, methods_beside_fine_tuning_are_refused);
    return s;
}

CHECK_MAIN(target_accelerate_suite)
