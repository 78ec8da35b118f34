/* Runs of tiny models whose weights are collected in global order, with and without checkpoints. */
#ifndef CLEAVE_TESTS_SAVED_RUNS_H
#define CLEAVE_TESTS_SAVED_RUNS_H
#include "tests/checkpoint_files.h"
#include "base/num.h"
#include "executor/backends.h"
#include "executor/comm_threads.h"
#include "executor/kernel.h"
#include "executor/run.h"
#include "planner/program/geometry.h"
#include "tests/tiny_models.h"
#include <pthread.h>

enum { MAX_RANKS = 8, STEPS = 6 };

struct world {
    struct graph *graph;
    const struct program *program;
    pthread_mutex_t mutex;
    real **weights;   /* (weight) */
    uint8_t **copies; /* (weight) how many ranks have had the element */
    bool differs;     /* among those */
    double loss[STEPS];
    struct run_options more; /* what of the options a test sets */
};

static inline void on_step(void *context, const struct run_step *step)
{
    ((struct world *)context)->loss[step->step - 1] = step->loss;
}

static inline void on_weight(void *context, int rank, int buffer, const void *data)
{
    struct world *w = context;
    const struct buffer *b = &w->program->buffers[buffer];
    int local = rank - w->program->plan->stages[b->stage].first_rank, index, pieces;
    struct block block = buffer_block(w->program, b, local);
    geometry_flat_piece(w->program, b, local, &index, &pieces);
    int64_t whole = block_elements(&block), first = pieces > 1 ? min_i64(whole, index * buffer_holds(b)) : 0;
    int64_t count = pieces > 1 ? min_i64(buffer_holds(b), whole - first) : whole;
    pthread_mutex_lock(&w->mutex);
    for (int64_t i = 0; i < count; i++) {
        int64_t rest = first + i, global = 0, stride = 1;
        for (int d = block.dim_count - 1; d >= 0; d--) {
            global += (block.low[d] + rest % block.count[d]) * stride;
            rest /= block.count[d];
            stride *= w->graph->weights[b->id].size[d];
        }
        w->differs |=
            w->copies[b->id][global]++ && memcmp(&w->weights[b->id][global], (const real *)data + i, sizeof(real));
        w->weights[b->id][global] = ((const real *)data)[i];
    }
    pthread_mutex_unlock(&w->mutex);
}

static inline void world_open(struct world *w, const char *model)
{
    *w = (struct world){ .graph = tiny_graph(model) };
    pthread_mutex_init(&w->mutex, NULL);
    w->weights = calloc((size_t)w->graph->weight_count, sizeof *w->weights);
    w->copies = calloc((size_t)w->graph->weight_count, sizeof *w->copies);
    for (int i = 0; i < w->graph->weight_count; i++) {
        w->weights[i] = calloc((size_t)weight_elements(&w->graph->weights[i]), sizeof **w->weights);
        w->copies[i] = calloc((size_t)weight_elements(&w->graph->weights[i]), sizeof **w->copies);
    }
}

static inline void world_close(struct world *w)
{
    for (int i = 0; i < w->graph->weight_count; i++)
        free(w->weights[i]), free(w->copies[i]);
    free(w->weights), free(w->copies);
    pthread_mutex_destroy(&w->mutex);
    graph_free(w->graph);
}

static inline bool world_run(struct world *w, const struct tiny_choice *choice, int64_t steps, const char *save,
                             const char *resume, int64_t every, struct error *err)
{
    struct plan *plan = tiny_plan(w->graph, choice);
    struct program *program = tiny_lower(w->graph, plan, err);
    ck_assert_msg(program != NULL, "%s", err->message);
    struct transport transports[MAX_RANKS];
    struct data data;
    struct run_options options = run_options_default();
    struct run_summary summary;
    ck_assert(comm_threads_open(transports, plan->rank_count, err) &&
              data_synthetic(&data, sample_shape_of(w->graph), 7, err));
    w->program = program;
    w->differs = false;
    for (int i = 0; i < w->graph->weight_count; i++)
        memset(w->copies[i], 0, (size_t)weight_elements(&w->graph->weights[i]) * sizeof **w->copies);
    options.step_count = steps, options.seed = w->more.seed ? w->more.seed : 3, options.learning_rate = 1e-3,
    options.data = &data, options.poison = true;
    options.warmup_steps = 2, options.decay_steps = STEPS + 2; /* each step has a rate of its own */
    options.context = w, options.on_step = w->more.on_step ? w->more.on_step : on_step, options.on_weight = on_weight;
    options.checkpoint_dir = save, options.checkpoint_every = every, options.resume_dir = resume;
    options.on_stuck = w->more.on_stuck;
    options.timeout_s = w->more.timeout_s > 0 ? w->more.timeout_s : options.timeout_s;
    options.checkpoint_every_s = w->more.checkpoint_every_s, options.asked_to_end = w->more.asked_to_end;
    options.checkpoint_keep = w->more.checkpoint_keep, options.checkpoint_overwrite = w->more.checkpoint_overwrite;
    bool ok = run_program(&summary, program, transports, plan->rank_count, &options, err);
    if (ok)
        run_summary_free(&summary);
    for (int r = 0; r < plan->rank_count; r++)
        transports[r].close(transports[r].self);
    data_free(&data);
    program_free(program);
    plan_free(plan);
    return ok;
}

static inline void must_run(struct world *w, const struct tiny_choice *choice, int64_t steps, const char *save,
                            const char *resume, int64_t every)
{
    struct error error = { 0 };
    ck_assert_msg(world_run(w, choice, steps, save, resume, every, &error), "%s", error.message);
    ck_assert_msg(!w->differs, "copies of a weight on several ranks are no longer equal");
}

static inline void same_weights(const struct world *a, const struct world *b)
{
    for (int i = 0; i < a->graph->weight_count; i++)
        ck_assert_msg(
            memcmp(a->weights[i], b->weights[i], (size_t)weight_elements(&a->graph->weights[i]) * sizeof(real)) == 0,
            "weight %s differs", a->graph->weights[i].name);
}

#endif
