/* A small plan of two stages, and plans of unusual shapes, for a model of seven layers. */
#ifndef CLEAVE_TESTS_SMALL_PLANS_H
#define CLEAVE_TESTS_SMALL_PLANS_H
#include "models/model.h"
#include "planner/program/schedule.h"
#include "tests/check.h"
#include "tests/pipeline_shape.h"

static inline struct graph *small_graph(int64_t batch, int64_t vocab_multiple)
{
    static const char text[] =
        "{\"format\": \"cleave-model\", \"version\": 1, \"name\": \"small\", \"sequence\": 16, \"hidden\": 16, "
        "\"vocab_size\": 60, \"layers\": [{\"kind\": \"embedding\"}, {\"repeat\": 2, \"layers\": ["
        "{\"kind\": \"attention\", \"heads\": 4, \"norm\": \"layer_norm\"}, "
        "{\"kind\": \"mlp\", \"inner\": 64, \"activation\": \"gelu\", \"norm\": \"layer_norm\"}]}, {\"kind\": "
        "\"head\", \"norm\": \"layer_norm\"}, {\"kind\": \"loss\"}]}";
    struct model *model = NULL;
    struct graph *graph = NULL;
    struct error err = { 0 };
    ck_assert_msg(model_read(&model, "small", text, sizeof text - 1, NULL, &err), "%s", err.message);
    ck_assert_msg(graph_build(&graph, model, batch, 0, vocab_multiple, &err), "%s", err.message);
    model_free(model);
    return graph;
}

/* Two stages of data 2 x tensor 2; 7 layers. */
static inline struct plan *small_plan(int64_t batch)
{
    struct plan *plan = plan_new(2, 7);
    ck_assert_ptr_nonnull(plan);
    plan->batch = batch;
    plan->sequence = 16;
    plan->vocab_multiple = 4;
    plan->dtype = DTYPE_BF16;
    plan->micro_batch_count = 4;
    plan->atom_count = 2;
    plan->prefetch = 1;
    plan->bucket_bytes = 1 << 20;
    plan->rank_count = 8;
    plan->stages[0] = (struct plan_stage){ 0, 3, 0, { 2, 2, 1, 1 }, 0 };
    plan->stages[1] = (struct plan_stage){ 3, 4, 4, { 2, 2, 1, 1 }, 0 };
    for (int l = 0; l < 7; l++) {
        plan->layers[l].dim[0] = DIM_dp;
        plan->layers[l].dim[1] = DIM_tp;
        plan->layers[l].zero = (int8_t)(l < 4 ? 1 : 3);
        plan->layers[l].recompute = l == 2 ? RECOMPUTE_FULL : RECOMPUTE_NONE;
    }
    return plan;
}

static inline struct plan *shaped_plan(const struct shape *shape, const char *schedule)
{
    struct plan *plan = shape_plan(shape, 7);
    plan->batch = 8;
    plan->sequence = 16;
    plan->vocab_multiple = 1;
    plan->schedule = schedule_find(schedule);
    plan->micro_batch_count = 4;
    for (int l = 0; l < 7; l++)
        plan->layers[l].dim[0] = DIM_dp;
    return plan;
}

static const struct shape turning = { .stages = 2, .turns = { 3, 2 } };
static const struct shape interleaving = { .stages = 2, .chunks = 3 };
static const struct shape folded = { .stages = 2, .chunks = 2, .folded = true };
static const struct shape copied = { .stages = 4, .chunks = 2, .folded = true, .copies = true };
#endif
