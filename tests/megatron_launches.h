/* Launches of Megatron-LM and Megatron-Bridge, by hand. */
#ifndef CLEAVE_TESTS_MEGATRON_LAUNCHES_H
#define CLEAVE_TESTS_MEGATRON_LAUNCHES_H
#include "tests/target_launches.h"
#include "planner/program/schedule.h"
#include "targets/launch.h"

/* Launches whose files stand in tests/targets: CLEAVE_WRITE_GOLDEN=1 writes them anew. */
static const int even[] = { 10, 10, 10, 10, 10, 10, 10, 10 }, uneven[] = { 11, 12, 12, 12, 12, 12, 12, 13 },
                 ahead[] = { 3, 5, 4, 4 };
static const struct {
    const char *name, *model;
    struct launch launch;
} launches_by_hand[] = {
    { "llama-3-70b-64",
      "llama-3-70b",
      { .tensor = 4,
        .context = 1,
        .pipeline = 4,
        .data = 4,
        .expert = 1,
        .sequence_parallel = true,
        .schedule = SCHEDULE_interleaved,
        .chunks = 2,
        .micro_batch = 1,
        .batch = 128,
        .sequence = 8192,
        .dtype = DTYPE_BF16,
        .zero = 1,
        .prefetch = 1,
        .loss_chunks = 1,
        .bucket_bytes = 160000000,
        .clip_norm = 1,
        .piece_count = 8,
        .piece_blocks = even } },
    { "mixtral-8x7b-64",
      "mixtral-8x7b",
      { .tensor = 1,
        .context = 2,
        .context_dimension = DIM_cp_ring,
        .pipeline = 1,
        .data = 32,
        .expert = 8,
        .schedule = SCHEDULE_one_f_one_b,
        .chunks = 1,
        .micro_batch = 1,
        .batch = 256,
        .sequence = 4096,
        .dtype = DTYPE_BF16,
        .zero = 1,
        .shard_group = 16,
        .recompute = RECOMPUTE_BLOCK,
        .prefetch = 1,
        .loss_chunks = 1,
        .bucket_bytes = 160000000,
        .clip_norm = 1 } },
    { "gpt3-175b-128",
      "gpt3-175b",
      { .tensor = 8,
        .context = 1,
        .pipeline = 8,
        .data = 2,
        .expert = 1,
        .sequence_parallel = true,
        .schedule = SCHEDULE_one_f_one_b,
        .chunks = 1,
        .micro_batch = 2,
        .batch = 64,
        .sequence = 2048,
        .dtype = DTYPE_FP8,
        .zero = 1,
        .offload = OFFLOAD_OPTIMIZER,
        .prefetch = 1,
        .loss_chunks = 1,
        .bucket_bytes = 0,
        .clip_norm = 0,
        .piece_count = 8,
        .piece_blocks = uneven } },
    { "further-32",
      "further",
      { .tensor = 2,
        .context = 1,
        .pipeline = 4,
        .data = 4,
        .expert = 8,
        .experts_whole = true,
        .sequence_parallel = true,
        .schedule = SCHEDULE_one_f_one_b,
        .chunks = 1,
        .micro_batch = 1,
        .batch = 64,
        .sequence = 4096,
        .dtype = DTYPE_BF16,
        .zero = 1,
        .recompute = RECOMPUTE_BLOCK,
        .prefetch = 1,
        .loss_chunks = 1,
        .bucket_bytes = 160000000,
        .clip_norm = 1,
        .piece_count = 4,
        .piece_blocks = ahead,
        .further = 2,
        .further_piece = 3 } },
};

static inline const struct target *megatron(void)
{
    const struct target *target = target_find("megatron");
    ck_assert_ptr_nonnull(target);
    ck_assert_ptr_eq(target, target_find("megatron-lm"));
    return target;
}

/* The sizes of a model that was read are those that were written, to the last parameter. */
static inline void check_model(const struct model *meant, const struct model *read, int64_t sequence)
{
    struct graph *a = graph_of(meant, 1, sequence, 128), *b = graph_of(read, 1, sequence, 128);
    ck_assert_int_eq(graph_parameter_count(a), graph_parameter_count(b));
    ck_assert_int_eq(a->layer_count, b->layer_count);
    for (int i = 0; i < a->layer_count; i++)
        ck_assert_str_eq(a->layers[i].kind, b->layers[i].kind);
    graph_free(a);
    graph_free(b);
}

/* Targets that take Megatron's arguments, and the file that has them. */
static const struct {
    const char *name, *file;
} both[] = { { "megatron-lm", "train.sh" }, { "megatron-bridge", "recipe.py" } };
#endif
