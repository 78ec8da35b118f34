/* Programs lowered from small models of the zoo under a list of strategies that touches every recipe. */
#ifndef CLEAVE_TESTS_LOWERED_PROGRAM_H
#define CLEAVE_TESTS_LOWERED_PROGRAM_H
#include "models/model.h"
#include "planner/program/program.h"
#include "planner/program/schedule.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct strategy {
    const char *name, *model, *schedule;
    int stages, atom[2];
    const char *dim[2];
    int micros, zero, recompute, slices, prefetch;
    int64_t bucket_bytes;
    double clip_norm;
};

static const struct strategy strategies[] = {
    { "one rank", "tiny-gpt", "1f1b", 1, { 1, 1 }, { "none", "none" }, 2, 0, 0, 1, 0, 0, 1 },
    { "dp 2", "tiny-gpt", "1f1b", 1, { 2, 1 }, { "dp", "none" }, 2, 0, 0, 1, 0, 0, 0 },
    { "dp 2, buckets", "tiny-gpt", "1f1b", 1, { 2, 1 }, { "dp", "none" }, 1, 0, 0, 1, 0, 100000, 1 },
    { "zero 1", "tiny-gpt", "1f1b", 1, { 2, 1 }, { "dp", "none" }, 2, 1, 0, 1, 0, 0, 1 },
    { "zero 2", "tiny-gpt", "1f1b", 1, { 2, 1 }, { "dp", "none" }, 2, 2, 0, 1, 0, 100000, 1 },
    { "zero 3", "tiny-gpt", "1f1b", 1, { 2, 1 }, { "dp", "none" }, 2, 3, 0, 1, 1, 0, 1 },
    { "zero 3, llama", "tiny-llama", "1f1b", 1, { 2, 1 }, { "dp", "none" }, 2, 3, 2, 1, 2, 0, 1 },
    { "tp 2", "tiny-gpt", "1f1b", 1, { 2, 1 }, { "tp", "none" }, 1, 0, 0, 1, 0, 0, 0 },
    { "tp 2 sp", "tiny-gpt", "1f1b", 1, { 2, 1 }, { "tp+sp", "none" }, 2, 0, 0, 1, 0, 0, 1 },
    { "dp 2 tp 2", "tiny-gpt", "gpipe", 1, { 2, 2 }, { "dp", "tp" }, 2, 2, 1, 1, 0, 0, 1 },
    { "pipeline 2", "tiny-gpt", "1f1b", 2, { 1, 1 }, { "none", "none" }, 4, 0, 0, 1, 0, 0, 1 },
    { "pipeline 3, gpipe", "tiny-llama", "gpipe", 3, { 1, 1 }, { "none", "none" }, 3, 0, 2, 1, 0, 0, 0 },
    { "pipeline 2 dp 2 tp 2", "tiny-gpt", "1f1b", 2, { 2, 2 }, { "dp", "tp+sp" }, 2, 3, 1, 1, 1, 0, 1 },
    { "opaque pipeline", "tiny-opaque", "1f1b", 3, { 2, 1 }, { "dp", "none" }, 4, 0, 0, 1, 0, 0, 0 },
    { "slices", "tiny-gpt", "1f1b", 1, { 2, 1 }, { "dp", "none" }, 2, 3, 0, 2, 0, 0, 1 },
    { "slices, full recompute", "tiny-llama", "1f1b", 2, { 1, 1 }, { "none", "none" }, 2, 0, 2, 2, 0, 0, 0 },
};
enum { STRATEGY_COUNT = sizeof strategies / sizeof *strategies };

struct lowered {
    struct model *model;
    struct graph *graph;
    struct plan *plan;
    struct program *program;
};

static inline void lowered_free(struct lowered *l)
{
    program_free(l->program);
    plan_free(l->plan);
    graph_free(l->graph);
    model_free(l->model);
}

static inline char *lowered_read(const char *path, size_t *length)
{
    FILE *file = fopen(path, "rb");
    ck_assert_msg(file != NULL, "cannot open %s", path);
    char *text = malloc(1 << 20);
    *length = fread(text, 1, 1 << 20, file);
    fclose(file);
    return text;
}

static inline void lowered_plan(struct lowered *l, const struct strategy *s)
{
    int layers = l->graph->layer_count, ranks = s->atom[0] * s->atom[1];
    struct plan *plan = l->plan = plan_new(s->stages, layers);
    plan->batch = l->graph->batch;
    plan->sequence = l->graph->sequence;
    plan->vocab_multiple = 128;
    plan->schedule = schedule_find(s->schedule);
    plan->micro_batch_count = s->micros;
    plan->atom_count = 2;
    plan->bucket_bytes = s->bucket_bytes;
    plan->prefetch = s->prefetch;
    plan->clip_norm = s->clip_norm;
    plan->rank_count = ranks * s->stages;
    for (int i = 0; i < s->stages; i++) {
        struct plan_stage *stage = &plan->stages[i];
        stage->first_layer = layers * i / s->stages;
        stage->layer_count = layers * (i + 1) / s->stages - stage->first_layer;
        stage->first_rank = ranks * i;
        stage->atom[0] = s->atom[0];
        stage->atom[1] = s->atom[1];
    }
    for (int i = 0; i < layers; i++) {
        plan->layers[i].dim[0] = (int8_t)dimension_find(s->dim[0]);
        plan->layers[i].dim[1] = (int8_t)dimension_find(s->dim[1]);
        plan->layers[i].zero = (int8_t)s->zero;
        plan->layers[i].recompute = (int8_t)s->recompute;
        plan->layers[i].slices = (int16_t)s->slices;
    }
}

/* Model, graph and plan. */
static inline struct lowered lowered_open(const struct strategy *s)
{
    struct lowered l = { 0 };
    struct error err = { 0 };
    char path[512];
    size_t length;
    snprintf(path, sizeof path, "%s/models/zoo/%s.json", SOURCE_ROOT, s->model);
    char *text = lowered_read(path, &length);
    ck_assert_msg(model_read(&l.model, path, text, length, NULL, &err), "%s", err.message);
    free(text);
    ck_assert_msg(graph_build(&l.graph, l.model, (int64_t)s->micros * s->atom[0] * s->atom[1] * 2, 0, 128, &err), "%s",
                  err.message);
    lowered_plan(&l, s);
    return l;
}

static inline struct lowered lowered_program(const struct strategy *s)
{
    struct lowered l = lowered_open(s);
    struct error err = { 0 };
    ck_assert_msg(plan_check(l.plan, l.graph, &err), "%s: %s", s->name, err.message);
    ck_assert_msg(program_lower(&l.program, l.graph, l.plan, &err), "%s: %s", s->name, err.message);
    return l;
}
#endif
