/* Runs of small programs whose losses and weights are kept, so that two are held against each other bit by bit. */
#ifndef CLEAVE_TESTS_RECORDED_RUN_H
#define CLEAVE_TESTS_RECORDED_RUN_H
#include "tests/check.h"
#include "executor/comm_threads.h"
#include "executor/run.h"
#include "tests/tcp_ends.h"
#include "tests/tiny_models.h"
#include <pthread.h>

enum { RECORDED_RANKS = 8, RECORDED_STEPS = 2, RECORDED_WEIGHTS = 1024 };

/* A weight, or a part of one, as a rank holds it after the last step. */
struct recorded_weight {
    int rank, id, part, version;
    int64_t bytes;
    void *data;
};
struct record {
    const struct program *program;
    pthread_mutex_t mutex;
    double loss[RECORDED_STEPS];
    struct recorded_weight weight[RECORDED_WEIGHTS];
    int weight_count;
    int64_t host_peak_bytes[RECORDED_RANKS];
};

static inline void record_step(void *context, const struct run_step *step)
{
    ((struct record *)context)->loss[step->step - 1] = step->loss;
}

static inline void record_weight(void *context, int rank, int buffer, const void *data)
{
    struct record *r = context;
    const struct buffer *b = &r->program->buffers[buffer];
    struct recorded_weight w = { rank, b->id, b->part, b->version, b->bytes, malloc((size_t)b->bytes) };
    pthread_mutex_lock(&r->mutex);
    if (!w.data || r->weight_count == RECORDED_WEIGHTS)
        abort(); /* no thread of the test's */
    memcpy(w.data, data, (size_t)b->bytes);
    r->weight[r->weight_count++] = w;
    pthread_mutex_unlock(&r->mutex);
}

/* Two steps. facts may be NULL. The caller frees the record. */
static inline struct record *run_recorded(const struct program *program, const struct facts *facts, bool over_tcp)
{
    struct record *record = calloc(1, sizeof *record);
    struct transport transports[RECORDED_RANKS];
    struct run_options options = run_options_default();
    struct run_summary summary;
    struct data data;
    struct error err = { 0 };
    int ranks = program->plan->rank_count;
    ck_assert(record && ranks <= RECORDED_RANKS);
    record->program = program;
    pthread_mutex_init(&record->mutex, NULL);
    ck_assert_msg(data_synthetic(&data, sample_shape_of(program->graph), 7, &err), "%s", err.message);
    ck_assert_msg(over_tcp ? tcp_open_all(transports, ranks, ranks, &err) : comm_threads_open(transports, ranks, &err),
                  "%s", err.message);
    options.step_count = RECORDED_STEPS, options.seed = 3, options.learning_rate = 1e-2;
    options.data = &data, options.facts = facts, options.poison = true;
    options.context = record, options.on_step = record_step, options.on_weight = record_weight;
    ck_assert_msg(run_program(&summary, program, transports, ranks, &options, &err), "%s", err.message);
    for (int r = ranks - 1; r >= 0; r--)
        transports[r].close(transports[r].self);
    memcpy(record->host_peak_bytes, summary.host_peak_bytes, (size_t)ranks * sizeof *summary.host_peak_bytes);
    run_summary_free(&summary);
    data_free(&data);
    return record;
}

static inline void record_free(struct record *record)
{
    for (int w = 0; w < record->weight_count; w++)
        free(record->weight[w].data);
    pthread_mutex_destroy(&record->mutex);
    free(record);
}

/* The turn-th of the record's weights that stand where w does: two copies of a model on one rank have two. */
static inline const struct recorded_weight *recorded_like(const struct record *record, const struct recorded_weight *w,
                                                          int turn)
{
    for (int i = 0; i < record->weight_count; i++) {
        const struct recorded_weight *other = &record->weight[i];
        if (other->rank == w->rank && other->id == w->id && other->part == w->part && other->version == w->version &&
            turn-- == 0)
            return other;
    }
    return NULL;
}

static inline void check_same_weight(const struct record *a, const struct record *b, int number, const char *name)
{
    const struct recorded_weight *w = &a->weight[number], *other;
    int turn = 0;
    while (recorded_like(a, w, turn) != w)
        turn++;
    other = recorded_like(b, w, turn);
    const char *weight = a->program->graph->weights[w->id].name;
    ck_assert_msg(other && other->bytes == w->bytes, "%s: rank %d holds another %s", name, w->rank, weight);
    ck_assert_msg(memcmp(w->data, other->data, (size_t)w->bytes) == 0, "%s: rank %d has other numbers in %s", name,
                  w->rank, weight);
}

/* Every loss and every weight, to the last bit. */
static inline void check_same_record(const struct record *a, const struct record *b, const char *name)
{
    for (int s = 0; s < RECORDED_STEPS; s++)
        ck_assert_msg(memcmp(&a->loss[s], &b->loss[s], sizeof a->loss[s]) == 0, "%s, step %d: loss %.17g and %.17g",
                      name, s + 1, a->loss[s], b->loss[s]);
    ck_assert_int_gt(a->weight_count, 0);
    ck_assert_int_eq(a->weight_count, b->weight_count);
    for (int w = 0; w < a->weight_count; w++)
        check_same_weight(a, b, w, name);
}
#endif
