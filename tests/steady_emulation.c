/* The emulation knows nothing of pipelines: it runs the forward and backward passes of single micro-batches of a
 * synchronous one-rank program with weights that it puts there, and updates them by a formula of its own. */
#include "tests/steady_emulation.h"
#include "base/num.h"
#include "executor/backends.h"
#include "executor/comm_threads.h"
#include "executor/device.h"
#include "executor/rank.h"
#include "executor/status.h"
#include "planner/program/geometry.h"
#include "tests/tcp_ends.h"

enum { MAX_RANKS = 8 };
static const double SMALL_TENSOR = 1e-3;

static struct run_options options_of(const struct data *data)
{
    struct run_options options = run_options_default();
    options.step_count = STEADY_STEPS;
    options.seed = 3;
    options.data = data;
    options.learning_rate = 1e-2;
    options.warmup_steps = 2;
    options.epsilon = 1e-6; /* what is rounding moves a weight by rounding over epsilon */
    return options;
}

/* ---- the emulation ---- */
static int64_t elements(const struct emulation *e, int weight)
{
    return buffer_holds(&e->program->buffers[e->stored[weight]]);
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

void emulation_open(struct emulation *e, const char *model, int batch, int micros)
{
    struct error error = { 0 };
    *e = (struct emulation){ .graph = tiny_graph_of(model, batch), .micros = micros };
    e->plan = tiny_plan(e->graph, &(struct tiny_choice){ .dp = 1, .tp = 1, .pp = 1, .micro = micros });
    e->program = tiny_lower(e->graph, e->plan, &error);
    ck_assert_msg(e->program != NULL, "%s", error.message);
    ck_assert(comm_threads_open(&e->transport, 1, &error));
    ck_assert(data_synthetic(&e->data, sample_shape_of(e->graph), 7, &error));
    e->options = options_of(&e->data);
    ck_assert(status_open(&e->options.status, NULL, 1, &error));
    ck_assert(rank_new(&e->rank, e->program, &e->transport, &e->options, &error));
    ck_assert_uint_gt(status_progress(e->options.status), 0); /* who makes weights is not stuck */
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

void emulation_close(struct emulation *e)
{
    for (int v = 0; v <= MAX_UPDATES; v++)
        free_arrays(e, e->version[v]);
    free_arrays(e, e->first), free_arrays(e, e->second), free_arrays(e, e->gradient);
    rank_free(e->rank);
    status_close(e->options.status);
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
        if (!e->graph->weights[w].frozen)
            memset(rank_data(e->rank, e->summed[w]), 0, (size_t)elements(e, w) * sizeof(real));
    }
    for (int i = 0; i < list->instr_count; i++)
        if (list->instrs[i].micro == micro)
            ck_assert(device_cpu.execute(e->rank, &list->instrs[i], NULL, &error));
    e->loss[step] += rank_loss(e->rank);
    for (int w = 0; w < e->graph->weight_count; w++) {
        if (e->graph->weights[w].frozen)
            continue;
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
        if (e->graph->weights[w].frozen) {
            memcpy(e->version[newest + 1][w], e->version[newest][w], (size_t)elements(e, w) * sizeof(real));
            continue;
        }
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

int emulate_pipedream(struct emulation *e, const struct plan *plan, bool vertical)
{
    int *used = calloc((size_t)e->graph->weight_count, sizeof *used), updates = 0;
    for (int step = 0; step < STEADY_STEPS; step++)
        for (int micro = 0; micro < e->micros; micro++, updates++) {
            for (int i = 0; i < e->graph->segment_count; i++)
                for (int k = 0; k < e->graph->segments[i].weight_count; k++) {
                    int stage = plan_stage_of_layer(plan, e->graph->segments[i].layer),
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
    for (int step = 0; step < STEADY_STEPS; step++) {
        for (int w = 0; w < e->graph->weight_count; w++)
            used[w] = step > 0 ? step - 1 : 0;
        for (int micro = 0; micro < e->micros; micro++)
            add_gradient(e, step, micro, used);
        update(e, step, run_learning_rate(&e->options, step + 1), 1, clip);
    }
    free(used);
    return STEADY_STEPS;
}

/* ---- the run ---- */
static void on_step(void *context, const struct run_step *step)
{
    ((struct steady_record *)context)->loss[step->step - 1] = step->loss;
}

static void on_weight(void *context, int rank, int buffer, const void *data)
{
    struct steady_record *r = context;
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
    if (geometry_rank_counts(r->program, b, local_rank))
        r->seen[b->id] += block_elements(&block);
    pthread_mutex_unlock(&r->mutex);
}

void run_steady(struct steady_record *r, const struct emulation *e, const struct program *program, int updates,
                bool tcp)
{
    struct error error = { 0 };
    struct transport transports[MAX_RANKS];
    struct run_options options = e->options;
    struct run_summary summary;
    int ranks = program->plan->rank_count;
    *r = (struct steady_record){ .program = program, .emulation = e, .updates = updates };
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

int emulate(struct emulation *e, const struct plan *plan)
{
    const char *name = schedules[plan->schedule]->name;
    bool vertical = strcmp(name, "pipedream-vertical") == 0;
    if (strcmp(name, "pipedream-2bw") == 0)
        return emulate_2bw(e, plan->clip_norm);
    ck_assert_msg(vertical || strcmp(name, "pipedream") == 0, "schedule %s: no emulation says what it computes", name);
    return emulate_pipedream(e, plan, vertical);
}

void check_steady(const struct steady_record *r, const struct emulation *e, const char *name)
{
    ck_assert_msg(r->worst < STEADY_TOLERANCE, "%s: weights differ by %g of their norm", name, r->worst);
    for (int s = 0; s < STEADY_STEPS; s++)
        ck_assert_msg(fabs(r->loss[s] - e->loss[s]) <= STEADY_TOLERANCE * e->loss[s],
                      "%s: loss of step %d: got %.17g, expected %.17g", name, s + 1, r->loss[s], e->loss[s]);
}
