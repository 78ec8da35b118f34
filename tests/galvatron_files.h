/* Galvatron's published files, for tests. Failing to read fails the test. */
#ifndef CLEAVE_TESTS_GALVATRON_FILES_H
#define CLEAVE_TESTS_GALVATRON_FILES_H
#include "peers/galvatron.h"
#include "tests/check.h"
#include <stdio.h>

#define GALVATRON_FOLDER SOURCE_ROOT "/benchmarks/cases/peers/galvatron/"
static const char *const galvatron_names[GALVATRON_FILES] = {
    [GALVATRON_COMPUTATION] = "computation_profiling_bf16_llama2-7b_all.json",
    [GALVATRON_MEMORY] = "memory_profiling_bf16_llama2-7b_all.json",
    [GALVATRON_ALLREDUCE] = "allreduce_bandwidth_1nodes_8gpus_per_node.json",
    [GALVATRON_P2P] = "p2p_bandwidth_1nodes_8gpus_per_node.json",
    [GALVATRON_OVERLAP] = "overlap_coefficient.json",
    [GALVATRON_SP_TIME] = "sp_time_1nodes_8gpus_per_node.json",
};

static inline struct galvatron_text galvatron_open(const char *name, struct arena *arena)
{
    char path[512];
    snprintf(path, sizeof path, GALVATRON_FOLDER "%s", name);
    FILE *file = fopen(path, "rb");
    ck_assert_msg(file != NULL, "cannot open %s", path);
    fseek(file, 0, SEEK_END);
    size_t length = (size_t)ftell(file);
    rewind(file);
    char *text = arena_alloc(arena, length + 1, 1);
    ck_assert_ptr_nonnull(text);
    ck_assert_uint_eq(fread(text, 1, length, file), length);
    fclose(file);
    return (struct galvatron_text){ name, text, length };
}

static inline void galvatron_open_profile(struct galvatron_profile *profile, struct arena *arena)
{
    struct galvatron_text texts[GALVATRON_FILES];
    struct error err = { 0 };
    for (int f = 0; f < GALVATRON_FILES; f++)
        texts[f] = galvatron_open(galvatron_names[f], arena);
    ck_assert_msg(galvatron_read_profile(profile, texts, 0, &err), "%s", err.message);
}
#endif
