/* Programs lowered from small models of the zoo under a list of strategies that touches every recipe. */
#ifndef CLEAVE_TESTS_LOWERED_PROGRAM_H
#define CLEAVE_TESTS_LOWERED_PROGRAM_H
#include "models/model.h"
#include "planner/lower/lower.h"
#include "tests/pipeline_shape.h"
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
    { "adapters", "tiny-lora", "1f1b", 1, { 2, 2 }, { "dp", "tp+sp" }, 2, 2, 0, 1, 1, 0, 1 },
    { "adapters, pipeline", "tiny-lora", "1f1b", 2, { 2, 1 }, { "dp", "none" }, 4, 3, 2, 1, 1, 100000, 1 },
    { "parameter server", "tiny-gpt", "1f1b", 1, { 4, 1 }, { "ps", "none" }, 2, 0, 0, 1, 0, 100000, 1 },
    { "parameter servers of shards", "tiny-llama", "1f1b", 2, { 2, 2 }, { "ps", "dp" }, 2, 2, 0, 1, 0, 0, 1 },
    { "offload", "tiny-gpt", "1f1b", 1, { 2, 1 }, { "dp", "none" }, 2, 1, 0, 1, 0, 0, 1 },
    { "offload, pipeline", "tiny-llama", "1f1b", 2, { 2, 1 }, { "tp+sp", "none" }, 4, 0, 2, 1, 0, 0, 1 },
    { "offload, zero 2", "tiny-gpt", "gpipe", 2, { 2, 1 }, { "dp", "none" }, 3, 2, 1, 1, 0, 0, 1 },
    { "zero 3, kept", "tiny-gpt", "1f1b", 2, { 2, 1 }, { "dp", "none" }, 4, 3, 2, 1, 1, 100000, 1 },
    { "zero 3, every other kept", "tiny-llama", "gpipe", 1, { 2, 2 }, { "dp", "tp" }, 3, 3, 0, 2, 0, 0, 1 },
    { "chunks", "tiny-gpt", "1f1b", 1, { 2, 1 }, { "cp-ring", "none" }, 2, 0, 0, 1, 0, 0, 1 },
    { "chunks, tp 2 sp", "tiny-llama", "gpipe", 1, { 2, 1 }, { "tp+sp", "none" }, 2, 0, 2, 1, 0, 0, 1 },
    { "chunks, zero 3", "tiny-gpt", "1f1b", 2, { 2, 2 }, { "dp", "tp" }, 4, 3, 0, 2, 1, 100000, 1 },
    { "chunks, zero bubble", "tiny-llama", "zb-h1", 2, { 2, 1 }, { "dp", "none" }, 4, 1, 0, 1, 0, 0, 1 },
    { "interleaved", "tiny-gpt", "interleaved", 2, { 1, 1 }, { "dp", "none" }, 4, 0, 0, 1, 0, 0, 1 },
    { "interleaved, zero 3", "tiny-llama", "interleaved", 2, { 2, 1 }, { "dp", "none" }, 2, 3, 2, 1, 1, 0, 1 },
    { "zero bubble", "tiny-gpt", "zb-h1", 3, { 1, 1 }, { "dp", "none" }, 4, 0, 0, 1, 0, 0, 1 },
    { "zero bubble, full recompute", "tiny-llama", "zb-h2", 2, { 2, 1 }, { "dp", "none" }, 4, 2, 2, 1, 0, 0, 0 },
    { "turns", "tiny-gpt", "1f1b", 3, { 1, 1 }, { "dp", "none" }, 5, 0, 0, 1, 0, 0, 1 },
    { "down and up", "tiny-llama", "zb-v", 3, { 1, 1 }, { "dp", "none" }, 4, 0, 1, 1, 0, 0, 1 },
    { "both ways", "tiny-gpt", "chimera", 2, { 2, 1 }, { "dp", "none" }, 4, 0, 1, 1, 0, 0, 1 },
    { "both ways, split", "tiny-llama", "dualpipe", 2, { 1, 1 }, { "dp", "none" }, 4, 0, 0, 1, 0, 0, 1 },
    { "stashing", "tiny-opaque", "pipedream", 3, { 2, 1 }, { "dp", "none" }, 4, 0, 0, 1, 0, 0, 0 },
    { "two versions", "tiny-llama", "pipedream-2bw", 3, { 1, 1 }, { "dp", "none" }, 4, 0, 2, 1, 0, 0, 1 },
    { "two versions of adapters", "tiny-lora", "pipedream-2bw", 3, { 1, 1 }, { "dp", "none" }, 4, 0, 2, 1, 0, 0, 1 },
    { "uneven meshes", "tiny-gpt", "1f1b", 2, { 1, 1 }, { "dp", "none" }, 2, 1, 0, 1, 0, 0, 1 },
};
/* Shapes beside the plain one, by the strategy's name: chunks, replicas in turn, sizes of atom 0 by stage. */
static const struct {
    const char *name;
    int chunks, turns[3], outer[3];
} shapes[] = {
    { "interleaved", 2, { 0 }, { 0 } },      { "interleaved, zero 3", 3, { 0 }, { 0 } },
    { "down and up", 2, { 0 }, { 0 } },      { "both ways", 2, { 0 }, { 0 } },
    { "both ways, split", 2, { 0 }, { 0 } }, { "turns", 1, { 2, 1, 3 }, { 0 } },
    { "uneven meshes", 1, { 0 }, { 3, 2 } },
};

/* What is kept in host memory, likewise. */
static const struct {
    const char *name;
    enum offload offload;
} offloads[] = {
    { "offload", OFFLOAD_BOTH },
    { "offload, pipeline", OFFLOAD_BOTH },
    { "offload, zero 2", OFFLOAD_ACTIVATIONS },
};

/* In how many chunks the loss is walked. */
static inline int lowered_loss_chunks(const struct strategy *s)
{
    return !strncmp(s->name, "chunks", 6) ? 4 : 1;
}

/* Of every how many layers one gives up after each pass what it gathered; 1: all do, 0: none. */
static inline int lowered_resharded(const struct strategy *s)
{
    return !strcmp(s->name, "zero 3, kept") ? 0 : !strcmp(s->name, "zero 3, every other kept") ? 2 : 1;
}

/* Those before "interleaved" have equal meshes of 1, 2 or 4 ranks on all stages, and one chunk. */
enum {
    STRATEGY_COUNT = sizeof strategies / sizeof *strategies,
    SHAPED_COUNT = 12,
    PLAIN_COUNT = STRATEGY_COUNT - SHAPED_COUNT
};

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

static inline struct shape lowered_shape(const struct strategy *s)
{
    struct shape shape = { .stages = s->stages,
                           .atom = { s->atom[0], s->atom[1] },
                           .folded = schedules[schedule_find(s->schedule)]->folded,
                           .copies = schedules[schedule_find(s->schedule)]->copies };
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        if (!strcmp(shapes[i].name, s->name)) {
            shape.chunks = shapes[i].chunks;
            memcpy(shape.turns, shapes[i].turns, sizeof shapes[i].turns);
            memcpy(shape.outer, shapes[i].outer, sizeof shapes[i].outer);
        }
    return shape;
}

static inline enum offload lowered_offload(const struct strategy *s)
{
    for (size_t i = 0; i < sizeof offloads / sizeof *offloads; i++)
        if (!strcmp(offloads[i].name, s->name))
            return offloads[i].offload;
    return OFFLOAD_NONE;
}

static inline void lowered_plan(struct lowered *l, const struct strategy *s)
{
    int layers = l->graph->layer_count;
    struct shape shape = lowered_shape(s);
    struct plan *plan = l->plan = shape_plan(&shape, layers);
    plan->batch = l->graph->batch;
    plan->sequence = l->graph->sequence;
    plan->vocab_multiple = 128;
    plan->schedule = schedule_find(s->schedule);
    plan->micro_batch_count = s->micros;
    plan->bucket_bytes = s->bucket_bytes;
    plan->prefetch = s->prefetch;
    plan->clip_norm = s->clip_norm;
    plan->loss_chunks = lowered_loss_chunks(s);
    int resharded = lowered_resharded(s);
    for (int i = 0; i < layers; i++) {
        plan->layers[i].reshard = resharded > 0 && i % resharded == 0 ? RESHARD_EACH_PASS : RESHARD_EACH_STEP;
        plan->layers[i].dim[0] = (int8_t)dimension_find(s->dim[0]);
        plan->layers[i].dim[1] = (int8_t)dimension_find(s->dim[1]);
        plan->layers[i].zero = (int8_t)s->zero;
        plan->layers[i].recompute = (int8_t)s->recompute;
        plan->layers[i].offload = (int8_t)lowered_offload(s);
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
    int64_t batch = (int64_t)s->micros * s->atom[0] * s->atom[1] * 2;
    struct shape shape = lowered_shape(s);
    for (int i = 0; i < SHAPE_STAGES; i++)
        batch *= shape.outer[i] ? shape.outer[i] : 1;
    ck_assert_msg(graph_build(&l.graph, l.model, batch, 0, 128, &err), "%s", err.message);
    lowered_plan(&l, s);
    return l;
}

static inline struct lowered lowered_program(const struct strategy *s)
{
    struct lowered l = lowered_open(s);
    struct error err = { 0 };
    ck_assert_msg(plan_check(l.plan, l.graph, &err), "%s: %s", s->name, err.message);
    ck_assert_msg(lower_program(&l.program, l.graph, l.plan, &err), "%s: %s", s->name, err.message);
    return l;
}

static inline struct lowered lower_one(const struct strategy *s)
{
    struct lowered l = lowered_program(s);
    return l;
}

/* Pairs of an op in a phase; PHASE_COUNT: any phase; layer -1: any layer. */
static inline int count_pairs(const struct program *program, enum op op, enum phase phase, int layer)
{
    int count = 0;
    for (int s = 0; s < program->stage_count; s++) {
        for (int i = 0; i < program->stages[s].instr_count; i++) {
            const struct instr *instr = &program->stages[s].instrs[i];
            bool matches = instr->op == op && (phase == PHASE_COUNT || instr->phase == phase) &&
                           (layer < 0 || instr->layer == layer);
            count += matches ? instr->pair_count : 0;
        }
    }
    return count;
}
#endif
