/* Launches for DeepSpeed are read back from the JSON to what they were written of; what its users have is read, and its
 * own refusals are ours. The package reads the files in tests/targets_accept_torch.py. */
#include "tests/target_launches.h"

extern const struct target target_deepspeed;
static const struct target *const deepspeed = &target_deepspeed;

static void vary(struct launch *l, uint64_t *state)
{
    l->bucket_bytes = 100000000;
    l->pipeline = l->chunks = l->loss_chunks = 1;
    l->schedule = l->piece_count = 0;
    l->piece_blocks = NULL;
    l->sequence_parallel = false;
    l->reshard = RESHARD_EACH_PASS;
    bool alone = l->data * l->context == 1;
    l->zero = !alone ? random_below(state, 4) : 0;
    l->shard_group = l->zero == 3 ? l->shard_group : 0;
    if (l->context > 1)
        l->context_dimension = DIM_cp_ulysses;
    if ((alone || l->zero > 0) && random_below(state, 3) == 0)
        l->offload = OFFLOAD_OPTIMIZER;
    if ((alone || (l->zero == 3 && l->shard_group == 0)) && random_below(state, 3) == 0)
        l->offload |= OFFLOAD_PARAMETERS;
    if (random_below(state, 6) == 0)
        l->dtype = DTYPE_FP16;
    if (random_below(state, 6) == 0)
        l->clip_norm = 0;
}

START_TEST(what_is_written_is_read_back)
{
    struct model *model = model_of_zoo(_i % 2 ? "llama-3-70b" : "mixtral-8x7b");
    struct launch_context context = { .model = model, .devices_per_node = 8, .device_name = "h100-sxm" };
    uint64_t state = 500 + (uint64_t)_i;
    int pieces[64];
    for (int n = 0; n < 60; n++) {
        struct launch l = draw_legal(deepspeed, &context, &state, 80, pieces, vary);
        check_round(deepspeed, &l, &context, "ds_config.json");
    }
    model_free(model);
}
END_TEST

static struct launch golden_launch(int number)
{
    struct launch l = launch_plain;
    l.bucket_bytes = 100000000;
    l.zero = 3;
    l.recompute = RECOMPUTE_BLOCK;
    l.sequence = 8192;
    if (number == 0) {
        l.data = 64;
        l.batch = 128;
        l.micro_batch = 2;
    } else if (number == 1) {
        l.tensor = 4;
        l.data = 4;
        l.batch = 16;
        l.zero = 2;
        l.offload = OFFLOAD_OPTIMIZER;
    } else {
        l.context = 8;
        l.context_dimension = DIM_cp_ulysses;
        l.data = 2;
        l.batch = 8;
        l.sequence = 65536;
    }
    return l;
}

START_TEST(files_stay_as_they_are)
{
    static const int64_t peak[] = { INT64_C(61) << 30 }, available[] = { INT64_C(79) << 30 };
    static const char *const folders[] = { "deepspeed/8b-zero3", "deepspeed/8b-tp-offload", "deepspeed/8b-ulysses" };
    struct model *model = model_of_zoo("llama-3-8b");
    struct launch l = golden_launch(_i);
    struct launch_context context = { .model = model,
                                      .devices_per_node = 8,
                                      .device_name = "h100-sxm",
                                      .step_ns = INT64_C(2345678901),
                                      .stage_count = 1,
                                      .peak_bytes = peak,
                                      .available_bytes = available };
    check_golden(deepspeed, &l, &context, folders[_i]);
    check_round(deepspeed, &l, &context, "ds_config.json");
    model_free(model);
}
END_TEST

START_TEST(files_of_users_are_read)
{
    struct arena arena = { 0 };
    /* As the documentation of transformers has it, with "auto" left to the Trainer. */
    struct launch_read r =
        read_text(deepspeed, &arena, "ds.json",
                  "{\"fp16\": {\"enabled\": \"auto\", \"loss_scale\": 0}, \"bf16\": {\"enabled\": true},"
                  "\"optimizer\": {\"type\": \"AdamW\", \"params\": {\"lr\": \"auto\", \"betas\": [0.9, 0.99]}},"
                  "\"zero_optimization\": {\"stage\": 3, \"offload_optimizer\": {\"device\": \"cpu\", "
                  "\"pin_memory\": true}, \"offload_param\": {\"device\": \"cpu\"}, \"reduce_bucket_size\": \"auto\", "
                  "\"sub_group_size\": 1e9,"
                  "\"surprise\": 1}, \"gradient_clipping\": 1.0, \"train_batch_size\": 256,"
                  "\"train_micro_batch_size_per_gpu\": 4, \"gradient_accumulation_steps\": 2}");
    ck_assert_int_eq(r.launch.zero, 3);
    ck_assert_int_eq(r.launch.offload, OFFLOAD_OPTIMIZER | OFFLOAD_PARAMETERS);
    ck_assert_int_eq(r.launch.dtype, DTYPE_BF16);
    ck_assert_int_eq(r.launch.data, 32); /* 256 / (4 x 2) */
    ck_assert_int_eq(r.launch.batch, 256);
    ck_assert(!r.says_sequence);
    ck_assert_int_eq(r.unknown_count, 1);
    ck_assert_str_eq(r.unknown[0], "zero_optimization.surprise = 1");
    r = read_text(deepspeed, &arena, "ds.json",
                  "{\"bf16\": {\"enabled\": true, \"bf16_master_weights_and_grads\": true, "
                  "\"bf16_optimizer_states\": true, \"immediate_grad_update\": true}}");
    ck_assert_int_eq(r.unknown_count, 2);
    ck_assert_str_eq(r.unknown[0], "bf16.bf16_master_weights_and_grads = true");
    ck_assert_str_eq(r.unknown[1], "bf16.bf16_optimizer_states = true");
    r = read_text(deepspeed, &arena, "ds.json", "{\"bf16\": {\"enabled\": true, \"bf16_optimizer_states\": false}}");
    ck_assert_int_eq(r.unknown_count, 0);
    static const struct {
        const char *zero, *unknown; /* NULL: all is understood */
        int prefetch;
    } cases[] = {
        { "\"stage3_prefetch_bucket_size\": 5e7, \"stage3_max_live_parameters\": 1000000000", NULL, 1 },
        { "\"stage3_prefetch_bucket_size\": 15099494.4", NULL, 1 },
        { "\"stage3_prefetch_bucket_size\": 0", NULL, 0 },
        { "\"stage3_max_live_parameters\": 0", NULL, 0 },
        { "\"stage3_param_persistence_threshold\": 1e7, \"reduce_scatter\": true", NULL, 1 },
        { "\"stage3_param_persistence_threshold\": 1e8", "stage3_param_persistence_threshold = 1", 1 },
        { "\"offload_optimizer\": {\"device\": \"cpu\", \"ratio\": 1.0}", NULL, 1 },
        { "\"offload_optimizer\": {\"device\": \"cpu\", \"ratio\": 0.3}", "offload_optimizer.ratio = 0.3", 1 },
        { "\"reduce_scatter\": false", "reduce_scatter = false", 1 },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[512];
        snprintf(text, sizeof text, "{\"bf16\": {\"enabled\": true}, \"zero_optimization\": {\"stage\": 3, %s}}",
                 cases[i].zero);
        r = read_text(deepspeed, &arena, "ds.json", text);
        ck_assert_msg(r.launch.prefetch == cases[i].prefetch && r.unknown_count == (cases[i].unknown != NULL), "%s",
                      text);
        ck_assert(!cases[i].unknown || strstr(r.unknown[0], cases[i].unknown));
    }
    r = read_text(deepspeed, &arena, "ds.json",
                  "{\"optimizer\": {\"type\": \"OneBitAdam\"}, \"bf16\": {\"enabled\": true}}");
    ck_assert(r.unknown_count == 1 && !strcmp(r.unknown[0], "optimizer.type = OneBitAdam"));
    r = read_text(deepspeed, &arena, "a.yaml",
                  "compute_environment: LOCAL_MACHINE\ndistributed_type: DEEPSPEED\ndeepspeed_config:\n"
                  "  gradient_accumulation_steps: 4\n  gradient_clipping: 1.0\n  offload_optimizer_device: none\n"
                  "  offload_param_device: none\n  zero3_init_flag: false\n  zero_stage: 2\nmixed_precision: bf16\n"
                  "num_machines: 1\nnum_processes: 8\n");
    ck_assert_int_eq(r.launch.zero, 2);
    ck_assert_int_eq(r.launch.offload, OFFLOAD_NONE);
    ck_assert_int_eq(r.launch.data, 8);
    ck_assert(r.says_data && !r.says_batch);
    ck_assert_int_eq(r.unknown_count, 0);
    r = read_text(deepspeed, &arena, "run.sh",
                  "accelerate launch --use_deepspeed --zero_stage 1 --num_processes 4 --mixed_precision bf16 sft.py "
                  "--per_device_train_batch_size 2 --gradient_accumulation_steps 3 --block_size 1024\n");
    ck_assert_int_eq(r.launch.zero, 1);
    ck_assert_int_eq(r.launch.batch, 24);
    ck_assert_int_eq(r.launch.sequence, 1024);
    /* Tensor-parallel ranks, which read the same sequences, count in train_batch_size (DeepSpeed 0.19.8 takes this file
     * on 8 devices); ranks that share out a sequence do not. */
    r = read_text(deepspeed, &arena, "tp.json",
                  "{\"train_batch_size\": 128, \"train_micro_batch_size_per_gpu\": 1, \"gradient_accumulation_steps\": "
                  "16, \"tensor_parallel\": {\"autotp_size\": 2}}");
    ck_assert(r.launch.data == 4 && r.launch.tensor == 2 && r.devices == 8 && r.launch.batch == 64);
    r = read_text(deepspeed, &arena, "sp.json",
                  "{\"train_batch_size\": 64, \"train_micro_batch_size_per_gpu\": 1, \"gradient_accumulation_steps\": "
                  "16, \"sequence_parallel_size\": 2}");
    ck_assert(r.launch.data == 4 && r.launch.context == 2 && r.devices == 8 && r.launch.batch == 64);
    arena_free(&arena);
}
END_TEST

/* The Trainer fills "auto" in: beside it the other type's "false" does not say fp32. */
START_TEST(auto_leaves_the_type_open)
{
    static const struct {
        const char *text;
        bool says;
        enum dtype dtype;
    } cases[] = {
        { "{\"bf16\": {\"enabled\": \"auto\"}, \"fp16\": {\"enabled\": false}}", false, 0 },
        { "{\"fp16\": {\"enabled\": \"auto\"}, \"bf16\": {\"enabled\": false}}", false, 0 },
        { "{\"fp16\": {\"enabled\": \"auto\"}, \"bf16\": {\"enabled\": true}}", true, DTYPE_BF16 },
        { "{\"fp16\": {\"enabled\": false}, \"bf16\": {\"enabled\": false}}", true, DTYPE_FP32 },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct arena arena = { 0 };
        struct launch_read r = read_text(deepspeed, &arena, "ds.json", cases[i].text);
        ck_assert_msg(r.says_dtype == cases[i].says && (!cases[i].says || r.launch.dtype == cases[i].dtype),
                      "%s: says %d, type %d", cases[i].text, r.says_dtype, (int)r.launch.dtype);
        arena_free(&arena);
    }
}
END_TEST

/* Axolotl's "auto" is what the device computes in, as without DeepSpeed. */
START_TEST(auto_is_the_devices_type)
{
    static const struct {
        const char *text, *device;
        enum dtype dtype;
    } cases[] = {
        { "bf16: auto\n", NULL, DTYPE_BF16 },
        { "bf16: auto\n", "v100-sxm", DTYPE_FP16 },
        { "bf16: auto\nfp16: true\n", "h100-sxm", DTYPE_FP16 },
        { "bf16: auto\nfp16: false\n", "t4", DTYPE_FP32 },
        { "bf16: null\nfp16: true\n", NULL, DTYPE_FP16 },
    };
    struct arena arena = { 0 };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[256];
        struct error err = { 0 };
        struct launch_read r = { .device_name = cases[i].device };
        snprintf(text, sizeof text, "base_model: a/b\ndeepspeed_config:\n  zero_optimization:\n    stage: 2\n%s",
                 cases[i].text);
        ck_assert_msg(deepspeed->read(&r, &arena, "a.yaml", text, strlen(text), &err), "%s", err.message);
        ck_assert_msg(r.says_dtype && r.launch.dtype == cases[i].dtype, "%s: %s", cases[i].text,
                      dtype_names[r.launch.dtype]);
    }
    arena_free(&arena);
}
END_TEST

/* DeepSpeedConfig._set_batch_related_parameters() makes the micro-batch of the batch, the ranks and the accumulation,
 * which is 1 where nobody says it. */
START_TEST(accumulation_makes_micro_batches)
{
    static const struct {
        const char *name, *text;
        int64_t batch, micro_batches, accumulation;
    } cases[] = {
        { "ds.json", "{\"gradient_accumulation_steps\": 4, \"train_batch_size\": 64}", 64, 4, 4 },
        { "ds.json", "{\"train_batch_size\": 64}", 64, 1, 0 },
        { "ds.json", "{\"gradient_accumulation_steps\": 4}", 0, 4, 4 },
        { "a.yaml", "num_processes: 8\ndeepspeed_config:\n  gradient_accumulation_steps: 4\n", 0, 4, 4 },
        { "ds.json", "{\"train_batch_size\": 64, \"train_micro_batch_size_per_gpu\": 2}", 64, 0, 0 },
        { "ds.json", "{\"zero_optimization\": {\"stage\": 3}}", 0, 0, 0 },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct arena arena = { 0 };
        struct launch_read r = read_text(deepspeed, &arena, cases[i].name, cases[i].text);
        ck_assert_msg(r.launch.batch * r.says_batch == cases[i].batch && r.micro_batches == cases[i].micro_batches &&
                          r.accumulation == cases[i].accumulation,
                      "%s: batch %lld, micro-batches %lld", cases[i].text, (long long)r.launch.batch,
                      (long long)r.micro_batches);
        arena_free(&arena);
    }
}
END_TEST

static const struct {
    const char *name, *text, *says;
} refused[] = {
    { "a.json", "{}",
      "a.json: expected settings of DeepSpeed, such as zero_optimization.stage, bf16.enabled or "
      "train_micro_batch_size_per_gpu; found none" },
    { "a.json", "{\"layers\": 8, \"zero\": {\"stage\": 1}}", "a.json: expected settings of DeepSpeed" },
    { "a.yaml", "# nothing\n", "a.yaml: expected settings of DeepSpeed" },
    { "a.json", "{\"zero_optimization\": {\"stage\": 4}}",
      "a.json:1:33: zero_optimization.stage: expected a whole number from 0 to 3, found 4" },
    { "a.json", "{\"a\": 1,}", "a.json:1:9" },
    { "a.json", "{\"train_batch_size\": 8, \"train_batch_size\": 8}", "a.json:1:25" },
    { "a.json", "{\"train_batch_size\": 100, \"train_micro_batch_size_per_gpu\": 4, \"x-cleave\": {\"devices\": 8}}",
      "a.json:1:22: train_batch_size: expected micro-batches of 4 x gradient_accumulation_steps 3 x data-parallel "
      "ranks 8, which are 96; found 100" },
    { "a.json", "{\"bf16\": {\"enabled\": true}, \"fp16\": {\"enabled\": true}}",
      "expected bf16 or fp16, found both enabled" },
    { "a.json", "{\"zero_optimization\": {\"stage\": 2, \"offload_param\": {\"device\": \"cpu\"}}}",
      "offload_param: expected zero_optimization.stage 3 with it, found 2" },
    { "a.json", "{\"zero_optimization\": {\"stage\": 3, \"offload_param\": {\"device\": \"nvme\"}}}",
      "weights on NVMe is not planned" },
    { "a.json", "{\"zero_optimization\": {\"stage\": 0, \"offload_optimizer\": {\"device\": \"cpu\"}}}",
      "expected zero_optimization.stage 1 to 3 with it" },
    { "a.json", "{\"zero_optimization\": {\"stage\": 3, \"offload_optimizer\": {\"device\": \"nvme\"}}}",
      "state on NVMe is not planned" },
    { "a.json", "{\"zero_optimization\": {\"stage\": 2, \"mics_shard_size\": 8}}",
      "mics_shard_size: expected zero_optimization.stage 3 with it, found 2" },
    { "a.json", "{\"zero_optimization\": {\"stage\": 3, \"zero_hpz_partition_size\": 8}}",
      "second shards within nodes are not planned" },
    { "a.json", "{\"tensor_parallel\": {\"autotp_size\": 2}, \"sequence_parallel_size\": 2}",
      "expected autotp_size or sequence_parallel_size, found both" },
    { "a.json", "{\"train_batch_size\": 15, \"tensor_parallel\": {\"autotp_size\": 2}}",
      "a.json:1:22: train_batch_size: expected a multiple of autotp_size 2, whose ranks count as others, found 15" },
    { "a.json", "{\"tensor_parallel\": {\"autotp_size\": 3}, \"x-cleave\": {\"devices\": 8}}",
      "8 devices: expected a multiple of tensor 3 x sequence 1" },
    { "a.json", "[1]", "expected an object, found another value" },
    { "a.yaml", "distributed_type: FSDP\n", "expected DEEPSPEED, found FSDP: --from accelerate-fsdp2 reads it" },
    { "a.yaml", "deepspeed_config:\n  deepspeed_config_file: ds.json\n",
      "a.yaml:2:3: deepspeed_config.deepspeed_config_file: the settings are in ds.json: read it" },
    { "a.sh", "deepspeed train.py --deepspeed_config=$(pwd)/ds.json\n", "the settings are in ./ds.json: read it" },
    { "a.sh", "deepspeed train.py --deepspeed ds.json\n", "the settings are in ds.json: read it" },
    { "a.sh", "torchrun --nproc-per-node 8 sft.py --per_device_train_batch_size 1\n",
      "a.sh: expected settings of DeepSpeed" },
    { "a.sh", "deepspeed main.py --zero_stage 3 --batch_size 4\n",
      "a.sh:1:34: batch_size: a batch is not read by this name" },
    { "a.sh", "deepspeed main.py --zero_stage 3 --max_prompt_length $LENGTH\n",
      "max_prompt_length ($LENGTH expands to nothing here: write the value in its place, or set it before): a length "
      "is "
      "not read by this name, and nothing else says it: write max_length for that of the sequences, or take it out and "
      "give --seq" },
    { "a.sh", "deepspeed main.py --zero_stage 3 --bf16 2 2>&1 | tee log\n", "bf16: expected true or false, found 2" },
    { "a.sh", "deepspeed main.py --zero_stage 3 --tensor-model-parallel-size 2\n",
      "tensor_model_parallel_size: expected 1, found 2: degrees of this target are tensor_parallel.autotp_size" },
    { "a.yaml", "stage: dpo\nfinetuning_type: full\nzero_stage: 2\nper_device_train_batch_size: 1\n",
      "a.yaml:1:1: stage: dpo: cleave prices pre-training and supervised fine-tuning; training by preferences, rewards "
      "or a teacher runs further models, or pairs and groups of sequences: for a lower bound write stage: sft, with "
      "twice the batch for pairs" },
    { "a.sh", "deepspeed --num_gpus 8 dpo.py --zero_stage 2 --per_device_train_batch_size 1\n",
      "a.sh:1:24: dpo.py: cleave prices pre-training and supervised fine-tuning" },
    { "a.yaml", "distributed_type: DEEPSPEED\nparallelism_config:\n  parallelism_config_tp_size: 2\n",
      "a.yaml:3:3: parallelism_config.parallelism_config_tp_size: expected 1, found 2" },
};

START_TEST(contradictions_are_refused_with_their_place)
{
    check_refusal(deepspeed, refused[_i].name, refused[_i].text, refused[_i].says);
}
END_TEST

/* Trainers have names of their own for the length of sequences; what else says lengths, batches or degrees is of no
 * step, or beside one that is read. */
START_TEST(lengths_are_read_by_trainers_names)
{
    static const struct {
        const char *arguments;
        int64_t sequence;
    } cases[] = {
        { "--max_seq_len 512", 512 },           { "--cutoff_len 2048", 2048 },
        { "--sequence_len 4096", 4096 },        { "--model_max_length 8192", 8192 },
        { "--max_sequence_length 1024", 1024 }, { "--max_length 64 --max_prompt_length 32", 64 },
        { "--eval_batch_size 4", 0 },           { "--micro_batch_size 1 --batch_size 9 --max_length 7", 7 },
        { "--group_by_length true", 0 },        { "--vllm_tensor_parallel_size 2", 0 },
        { "--data_parallel_size 8", 0 },        { "--pp_size 1", 0 },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct arena arena = { 0 };
        char text[200];
        snprintf(text, sizeof text, "deepspeed main.py --zero_stage 3 %s\n", cases[i].arguments);
        struct launch_read r = read_text(deepspeed, &arena, "a.sh", text);
        ck_assert_msg(r.launch.sequence * r.says_sequence == cases[i].sequence, "%s: a sequence of %lld",
                      cases[i].arguments, (long long)r.launch.sequence);
        arena_free(&arena);
    }
}
END_TEST

START_TEST(adapters_are_noted)
{
    static const char *const cases[][2] = {
        { "--lora_dim 128", "a.sh:1:34: lora_dim" },
        { "--lora_r 8", "a.sh:1:34: lora_r" },
        { "--use_peft --lora_rank 8", "a.sh:1:34: use_peft" },
        { "--adapter qlora", "a.sh:1:34: adapter" },
        { "--finetuning_type lora", "a.sh:1:34: finetuning_type" },
        { "--finetuning_type full --lora_rank 8", NULL },
        { "--lora_dim 0", NULL },
        { "--finetuning_type freeze --lora_rank 8", NULL },
        { "--use_peft false", NULL },
        { "--use_peft no --bf16 2>&1 | tee log", NULL },
        { "--lora OFF", NULL },
        { "--adapter no", NULL },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct arena arena = { 0 };
        char text[200];
        snprintf(text, sizeof text, "deepspeed main.py --zero_stage 3 %s\n", cases[i][0]);
        struct launch_read r = read_text(deepspeed, &arena, "a.sh", text);
        ck_assert_pstr_eq(r.adapters, cases[i][1]);
        arena_free(&arena);
    }
}
END_TEST

START_TEST(rules_refuse_by_name)
{
    struct model *model = model_of_zoo("llama-3-8b");
    struct launch_context context = { .model = model, .devices_per_node = 8 };
    struct launch good = golden_launch(0), l;
    ck_assert_ptr_null(target_broken_rule(deepspeed, &good, &context));
#define BROKEN(rule, ...)                                                                                              \
    l = good;                                                                                                          \
    __VA_ARGS__;                                                                                                       \
    ck_assert_ptr_nonnull(target_broken_rule(deepspeed, &l, &context));                                                \
    ck_assert_str_eq(target_broken_rule(deepspeed, &l, &context)->name, rule)
    BROKEN("no-pipeline", l.pipeline = 2);
    BROKEN("no-experts", l.expert = 2);
    BROKEN("kv-heads", l.tensor = 16);
    BROKEN("no-sp", l.tensor = 2; l.sequence_parallel = true);
    BROKEN("ulysses", l.context = 2);
    BROKEN("zero", l.data = 1);
    BROKEN("mics", l.shard_group = 8; l.zero = 2);
    BROKEN("reshard", l.reshard = RESHARD_EACH_STEP);
    BROKEN("offload", l.offload = OFFLOAD_ACTIVATIONS);
    BROKEN("offload", l.offload = OFFLOAD_PARAMETERS, l.zero = 2);
    BROKEN("recompute", l.recompute = RECOMPUTE_SELECTIVE);
    BROKEN("dtype", l.dtype = DTYPE_FP8);
    BROKEN("buckets", l.prefetch = 2);
    model_free(model);
    l = good;
    l.context = 2;
    l.context_dimension = DIM_cp_ulysses;
    check_unfused(deepspeed, "ulysses-attention", l);
}
END_TEST

static Suite *target_deepspeed_suite(void)
{
    Suite *s = suite_create("target_deepspeed");
    CHECK_ADD_LOOP(s, what_is_written_is_read_back, 6);
    CHECK_ADD_LOOP(s, files_stay_as_they_are, 3);
    CHECK_ADD(s, files_of_users_are_read);
    CHECK_ADD(s, auto_leaves_the_type_open);
    CHECK_ADD(s, auto_is_the_devices_type);
    CHECK_ADD(s, accumulation_makes_micro_batches);
    CHECK_ADD_LOOP(s, contradictions_are_refused_with_their_place, (int)(sizeof refused / sizeof *refused));
    CHECK_ADD(s, lengths_are_read_by_trainers_names);
    CHECK_ADD(s, adapters_are_noted);
    CHECK_ADD(s, rules_refuse_by_name);
    return s;
}

CHECK_MAIN(target_deepspeed_suite)
