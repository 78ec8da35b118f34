/* A run whose gradients, losses and weights are looked at: what one rank finds is written down, what others find is
 * held against it. */
#define _GNU_SOURCE
#include "tests/oracle_reference.h"
#include "base/num.h"
#include "executor/backends.h"
#include "executor/comm_threads.h"
#include "formats/plan_json.h"
#include "planner/program/geometry.h"
#include "planner/estimate/estimate.h"
#include "tests/tcp_ends.h"
#include <sched.h>
#include <stdio.h>

/* Of the 2-norms, by step. fp32 differs by the order of its sums: 1e-6 was seen in the first step. The first update of
 * AdamW is the rate times the gradient's sign, so an element whose gradient is no larger than its rounding may go the
 * other way, and the second step sees that: up to 1e-4 where a bias of 32 elements holds such a one, 3e-6 elsewhere. No
 * gradient is left out. That of a key bias is zero (it shifts all scores of a row alike), so all of it is rounding; it
 * counts as nothing beside SMALL_TENSOR of the whole gradient, and where it moves the bias nothing follows. */
const double TOLERANCE[STEPS] = { PRECISE ? 1e-10 : 1e-5, PRECISE ? 1e-10 : 1e-3 };
static const double SMALL_TENSOR = 1e-3;

static double squares(const double *data, int64_t count)
{
    double sum = 0;
    for (int64_t i = 0; i < count; i++)
        sum += data[i] * data[i];
    return sum;
}

/* Walks the rank's piece: the i-th element of data is global element `global`. Returns the squared difference. */
static double compare(struct watch *w, int64_t step, const struct buffer *buffer, int local_rank, const real *data,
                      int64_t *count)
{
    const struct weight *weight = &w->reference->graph->weights[buffer->id];
    double *want = w->reference->gradient[step][buffer->id], sum = 0;
    struct block block = buffer_block(w->program, buffer, local_rank);
    int index, pieces;
    geometry_flat_piece(w->program, buffer, local_rank, &index, &pieces);
    int64_t whole = block_elements(&block), first = pieces > 1 ? min_i64(whole, index * buffer_holds(buffer)) : 0;
    *count = pieces > 1 ? min_i64(buffer_holds(buffer), whole - first) : whole;
    for (int64_t i = 0; i < *count; i++) {
        int64_t rest = first + i, global = 0, stride = 1;
        for (int d = block.dim_count - 1; d >= 0; d--) {
            global += (block.low[d] + rest % block.count[d]) * stride;
            rest /= block.count[d];
            stride *= weight->size[d];
        }
        if (w->record)
            want[global] = data[i];
        else
            sum += (data[i] - want[global]) * (data[i] - want[global]);
    }
    return sum;
}

/* Ranks come in any order. */
static void add_bits(struct watch *w, uint64_t *sum, uint64_t number, const real *data, int64_t count)
{
    uint64_t hash = hash_bytes(number, data, (size_t)count * sizeof *data);
    pthread_mutex_lock(&w->mutex);
    *sum += mix64(hash);
    pthread_mutex_unlock(&w->mutex);
}

static void on_gradient(void *context, int64_t step, int rank, int buffer, const void *data)
{
    struct watch *w = context;
    const struct buffer *b = &w->program->buffers[buffer];
    int local_rank = rank - w->program->plan->stages[b->stage].first_rank;
    int64_t count;
    double difference = compare(w, step, b, local_rank, data, &count);
    if (w->bits)
        add_bits(w, &w->bits->gradients, (uint64_t)((step * MAX_RANKS + rank) * 100003 + buffer), data, count);
    if (w->record || w->bits)
        return;
    double bar = fmax(w->reference->norm[step][b->id], SMALL_TENSOR * w->reference->all[step]),
           error = sqrt(difference) / bar / TOLERANCE[step];
    pthread_mutex_lock(&w->mutex);
    if (geometry_rank_counts(w->program, b, local_rank))
        w->seen[step * w->reference->graph->weight_count + b->id] += count;
    if (!(error <= w->error)) {
        w->error = error;
        w->worst = b->id;
    }
    pthread_mutex_unlock(&w->mutex);
}

static void on_step(void *context, const struct run_step *step)
{
    ((struct watch *)context)->loss[step->step - 1] = step->loss;
}

static void on_weight(void *context, int rank, int buffer, const void *data)
{
    struct watch *w = context;
    add_bits(w, &w->bits->weights, (uint64_t)(rank * 100003 + buffer), data,
             buffer_holds(&w->program->buffers[buffer]));
}

/* ---- one plan ---- */
bool run_watched(struct watch *w, int mute_stage, int mute_instr, struct run_summary *summary, struct error *err)
{
    struct data data;
    struct transport transports[MAX_RANKS];
    struct run_options options = run_options_default();
    int ranks = w->program->plan->rank_count;
    ck_assert_int_le(ranks, MAX_RANKS);
    if (!data_synthetic(&data, sample_shape_of(w->program->graph), 7, err) ||
        !(w->over_tcp ? tcp_open_all(transports, ranks, ranks, err) : comm_threads_open(transports, ranks, err)))
        return false;
    options.step_count = STEPS;
    options.seed = 3;
    options.data = &data;
    options.learning_rate = 1e-2;
    options.poison = true;
    options.mute_stage = mute_stage, options.mute_instr = mute_instr;
    options.context = w;
    options.on_gradient = on_gradient;
    options.on_step = on_step;
    options.on_weight = w->bits ? on_weight : NULL;
    bool ok = run_program(summary, w->program, transports, ranks, &options, err);
    for (int r = ranks - 1; r >= 0; r--)
        transports[r].close(transports[r].self);
    data_free(&data);
    return ok;
}

/* True when nothing differs; else why says what. */
static bool agrees(const struct watch *w, const struct run_summary *summary, char *why, size_t room)
{
    const struct reference *r = w->reference;
    for (int s = 0; s < STEPS; s++) {
        if (!(fabs(w->loss[s] - r->loss[s]) <= TOLERANCE[s] * r->loss[s])) {
            snprintf(why, room, "loss of step %d: got %.17g, expected %.17g", s + 1, w->loss[s], r->loss[s]);
            return false;
        }
        for (int i = 0; i < r->graph->weight_count; i++) {
            const struct weight *weight = &r->graph->weights[i];
            int64_t seen = w->seen[s * r->graph->weight_count + i], all = weight_elements(weight);
            if (weight->frozen ? seen > 0 : seen < all) {
                snprintf(why, room, "%s weight %s: %lld of %lld elements were updated in step %d",
                         weight->frozen ? "frozen" : "trained", weight->name, (long long)seen, (long long)all, s + 1);
                return false;
            }
        }
    }
    if (!(w->error <= 1)) {
        snprintf(why, room, "gradient of %s: %g times the tolerance", r->graph->weights[w->worst].name, w->error);
        return false;
    }
    bool norm =
        w->program->plan->clip_norm == 0 || fabs(summary->squared_norm / r->squared_norm - 1) <= TOLERANCE[STEPS - 1];
    if (!norm)
        snprintf(why, room, "squared gradient norm: got %.17g, expected %.17g", summary->squared_norm, r->squared_norm);
    return norm;
}

bool run_and_compare(const struct reference *reference, const struct program *program, int mute_stage, int mute_instr,
                     char *why, size_t room)
{
    struct watch w = { .reference = reference, .program = program };
    struct run_summary summary;
    struct error error = { 0 };
    w.seen = calloc((size_t)(STEPS * reference->graph->weight_count), sizeof *w.seen);
    pthread_mutex_init(&w.mutex, NULL);
    bool ok = run_watched(&w, mute_stage, mute_instr, &summary, &error);
    if (ok) {
        ok = agrees(&w, &summary, why, room);
        run_summary_free(&summary);
    } else {
        snprintf(why, room, "%s", error.message);
    }
    pthread_mutex_destroy(&w.mutex);
    free(w.seen);
    return ok;
}

struct bits run_bits(const struct reference *reference, const struct program *program, bool over_tcp, int mute_stage,
                     int mute_instr)
{
    struct bits bits = { 0 };
    struct watch w = { .reference = reference, .program = program, .bits = &bits, .over_tcp = over_tcp };
    struct run_summary summary;
    struct error error = { 0 };
    pthread_mutex_init(&w.mutex, NULL);
    ck_assert_msg(run_watched(&w, mute_stage, mute_instr, &summary, &error), "%s", error.message);
    memcpy(bits.loss, w.loss, sizeof bits.loss);
    run_summary_free(&summary);
    pthread_mutex_destroy(&w.mutex);
    return bits;
}

static void fail_with_plan(const struct plan *plan, const char *model, uint64_t seed, const char *why)
{
    size_t length;
    char *text = plan_json_write(plan, NULL, NULL, &length);
    ck_abort_msg("%s, seed %llu: %s\n%s", model, (unsigned long long)seed, why, text ? text : "");
}

/* ---- lists of plans ---- */
bool is_drawn(int number)
{
    const char *sample = getenv("CLEAVE_ORACLE_SAMPLE");
    int every = sample && atoi(sample) > 1 ? atoi(sample) : 1;
    return number % every == (int)(mix64((uint64_t)(number / every)) % (uint64_t)every);
}

/* Models with frozen weights leave out what others do, and those that see differ in their kernels, so of their plans a
 * third is enough. */
bool whole_lists(void)
{
    return getenv("CLEAVE_ORACLE_WHOLE") != NULL;
}

bool is_sampled(const struct graph *graph)
{
    static int met;
    int number = met++;
    if ((graph->image_value >= 0 || graph_trainable_count(graph) < graph_parameter_count(graph)) &&
        mix64((uint64_t)number) % 3 != 0)
        return false;
    return is_drawn(number);
}

/* What the planner says each stage needs is between what the executor allocates and 2 % more. */
static bool keeps_promise(const struct reference *r, const struct program *program, char *why, size_t room)
{
    struct error error = { 0 };
    int64_t promised[MAX_RANKS];
    if (!estimate_plan_bytes(promised, r->model, program->plan, &error)) {
        snprintf(why, room, "%s", error.message);
        return false;
    }
    for (int s = 0; s < program->stage_count; s++) {
        int64_t arena = program->stages[s].arena_bytes;
        if (promised[s] >= arena && promised[s] <= arena + arena / 50)
            continue;
        snprintf(why, room, "stage %d: promised %lld bytes, arena %lld", s, (long long)promised[s], (long long)arena);
        return false;
    }
    return true;
}

void must_agree(const struct reference *reference, const struct plan *plan, uint64_t seed)
{
    struct error error = { 0 };
    char why[4096];
    struct program *program = tiny_lower(reference->graph, plan, &error);
    if (!program)
        fail_with_plan(plan, reference->graph->model_name, seed, error.message);
    else if (!keeps_promise(reference, program, why, sizeof why) ||
             !run_and_compare(reference, program, 0, -1, why, sizeof why))
        fail_with_plan(plan, reference->graph->model_name, seed, why);
    program_free(program);
}

void check_plan(const struct reference *reference, const struct plan *plan, uint64_t seed)
{
    if (is_sampled(reference->graph))
        must_agree(reference, plan, seed);
}

struct reference make_reference_of(const char *json, double clip, int batch, int vocab_multiple)
{
    struct reference r = { .model = tiny_model(json), .graph = tiny_graph_padded(json, batch, vocab_multiple) };
    struct plan *plan =
        tiny_plan(r.graph, &(struct tiny_choice){ .dp = 1, .tp = 1, .pp = 1, .micro = 1, .clip = clip });
    struct error error = { 0 };
    struct program *program = tiny_lower(r.graph, plan, &error);
    ck_assert_msg(program != NULL, "%s", error.message);
    for (int s = 0; s < STEPS; s++) {
        r.gradient[s] = calloc((size_t)r.graph->weight_count, sizeof *r.gradient[s]);
        r.norm[s] = calloc((size_t)r.graph->weight_count, sizeof *r.norm[s]);
        for (int i = 0; i < r.graph->weight_count; i++)
            r.gradient[s][i] = calloc((size_t)weight_elements(&r.graph->weights[i]), sizeof **r.gradient[s]);
    }
    struct watch w = { .reference = &r, .program = program, .record = true };
    struct run_summary summary;
    pthread_mutex_init(&w.mutex, NULL);
    ck_assert_msg(run_watched(&w, 0, -1, &summary, &error), "%s", error.message);
    r.squared_norm = summary.squared_norm;
    for (int s = 0; s < STEPS; s++) {
        r.loss[s] = w.loss[s];
        for (int i = 0; i < r.graph->weight_count; i++) {
            double sum = squares(r.gradient[s][i], weight_elements(&r.graph->weights[i]));
            r.norm[s][i] = sqrt(sum);
            r.all[s] += sum;
        }
        r.all[s] = sqrt(r.all[s]);
    }
    run_summary_free(&summary);
    pthread_mutex_destroy(&w.mutex);
    program_free(program);
    plan_free(plan);
    return r;
}

struct reference make_reference(const char *json, double clip)
{
    return make_reference_of(json, clip, TINY_BATCH, TINY_VOCAB_MULTIPLE);
}

void free_reference(struct reference *r)
{
    for (int s = 0; s < STEPS; s++) {
        for (int i = 0; i < r->graph->weight_count; i++)
            free(r->gradient[s][i]);
        free(r->gradient[s]);
        free(r->norm[s]);
    }
    graph_free(r->graph);
    model_free(r->model);
}

void must_agree_choice(const struct reference *reference, const struct tiny_choice *c)
{
    struct plan *plan = tiny_plan(reference->graph, c);
    struct error error = { 0 };
    ck_assert_msg(plan_check(plan, reference->graph, &error), "%s", error.message);
    must_agree(reference, plan, 0);
    plan_free(plan);
}

void check_choice(const struct reference *reference, const struct tiny_choice *c)
{
    if (is_sampled(reference->graph))
        must_agree_choice(reference, c);
}

/* ---- suites ---- */
void add_for_models(Suite *suite, const char *name, const TTest *test)
{
    TCase *one = tcase_create(name);
    tcase_set_timeout(one, 0);
    tcase_add_loop_test(one, test, 0, TINY_MODELS);
    suite_add_tcase(suite, one);
}

/* Ranks of so little work mostly wake each other, which costs 40 % less on one processor; the two precisions, which
 * tests run side by side, take different ones. */
static void stay_on_one_processor(void)
{
    cpu_set_t all, one;
    if (sched_getaffinity(0, sizeof all, &all) != 0)
        return;
    int wanted = PRECISE ? 0 : CPU_COUNT(&all) - 1;
    CPU_ZERO(&one);
    for (int core = 0, met = 0; core < CPU_SETSIZE && CPU_COUNT(&one) == 0; core++)
        if (CPU_ISSET(core, &all) && met++ == wanted)
            CPU_SET(core, &one);
    sched_setaffinity(0, sizeof one, &one);
}

int oracle_main(Suite *suite)
{
    stay_on_one_processor();
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
