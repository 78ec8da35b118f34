/* What Megatron-LM's own checks refuse, with the reason that it has first. */
#include "tests/megatron_launches.h"
#include "tests/target_launches.h"

#define JOB                                                                                                            \
    "torchrun --nproc_per_node 8 p.py --num-layers 8 --hidden-size 64 --num-attention-heads 16 --seq-length 64 "       \
    "--max-position-embeddings 64 --vocab-size 1000 --micro-batch-size 1 --global-batch-size 64 --bf16 "               \
    "--disable-bias-linear "
#define OVERLAP                                                                                                        \
    "--num-experts 8 --expert-model-parallel-size 2 --overlap-moe-expert-parallel-comm --moe-token-dispatcher-type "   \
    "alltoall "

START_TEST(test_refusals)
{
    static const char *const refused[][2] = {
        { JOB OVERLAP "--pipeline-model-parallel-size 2", "needs virtual pipeline stages where --pipeline-model" },
        { JOB OVERLAP "--pipeline-model-parallel-size 2", "(overlap; megatron/core/transformer/transformer_config.py" },
        { JOB OVERLAP "--recompute-granularity full --recompute-method uniform --recompute-num-layers 1",
          "goes without full recomputation" },
        { JOB OVERLAP "--recompute-granularity selective --recompute-modules core_attn moe", "goes without moe among" },
        { JOB OVERLAP "--moe-shared-expert-overlap", "goes without --moe-shared-expert-overlap (overlap" },
        { JOB OVERLAP "--moe-token-dispatcher-type allgather", "needs --moe-token-dispatcher-type alltoall or flex" },
        { JOB "--overlap-moe-expert-parallel-comm", "needs --expert-model-parallel-size above 1" },
        { JOB "--train-samples 10 --train-iters 10", "--train-samples and --train-iters exclude each other" },
        { JOB "--num-experts 8 --moe-router-topk 200", "--moe-router-topk: expected 1 to 8, the experts, found 200" },
        { JOB "--tensor-model-parallel-size 3 --num-experts 8 --expert-model-parallel-size 2 "
              "--expert-tensor-parallel-size 1",
          "8 devices are no multiple of tensor x context x pipeline = 3 (ranks-are-devices)" },
        { JOB "--context-parallel-size 3 --num-experts 8 --expert-model-parallel-size 2",
          "8 devices are no multiple of tensor x context x pipeline = 3 (ranks-are-devices)" },
        { "p.py --num-attention-heads 16 --bf16 --tensor-model-parallel-size 3 --num-experts 8 "
          "--expert-model-parallel-size 2 --expert-tensor-parallel-size 1",
          "the tensor degree 3 divides the attention heads 16 (tp-divides-heads" },
        { "p.py --bf16 --context-parallel-size 3 --seq-length 64 --expert-model-parallel-size 2",
          "the sequence 64 is a multiple of twice the context degree 3 (cp-divides-sequence" },
    };
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++)
        check_refusal(megatron(), "args", refused[i][0], refused[i][1]);
    static const char *const taken[][2] = {
        { JOB OVERLAP "--pipeline-model-parallel-size 2 --num-virtual-stages-per-pipeline-rank 2 "
                      "--recompute-granularity selective --recompute-modules moe_act --moe-grouped-gemm",
          "--overlap-moe-expert-parallel-comm (priced without" },
        { JOB "--rampup-batch-size 8 8 1000", "--rampup-batch-size (the full batch is priced" },
        { JOB "--train-samples 10 --train-iters 10 --skip-train", NULL },
    };
    for (size_t i = 0; i < sizeof taken / sizeof *taken; i++) {
        struct arena arena = { 0 };
        struct launch_read read = read_text(megatron(), &arena, "args", taken[i][0]);
        ck_assert_int_eq(read.unknown_count, taken[i][1] != NULL);
        ck_assert(!taken[i][1] || strncmp(read.unknown[0], taken[i][1], strlen(taken[i][1])) == 0);
        model_free(read.model);
        arena_free(&arena);
    }
}
END_TEST

static Suite *target_megatron_refusals_suite(void)
{
    Suite *suite = suite_create("target_megatron_refusals");
    CHECK_ADD(suite, test_refusals);
    return suite;
}

CHECK_MAIN(target_megatron_refusals_suite)
