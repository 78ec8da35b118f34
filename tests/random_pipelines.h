/* Random pipelines of layers of given times under any schedule, lowered and simulated, beside what the search's closed
 * forms say of them. */
#ifndef CLEAVE_TESTS_RANDOM_PIPELINES_H
#define CLEAVE_TESTS_RANDOM_PIPELINES_H
#include "base/num.h"
#include "base/text.h"
#include "models/model.h"
#include "planner/program/program.h"
#include "planner/tables/workbench.h"
#include "tests/check.h"
#include "tests/pipeline_shape.h"
#include "tests/simulated_step.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { PIPELINE_TURNS = 3, PIPELINE_LAYERS = 24, PIPELINE_VALUE_BYTES = 2000000 };
/* Of whose passes backward takes how many times as long as forward: all alike, or each of its own. */
enum pipeline_ratios { RATIO_OF_ALL, RATIO_OF_STAGES, RATIO_OF_LAYERS };
struct pipeline_draw {
    int schedule, stages, chunks, layers, micros;
    double spread;     /* of the layers' times, 0.3: +-30 % */
    double send_share; /* of a stage's time for one micro-batch */
    bool whole; /* only the first layer has weights: backward is in one piece, so that gradients leave as late as can be
                 */
    int64_t forward_us;  /* of one layer, about */
    double backward_for; /* times as long; on average where there are several ratios: */
    enum pipeline_ratios ratios;
    int replicas[SHAPE_STAGES]; /* of each stage, in turn: 1 to PIPELINE_TURNS; 0: no turns */
};
struct pipeline_case {
    struct pipeline_draw draw;
    struct model *model;
    struct cluster *cluster;
    struct facts facts;
    struct space space;
    struct workbench bench;
    struct config config;
    const struct price_table *table;
    struct partition_problem problem;
    struct arena arena;
    struct plan *plan;
};

static inline int64_t pipeline_random(uint64_t *state, int64_t below)
{
    return (int64_t)(mix64((*state)++) % (uint64_t)below);
}

/* Micro-batches: at least as many as stages, and a number that the schedule takes. */
static inline struct pipeline_draw pipeline_draw(uint64_t *state, int schedule, double spread, int most_send_permille)
{
    const struct schedule *of = schedules[schedule];
    struct pipeline_draw d = { .schedule = schedule, .spread = spread, .chunks = 1 };
    d.stages = 2 + (int)pipeline_random(state, 7);
    d.stages += of->copies && d.stages % 2;
    if (of->interleaves)
        d.chunks = of->folded ? 2 : 2 + (int)pipeline_random(state, 2);
    int pieces = schedule_pieces(of, d.stages, d.chunks);
    d.layers = pieces * (1 + (int)pipeline_random(state, 2));
    if (d.layers > PIPELINE_LAYERS)
        d.layers = pieces;
    int unit = schedule_unit(of, d.stages);
    d.micros = (int)round_up(d.stages + pipeline_random(state, 4 * d.stages), unit);
    d.send_share = (double)pipeline_random(state, most_send_permille + 1) / 1000;
    d.whole = pipeline_random(state, 2);
    d.forward_us = 200 + pipeline_random(state, 800);
    d.backward_for = 1.5 + (double)pipeline_random(state, 100) / 100;
    return d;
}

static inline int pipeline_ranks(const struct pipeline_draw *d)
{
    int ranks = 0;
    for (int k = 0; k < d->stages; k++)
        ranks += d->replicas[0] > 0 ? d->replicas[k] : 1;
    return ranks;
}

/* How many times as long as the layer's forward pass its backward pass is: a tenth to ten times. */
static inline double pipeline_ratio(const struct pipeline_draw *d, uint64_t seed, int layer)
{
    int pieces = d->replicas[0] > 0 ? d->stages : schedule_pieces(schedules[d->schedule], d->stages, d->chunks);
    uint64_t own = seed + (uint64_t)(d->ratios == RATIO_OF_LAYERS ? layer : layer * pieces / d->layers);
    return d->ratios == RATIO_OF_ALL ? d->backward_for : pow(10, (double)pipeline_random(&own, 2001) / 1000 - 1);
}

static inline void pipeline_model(struct pipeline_case *c, uint64_t *state)
{
    struct text text = { 0 };
    struct error err = { 0 };
    uint64_t seed = mix64(*state);
    text_printf(&text, "{\"format\": \"cleave-model\", \"version\": 1, \"name\": \"random\", \"sequence\": 16, "
                       "\"layers\": [");
    for (int l = 0; l < c->draw.layers; l++) {
        double times = 1 + c->draw.spread * (2 * (double)pipeline_random(state, 1001) / 1000 - 1);
        double both = (double)c->draw.forward_us * times * (1 + c->draw.backward_for),
               forward = both / (1 + pipeline_ratio(&c->draw, seed, l));
        text_printf(&text,
                    "%s{\"kind\": \"opaque\", \"forward_us\": %.3f, \"backward_us\": %.3f, \"parameters\": %d, "
                    "\"activation_elements\": %d}",
                    l > 0 ? ", " : "", forward, both - forward, c->draw.whole && l > 0 ? 0 : 64,
                    PIPELINE_VALUE_BYTES / 2);
    }
    text_printf(&text, "]}");
    ck_assert_msg(model_read(&c->model, "random", text.data, text.length, NULL, &err), "%s", err.message);
    text_free(&text);
}

/* Links so fast that a value takes the share of a stage's time; memory and its work are free. */
static inline void pipeline_cluster(struct pipeline_case *c)
{
    char device[1024], form[32];
    struct error err = { 0 };
    const struct pipeline_draw *d = &c->draw;
    double stage_s = 1e-6 * (double)d->forward_us * (1 + d->backward_for) * d->layers / d->stages;
    double bytes_per_s = PIPELINE_VALUE_BYTES / (d->send_share > 0 ? d->send_share * stage_s : 1e-7);
    int length = snprintf(device, sizeof device,
                          "{\"description\": \"toy\", \"source\": \"this test\", \"matmul_flops_per_s\": {\"bf16\": "
                          "1e15, \"fp32\": 1e15}, \"matmul_efficiency\": 1, \"attention_forward_efficiency\": 1, "
                          "\"attention_backward_efficiency\": 1, \"vector_flops_per_s\": 1e15, "
                          "\"memory_bytes_per_s\": 1e15, \"memory_bytes\": 1000000000000, \"launch_ns\": 0, "
                          "\"link_bytes_per_s\": %.6g, \"link_latency_ns\": 0, \"nic_bytes_per_s\": %.6g, "
                          "\"nic_latency_ns\": 0}",
                          bytes_per_s, bytes_per_s);
    struct catalogue_entry entry = { "toy", device, (size_t)length };
    snprintf(form, sizeof form, "1x%d:toy", pipeline_ranks(d));
    ck_assert_msg(cluster_read(&c->cluster, form, form, strlen(form), &entry, 1, &err), "%s", err.message);
    c->facts = (struct facts){ .cluster = c->cluster };
}

static inline void pipeline_plan(struct pipeline_case *c)
{
    const struct pipeline_draw *d = &c->draw;
    struct shape shape = { .stages = d->stages,
                           .chunks = d->chunks,
                           .folded = schedules[d->schedule]->folded,
                           .copies = schedules[d->schedule]->copies };
    memcpy(shape.turns, d->replicas, sizeof shape.turns);
    c->plan = shape_plan(&shape, d->layers);
    c->plan->batch = c->space.batch, c->plan->sequence = 16, c->plan->vocab_multiple = 1, c->plan->dtype = DTYPE_BF16;
    c->plan->schedule = d->schedule, c->plan->micro_batch_count = d->micros, c->plan->prefetch = 1;
    for (int l = 0; l < d->layers; l++)
        c->plan->layers[l] = c->table->strategies[0].layer;
    c->plan->atom_count = c->config.mesh.atom_count;
}

static inline struct pipeline_case *pipeline_open(const struct pipeline_draw *draw, uint64_t *state)
{
    struct pipeline_case *c = calloc(1, sizeof *c);
    struct error err = { 0 };
    c->draw = *draw;
    pipeline_model(c, state);
    pipeline_cluster(c);
    c->space = space_default(draw->micros, 16, DTYPE_BF16);
    c->space.recompute = (struct allowed){ 1, { RECOMPUTE_NONE } };
    c->space.zero = (struct allowed){ 1, { 0 } };
    c->config = (struct config){ .stages = draw->stages,
                                 .schedule = draw->schedule,
                                 .chunks = draw->chunks,
                                 .prefetch = 1,
                                 .micro_batch_count = draw->micros,
                                 .micro = 1,
                                 .mesh = mesh_none() };
    mesh_add(&c->config.mesh, 1, DIM_dp);
    static const int turns[PIPELINE_TURNS] = { 1, 2, 3 };
    if (draw->replicas[0] > 0) {
        c->config.meshes = pipeline_ranks(draw);
        c->config.stages = 0;
        c->config.turns = turns;
        c->config.shape_count = (int)min_i64(PIPELINE_TURNS, c->config.meshes);
    }
    ck_assert_msg(workbench_open(&c->bench, c->model, &c->facts, &c->space, &err), "%s", err.message);
    ck_assert_msg(workbench_table(&c->bench, &c->config, false, &c->table, &err), "%s", err.message);
    ck_assert_ptr_nonnull(c->table);
    c->problem = workbench_problem(&c->bench, &c->config, c->table, workbench_in_flight(&c->arena, &c->config));
    pipeline_plan(c);
    return c;
}

static inline void pipeline_close(struct pipeline_case *c)
{
    plan_free(c->plan);
    workbench_close(&c->bench);
    cluster_free(c->cluster);
    model_free(c->model);
    arena_free(&c->arena);
    free(c);
}

/* By the closed form. */
static inline int64_t pipeline_formula_ns(struct pipeline_case *c)
{
    bool turns = c->draw.replicas[0] > 0;
    int pieces = turns ? c->draw.stages : c->problem.stage_count, classes = c->table->class_count,
        strategies = c->table->strategy_count;
    int *count = arena_alloc(&c->arena, (size_t)(pieces * classes * strategies), sizeof *count);
    struct partition_plan plan = { .first_layer = arena_alloc(&c->arena, (size_t)pieces, sizeof(int)) };
    if (turns) {
        plan.stage_count = pieces;
        plan.shape = arena_alloc(&c->arena, (size_t)pieces, sizeof *plan.shape);
    }
    for (int piece = 0, at = 0; turns && piece < pieces; at += c->draw.replicas[piece], piece++) {
        plan.shape[piece] = c->draw.replicas[piece] - 1;
        plan.first_layer[piece] = c->plan->stages[at].first_layer;
        for (int l = 0; l < c->plan->stages[at].layer_count; l++)
            count[(piece * classes + c->bench.chain.class_of[plan.first_layer[piece] + l]) * strategies]++;
    }
    for (int piece = 0; !turns && piece < pieces; piece++) {
        int stage = schedule_stage(schedules[c->draw.schedule], c->draw.stages, piece);
        struct layer_range layers = plan_stage_chunk(c->plan, stage, piece / c->draw.stages);
        plan.first_layer[piece] = layers.first;
        for (int l = layers.first; l < layers.first + layers.count; l++)
            count[(piece * classes + c->bench.chain.class_of[l]) * strategies]++;
    }
    ck_assert(partition_set_counts(&plan, &c->arena, count, pieces, classes * strategies));
    return partition_evaluate(&c->problem, &plan);
}

static inline int64_t pipeline_simulated_ns(struct pipeline_case *c)
{
    char what[128];
    snprintf(what, sizeof what, "%s, %d stages, %d chunks, %d micro-batches", schedules[c->draw.schedule]->name,
             c->draw.stages, c->draw.chunks, c->draw.micros);
    return simulated_step_ns(what, c->model, c->plan, &c->facts);
}
#endif
