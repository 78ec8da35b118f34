/* Launches for nnScaler are read back to what they were written of; what its users have is read, and its own refusals
 * are ours. Its classes read the files in tests/targets_accept_torch.py. */
#include "tests/target_launches.h"

extern const struct target target_nnscaler;
static const struct target *const nnscaler = &target_nnscaler;

static void vary(struct launch *l, uint64_t *state)
{
    l->tensor = l->context = l->loss_chunks = l->chunks = 1;
    l->sequence_parallel = false;
    l->schedule = SCHEDULE_one_f_one_b;
    l->shard_group = 0;
    l->reshard = RESHARD_EACH_PASS;
    l->zero = random_below(state, 2);
    l->bucket_bytes = (INT64_C(1) + random_below(state, 60)) << 20;
    if (l->pipeline == 1) {
        l->piece_count = 0;
        l->piece_blocks = NULL;
    }
}

START_TEST(what_is_written_is_read_back)
{
    struct model *model = model_of_zoo("llama-3-70b");
    struct launch_context context = { .model = model, .devices_per_node = 8, .device_name = "h100-sxm" };
    uint64_t state = 900 + (uint64_t)_i;
    int pieces[64];
    for (int n = 0; n < 60; n++) {
        struct launch l;
        do
            l = draw_legal(nnscaler, &context, &state, 80, pieces, vary);
        while (l.piece_count > 0 && l.piece_count != l.pipeline); /* drawn with several chunks */
        check_round(nnscaler, &l, &context, "train.yaml");
    }
    model_free(model);
}
END_TEST

static struct launch golden_launch(int number)
{
    static const int pieces[] = { 7, 8, 9, 8 };
    struct launch l = launch_plain;
    l.sequence = 8192;
    l.schedule = SCHEDULE_one_f_one_b;
    if (number == 0) {
        l.pipeline = l.piece_count = 4;
        l.piece_blocks = pieces;
        l.data = 16;
        l.batch = 256;
        l.recompute = RECOMPUTE_BLOCK;
        l.zero = 1;
    } else {
        l.data = 8;
        l.batch = 32;
        l.micro_batch = 2;
        l.dtype = DTYPE_FP32;
        l.clip_norm = 0;
    }
    return l;
}

START_TEST(files_stay_as_they_are)
{
    static const int64_t peak[] = { INT64_C(61) << 30, INT64_C(52) << 30, INT64_C(50) << 30, INT64_C(57) << 30 };
    static const int64_t available[] = { INT64_C(77) << 30, INT64_C(77) << 30, INT64_C(77) << 30, INT64_C(77) << 30 };
    struct model *model = model_of_zoo("llama-3-8b");
    struct launch l = golden_launch(_i);
    struct launch_context context = { .model = model,
                                      .devices_per_node = 8,
                                      .device_name = "h100-sxm",
                                      .step_ns = INT64_C(2345678901),
                                      .stage_count = (int)l.pipeline,
                                      .peak_bytes = peak,
                                      .available_bytes = available };
    check_golden(nnscaler, &l, &context, _i ? "nnscaler/8b-data" : "nnscaler/8b-pipeline");
    check_round(nnscaler, &l, &context, "train.yaml");
    model_free(model);
}
END_TEST

START_TEST(files_of_users_are_read)
{
    struct arena arena = { 0 };
    /* examples/nanogpt/train_cli_args.yaml of the release, shortened, with a line that nobody knows. */
    struct launch_read r =
        read_text(nnscaler, &arena, "train_cli_args.yaml",
                  "compute_config:\n  plan_ngpus: 1\n  constant_folding: true\n  use_zero: false\n  use_end2end: true\n"
                  "  surprise: 3 # odd\n\ninit_env_fn: examples.nanogpt.train_cli.init_env\nrun_mode: run\n"
                  "pas_policy: autodist\nmicro_batch_size: 64\ngrad_accumulation_steps: 2\nmax_train_steps: 5000\n"
                  "max_val_steps: 200\nval_every_n_train_steps: 250\nenable_progress_bar: true\n# precision: bf16\n\n"
                  "model:\n  type: examples.nanogpt.train_cli.Model\n  args:\n    n_layer: 6\n"
                  "optimizer:\n  type: torch.optim.AdamW\n  args:\n    lr: 1e-3\n    betas:\n    - 0.9\n    - 0.99\n"
                  "    fused: true\n  clip_gnorm: 0.5\ndataset:\n  type: examples.nanogpt.train_cli.NanoGptDataset\n"
                  "  train_args:\n    block_size: 256\n");
    ck_assert(!r.says_data && !r.says_batch && !r.says_dtype && r.says_sequence);
    ck_assert_int_eq(r.micro_batches, 2);
    ck_assert_int_eq(r.launch.sequence, 256);
    ck_assert_int_eq(r.launch.zero, 0);
    ck_assert_double_eq(r.launch.clip_norm, .5);
    ck_assert_int_eq(r.unknown_count, 1);
    ck_assert_str_eq(r.unknown[0], "compute_config.surprise = 3");
    /* By options; as many blocks on each stage where nobody says it; degrees that no rule allows are still read. */
    r = read_text(
        nnscaler, &arena, "run",
        "torchrun --nproc_per_node 8 train.py --compute_config.plan_ngpus 8 --compute_config.use_end2end true "
        "--compute_config.use_zero true --compute_config.pas_config.pipeline_nstages 4 --precision bf16 "
        "--compute_config.pas_config.pipeline_pivots LlamaDecoderLayer --grad_accumulation_steps 16 "
        "--compute_config.pas_config.recompute_modules LlamaDecoderLayer\n");
    ck_assert_int_eq(r.launch.pipeline, 4);
    ck_assert_int_eq(r.launch.tensor, 2);
    ck_assert_int_eq(r.launch.data, 1);
    ck_assert_int_eq(r.launch.zero, 1);
    ck_assert_int_eq(r.launch.recompute, RECOMPUTE_BLOCK);
    ck_assert_int_eq(r.launch.piece_count, 0);
    ck_assert_int_eq(r.launch.batch, 16);
    struct launch_context context = { .devices_per_node = 8 };
    ck_assert_str_eq(target_broken_rule(nnscaler, &r.launch, &context)->name, "no-tensor");
    arena_free(&arena);
}
END_TEST

#define CONFIG "compute_config:\n  use_end2end: true\n"
#define STAGES(n) CONFIG "  plan_ngpus: " n "\n  runtime_ngpus: 8\n  pas_config:\n    pipeline_nstages: " n "\n"
static const struct {
    const char *name, *text, *says;
} refused[] = {
    { "a.yaml", "pas_policy: dp\n", "compute_config.plan_ngpus is missing" },
    { "a.yaml", "compute_config:\n  plan_ngpus: 1\n", "use_end2end: the Trainer expects true" },
    { "a.yaml", CONFIG "  plan_ngpus: 0\n", "plan_ngpus: expected a whole number from 1" },
    { "a.yaml", CONFIG "  plan_ngpus: 3\n  runtime_ngpus: 8\n",
      "runtime_ngpus 8: expected a multiple of plan_ngpus 3" },
    { "a.yaml", CONFIG "  plan_ngpus: 2\npas_policy: dp\n", "a.yaml:4:1: pas_policy: expected plan_ngpus 1 with dp" },
    { "a.yaml", CONFIG "  plan_ngpus: 2\npas_policy: tp\n", "tp is not planned: operators are split at random" },
    { "a.yaml", CONFIG "  plan_ngpus: 2\npas_policy: hybrid\n", "stages are cut by counts of operators" },
    { "a.yaml", CONFIG "  plan_ngpus: 2\npas_policy: mine.policy\n", "expected one of autodist, dp" },
    { "a.yaml", STAGES("2"), "expected pipeline_pivots with stages" },
    { "a.yaml", STAGES("1") "    pipeline_pivots: Block\n", "expected no pivots with pipeline_nstages 1" },
    { "a.yaml", CONFIG "  plan_ngpus: 2\n  pas_config:\n    pipeline_nstages: auto\n    pipeline_pivots: Block\n",
      "autodist chooses how many stages" },
    { "a.yaml", STAGES("2") "    pipeline_pivots: B\n    pipeline_scheduler: gpipe\n", "expected one of 1f1b" },
    { "a.yaml", STAGES("2") "    pipeline_pivots: B\n  use_async_reducer: true\n",
      "expected use_async_reducer false with stages" },
    { "a.yaml", STAGES("8") "    pipeline_pivots: B\ngrad_accumulation_steps: 4\n",
      "max_pipeline_bubble_ratio 0.2 leaves 4 micro-batches at most 2 stages, and pipeline_nstages is 8" },
    { "a.yaml",
      STAGES("2") "    pipeline_pivots: B\ngrad_accumulation_steps: 8\nmodel:\n  args:\n    stage_blocks: [4]\n",
      "expected blocks of each of 2 stages" },
    { "a.yaml", STAGES("2") "    pipeline_pivots: B\ngrad_accumulation_steps: 8\n",
      "stages of a replica are neighbours, which is not planned" },
    { "a.yaml", CONFIG "  plan_ngpus: 1\n  runtime_ngpus: 4\nmicro_batch_size: 2\nglobal_batch_size: 12\n",
      "global_batch_size 12 is not micro_batch_size 2 x 4 data-parallel ranks x grad_accumulation_steps 1" },
    { "a.yaml", CONFIG "  plan_ngpus: 1\n  pas_config:\n    update_freq: 4\ngrad_accumulation_steps: 2\n",
      "update_freq 4: autodist plans for other micro-batches than the step's 2" },
    { "a.yaml", CONFIG "  plan_ngpus: 1\n  use_zero: true\n  zero_ngroups: 2\n  zero_use_reduce_scatter: true\n",
      "expected zero_ngroups 1 with it, found 2" },
    { "a.yaml", CONFIG "  plan_ngpus: 1\nprecision: bf16\noptimizer:\n  type: torch.optim.AdamW\n",
      "expected one that keeps weights in fp32, MixedPrecisionAdamW" },
    { "a.yaml", CONFIG "  plan_ngpus: 1\n  pas_config:\n    recompute_modules: ROOT\n",
      "expected the class of blocks alone" },
    { "a.sh", "torchrun train.py -f train.yaml\n", "the settings are in train.yaml: read it" },
};

START_TEST(contradictions_are_refused_with_their_place)
{
    check_refusal(nnscaler, refused[_i].name, refused[_i].text, refused[_i].says);
}
END_TEST

START_TEST(rules_refuse_by_name)
{
    struct model *model = model_of_zoo("llama-3-8b"), *experts = model_of_zoo("mixtral-8x7b");
    struct launch_context context = { .model = model, .devices_per_node = 8 };
    struct launch good = golden_launch(0), l;
    ck_assert_ptr_null(target_broken_rule(nnscaler, &good, &context));
#define BROKEN(rule, ...)                                                                                              \
    l = good;                                                                                                          \
    __VA_ARGS__;                                                                                                       \
    ck_assert_ptr_nonnull(target_broken_rule(nnscaler, &l, &context));                                                 \
    ck_assert_str_eq(target_broken_rule(nnscaler, &l, &context)->name, rule)
    BROKEN("no-tensor", l.tensor = 2);
    BROKEN("no-cp", l.context = 2);
    BROKEN("no-experts", l.expert = 2);
    BROKEN("schedule", l.schedule = SCHEDULE_gpipe);
    BROKEN("schedule", l.chunks = 2);
    BROKEN("zero", l.zero = 2);
    BROKEN("zero-groups", l.shard_group = 4);
    BROKEN("recompute", l.recompute = RECOMPUTE_SELECTIVE);
    BROKEN("offload", l.offload = OFFLOAD_OPTIMIZER);
    BROKEN("dtype", l.dtype = DTYPE_FP16);
    BROKEN("buckets", l.bucket_bytes = 1000);
    BROKEN("loss", l.loss_chunks = 2);
    context.model = experts;
    BROKEN("model", l.data = 8);
    model_free(model);
    model_free(experts);
}
END_TEST

static Suite *target_nnscaler_suite(void)
{
    Suite *s = suite_create("target_nnscaler");
    CHECK_ADD_LOOP(s, what_is_written_is_read_back, 4);
    CHECK_ADD_LOOP(s, files_stay_as_they_are, 2);
    CHECK_ADD(s, files_of_users_are_read);
    CHECK_ADD_LOOP(s, contradictions_are_refused_with_their_place, (int)(sizeof refused / sizeof *refused));
    CHECK_ADD(s, rules_refuse_by_name);
    return s;
}

CHECK_MAIN(target_nnscaler_suite)
