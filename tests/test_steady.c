/* Asynchronous schedules against a sequential emulation: one micro-batch after the other on one rank, each with the
 * version of the weights that the schedule's definition says, in double precision. The emulation knows nothing of
 * pipelines: it runs the forward and backward passes of single micro-batches of a synchronous one-rank program with
 * weights that it puts there, and updates them by a formula of its own. */
#include "check.h"
#include "base/num.h"
#include "executor/backends.h"
#include "executor/comm_threads.h"
#include "executor/device.h"
#include "executor/rank.h"
#include "executor/run.h"
#include "planner/program/geometry.h"
#include "tcp_ends.h"
#include "tiny_models.h"
#include <pthread.h>

enum { STEPS = 3, MAX_RANKS = 8, MAX_UPDATES = 64 };
/* Of a weight's norm, or of SMALL_TENSOR times the norm of all: the gradient of a key bias is zero (it shifts all
 * scores of a row alike), so what moves it is rounding. */
static const double TOLERANCE = 1e-10, SMALL_TENSOR = 1e-3;

static struct run_options options_of(const struct data *data)
{
    struct run_options options = run_options_default();
    options.step_count = STEPS;
    options.seed = 3;
    options.data = data;
    options.learning_rate = 1e-2;
    options.warmup_steps = 2;
    options.epsilon = 1e-6; /* what is rounding moves a weight by rounding over epsilon */
    return options;
}

/* ---- the emulation ---- */
struct emulation {
    struct graph *graph;
    struct plan *plan;
    struct program *program;
    struct transport transport;
    struct rank *rank;
    struct run_options options;
    struct data data;
    int micros;
    int *stored, *summed;            /* (weights) buffers of the weight and its gradient */
    real **version[MAX_UPDATES + 1]; /* [updates so far][weight] */
    real **first, **second, **gradient;
    double loss[STEPS], norm; /* norm: of all initial weights */
};

static int64_t elements(const struct emulation *e, int weight)
{
    return e->program->buffers[e->stored[weight]].elements;
}

static real **arrays(const struct emulation *e)
{
    real **all = calloc((size_t)e->graph->weight_count, sizeof *all);
    for (int w = 0; w < e->graph->weight_count; w++)
        all[w] = calloc((size_t)elements(e, w), sizeof **all);
    return all;
}

static void free_arrays(const struct emulation *e, real **all)
{
    for (int w = 0; all && w < e->graph->weight_count; w++)
        free(all[w]);
    free(all);
}

static void emulation_open(struct emulation *e, const char *model, int batch, int micros)
{
    struct error error = { 0 };
    *e = (struct emulation){ .graph = tiny_graph_of(model, batch), .micros = micros };
    e->plan = tiny_plan(e->graph, &(struct tiny_choice){ .dp = 1, .tp = 1, .pp = 1, .micro = micros });
    e->program = tiny_lower(e->graph, e->plan, &error);
    ck_assert_msg(e->program != NULL, "%s", error.message);
    ck_assert(comm_threads_open(&e->transport, 1, &error));
    ck_assert(data_synthetic(&e->data, TINY_SEQUENCE, TINY_VOCAB, 7, &error));
    e->options = options_of(&e->data);
    ck_assert(rank_new(&e->rank, e->program, &e->transport, &e->options, &error));
    e->stored = calloc((size_t)e->graph->weight_count, sizeof *e->stored);
    e->summed = calloc((size_t)e->graph->weight_count, sizeof *e->summed);
    for (int b = 0; b < e->program->buffer_count; b++) {
        const struct buffer *buffer = &e->program->buffers[b];
        if (buffer->kind == BUFFER_WEIGHT)
            e->stored[buffer->id] = b;
        if (buffer->kind == BUFFER_GRADIENT)
            e->summed[buffer->id] = b;
    }
    e->first = arrays(e), e->second = arrays(e), e->gradient = arrays(e);
    e->version[0] = arrays(e);
    for (int w = 0; w < e->graph->weight_count; w++) {
        memcpy(e->version[0][w], rank_data(e->rank, e->stored[w]), (size_t)elements(e, w) * sizeof(real));
        e->norm = hypot(e->norm, sqrt(kernel_square_sum(e->version[0][w], elements(e, w))));
    }
}

static void emulation_close(struct emulation *e)
{
    for (int v = 0; v <= MAX_UPDATES; v++)
        free_arrays(e, e->version[v]);
    free_arrays(e, e->first), free_arrays(e, e->second), free_arrays(e, e->gradient);
    rank_free(e->rank);
    e->transport.close(e->transport.self);
    data_free(&e->data);
    free(e->stored), free(e->summed);
    program_free(e->program);
    plan_free(e->plan);
    graph_free(e->graph);
}

/* Adds the micro-batch's gradient of the step's mean loss, weight w being of version used[w]. */
static void add_gradient(struct emulation *e, int step, int micro, const int *used)
{
    struct error error = { 0 };
    const struct stage_program *list = &e->program->stages[0];
    rank_begin_step(e->rank, step);
    for (int w = 0; w < e->graph->weight_count; w++) {
        memcpy(rank_data(e->rank, e->stored[w]), e->version[used[w]][w], (size_t)elements(e, w) * sizeof(real));
        memset(rank_data(e->rank, e->summed[w]), 0, (size_t)elements(e, w) * sizeof(real));
    }
    for (int i = 0; i < list->instr_count; i++)
        if (list->instrs[i].micro == micro)
            ck_assert(device_cpu.execute(e->rank, &list->instrs[i], NULL, &error));
    e->loss[step] += rank_loss(e->rank);
    for (int w = 0; w < e->graph->weight_count; w++) {
        const real *sum = (const real *)(void *)rank_data(e->rank, e->summed[w]);
        for (int64_t i = 0; i < elements(e, w); i++)
            e->gradient[w][i] += sum[i];
    }
}

/* AdamW (Loshchilov & Hutter 2019) of version `newest`, at rate `rate`, with the gradient times `scale`, clipped. */
static void update(struct emulation *e, int newest, double rate, double scale, double clip)
{
    const struct run_options *o = &e->options;
    double squares = 0, number = newest + 1;
    e->version[newest + 1] = arrays(e);
    for (int w = 0; w < e->graph->weight_count; w++)
        for (int64_t i = 0; i < elements(e, w); i++)
            squares += scale * scale * e->gradient[w][i] * e->gradient[w][i];
    if (clip > 0)
        scale *= fmin(1, clip / (sqrt(squares) + 1e-6));
    for (int w = 0; w < e->graph->weight_count; w++) {
        double decay = e->graph->weights[w].decay ? o->weight_decay : 0;
        for (int64_t i = 0; i < elements(e, w); i++) {
            double g = scale * e->gradient[w][i], *m = &e->first[w][i], *v = &e->second[w][i];
            *m = o->beta1 * *m + (1 - o->beta1) * g;
            *v = o->beta2 * *v + (1 - o->beta2) * g * g;
            double mean = *m / (1 - pow(o->beta1, number)), square = *v / (1 - pow(o->beta2, number)),
                   old = e->version[newest][w][i];
            e->version[newest + 1][w][i] = old - rate * (mean / (sqrt(square) + o->epsilon) + decay * old);
            e->gradient[w][i] = 0;
        }
    }
}

/* Stage k of P computes micro-batch j with what P - k - 1 micro-batches before it left (vertical sync: P - 1), and
 * updates after each. Returns the number of updates. */
static int emulate_pipedream(struct emulation *e, const struct plan *plan, bool vertical)
{
    int *used = calloc((size_t)e->graph->weight_count, sizeof *used), updates = 0;
    for (int step = 0; step < STEPS; step++)
        for (int micro = 0; micro < e->micros; micro++, updates++) {
            for (int i = 0; i < e->graph->segment_count; i++)
                for (int k = 0; k < e->graph->segments[i].weight_count; k++) {
                    int stage = stage_of_layer(plan, e->graph->segments[i].layer),
                        late = plan->stage_count - 1 - (vertical ? 0 : stage);
                    used[e->graph->segments[i].weight[k].id] = updates > late ? updates - late : 0;
                }
            add_gradient(e, step, micro, used);
            update(e, updates, run_learning_rate(&e->options, step + 1), e->micros, 0);
        }
    free(used);
    return updates;
}

/* W(t + 1) = W(t) - rate * gradient(W(t - 1)). */
static int emulate_2bw(struct emulation *e, double clip)
{
    int *used = calloc((size_t)e->graph->weight_count, sizeof *used);
    for (int step = 0; step < STEPS; step++) {
        for (int w = 0; w < e->graph->weight_count; w++)
            used[w] = step > 0 ? step - 1 : 0;
        for (int micro = 0; micro < e->micros; micro++)
            add_gradient(e, step, micro, used);
        update(e, step, run_learning_rate(&e->options, step + 1), 1, clip);
    }
    free(used);
    return STEPS;
}

/* ---- the run ---- */
struct record {
    const struct program *program;
    const struct emulation *emulation;
    int updates;
    pthread_mutex_t mutex;
    double loss[STEPS], worst; /* worst: largest difference of a weight, of its norm */
    uint64_t weights;
    int64_t *seen; /* (weights) elements compared on ranks that count */
};

static void on_step(void *context, const struct run_step *step)
{
    ((struct record *)context)->loss[step->step - 1] = step->loss;
}

static void on_weight(void *context, int rank, int buffer, const void *data)
{
    struct record *r = context;
    const struct buffer *b = &r->program->buffers[buffer];
    const struct weight *weight = &r->program->graph->weights[b->id];
    const real *got = data, *want = r->emulation->version[r->updates][b->id];
    int local_rank = rank - r->program->plan->stages[b->stage].first_rank;
    struct block block = buffer_block(r->program, b, local_rank);
    double difference = 0, norm = 0;
    for (int64_t i = 0; i < block_elements(&block); i++) {
        int64_t rest = i, global = 0, stride = 1;
        for (int d = block.dim_count - 1; d >= 0; d--) {
            global += (block.low[d] + rest % block.count[d]) * stride;
            rest /= block.count[d];
            stride *= weight->size[d];
        }
        difference += (got[i] - want[global]) * (got[i] - want[global]);
        norm += want[global] * want[global];
    }
    pthread_mutex_lock(&r->mutex);
    r->worst = fmax(r->worst, sqrt(difference) / fmax(sqrt(norm), SMALL_TENSOR * r->emulation->norm));
    r->weights += mix64(hash_bytes((uint64_t)(rank * 100003 + buffer), data, (size_t)b->bytes));
    if (rank_counts(r->program, b, local_rank))
        r->seen[b->id] += block_elements(&block);
    pthread_mutex_unlock(&r->mutex);
}

struct choice {
    const char *schedule;
    int model, dp, tp, pp, micro, recompute, bucket;
    double clip;
};

static struct plan *plan_of(const struct graph *graph, const struct choice *c)
{
    struct plan *plan = tiny_plan(graph, &(struct tiny_choice){ .dp = c->dp,
                                                                .tp = c->tp,
                                                                .pp = c->pp,
                                                                .tp_dim = DIM_tp,
                                                                .named = c->schedule,
                                                                .micro = c->micro,
                                                                .recompute = c->recompute,
                                                                .bucket = c->bucket,
                                                                .clip = c->clip });
    struct error error = { 0 };
    ck_assert_msg(plan_check(plan, graph, &error), "%s", error.message);
    return plan;
}

static void run(struct record *r, const struct emulation *e, const struct program *program, int updates, bool tcp)
{
    struct error error = { 0 };
    struct transport transports[MAX_RANKS];
    struct run_options options = e->options;
    struct run_summary summary;
    int ranks = program->plan->rank_count;
    *r = (struct record){ .program = program, .emulation = e, .updates = updates };
    r->seen = calloc((size_t)program->graph->weight_count, sizeof *r->seen);
    pthread_mutex_init(&r->mutex, NULL);
    ck_assert(tcp ? tcp_open_all(transports, ranks, ranks, &error) : comm_threads_open(transports, ranks, &error));
    options.poison = true;
    options.context = r;
    options.on_step = on_step;
    options.on_weight = on_weight;
    ck_assert_msg(run_program(&summary, program, transports, ranks, &options, &error), "%s", error.message);
    for (int rank = ranks - 1; rank >= 0; rank--)
        transports[rank].close(transports[rank].self);
    run_summary_free(&summary);
    pthread_mutex_destroy(&r->mutex);
    for (int w = 0; w < program->graph->weight_count; w++)
        ck_assert_int_ge(r->seen[w], elements(e, w));
    free(r->seen);
}

static const struct choice choices[] = {
    { "pipedream", 1, 1, 1, 1, 3, RECOMPUTE_NONE, 0, 0 },
    { "pipedream", 1, 1, 1, 2, 2, RECOMPUTE_NONE, 0, 0 },
    { "pipedream", 1, 1, 1, 2, 5, RECOMPUTE_FULL, 0, 0 },
    { "pipedream", 2, 1, 1, 3, 4, RECOMPUTE_SELECTIVE, 0, 0 },
    { "pipedream", 1, 1, 1, 4, 4, RECOMPUTE_NONE, 0, 0 },
    { "pipedream", 2, 1, 1, 5, 7, RECOMPUTE_NONE, 0, 0 },
    { "pipedream", 1, 2, 1, 3, 5, RECOMPUTE_NONE, 0, 0 },
    { "pipedream", 2, 1, 2, 3, 4, RECOMPUTE_FULL, 0, 0 },
    { "pipedream", 1, 2, 2, 2, 3, RECOMPUTE_NONE, 4096, 0 },
    { "pipedream-vertical", 1, 1, 1, 3, 4, RECOMPUTE_NONE, 0, 0 },
    { "pipedream-vertical", 2, 2, 1, 2, 5, RECOMPUTE_FULL, 4096, 0 },
    { "pipedream-2bw", 1, 1, 1, 1, 2, RECOMPUTE_NONE, 0, 0 },
    { "pipedream-2bw", 1, 1, 1, 2, 2, RECOMPUTE_NONE, 0, 0 },
    { "pipedream-2bw", 2, 1, 1, 3, 4, RECOMPUTE_FULL, 0, 0 },
    { "pipedream-2bw", 1, 1, 1, 4, 6, RECOMPUTE_NONE, 0, 0.5 },
    { "pipedream-2bw", 1, 2, 1, 3, 5, RECOMPUTE_SELECTIVE, 4096, 0 },
    { "pipedream-2bw", 2, 2, 2, 2, 3, RECOMPUTE_NONE, 0, 0.5 },
};
enum { CHOICES = sizeof choices / sizeof *choices };

static int emulate(struct emulation *e, const struct plan *plan)
{
    const char *name = schedules[plan->schedule]->name;
    if (!strcmp(name, "pipedream-2bw"))
        return emulate_2bw(e, plan->clip_norm);
    return emulate_pipedream(e, plan, !strcmp(name, "pipedream-vertical"));
}

/* Weights after several steps and the losses on the way; the same bits again and over sockets. */
START_TEST(runs_equal_the_emulation)
{
    const struct choice *c = &choices[_i];
    struct emulation e;
    struct error error = { 0 };
    struct record r, again;
    emulation_open(&e, tiny_models[c->model], c->micro * c->dp, c->micro);
    struct plan *plan = plan_of(e.graph, c);
    struct program *program = tiny_lower(e.graph, plan, &error);
    ck_assert_msg(program != NULL, "%s", error.message);
    int updates = emulate(&e, plan);
    run(&r, &e, program, updates, false);
    ck_assert_msg(r.worst < TOLERANCE, "weights differ by %g of their norm", r.worst);
    for (int s = 0; s < STEPS; s++)
        CHECK_NEAR(r.loss[s], e.loss[s], TOLERANCE * e.loss[s]);
    run(&again, &e, program, updates, _i % 3 == 0);
    ck_assert_uint_eq(again.weights, r.weights);
    program_free(program);
    plan_free(plan);
    emulation_close(&e);
}
END_TEST

/* The comparison sees the age of the weights: each schedule differs from the emulation of another. */
START_TEST(ages_are_told_apart)
{
    struct emulation e, other;
    struct error error = { 0 };
    struct record r;
    emulation_open(&e, tiny_models[1], 4, 4);
    emulation_open(&other, tiny_models[1], 4, 4);
    struct plan *plan = plan_of(e.graph, &(struct choice){ "pipedream", 1, 1, 1, 3, 4, RECOMPUTE_NONE, 0, 0 });
    struct program *program = tiny_lower(e.graph, plan, &error);
    ck_assert_msg(program != NULL, "%s", error.message);
    run(&r, &other, program, emulate_pipedream(&other, plan, true), false);
    ck_assert_double_gt(r.worst, 1e3 * TOLERANCE);
    program_free(program);
    plan_free(plan);
    emulation_close(&e);
    emulation_close(&other);
}
END_TEST

/* ---- what is refused, with the reason ---- */
static const struct {
    const char *model, *says;
    struct tiny_choice choice;
} refused[] = {
    { TINY_GPT("tied", "true"),
      "weight 0.embedding.table is used on stages 0 and 1",
      { .dp = 1, .tp = 1, .pp = 2, .micro = 4, .named = "pipedream" } },
    { TINY_SKIPS,
      "reads a value of stage 0: schedule pipedream-2bw knows values between neighbouring stages only",
      { .dp = 1, .tp = 1, .pp = 4, .micro = 4, .named = "pipedream-2bw" } },
    { TINY_GPT("untied", "false"),
      "at least as many micro-batches as its 4 stages, found 2",
      { .dp = 1, .tp = 1, .pp = 4, .micro = 2, .named = "pipedream-2bw" } },
    { TINY_GPT("untied", "false"),
      "layer 0: zero 1: schedule pipedream keeps versions of whole weights",
      { .dp = 2, .tp = 1, .pp = 2, .micro = 2, .zero = 1, .named = "pipedream" } },
    { TINY_GPT("untied", "false"),
      "clip_norm 1: schedule pipedream-vertical updates after each micro-batch",
      { .dp = 1, .tp = 1, .pp = 2, .micro = 2, .clip = 1, .named = "pipedream-vertical" } },
    { TINY_GPT("untied", "false"),
      "stage 1: schedule pipedream-2bw knows no replicas that take turns",
      { .dp = 1, .tp = 1, .pp = 2, .micro = 4, .named = "pipedream-2bw", .turns = { 2, 1 } } },
};

START_TEST(unfit_plans_are_refused)
{
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        struct graph *graph = tiny_graph(refused[i].model);
        struct plan *plan = tiny_plan(graph, &refused[i].choice);
        struct error error = { 0 };
        ck_assert(!plan_check(plan, graph, &error));
        ck_assert_msg(strstr(error.message, refused[i].says) != NULL, "%s", error.message);
        plan_free(plan);
        graph_free(graph);
    }
}
END_TEST

static Suite *steady_suite(void)
{
    Suite *suite = suite_create("steady");
    TCase *tcase = tcase_create("runs_equal_the_emulation");
    tcase_add_loop_test(tcase, runs_equal_the_emulation, 0, CHOICES);
    suite_add_tcase(suite, tcase);
    CHECK_ADD(suite, ages_are_told_apart);
    CHECK_ADD(suite, unfit_plans_are_refused);
    return suite;
}
CHECK_MAIN(steady_suite)
