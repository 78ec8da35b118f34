/* Recipes for torchtitan are read back to the launch that they were written of; what its users have is read, and its
 * own refusals are ours. The package's own classes read the files in tests/targets_accept_torch.py. */
#include "targets/settings.h"
#include "targets/torchtitan/torchtitan.h"
#include "tests/target_launches.h"

extern const struct target target_torchtitan;
static const struct target *const titan = &target_torchtitan;

static void vary(struct launch *l, uint64_t *state)
{
    l->bucket_bytes = INT64_C(1) << 40;
    while (l->sequence % l->loss_chunks != 0)
        l->loss_chunks--;
    l->zero = l->data * l->context > 1 ? 3 * random_below(state, 3) / 2 : 0;
    if (l->zero != 3) {
        l->zero = l->context > 1 ? 3 : 0;
        l->reshard = RESHARD_EACH_PASS;
        l->shard_group = 0;
    }
    if (l->zero == 3 && random_below(state, 4) == 0)
        l->offload = OFFLOAD_OPTIMIZER | OFFLOAD_PARAMETERS;
    if (l->recompute == RECOMPUTE_BLOCK && random_below(state, 2))
        operators_read(&l->excepted, "q+k+v+core+gate+down");
    if (l->dtype == DTYPE_BF16 && random_below(state, 3) == 0)
        l->dtype = DTYPE_FP8;
    if (l->dtype != DTYPE_FP32 && random_below(state, 3) == 0)
        l->optimizer =
            (struct optimizer){ .moments = MOMENTS_BF16, .master = MASTER_NONE, .gradients = GRADIENTS_BF16 };
}

START_TEST(what_is_written_is_read_back)
{
    static const char *const models[] = { "llama-3-8b", "llama-3-70b", "llama-3-405b", "llama-2-7b" };
    struct model *model = model_of_zoo(models[_i % 4]);
    struct launch_context context = { .model = model, .devices_per_node = 8, .device_name = "h100-sxm" };
    static const int blocks[] = { 32, 80, 126, 32 };
    uint64_t state = 100 + (uint64_t)_i;
    int pieces[64];
    for (int n = 0; n < 40; n++) {
        struct launch l = draw_legal(titan, &context, &state, blocks[_i % 4], pieces, vary);
        check_round(titan, &l, &context, "cleave_recipe.py");
    }
    model_free(model);
}
END_TEST

static struct launch golden_launch(int number, int pieces[16])
{
    struct launch l = launch_plain;
    l.bucket_bytes = INT64_C(1) << 40;
    l.loss_chunks = 8;
    l.sequence = 8192;
    l.zero = 3;
    l.recompute = RECOMPUTE_BLOCK;
    l.tensor = 8;
    l.sequence_parallel = true;
    if (number == 0) { /* llama-3-70b on 64 */
        l.data = 8;
        l.batch = 64;
        operators_read(&l.excepted, "q+k+v+core+gate+down");
    } else if (number == 1) { /* llama-3-405b on 512, interleaved, uneven */
        l.data = 8;
        l.pipeline = 8;
        l.schedule = SCHEDULE_interleaved;
        l.chunks = 2;
        l.batch = 256;
        l.reshard = RESHARD_EACH_STEP;
        l.piece_count = 16;
        l.piece_blocks = pieces;
        for (int p = 0; p < 16; p++)
            pieces[p] = p == 0 || p == 15 ? 7 : 8;
    } else { /* llama-2-7b on 16: a shape that the release has not, HSDP and context parallelism */
        l.tensor = 1;
        l.sequence_parallel = false;
        l.context = 2;
        l.data = 8;
        l.shard_group = 4;
        l.micro_batch = 2;
        l.batch = 32;
        l.sequence = 4096;
        l.recompute = RECOMPUTE_NONE;
    }
    return l;
}

START_TEST(files_stay_as_they_are)
{
    static const char *const models[] = { "llama-3-70b", "llama-3-405b", "llama-2-7b" };
    static const char *const folders[] = { "torchtitan/70b", "torchtitan/405b", "torchtitan/7b" };
    static const int64_t peak[] = { INT64_C(61) << 30, INT64_C(60) << 30, INT64_C(59) << 30, INT64_C(58) << 30,
                                    INT64_C(57) << 30, INT64_C(56) << 30, INT64_C(55) << 30, INT64_C(62) << 30 };
    static const int64_t available[] = { INT64_C(79) << 30, INT64_C(79) << 30, INT64_C(79) << 30, INT64_C(79) << 30,
                                         INT64_C(79) << 30, INT64_C(79) << 30, INT64_C(79) << 30, INT64_C(79) << 30 };
    int pieces[16];
    struct model *model = model_of_zoo(models[_i]);
    struct launch l = golden_launch(_i, pieces);
    struct launch_context context = { .model = model,
                                      .devices_per_node = 8,
                                      .device_name = "h100-sxm",
                                      .step_ns = INT64_C(12345678901),
                                      .stage_count = (int)l.pipeline,
                                      .peak_bytes = peak,
                                      .available_bytes = available };
    check_golden(titan, &l, &context, folders[_i]);
    check_round(titan, &l, &context, "cleave_recipe.py");
    model_free(model);
}
END_TEST

/* Releases up to 0.2: train_configs/llama3_70b.toml, shortened. */
static const char old_toml[] = "[job]\n"
                               "dump_folder = \"./outputs\"\n"
                               "description = \"Llama 3 70B training\" # a comment\n"
                               "[model]\n"
                               "name = \"llama3\"\n"
                               "flavor = \"70B\"\n"
                               "[training]\n"
                               "local_batch_size = 8\n"
                               "seq_len = 8_192\n"
                               "max_norm = 1.0\n"
                               "steps = 1000\n"
                               "compile = true\n"
                               "gc_debug = false\n"
                               "[parallelism]\n"
                               "data_parallel_replicate_degree = 2\n"
                               "data_parallel_shard_degree = 4\n"
                               "tensor_parallel_degree = 8\n"
                               "surprise = [1,\n  2] # odd\n"
                               "[activation_checkpoint]\n"
                               "mode = 'full'\n";

START_TEST(toml_of_older_releases_is_read)
{
    struct arena arena = { 0 };
    struct launch_read r = read_text(titan, &arena, "llama3_70b.toml", old_toml);
    ck_assert_int_eq(r.launch.tensor, 8);
    ck_assert(r.launch.sequence_parallel);
    ck_assert_int_eq(r.launch.data, 8);
    ck_assert_int_eq(r.launch.shard_group, 4);
    ck_assert_int_eq(r.launch.zero, 3);
    ck_assert_int_eq(r.launch.micro_batch, 8);
    ck_assert_int_eq(r.launch.batch, 64);
    ck_assert_int_eq(r.launch.sequence, 8192);
    ck_assert_int_eq(r.launch.recompute, RECOMPUTE_BLOCK);
    ck_assert_int_eq(r.launch.excepted, 0);
    ck_assert_int_eq(r.launch.loss_chunks, 1);
    ck_assert_int_eq(r.devices, 64);
    ck_assert_str_eq(r.framework, "torchtitan-compile");
    ck_assert_int_eq(r.unknown_count, 2);
    ck_assert_str_eq(r.unknown[0], "training.gc_debug = false");
    ck_assert_str_eq(r.unknown[1], "parallelism.surprise = [1, 2]");
    ck_assert_ptr_nonnull(r.model);
    ck_assert_int_eq(r.model->hidden, 8192);
    model_free(r.model);
    arena_free(&arena);
}
END_TEST

START_TEST(options_of_a_script_are_read)
{
    struct arena arena = { 0 };
    struct launch_read r =
        read_text(titan, &arena, "run.sh",
                  "#!/bin/bash\n# --training.seq_len 1\nNGPU=8\nARGS=(\n  --training.seq_len 4096 # here\n"
                  "  --parallelism.pipeline-parallel-degree=4\n)\nARGS+=(--training.disable-cuda-graphs)\n"
                  "torchrun --nnodes 4 --nproc_per_node ${NGPU:-1} -m torchtitan.train \\\n"
                  "  --module llama3 --config \"llama3_8b\" \"${ARGS[@]}\" \\\n"
                  "  --training.local_batch_size 16 --parallelism.fsdp_reshard_after_forward default \\\n"
                  "  --compile.enable --who.knows '3 4' activation_checkpoint:none\n");
    ck_assert_int_eq(r.launch.sequence, 4096);
    ck_assert_int_eq(r.launch.pipeline, 4);
    ck_assert_int_eq(r.launch.data, 8);
    ck_assert_int_eq(r.launch.micro_batch, 1);
    ck_assert_int_eq(r.launch.batch, 128);
    ck_assert_int_eq(r.launch.reshard, RESHARD_EACH_STEP);
    ck_assert_int_eq(r.launch.recompute, RECOMPUTE_NONE);
    ck_assert_int_eq(r.launch.loss_chunks, 8);
    /* 32 layers, and the embedding and the head as one each: 34 over 4 is 9, 9, 8 and 8. */
    ck_assert_int_eq(r.launch.piece_count, 4);
    ck_assert_int_eq(r.launch.piece_blocks[0], 8);
    ck_assert_int_eq(r.launch.piece_blocks[1], 9);
    ck_assert_int_eq(r.launch.piece_blocks[2], 8);
    ck_assert_int_eq(r.launch.piece_blocks[3], 7);
    ck_assert_int_eq(r.unknown_count, 1);
    ck_assert_str_eq(r.unknown[0], "who.knows = 3 4");
    model_free(r.model);
    arena_free(&arena);
}
END_TEST

/* Files beside a script: that of its options, one that names itself, one of as many settings as there may be, and no
 * others. */
static bool read_beside(const struct launch_beside *way, struct arena *arena, const char *name, const char **text,
                        size_t *length, bool *elsewhere, struct error *err)
{
    (void)way, (void)elsewhere;
    struct text lines = { 0 };
    if (strcmp(name, "old.toml") == 0)
        text_add(&lines, old_toml);
    else if (strcmp(name, "circle.toml") == 0)
        text_add(&lines, "[job]\nconfig_file = 'circle.toml'\n");
    else if (strcmp(name, "long.toml") == 0)
        for (int i = 0; i < SETTINGS_MOST; i++)
            text_printf(&lines, "a%d = 1\n", i);
    else
        return fail(err, "%s: no such file", name);
    *length = lines.length;
    *text = arena_strdup(arena, lines.data);
    text_free(&lines);
    return *text != NULL;
}

static const struct {
    const char *file, *says;
} named_files[] = {
    { "old.toml", NULL },
    { "circle.toml", "expected at most 8 files that name each other" },
    { "long.toml", "long.toml: expected at most 4096 settings, found more" },
    { "gone.toml", "a.sh:1:49: job.config_file: the settings are in another file: gone.toml: no such file" },
};

START_TEST(files_that_options_name_are_read)
{
    struct arena arena = { 0 };
    struct error err = { 0 };
    const struct launch_beside way = { .read = read_beside };
    struct launch_read r = { .beside = &way };
    char text[256];
    int length =
        snprintf(text, sizeof text,
                 "torchrun --nnodes 8 --nproc_per_node 8 train.py --job.config_file %s --training.seq_len 4096\n",
                 named_files[_i].file);
    bool good = titan->read(&r, &arena, "a.sh", text, (size_t)length, &err);
    ck_assert_msg(good == !named_files[_i].says, "%s", err.message);
    if (good) {
        ck_assert_int_eq(r.launch.tensor, 8);
        ck_assert_int_eq(r.launch.sequence, 4096); /* what options say goes over the file */
        model_free(r.model);
    } else {
        ck_assert_msg(strstr(err.message, named_files[_i].says), "%s", err.message);
    }
    arena_free(&arena);
}
END_TEST

START_TEST(optimizers_settings_are_read_by_name)
{
    static const struct {
        const char *name, *text, *unknown; /* NULL: nothing is */
    } cases[] = {
        { "a.toml",
          "[optimizer]\nname = \"AdamW\"\nlr = 3e-4\nbeta1 = 0.9\neps = 1e-8\nweight_decay = 0.1\n"
          "implementation = \"fused\"\nearly_step_in_backward = false\n",
          NULL },
        { "a.toml", "[optimizer]\nearly_step_in_backward = true\n", "optimizer.early_step_in_backward = true" },
        { "a.toml", "[optimizer]\nimplementation = \"fused_opt_states_bf16\"\n",
          "optimizer.implementation = fused_opt_states_bf16" },
        { "a.toml", "[optimizer]\nmomentum_dtype = \"bfloat16\"\n", "optimizer.momentum_dtype = bfloat16" },
        { "a.py", "config.optimizer = OptimizersContainer.Config(lr=3e-4)\n", NULL },
        { "a.py", "config.optimizer = default_adamw(lr=3e-4)\n", NULL },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct arena arena = { 0 };
        char text[400];
        snprintf(text, sizeof text, "%s%s", cases[i].text, i < 4 ? "[training]\nseq_len = 2048\n" : "");
        struct launch_read r = read_text(titan, &arena, cases[i].name, text);
        ck_assert_int_eq(r.unknown_count, cases[i].unknown != NULL);
        if (cases[i].unknown)
            ck_assert_str_eq(r.unknown[0], cases[i].unknown);
        model_free(r.model);
        arena_free(&arena);
    }
}
END_TEST

START_TEST(recipes_of_users_are_read)
{
    struct arena arena = { 0 };
    struct launch_read r = read_text(
        titan, &arena, "my_recipe.py",
        "from torchtitan.models.llama3 import model_registry\n"
        "def mine() -> Trainer.Config:\n"
        "    \"\"\"A recipe.\n\n    It's a user's.\n    \"\"\"\n"
        "    if True: pass\n"
        "    model_spec = model_registry(\"8B\")\n"
        "    return Trainer.Config(\n"
        "        loss=ChunkedLossWrapper.Config(loss_fn=CrossEntropyLoss.Config(global_vocab_size=f(x, y))),\n"
        "        model_spec=model_registry(flavor='8B'),\n"
        "        optimizer=default_adamw(lr=3e-4), # it is\n"
        "        training=TrainingConfig(local_batch_size=2, seq_len=8192, steps=1000),\n"
        "        parallelism=ParallelismConfig(\n"
        "            tensor_parallel_degree=4, data_parallel_shard_degree=2,\n"
        "            fsdp_reshard_after_forward='never',),\n"
        "        activation_checkpoint=SelectiveAC.Config(),\n"
        "    )\n");
    ck_assert_int_eq(r.launch.tensor, 4);
    ck_assert_int_eq(r.launch.data, 2);
    ck_assert_int_eq(r.launch.batch, 4);
    ck_assert_int_eq(r.launch.reshard, RESHARD_EACH_STEP);
    ck_assert_int_eq(r.launch.recompute, RECOMPUTE_BLOCK);
    ck_assert_int_ne(r.launch.excepted, 0);
    ck_assert_str_eq(r.framework, "torchtitan");
    ck_assert_ptr_nonnull(r.model);
    model_free(r.model);
    arena_free(&arena);
}
END_TEST

static const struct {
    const char *name, *text, *says;
} refused[] = {
    { "a.toml", "# nothing\n",
      "a.toml: expected settings of torchtitan, such as training.local_batch_size or "
      "parallelism.tensor_parallel_degree; found none" },
    { "a.toml", "[parallelism]\ntensor_parallel_degree = 8\ntensor_parallel_degree = 4\n",
      "a.toml:3:1: parallelism.tensor_parallel_degree: expected each key once, found it also in line 2" },
    { "a.toml", "[parallelism\n", "a.toml:1:13: expected ] behind the section's name" },
    { "a.toml", "[parallelism]\ntensor_parallel_degree\n", "a.toml:2:23: expected = behind the key" },
    { "a.toml", "[parallelism]\ntensor_parallel_degree = \"8\n", "expected \" at the end of a string" },
    { "a.toml", "[parallelism]\ntensor_parallel_degree = eight\n",
      "a.toml:2:1: parallelism.tensor_parallel_degree: expected a whole number from 1 to 1048576, found eight" },
    { "a.toml", "[parallelism]\ntensor_parallel_degree = 8 8\n", "found 8 8" },
    { "a.toml", "[parallelism]\ntensor_parallel_degree = 1.5\n", "found 1.5" },
    { "a.toml", "[parallelism]\ntensor_parallel_degree = -1\n", "found -1" },
    { "a.toml", "[parallelism]\ndata_parallel_shard_degree = 0\n", "expected -1, 1 or more, found 0" },
    { "a.toml", "[training]\nseq_len = 2048\n[optimizer]\nname = \"Muon\"\n",
      "a.toml:4:1: optimizer.name: expected AdamW or Adam, found Muon: use cleave estimate MODEL --framework "
      "torchtitan --optimizer muon" },
    { "a.sh", "torchrun train.py --module llama3 --config llama3_8b\\\n activation_checkpoint:some\n",
      "activation_checkpoint:some: expected none, selective or full" },
    { "a.toml", "[optimizer]\nname = \"Adam8bit\"\n", "--framework torchtitan --moments 8bit" },
    { "a.toml", "[optimizer]\nname = \"Dion\"\n", "expected AdamW or Adam, found Dion, which is not planned" },
    { "a.toml", "[training]\nglobal_batch_size = 12\n[parallelism]\ndata_parallel_shard_degree = 1\n",
      "training.global_batch_size 12: expected a multiple of local_batch_size 8 x data-parallel ranks 1" },
    { "a.toml", "[training]\nseq_len = 2050\n[parallelism]\ntensor_parallel_degree = 8\n",
      "training.seq_len 2050: expected a multiple of 8" },
    { "a.toml", "[model]\nname='llama3'\nflavor='8B'\n[parallelism]\ntensor_parallel_degree = 16\n",
      "tensor_parallel_degree 16: expected a divisor of the 8 key and value heads" },
    { "a.toml", "[parallelism]\npipeline_parallel_degree = 4\npipeline_parallel_schedule = 'DualPipeV'\n",
      "DualPipeV is not planned; 1F1B, GPipe" },
    { "a.toml", "[parallelism]\npipeline_parallel_degree = 4\npipeline_parallel_schedule = '2F2B'\n",
      "expected 1F1B, GPipe, Interleaved1F1B or ZBVZeroBubble, found 2F2B" },
    { "a.toml",
      "[compile]\nenable = true\n[parallelism]\npipeline_parallel_degree = 4\npipeline_parallel_schedule = "
      "'ZBVZeroBubble'\n",
      "expected compile.enable false, or Interleaved1F1B" },
    { "a.toml", "[training]\nlocal_batch_size = 2\n[parallelism]\npipeline_parallel_degree = 4\n",
      "1F1B with 2 micro-batches on 4 stages: expected as many or more" },
    { "a.toml",
      "[parallelism]\npipeline_parallel_degree = 2\nmodule_fqns_per_model_part = [['tok_embeddings', 'layers.0'], "
      "['layers.2']]\n",
      "expected layers.1, found layers.2" },
    { "a.toml", "[activation_checkpoint]\nmode = 'some'\n", "expected one of none, selective, full, found some" },
    { "a.toml", "[activation_checkpoint]\nmode = 'selective'\nselective_ac_option = '2'\n", "use op or full" },
    { "a.sh",
      "train --module llama3 --config llama3_8b --parallelism.pipeline_parallel_degree 2 "
      "--training.local_batch_size 2\n",
      "expected training.disable_cuda_graphs with it" },
    { "a.sh", "train --module cleave_recipe --config train\n", "read cleave_recipe.py in place of this script" },
    { "a.sh", "torchrun --nnodes=2 --nproc_per_node=8 t --parallelism.tensor_parallel_degree 3\n",
      "16 devices: expected a multiple of" },
    { "a.toml", "[training]\nlocal_batch_sise = 2\n",
      "a.toml:2:1: training.local_batch_sise: torchtitan 0.3.0 has no such setting: did you mean "
      "training.local_batch_size?" },
    { "a.sh", "train --training.max-context-length 8192\n", "did you mean training.seq_len?" },
    { "a.sh", "train --training.num_tokens_per_microbatch_per_dp_rank 8192\n",
      "did you mean training.local_batch_size x training.seq_len?" },
    { "a.sh", "train --training.tokens 8192\n", "did you mean training.local_batch_size or training.seq_len?" },
    { "two.py",
      "def a():\n    return Trainer.Config(training=TrainingConfig(seq_len=4096))\n"
      "def b() -> Trainer.Config:\n    config = a()\n    config.training.seq_len = 8192\n    return config\n"
      "def c():\n    return llama3_8b()\ndef d(config):\n    config.training.seq_len = 2048\n",
      "two.py: several configurations: a, b, c; give one of them alone" },
    { "a.toml", "[training]\nlocal_batch_size = 8\nbatch_size = 2\n", "calls training.batch_size, which stands there" },
    { "a.sh", "tune run --nproc_per_node 8 full_finetune_distributed --config a.yaml\n",
      "a.sh:1:1: expected a launch of torchtitan, found one of torchtune, which is not read" },
    { "a.sh", "A=( --x 1\n", "a.sh:2: a list that begins with ( ends nowhere" },
    { "a.sh", "F=bad\ntrain \\\n  --training.seq_len $F\n", "a.sh:3:3: training.seq_len: expected a whole number" },
    { "a.sh", "train --b 1 --a 1\nS=seq_len\ntrain --training.$S bad --a 2\n", "a.sh:3:1: training.seq_len: expected" },
    { "a.sh", "train 'x\n", "a.sh:1: a quote ' that ends nowhere" },
    { "a.py", "config.training.seq_len = [1, 2\n", "expected a closing bracket, found the end" },
    { "a.py", "return Trainer.Config(a=1\n", "a.py:2:1: expected , or ) behind an argument" },
};

START_TEST(contradictions_are_refused_with_their_place)
{
    check_refusal(titan, refused[_i].name, refused[_i].text, refused[_i].says);
}
END_TEST

/* Each rule is broken by a launch that keeps all others. */
START_TEST(rules_refuse_by_name)
{
    struct model *model = model_of_zoo("llama-3-8b");
    struct launch_context context = { .model = model, .devices_per_node = 8 };
    int pieces[16];
    struct launch good = golden_launch(0, pieces), l;
    ck_assert_ptr_null(target_broken_rule(titan, &good, &context));
#define BROKEN(rule, ...)                                                                                              \
    l = good;                                                                                                          \
    __VA_ARGS__;                                                                                                       \
    ck_assert_ptr_nonnull(target_broken_rule(titan, &l, &context));                                                    \
    ck_assert_str_eq(target_broken_rule(titan, &l, &context)->name, rule)
    BROKEN("kv-heads", l.tensor = 16);
    BROKEN("sequence", l.sequence = 8190);
    BROKEN("sp-needs-tp", l.tensor = 1);
    BROKEN("cp-gathers", l.context = 2; l.context_dimension = DIM_cp_ring);
    BROKEN("zero", l.zero = 1);
    BROKEN("hsdp", l.shard_group = 3);
    BROKEN("reshard", l.reshard = RESHARD_EACH_STEP);
    BROKEN("experts", l.expert = 2);
    BROKEN("experts", l.zero = 0; l.expert = 2 * l.tensor; l.experts_whole = l.tensor > 1); /* 2 of no shards */
    l.zero = 3;
    ck_assert_ptr_null(target_broken_rule(titan, &l, &context));
    BROKEN("schedule", l.pipeline = 2; l.schedule = SCHEDULE_zb_h1);
    BROKEN("chunks", l.pipeline = 2; l.chunks = 2);
    BROKEN("1f1b-fills", l.pipeline = 16);
    BROKEN("rounds", l.pipeline = 3; l.schedule = SCHEDULE_interleaved; l.chunks = 2; l.batch = 56);
    BROKEN("pieces", l.pipeline = 2; l.schedule = SCHEDULE_interleaved; l.chunks = 3);
    BROKEN("recompute", l.recompute = RECOMPUTE_SELECTIVE);
    BROKEN("offload", l.offload = OFFLOAD_OPTIMIZER);
    BROKEN("optimizer", l.optimizer.rule = OPTIMIZER_SGD);
    BROKEN("dtype", l.dtype = DTYPE_FP16);
    BROKEN("loss-chunks", l.loss_chunks = 7);
    BROKEN("fsdp-units", l.prefetch = 2);
    BROKEN("clip", l.clip_norm = 0);
    model_free(model);
    model = model_of_zoo("gpt2");
    context.model = model;
    ck_assert_str_eq(target_broken_rule(titan, &good, &context)->name, "model");
    model_free(model);
}
END_TEST

/* Attention under context parallelism is priced as it is shared out evenly, by either balancer. */
START_TEST(other_balancers_are_not_understood)
{
    static const struct {
        const char *text;
        int unknown;
    } cases[] = { { "--parallelism.context_parallel_degree 2 --parallelism.context_parallel_load_balancer None", 1 },
                  { "--parallelism.context_parallel_degree 2 --parallelism.context_parallel_load_balancer headtail",
                    0 },
                  { "--parallelism.context_parallel_degree 2 --parallelism.context_parallel_load_balancer ptrr", 0 },
                  { "--parallelism.context_parallel_degree 2", 0 },
                  { "--parallelism.context_parallel_degree 1 --parallelism.context_parallel_load_balancer None", 0 } };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct arena arena = { 0 };
        struct launch_read r = read_text(target_find("torchtitan"), &arena, "args", cases[i].text);
        ck_assert_msg(r.unknown_count == cases[i].unknown, "%s: %d", cases[i].text, r.unknown_count);
        arena_free(&arena);
    }
}
END_TEST

/* What functions of config_registry.py of release 0.3.0 set, and what a recipe sets over one of them. */
START_TEST(configurations_bring_their_own_settings)
{
    static const struct {
        const char *name, *text;
        int64_t batch, sequence, tensor, expert;
        bool keeps; /* SelectiveAC */
        const char *unknown;
        bool fp8;
    } cases[] = {
        { "a.sh", "--module llama3 --config llama3_8b", 1, 8192, 1, 1, true, NULL, false },
        { "a.sh", "--module llama3 --config llama3_8b --training.seq_len 4096 activation_checkpoint:full", 1, 4096, 1,
          1, false, NULL, false },
        { "a.sh", "--module llama3 --config llama3_70b", 8, 8192, 8, 1, false, NULL, false },
        { "a.sh", "--module llama3 --config llama3_405b", 2, 8192, 8, 1, false, NULL, true },
        { "a.sh", "--module deepseek_v3 --config deepseek_v3_671b_float8", 4, 4096, 1, 2, true,
          "priced as torch.compile fuses its casts, which is not enabled", true },
        { "a.py",
          "from torchtitan.models.llama3.config_registry import llama3_405b\nconfig = llama3_405b()\nconfig.model_spec "
          "= model_registry(flavor=\"405B\", converters=[])\n",
          2, 8192, 8, 1, false, NULL, false },
        { "a.py",
          "from torchtitan.models.llama3.config_registry import llama3_405b\nconfig = llama3_405b()\nconfig.model_spec "
          "= model_registry(flavor=\"405B\")\n",
          2, 8192, 8, 1, false, NULL, false },
        { "a.sh", "--module llama3 --config llama3_405b --model.converters []", 2, 8192, 8, 1, false, NULL, false },
        { "a.py",
          "from torchtitan.models.llama3.config_registry import llama3_405b\nconfig = llama3_405b()\nconfig.model_spec "
          "= model_registry(\"405B\", quantization=[Float8LinearConverter.Config(filter_fqns=[\"lm_head\", "
          "\"wq\"])])\n",
          2, 8192, 8, 1, false, "and the head not", true },
        { "a.py",
          "from torchtitan.models.llama3.config_registry import llama3_405b\nconfig = llama3_405b()\nconfig.model_spec "
          "= model_registry(\"405B\", converters=[Float8LinearConverter.Config(emulate = True)])\n",
          2, 8192, 8, 1, false, "not priced: emulate is of tests", false },
        { "a.sh", "--module llama3 --config llama3_8b_mxfp8", 1, 8192, 1, 1, true,
          "model.converters = MXFP8LinearConverter: not priced", false },
        { "a.sh", "--module qwen3 --config qwen3_30b_a3b", 2, 4096, 1, 1, false, NULL, false },
        { "a.sh", "--module deepseek_v3 --config deepseek_v3_16b", 4, 4096, 1, 8, true, NULL, false },
        { "a.py",
          "from torchtitan.models.llama3.config_registry import llama3_70b\ncfg = llama3_70b()\n"
          "cfg.parallelism.tensor_parallel_degree = 4\n",
          8, 8192, 4, 1, false, NULL, false },
        { "a.py", "config.model_spec = model_registry(\"8B\", converters=[Float8LinearConverter.Config()])\n", 8, 2048,
          1, 1, true,
          "model_spec.converters = [Float8LinearConverter.Config()]: priced as if it converted all of the blocks, and "
          "the head not",
          true },
        { "a.py",
          "config.model_spec = model_registry(\"30B-A3B\", converters=[Float8LinearConverter.Config(filter_fqns="
          "[\"lm_head\"]), Float8GroupedExpertsConverter.Config()])\n",
          8, 2048, 1, 1, true, "priced as torch.compile fuses its casts", true },
        { "a.py",
          "from torchtitan.models.qwen3 import model_registry\nconfig = qwen3_30b_a3b()\nconfig.model_spec = "
          "model_registry(\"30B-A3B\", converters=["
          "Float8LinearConverter.Config(filter_fqns=[\"lm_head\"])])\n",
          2, 4096, 1, 1, false, "expected Float8GroupedExpertsConverter", false },
        { "a.py",
          "config.model_spec = model_registry(\"8B\", converters=[Float8LinearConverter.Config(filter_fqns="
          "[\"lm_head\"], recipe_name=\"rowwise_with_gw_hp\")])\n",
          8, 2048, 1, 1, true, "not priced: expected fp8 by rows", false },
        { "a.sh", "--module llama3 --config mine", 8, 2048, 1, 1, true,
          "config = mine, whose own settings are unknown: what the launch leaves open is assumed to be torchtitan's "
          "own, "
          "8 sequences of 2048 tokens on each rank, SelectiveAC, and degrees of 1",
          false },
        { "run_train.sh", /* as torchtitan's own chooses, and counts its devices */
          "NGPU=${NGPU:-\"4\"}\nNODES=1\nCONFIG=${CONFIG:-\"llama3_8b\"}\nMODE=${MODE:-\"\"}\n"
          "if [ -n \"$MODE\" ]; then\n  python3 -m torchtitan.train --training.seq_len 16\nelse\n"
          "  torchrun --nproc_per_node=$(($NGPU*$NODES)) -m torchtitan.train --module llama3 --config ${CONFIG} "
          "\"$@\"\n"
          "fi\n",
          0, 8192, 1, 1, true, NULL, false },
        { "a.sh", "--module mine --config llama3_8b --training.seq_len 4096", 8, 4096, 1, 1, true,
          "config = llama3_8b, whose own settings are unknown", false },
    };
    struct arena arena = { 0 };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct launch_read r = read_text(titan, &arena, cases[i].name, cases[i].text);
        ck_assert_msg(r.rank_batch == cases[i].batch && r.launch.sequence == cases[i].sequence &&
                          r.launch.tensor == cases[i].tensor && r.launch.expert == cases[i].expert &&
                          (r.launch.excepted != 0) == cases[i].keeps && (r.launch.dtype == DTYPE_FP8) == cases[i].fp8,
                      "%s: %lld of %lld, tensor %lld, expert %lld, keeps %d", cases[i].text, (long long)r.rank_batch,
                      (long long)r.launch.sequence, (long long)r.launch.tensor, (long long)r.launch.expert,
                      r.launch.excepted != 0);
        const bool noted = r.launch.excepted && r.launch.expert > 1;
        ck_assert_msg(r.unknown_count == !!cases[i].unknown + noted &&
                          (!cases[i].unknown || strstr(r.unknown[0], cases[i].unknown)),
                      "%s: %d: %s", cases[i].text, r.unknown_count, r.unknown_count ? r.unknown[0] : "");
        model_free(r.model);
    }
    arena_free(&arena);
}
END_TEST

/* SelectiveAC is for experts, too, as torchtitan's own configurations have it: what they exchange is kept. */
START_TEST(selective_checkpoints_of_experts)
{
    struct model *model = model_of_zoo("qwen3-30b-a3b");
    struct launch_context context = { .model = model, .devices_per_node = 8 };
    struct arena arena = { 0 };
    const char *options = "--module qwen3 --config qwen3_30b_a3b --training.global_batch_size 64 "
                          "--parallelism.data_parallel_shard_degree 8 activation_checkpoint:selective";
    for (int expert = 1; expert <= 8; expert *= 8) {
        char text[256];
        snprintf(text, sizeof text, "%s --parallelism.expert_parallel_degree %d", options, expert);
        struct launch_read r = read_text(titan, &arena, "a.sh", text);
        const struct target_rule *broken = target_broken_rule(titan, &r.launch, &context);
        ck_assert_msg(!broken, "%s", broken ? broken->name : "");
        ck_assert(r.launch.excepted == titan_kept(expert > 1) && r.unknown_count == (expert > 1));
        r.launch.excepted = titan_kept(expert == 1);
        ck_assert_str_eq(target_broken_rule(titan, &r.launch, &context)->name, "recompute");
        ck_assert(!r.model && strcmp(r.zoo, "qwen3-30b-a3b") == 0);
    }
    arena_free(&arena);
    model_free(model);
    for (const struct titan_model *m = titan_models; m->module; m++) {
        struct model *own = m->zoo ? model_of_zoo(m->zoo) : NULL;
        ck_assert(!own || (own->hidden == m->hidden && own->vocab_size == m->vocab_size));
        ck_assert(titan_describes(m) || m->zoo || m->hub);
        model_free(own);
    }
}
END_TEST

static Suite *target_torchtitan_suite(void)
{
    Suite *s = suite_create("target_torchtitan");
    CHECK_ADD_LOOP(s, what_is_written_is_read_back, 12);
    CHECK_ADD_LOOP(s, files_stay_as_they_are, 3);
    CHECK_ADD(s, toml_of_older_releases_is_read);
    CHECK_ADD(s, options_of_a_script_are_read);
    CHECK_ADD_LOOP(s, files_that_options_name_are_read, sizeof named_files / sizeof *named_files);
    CHECK_ADD(s, optimizers_settings_are_read_by_name);
    CHECK_ADD(s, recipes_of_users_are_read);
    CHECK_ADD_LOOP(s, contradictions_are_refused_with_their_place, (int)(sizeof refused / sizeof *refused));
    CHECK_ADD(s, rules_refuse_by_name);
    CHECK_ADD(s, configurations_bring_their_own_settings);
    CHECK_ADD(s, other_balancers_are_not_understood);
    CHECK_ADD(s, selective_checkpoints_of_experts);
    return s;
}

CHECK_MAIN(target_torchtitan_suite)
