/* A small model on a small cluster of one made-up device, for searches. */
#ifndef CLEAVE_TESTS_TOY_WORLD_H
#define CLEAVE_TESTS_TOY_WORLD_H
#include "models/model.h"
#include "planner/program/schedule.h"
#include "planner/search/search.h"
#include "tests/check.h"
#include <stdio.h>
#include <string.h>

struct world {
    struct model *model;
    struct cluster *cluster;
    struct facts facts;
};

static inline struct model *toy_model(int blocks, bool tied)
{
    char text[1024];
    struct model *model = NULL;
    struct error err = { 0 };
    int length =
        snprintf(text, sizeof text,
                 "{\"format\": \"cleave-model\", \"version\": 1, \"name\": \"toy\", \"sequence\": 64, \"hidden\": 64, "
                 "\"vocab_size\": 500, \"tied_embedding\": %s, \"layers\": [{\"kind\": \"embedding\", "
                 "\"learned_positions\": 64}, {\"repeat\": %d, \"layers\": ["
                 "{\"kind\": \"attention\", \"heads\": 4, \"norm\": \"layer_norm\"}, {\"kind\": \"mlp\", \"inner\": "
                 "256, \"activation\": \"gelu\", "
                 "\"norm\": \"layer_norm\"}]}, {\"kind\": \"head\", \"norm\": \"layer_norm\"}, {\"kind\": \"loss\"}]}",
                 tied ? "true" : "false", blocks);
    ck_assert_msg(model_read(&model, "toy", text, (size_t)length, NULL, &err), "%s", err.message);
    return model;
}

/* form: a cluster of `toy` devices, such as 2x4:toy, of so much memory each. */
static inline struct world world_of(const char *form, long long memory_bytes, int blocks, bool tied)
{
    char device[1024];
    struct world world = { 0 };
    struct error err = { 0 };
    int length = snprintf(
        device, sizeof device,
        "{\"description\": \"toy\", \"source\": \"this test\", \"matmul_flops_per_s\": "
        "{\"bf16\": 1e14, \"fp32\": 1e13}, \"matmul_efficiency\": 0.5,"
        "\"attention_forward_efficiency\": 0.5, \"attention_backward_efficiency\": 0.5, "
        "\"vector_flops_per_s\": 1e13, \"memory_bytes_per_s\": 1e12,"
        "\"memory_bytes\": %lld, \"launch_ns\": 1000, \"link_bytes_per_s\": 1e11, "
        "\"link_latency_ns\": 2000, \"nic_bytes_per_s\": 1e10, \"nic_latency_ns\": 5000, \"host_bytes_per_s\": 3e10}",
        memory_bytes);
    struct catalogue_entry entry = { "toy", device, (size_t)length };
    ck_assert_msg(cluster_read(&world.cluster, form, form, strlen(form), &entry, 1, &err), "%s", err.message);
    world.model = toy_model(blocks, tied);
    world.facts = (struct facts){ .cluster = world.cluster };
    return world;
}

static inline struct world world_open(const char *form, long long memory_bytes, int blocks)
{
    return world_of(form, memory_bytes, blocks, true);
}

static inline void world_close(struct world *world)
{
    model_free(world->model);
    cluster_free(world->cluster);
}

/* A search over the whole space, for one plan. */
static inline struct search_options options_of(int64_t batch)
{
    return (struct search_options){ .space = space_default(batch, 0, DTYPE_BF16), .top = 1 };
}

/* Leaves the schedules that the closed form bounds, and none beside them. */
static inline void only_bounded(struct space *space)
{
    space->schedule.count = 0;
    space->extra = (struct allowed){ 1, { 0 } };
    for (int s = 0; schedules[s]; s++)
        if (schedules[s]->bounded)
            space->schedule.values[space->schedule.count++] = s;
}

static inline struct search_result *run_search(const struct world *world, const struct search_options *options)
{
    struct search_result *result = NULL;
    struct error err = { 0 };
    ck_assert_msg(search_run(&result, world->model, &world->facts, options, &err), "%s", err.message);
    return result;
}

/* A clock that ticks whenever it is asked; self: int64_t. */
static inline int64_t toy_tick(void *self)
{
    return ++*(int64_t *)self;
}

/* Of a search that is cancelled when it was asked so often. */
struct toy_asked {
    int64_t asked, limit;
};

static inline bool toy_cancelled(void *self)
{
    struct toy_asked *it = self;
    return ++it->asked >= it->limit;
}
#endif
