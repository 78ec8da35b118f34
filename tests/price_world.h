/* A model of the zoo on a cluster with the workbench of its search, for tests of prices; and a list of such. */
#ifndef CLEAVE_TESTS_PRICE_WORLD_H
#define CLEAVE_TESTS_PRICE_WORLD_H
#include "models/model.h"
#include "planner/tables/workbench.h"
#include "tests/check.h"
#include "tests/fact_files.h"
#include "tests/model_files.h"

struct world {
    struct model *model;
    struct cluster *cluster;
    struct facts facts;
    struct space space;
    struct workbench bench;
    struct arena arena;
    struct config *configs;
    int config_count;
};

static inline struct world world_open(const char *model, const char *cluster, int64_t batch)
{
    struct world w = { .model = model_of_zoo(model), .cluster = cluster_open(cluster) };
    bool half = w.cluster->types[0].device.matmul_flops_per_s[DTYPE_BF16] > 0;
    w.facts.cluster = w.cluster;
    w.space = space_default(batch, 0, half ? DTYPE_BF16 : DTYPE_FP32);
    w.space.recompute.count = 0;
    return w;
}

static inline void world_start(struct world *w)
{
    struct error err = { 0 };
    ck_assert_msg(
        workbench_open(&w->bench, w->model, &w->facts, &w->space, &err) &&
            space_configs(&w->configs, &w->config_count, &w->arena, &w->space, w->bench.graph, w->cluster, &err),
        "%s", err.message);
}

static inline void world_close(struct world *w)
{
    workbench_close(&w->bench);
    arena_free(&w->arena);
    cluster_free(w->cluster);
    model_free(w->model);
}

/* All that a strategy can be made of. */
static inline void free_choices(struct space *space)
{
    space->context = (struct allowed){ 3, { 1, 2, 4 } };
    space->shard_group = (struct allowed){ 3, { 0, 2, 4 } };
    space->slices = (struct allowed){ 2, { 1, 4 } };
    space->mesh_order.count = space->reshard.count = 0;
}

static const struct instance {
    const char *model, *cluster;
    int64_t batch;
    int stride;
    bool general;
} instances[] = {
    { "gpt2", "2x4:a100-sxm-80", 24, 7, false },        { "gpt3-175b", "128x8:a100-sxm-80", 1536, 173, false },
    { "llama-3-8b", "3x4:h100-sxm", 36, 11, false },    { "llama-2-70b", "8x8:a100-sxm-80", 192, 61, false },
    { "bert-large", "1x6:a100-sxm-80", 12, 3, false },  { "tiny-gpt", "1x4:cpu", 12, 1, false },
    { "tiny-llama", "1x6:cpu", 24, 1, false },          { "tiny-opaque", "2x2:a100-sxm-80", 12, 1, false },
    { "gpt2", "2x8:a100-sxm-80", 24, 97, true },        { "llama-3-8b", "4x4:h100-sxm", 16, 61, true },
    { "tiny-llama", "2x4:a100-sxm-80", 8, 13, true },   { "tiny-moe", "2x4:a100-sxm-80", 16, 5, false },
    { "mixtral-8x7b", "4x4:h100-sxm", 16, 211, true },  { "tiny-lora", "2x4:a100-sxm-80", 8, 13, true },
    { "tiny-encdec", "1x8:a100-sxm-80", 64, 5, false },
};
enum { INSTANCES = sizeof instances / sizeof *instances };

/* world_start() is to follow. */
static inline struct world instance_open(const struct instance *in)
{
    struct world w = world_open(in->model, in->cluster, in->batch);
    if (in->general)
        free_choices(&w.space);
    return w;
}
#endif
