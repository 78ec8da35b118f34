/* The run loop in single precision: losses, repeatability, memory, timelines, and how a run ends when a rank does not.
 */
#define _GNU_SOURCE
#include "tests/check.h"
#include "base/num.h"
#include "executor/backends.h"
#include "executor/comm_threads.h"
#include "executor/kernel.h"
#include "executor/run.h"
#include "executor/step_times.h"
#include "host/catalogue.h"
#include "tests/tiny_models.h"
#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>

enum { MAX_RANKS = 8, STEPS = 10 };

/* Every allocation of this program passes here, where the C library lets it. */
#if defined(__GLIBC__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define COUNTS_ALLOCATIONS 1
void *__libc_malloc(size_t size);
void *__libc_calloc(size_t count, size_t size);
void *__libc_realloc(void *memory, size_t size);
static atomic_llong allocation_count;
/* Some of OpenBLAS's matrix kernels (those for AVX-512 among them) take a workspace by malloc in each call: named, and
 * not ours. */
static bool is_blas(void *caller)
{
    Dl_info info;
    return dladdr(caller, &info) && info.dli_fname && strstr(info.dli_fname, "blas");
}
void *malloc(size_t size)
{
    if (!is_blas(__builtin_return_address(0)))
        atomic_fetch_add(&allocation_count, 1);
    return __libc_malloc(size);
}
void *calloc(size_t count, size_t size)
{
    atomic_fetch_add(&allocation_count, 1);
    return __libc_calloc(count, size);
}
void *realloc(void *memory, size_t size)
{
    atomic_fetch_add(&allocation_count, 1);
    return __libc_realloc(memory, size);
}
#endif

struct record {
    double loss[STEPS];
    uint64_t weights[MAX_RANKS]; /* hash of the rank's weights */
};

static void on_step(void *context, const struct run_step *step)
{
    ((struct record *)context)->loss[step->step - 1] = step->loss;
}

struct job {
    struct graph *graph;
    struct plan *plan;
    struct program *program;
    struct data data;
    struct transport transports[MAX_RANKS];
    struct run_options options;
    struct record record;
    struct run_summary summary;
    struct error error;
};
static struct job *current; /* the test's; on_weight has no other way to the sizes */

static void on_weight(void *context, int rank, int buffer, const void *data)
{
    struct record *record = context;
    record->weights[rank] = hash_bytes(record->weights[rank], data, (size_t)current->program->buffers[buffer].bytes);
}

static void job_open(struct job *job, const char *model, const struct tiny_choice *choice)
{
    memset(job, 0, sizeof *job);
    job->graph = tiny_graph(model);
    job->plan = tiny_plan(job->graph, choice);
    job->program = tiny_lower(job->graph, job->plan, &job->error);
    ck_assert_msg(job->program != NULL, "%s", job->error.message);
    ck_assert(comm_threads_open(job->transports, job->plan->rank_count, &job->error));
    ck_assert_msg(data_synthetic(&job->data, sample_shape_of(job->graph), 7, &job->error), "%s", job->error.message);
    job->options = run_options_default();
    job->options.step_count = STEPS;
    job->options.seed = 3;
    job->options.learning_rate = 1e-3;
    job->options.data = &job->data;
    job->options.context = &job->record;
    job->options.on_step = on_step;
    job->options.on_weight = on_weight;
    job->options.poison = true;
    current = job;
}

static bool job_run(struct job *job)
{
    return run_program(&job->summary, job->program, job->transports, job->plan->rank_count, &job->options, &job->error);
}

static void job_close(struct job *job)
{
    for (int r = 0; r < job->plan->rank_count; r++)
        job->transports[r].close(job->transports[r].self);
    run_summary_free(&job->summary);
    data_free(&job->data);
    program_free(job->program);
    plan_free(job->plan);
    graph_free(job->graph);
}

static const struct tiny_choice choices[] = {
    { .dp = 1, .tp = 1, .pp = 1, .micro = 1, .tp_dim = DIM_tp, .clip = 1 },
    { .dp = 4, .tp = 1, .pp = 1, .micro = 1, .tp_dim = DIM_tp, .clip = 1, .bucket = 1 << 14, .loss_chunks = 4 },
    { .dp = 2, .tp = 2, .pp = 2, .micro = 2, .tp_dim = DIM_tp_sp, .clip = 1, .zero = 1 },
    { .dp = 2, .tp = 1, .pp = 3, .micro = 4, .tp_dim = DIM_tp, .clip = 1, .zero = 2, .recompute = RECOMPUTE_FULL },
    { .dp = 4,
      .tp = 2,
      .pp = 1,
      .micro = 2,
      .tp_dim = DIM_tp,
      .clip = 1,
      .zero = 3,
      .prefetch = 1,
      .recompute = RECOMPUTE_SELECTIVE },
    { .dp = 2, .tp = 1, .pp = 2, .micro = 4, .tp_dim = DIM_tp, .clip = 1, .named = "interleaved", .chunks = 3 },
    { .dp = 1, .tp = 2, .pp = 3, .micro = 4, .tp_dim = DIM_tp_sp, .clip = 1, .named = "zb-h1", .zero = 1 },
    { .dp = 2, .tp = 1, .pp = 4, .micro = 8, .tp_dim = DIM_tp, .clip = 1, .named = "chimera", .chunks = 2, .zero = 2 },
    { .dp = 1, .tp = 1, .pp = 3, .micro = 8, .tp_dim = DIM_tp, .clip = 1, .turns = { 3, 1, 2 }, .loss_chunks = 4 },
    { .dp = 1, .tp = 1, .pp = 2, .micro = 2, .tp_dim = DIM_tp, .clip = 1, .outer = { 4, 2 }, .zero = 2 },
};
enum { CHOICES = sizeof choices / sizeof *choices };

/* Of a small share losses_after_ten_steps_agree runs all of them once; what else is asked of a run is asked of every
 * fourth, of others by each test. */
static int choice_stride(void)
{
    return small_share() ? 4 : 1;
}

static int first_choice(int test)
{
    return small_share() ? test : 0;
}

START_TEST(losses_after_ten_steps_agree)
{
    for (int m = 0; m < TINY_MODELS; m += share_stride()) {
        double single[STEPS] = { 0 };
        for (int c = 0; c < CHOICES; c++) {
            struct job job;
            job_open(&job, tiny_models[m], &choices[c]);
            ck_assert_msg(job_run(&job), "%s", job.error.message);
            if (c == 0)
                memcpy(single, job.record.loss, sizeof single);
            for (int s = 0; s < STEPS; s++)
                CHECK_NEAR(job.record.loss[s], single[s], 1e-4 * single[s]);
            job_close(&job);
        }
        ck_assert_double_lt(single[STEPS - 1], single[0]); /* it learns */
    }
}
END_TEST

/* Of a token that is no target some samples have more than others, so that ranks and micro-batches have unequal numbers
 * of targets: the loss is still the mean of all. */
START_TEST(unequal_numbers_of_targets_have_one_mean)
{
    double single[STEPS] = { 0 };
    for (int c = first_choice(0); c < CHOICES; c += choice_stride()) {
        struct job job;
        job_open(&job, tiny_models[0], &choices[c]);
        ck_assert_msg(data_ignore(&job.data, job.data.bytes[0], &job.error), "%s", job.error.message);
        int64_t batch = job.graph->batch, all = batch * job.graph->sequence,
                some = data_target_count(&job.data, 0, batch), first = data_target_count(&job.data, 0, 1);
        ck_assert(some < all && first * batch != some); /* the first sample has not as many as the others */
        ck_assert_msg(job_run(&job), "%s", job.error.message);
        if (c == 0)
            memcpy(single, job.record.loss, sizeof single);
        for (int s = 0; s < STEPS; s++)
            CHECK_NEAR(job.record.loss[s], single[s], 1e-4 * single[s]);
        job_close(&job);
    }
    struct job job;
    job_open(&job, tiny_models[0], &choices[0]);
    ck_assert_msg(job_run(&job), "%s", job.error.message);
    ck_assert_double_ne(job.record.loss[0], single[0]);
    job_close(&job);
}
END_TEST

/* A choice without a slot ends the run of a description that promised none, on every rank, and names layer and number.
 */
START_TEST(overflow_is_an_error_without_drops)
{
    static const struct tiny_choice both[] = { { .dp = 1, .tp = 1, .pp = 1, .micro = 1 },
                                               { .dp = 2, .tp = 4, .pp = 1, .micro = 1, .tp_dim = DIM_ep } };
    for (int c = 0; c < 2; c++) {
        struct job job;
        job_open(
            &job,
            TINY_EXPERTS("tight",
                         "2, \"group\": 4, \"activation\": \"gelu\", \"capacity_factor\": 1, \"dropless\": true, "),
            &both[c]);
        ck_assert(!job_run(&job));
        ck_assert_int_eq(job.error.kind, ERROR_INPUT);
        ck_assert_msg(strstr(job.error.message, "layer 2.moe") &&
                          strstr(job.error.message, "choices of tokens found no") &&
                          strstr(job.error.message, "raise the layer's capacity_factor"),
                      "%s", job.error.message);
        job_close(&job);
    }
}
END_TEST

/* Room for any imbalance or for that which comes: the same bits. Where room is short choices are dropped. */
START_TEST(spare_slots_change_nothing)
{
    static const struct tiny_choice choice = { .dp = 2, .tp = 2, .pp = 1, .micro = 2, .tp_dim = DIM_ep, .clip = 1 };
    static const char *const models[] = {
        TINY_EXPERTS("wide",
                     "1, \"activation\": \"gelu\", \"capacity_factor\": 4, \"dropless\": true, "), /* 8 of 8 tokens */
        TINY_EXPERTS("narrow", "1, \"activation\": \"gelu\", \"capacity_factor\": 3, \"dropless\": true, "),
        TINY_EXPERTS("drops", "1, \"activation\": \"gelu\", \"capacity_factor\": 1, "),
    };
    struct record first = { { 0 }, { 0 } };
    for (int m = 0; m < 3; m++) {
        struct job job;
        job_open(&job, models[m], &choice);
        ck_assert_msg(job_run(&job), "%s", job.error.message);
        if (m == 0)
            first = job.record;
        ck_assert_int_eq(memcmp(&first, &job.record, sizeof first) == 0, m < 2);
        ck_assert_int_gt(job.summary.choices, 0);
        ck_assert_int_lt(job.summary.dropped, job.summary.choices);
        ck_assert_int_eq(job.summary.dropped == 0, m < 2);
        job_close(&job);
    }
}
END_TEST

START_TEST(runs_repeat_bit_by_bit)
{
    for (int c = first_choice(1); c < CHOICES; c += choice_stride()) {
        struct record first = { { 0 }, { 0 } };
        for (int k = 0; k < 3; k++) {
            struct job job;
            job_open(&job, tiny_models[0], &choices[c]);
            ck_assert_msg(job_run(&job), "%s", job.error.message);
            if (k == 0)
                first = job.record;
            ck_assert_int_eq(memcmp(&first, &job.record, sizeof first), 0);
            job_close(&job);
        }
    }
}
END_TEST

/* With replicated weights, all replicas stay equal to the last bit; also those that saw different numbers of
 * micro-batches. */
START_TEST(replicas_stay_equal)
{
    static const struct tiny_choice uneven = {
        .dp = 1, .tp = 1, .pp = 2, .micro = 8, .tp_dim = DIM_tp, .clip = 1, .turns = { 3, 5 }
    };
    struct job job;
    job_open(&job, tiny_models[2], &choices[1]);
    ck_assert_msg(job_run(&job), "%s", job.error.message);
    for (int r = 1; r < job.plan->rank_count; r++)
        ck_assert_uint_eq(job.record.weights[r], job.record.weights[0]);
    job_close(&job);
    job_open(&job, tiny_models[2], &uneven);
    ck_assert_msg(job_run(&job), "%s", job.error.message);
    for (int r = 1; r < 8; r++)
        if (r != 3) /* the first of the other stage */
            ck_assert_uint_eq(job.record.weights[r], job.record.weights[r < 3 ? 0 : 3]);
    ck_assert_uint_ne(job.record.weights[3], job.record.weights[0]);
    job_close(&job);
}
END_TEST

START_TEST(arenas_are_used_and_not_exceeded)
{
    for (int c = first_choice(3); c < CHOICES; c += choice_stride()) {
        struct job job;
        job_open(&job, tiny_models[0], &choices[c]);
        ck_assert_msg(job_run(&job), "%s", job.error.message);
        for (int r = 0; r < job.plan->rank_count; r++) {
            int64_t arena = job.program->stages[plan_stage_of_rank(job.plan, r)].arena_bytes;
            ck_assert_int_le(job.summary.peak_bytes[r], arena);
            ck_assert_int_ge(job.summary.peak_bytes[r], arena / 2);
        }
        job_close(&job);
    }
}
END_TEST

START_TEST(measured_spans_keep_lanes_and_waits)
{
    for (int c = first_choice(2); c < CHOICES; c += choice_stride()) {
        struct job job;
        job_open(&job, tiny_models[0], &choices[c]);
        ck_assert_msg(job_run(&job), "%s", job.error.message);
        const struct timeline *t = job.summary.timeline;
        ck_assert_int_eq(t->rank_count, job.plan->rank_count);
        for (int r = 0; r < t->rank_count; r++) {
            const struct stage_program *stage = &job.program->stages[t->ranks[r].stage];
            int64_t free_ns[LANE_COUNT] = { 0 };
            for (int i = 0; i < stage->instr_count; i++) {
                const struct span *span = &t->ranks[r].spans[i];
                const struct instr *instr = &stage->instrs[i];
                ck_assert_int_ge(span->start_ns, free_ns[instr->lane]);
                ck_assert_int_le(span->finish_ns, t->step_ns);
                for (int w = 0; w < instr->wait_count; w++)
                    ck_assert_int_ge(span->start_ns, t->ranks[r].spans[stage->waits[instr->wait_first + w]].finish_ns);
                free_ns[instr->lane] = span->finish_ns;
            }
        }
        ck_assert_int_gt(job.summary.step_ns_median, 0);
        job_close(&job);
    }
}
END_TEST

#ifdef COUNTS_ALLOCATIONS
struct allocations {
    long long at[STEPS];
};

static void note_allocations(void *context, const struct run_step *step)
{
    ((struct allocations *)context)->at[step->step - 1] = atomic_load(&allocation_count);
}

/* Between the ends of steps 3 and 9, on all ranks; the first steps warm libraries up, and in the last some ranks
 * collect reports. */
START_TEST(steps_allocate_nothing)
{
    for (int c = 0; c < CHOICES; c++) {
        struct job job;
        struct allocations seen;
        job_open(&job, tiny_models[2], &choices[c]);
        job.options.context = &seen, job.options.on_step = note_allocations, job.options.on_weight = NULL;
        ck_assert_msg(job_run(&job), "%s", job.error.message);
        ck_assert_int_gt(seen.at[0], 0);
        ck_assert_int_eq(seen.at[STEPS - 2] - seen.at[2], 0);
        job_close(&job);
    }
}
END_TEST
#endif

/* ---- how runs end ---- */
static bool broken_execute(struct rank *rank, const struct instr *instr, struct span *span, struct error *err)
{
    if (instr->op == OP_COMPUTE && instr->phase == PHASE_BACKWARD_INPUT && instr->layer == 2)
        return fail_kind(err, ERROR_ENVIRONMENT, "the device broke");
    return device_cpu.execute(rank, instr, span, err);
}

START_TEST(a_failing_rank_ends_all)
{
    const struct device broken = { .name = "broken", .execute = broken_execute, .computes = true };
    for (int c = 0; c < CHOICES; c++) {
        struct job job;
        job_open(&job, tiny_models[0], &choices[c]);
        job.options.device = &broken;
        ck_assert(!job_run(&job));
        ck_assert_int_eq(job.error.kind, ERROR_ENVIRONMENT);
        ck_assert_msg(strncmp(job.error.message, "rank ", 5) == 0 &&
                          strstr(job.error.message, "step 1, instruction ") &&
                          strstr(job.error.message, "compute: the device broke"),
                      "%s", job.error.message);
        job_close(&job);
    }
}
END_TEST

/* A rank that hangs: its 20th exchange waits for a message that nobody sends. */
struct hanging {
    struct transport inner;
    pthread_mutex_t mutex;
    int left;
};

static bool hanging_exchange(void *self, enum lane lane, int to, const void *send, size_t send_bytes, int from,
                             void *receive, size_t receive_bytes, struct error *err)
{
    struct hanging *h = self;
    pthread_mutex_lock(&h->mutex);
    bool hangs = h->left-- == 0;
    pthread_mutex_unlock(&h->mutex);
    char never;
    if (hangs)
        return h->inner.exchange(h->inner.self, LANE_COPY_OUT, -1, NULL, 0, 0, &never, 1, err);
    return h->inner.exchange(h->inner.self, lane, to, send, send_bytes, from, receive, receive_bytes, err);
}

static void hanging_abort(void *self)
{
    struct hanging *h = self;
    h->inner.abort(h->inner.self);
}

START_TEST(a_hanging_rank_ends_all_and_is_described)
{
    struct job job;
    job_open(&job, tiny_models[0], &choices[2]);
    struct hanging hanging = { .inner = job.transports[3], .mutex = PTHREAD_MUTEX_INITIALIZER, .left = 20 };
    struct transport ends[MAX_RANKS];
    memcpy(ends, job.transports, sizeof ends);
    ends[3].self = &hanging, ends[3].exchange = hanging_exchange, ends[3].abort = hanging_abort;
    job.options.timeout_s = 2; /* longer than a loaded machine lets all ranks wait */
    ck_assert(!run_program(&job.summary, job.program, ends, job.plan->rank_count, &job.options, &job.error));
    ck_assert_msg(strstr(job.error.message, "no rank made progress for 2 s") &&
                      strstr(job.error.message, "rank 3 (stage 0): step ") && strstr(job.error.message, "instruction "),
                  "%s", job.error.message);
    job_close(&job);
}
END_TEST

START_TEST(unfit_plans_are_refused)
{
    struct job job;
    job_open(&job, tiny_models[0], &choices[1]);
    struct transport few = job.transports[0];
    few.rank_count = 3;
    ck_assert(!run_program(&job.summary, job.program, &few, 1, &job.options, &job.error));
    ck_assert_str_eq(job.error.message, "the plan is for 4 ranks, the run has 3: start it with -n 4");
    job.plan->dtype = DTYPE_BF16;
    job.error = (struct error){ 0 };
    ck_assert(!job_run(&job));
    ck_assert_ptr_nonnull(strstr(job.error.message, "--dtype fp"));
    job_close(&job);
}
END_TEST

/* ---- the timed device: an opaque model, more ranks than cores ---- */
static const char opaque[] =
    "{\"format\": \"cleave-model\", \"version\": 1, \"name\": \"opaque\", \"sequence\": 1, \"layers\": [{\"repeat\": "
    "8, \"layers\": ["
    "{\"kind\": \"opaque\", \"name\": \"part\", \"forward_us\": 500, \"backward_us\": 1000, \"parameters\": 1000, "
    "\"activation_elements\": 1000}]}]}";

START_TEST(timed_runs_last_as_long_as_their_work)
{
    struct model *model;
    struct graph *graph;
    struct error error = { 0 };
    if (!model_read(&model, "opaque", opaque, strlen(opaque), NULL, &error))
        ck_abort_msg("%s", error.message);
    ck_assert_msg(graph_build(&graph, model, TINY_BATCH, 0, 1, &error), "%s", error.message);
    struct plan *plan = tiny_plan(graph, &(struct tiny_choice){ .dp = 1, .tp = 1, .pp = 4, .micro = 4 });
    plan->sequence = graph->sequence, plan->vocab_multiple = 1;
    ck_assert_msg(plan_check(plan, graph, &error), "%s", error.message);
    struct program *program = tiny_lower(graph, plan, &error);
    ck_assert_msg(program != NULL, "%s", error.message);
    struct catalogue *catalogue;
    struct cluster *cluster;
    ck_assert_msg(catalogue_read(&catalogue, SOURCE_ROOT "/planner/facts/devices", &error) &&
                      cluster_read(&cluster, "1x4:cpu", "1x4:cpu", strlen("1x4:cpu"), catalogue->entries,
                                   catalogue->count, &error),
                  "%s", error.message);
    struct facts facts = { .cluster = cluster };
    struct transport transports[4];
    struct run_options options = run_options_default();
    struct run_summary summary;
    ck_assert(comm_threads_open(transports, 4, &error));
    options.device = &device_timed, options.facts = &facts, options.step_count = 3;
    ck_assert_msg(run_program(&summary, program, transports, 4, &options, &error), "%s", error.message);
    int64_t work_ns = 0;
    for (int i = 0; i < program->stages[0].instr_count; i++)
        if (program->stages[0].instrs[i].lane == LANE_COMPUTE)
            work_ns += cost_instr_ns(&facts, program, 0, &program->stages[0].instrs[i]);
    /* 2 layers, batch of 8 sequences: 8 x 2 x 1.5 ms */
    ck_assert_int_ge(work_ns, 24000000);
    ck_assert_int_ge(summary.step_ns_median, work_ns);
    ck_assert(!summary.has_loss && isnan(summary.last_loss));
    run_summary_free(&summary);
    for (int r = 0; r < 4; r++)
        transports[r].close(transports[r].self);
    program_free(program);
    plan_free(plan);
    graph_free(graph);
    model_free(model);
    cluster_free(cluster);
    catalogue_free(catalogue);
}
END_TEST

static bool stop_after_two(void *context, int64_t step, const struct timeline *timeline)
{
    (void)context, (void)timeline;
    return step < 2;
}

START_TEST(learning_rates_follow_their_curve)
{
    struct run_options o = run_options_default();
    o.learning_rate = 1, o.floor_rate = 0.1, o.warmup_steps = 10, o.decay_steps = 110;
    CHECK_NEAR(run_learning_rate(&o, 1), 0.1, 1e-15);
    CHECK_NEAR(run_learning_rate(&o, 10), 1, 1e-15);
    CHECK_NEAR(run_learning_rate(&o, 60), 0.55, 1e-12);
    CHECK_NEAR(run_learning_rate(&o, 110), 0.1, 1e-15);
    CHECK_NEAR(run_learning_rate(&o, 1000), 0.1, 1e-15);
    o.warmup_steps = o.decay_steps = 0;
    CHECK_NEAR(run_learning_rate(&o, 1), 1, 0);
}
END_TEST

/* ---- backends ---- */
/* Up to the array's size the median is that of all; beyond, the kept ones are every stride-th, all of them. */
START_TEST(step_times_keep_an_even_sample)
{
    static const int counts[] = { 1, 2, 7, STEP_TIMES_MOST - 1, STEP_TIMES_MOST, 3 * STEP_TIMES_MOST, 1000000 };
    struct step_times *times = calloc(1, sizeof *times);
    for (size_t c = 0; c < sizeof counts / sizeof *counts; c++) {
        memset(times, 0, sizeof *times);
        for (int i = 0; i < counts[c]; i++) /* rising, so that what was kept says when it was added */
            step_times_add(times, i);
        int64_t stride = times->count > 1 ? times->ns[1] : 1;
        ck_assert_int_eq(times->added, counts[c]);
        ck_assert_int_lt(times->count, STEP_TIMES_MOST);
        ck_assert(counts[c] >= STEP_TIMES_MOST ? times->count >= STEP_TIMES_MOST / 2 : times->count == counts[c]);
        for (int i = 0; i < times->count; i++)
            ck_assert_int_eq(times->ns[i], i * stride);
        ck_assert_int_ge((times->count + 1) * stride, counts[c]); /* to the end */
        ck_assert_int_eq(step_times_median(times), times->count / 2 * stride);
        ck_assert_int_le(llabs(times->ns[times->count / 2] - counts[c] / 2), stride);
    }
    memset(times, 0, sizeof *times);
    for (int i = 0; i < 5; i++)
        step_times_add(times, (int64_t[]){ 9, 2, 7, 4, 5 }[i]);
    ck_assert_int_eq(step_times_median(times), 5);
    free(times);
}
END_TEST

/* Memory does not depend on the number of steps that is asked for. */
START_TEST(steps_without_end_begin)
{
    struct job job;
    job_open(&job, tiny_models[0], &choices[0]);
    job.options.step_count = INT64_C(1) << 62;
    job.options.on_timeline = stop_after_two;
    ck_assert_msg(
        run_program(&job.summary, job.program, job.transports, job.plan->rank_count, &job.options, &job.error), "%s",
        job.error.message);
    ck_assert_int_eq(job.summary.last_step, 2);
    ck_assert_int_gt(job.summary.step_ns_median, 0);
    job_close(&job);
}
END_TEST

START_TEST(absent_backends_say_why)
{
    struct error error = { 0 };
    ck_assert_ptr_eq(device_find("cpu", &error), &device_cpu);
    ck_assert_ptr_null(device_find("cpuu", &error));
    ck_assert_msg(strstr(error.message, "backend: expected one of cpu, ") && strstr(error.message, "did you mean cpu?"),
                  "%s", error.message);
    error = (struct error){ 0 };
    ck_assert(transport_available("threads", NULL, &error));
    ck_assert(!transport_available("mpi", "/nonexistent", &error));
    ck_assert_msg(strstr(error.message, "transport mpi is absent: /nonexistent/cleave-mpi.so") != NULL, "%s",
                  error.message);
}
END_TEST

static Suite *run_suite(void)
{
    Suite *suite = suite_create("run");
    CHECK_ADD(suite, losses_after_ten_steps_agree);
    CHECK_ADD(suite, unequal_numbers_of_targets_have_one_mean);
    CHECK_ADD(suite, overflow_is_an_error_without_drops);
    CHECK_ADD(suite, spare_slots_change_nothing);
    CHECK_ADD(suite, runs_repeat_bit_by_bit);
    CHECK_ADD(suite, replicas_stay_equal);
    CHECK_ADD(suite, arenas_are_used_and_not_exceeded);
    CHECK_ADD(suite, measured_spans_keep_lanes_and_waits);
#ifdef COUNTS_ALLOCATIONS
    CHECK_ADD(suite, steps_allocate_nothing);
#endif
    CHECK_ADD(suite, a_failing_rank_ends_all);
    CHECK_ADD(suite, a_hanging_rank_ends_all_and_is_described);
    CHECK_ADD(suite, unfit_plans_are_refused);
    CHECK_ADD(suite, timed_runs_last_as_long_as_their_work);
    CHECK_ADD(suite, learning_rates_follow_their_curve);
    CHECK_ADD(suite, absent_backends_say_why);
    CHECK_ADD(suite, step_times_keep_an_even_sample);
    CHECK_ADD(suite, steps_without_end_begin);
    return suite;
}
CHECK_MAIN(run_suite)
