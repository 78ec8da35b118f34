/* NCCL that refuses a call, fails later, hangs, stays in progress or never ends on the device, at each call of each
 * rank of a short run: the run ends, its message names the rank and the call, and nothing of the library's is left. */
#define _POSIX_C_SOURCE 200809L
#include "check.h"
#include "executor/comm_threads.h"
#include "executor/gpu/comm.h"
#include "executor/gpu/device.h"
#include "executor/run.h"
#include "host/clock.h"
#include "tests/emulated/emulated.h"
#include "tests/emulated/emulated_nccl.h"
#include "tiny_models.h"
#include <dirent.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

enum {
    RANKS = 4,
    STEPS = 2,
    TIMEOUT_S = 2,
    LATE_S = 4,
    WORKERS = 12,
    TRIES = 4,
    USUAL_STRIDE = 37,
    SHARE_STRIDE = 149
}; /* one more than a multiple of the ranks, which so take turns */

static const struct tiny_choice choice = {
    .dp = 2, .tp = 1, .pp = 2, .micro = 2, .tp_dim = DIM_tp, .clip = 1, .zero = 1
};
static const struct fate {
    const char *what, *seen; /* seen: in the message beside the rank's name */
} fates[CALL_FATE_COUNT] = {
    [CALL_REFUSED] = { "is refused", "invalid argument" },
    [CALL_FAILS_LATER] = { "fails later", "remote process exited" },
    [CALL_HANGS] = { "does not return", ", a call that does not return" },
    [CALL_STAYS] = { "stays in progress", ", a call that stays in progress" },
    [CALL_NEVER_ENDS] = { "never ends on the device", "no rank made progress" },
};

/* What all trials of a fate share. */
struct sweep {
    const struct graph *graph;
    const struct program *program;
    enum call_fate fate;
    int stride, first;
    _Atomic int next, trials; /* a trial's number is (call, rank) */
    _Atomic int64_t longest_ns;
    _Atomic int calls_over; /* ranks beyond whose last call a trial was, a bit each */
    pthread_mutex_t mutex;
    char wrong[ERROR_MESSAGE_BYTES + 256]; /* the first that did not hold */
};
struct trial {
    struct sweep *sweep;
    double timeout_s;
    struct emulated_nccl *shared;
};

static void must(bool holds) /* of a thread */
{
    if (!holds)
        abort();
}

static bool open_gpu(struct rank *rank, struct error *err)
{
    const struct trial *trial = rank->options->context;
    struct gpu gpu;
    struct nccl nccl;
    if (!gpu_emulated_open(&gpu, 1, 2, true, err))
        return false;
    gpu.device = rank->rank, gpu.device_count = RANKS;
    return emulated_nccl_open(&nccl, trial->shared, &gpu, rank->rank, err) && gpu_device_open(rank, &gpu, &nccl, err) &&
           gpu_comm_open(rank, err);
}

static const struct device device_nccl = { .name = "emulated", .open = open_gpu, GPU_DEVICE_FUNCTIONS };

/* A process ends here; ranks that are threads must come home. */
static void on_stuck(void *context, const struct error *error)
{
    (void)error;
    emulated_nccl_release(((struct trial *)context)->shared);
}

static bool run_once(struct trial *trial, struct error *err)
{
    const struct sweep *sweep = trial->sweep;
    struct error error = { 0 };
    struct transport transports[RANKS];
    struct run_summary summary;
    struct data data;
    must(comm_threads_open(transports, RANKS, &error) &&
         data_synthetic(&data, sample_shape_of(sweep->graph), 7, &error));
    struct run_options options = run_options_default();
    options.step_count = STEPS, options.seed = 3, options.timeout_s = trial->timeout_s;
    options.data = &data, options.device = &device_nccl;
    options.context = trial, options.on_stuck = on_stuck;
    for (int r = 0; r < RANKS; r++)
        transports[r].of_devices = true;
    bool ok = run_program(&summary, sweep->program, transports, RANKS, &options, err);
    if (ok)
        run_summary_free(&summary);
    for (int r = 0; r < RANKS; r++)
        transports[r].close(transports[r].self);
    data_free(&data);
    return ok;
}

/* Who must be named, and how. Of calls that stay in progress all are named, since NCCL connects ranks as they come: who
 * waits for the broken one may have waited longer. */
static bool is_told(const struct sweep *sweep, int rank, const char *function, const char *message)
{
    char who[64], what[64];
    const bool says = sweep->fate == CALL_REFUSED || sweep->fate == CALL_FAILS_LATER;
    const bool leaves = sweep->fate == CALL_HANGS && !strcmp(function, "leave"); /* which may wait for others, too */
    const bool first = says || sweep->fate == CALL_HANGS;
    snprintf(who, sizeof who, says ? "rank %d: " : "rank %d (stage %d): step", rank,
             plan_stage_of_rank(sweep->program->plan, rank));
    snprintf(what, sizeof what, "emulated NCCL: %s: ", function);
    const char *found = strstr(message, who), *any = strstr(message, "rank ");
    if (any && strncmp(any, "rank made", 9) == 0)
        any = strstr(any + 1, "rank ");
    const char *seen = found && sweep->fate == CALL_STAYS ? strstr(found, fates[sweep->fate].seen) : NULL;
    if (sweep->fate == CALL_STAYS && (!seen || memchr(found, ';', (size_t)(seen - found))))
        return false; /* it is said of another */
    return found && (!first || found == any) &&
           strstr(message, leaves ? ", leaving a communicator" : fates[sweep->fate].seen) &&
           (!says || strstr(message, what));
}

static void note_wrong(struct sweep *sweep, int call, int rank, const char *function, const char *what)
{
    pthread_mutex_lock(&sweep->mutex);
    if (!sweep->wrong[0])
        snprintf(sweep->wrong, sizeof sweep->wrong, "call %d of rank %d (%s) %s: %s", call, rank, function,
                 fates[sweep->fate].what, what);
    pthread_mutex_unlock(&sweep->mutex);
}

/* Where the call did not come because the run had ended before, or all took long, on a machine that had no time for it,
 * false; then once more, and for a call that did not come with a longer timeout. How long it took is told as if that
 * were the usual one. */
static bool try_call(struct sweep *sweep, int call, int rank, double *timeout_s, bool last)
{
    struct trial trial = { .sweep = sweep, .timeout_s = *timeout_s };
    struct error error = { 0 };
    must(emulated_nccl_new(&trial.shared, RANKS, &error));
    emulated_nccl_break(trial.shared, rank, call, sweep->fate);
    const int64_t before_ns = clock_now_ns();
    const bool ok = run_once(&trial, &error);
    const int waits = sweep->fate == CALL_HANGS ? 2 : sweep->fate == CALL_STAYS || sweep->fate == CALL_NEVER_ENDS;
    const int64_t took_ns = clock_now_ns() - before_ns - (int64_t)(1e9 * waits * (*timeout_s - TIMEOUT_S));
    const char *function = emulated_nccl_broken(trial.shared), *misuse = emulated_nccl_misuse(trial.shared);
    const bool late = (!function && !ok) || (!last && took_ns > (int64_t)(1e9 * (waits * TIMEOUT_S + LATE_S)));
    if (!function && !ok)
        *timeout_s *= 2;
    if (late && last) {
        note_wrong(sweep, call, rank, "none", error.message);
    } else if (!late && !function) {
        if (ok)
            atomic_fetch_or(&sweep->calls_over, 1 << rank);
    } else if (!late) {
        if (ok || !is_told(sweep, rank, function, error.message))
            note_wrong(sweep, call, rank, function, ok ? "the run went on" : error.message);
        if (misuse)
            note_wrong(sweep, call, rank, function, misuse);
        int64_t longest_ns = atomic_load(&sweep->longest_ns);
        while (took_ns > longest_ns && !atomic_compare_exchange_weak(&sweep->longest_ns, &longest_ns, took_ns))
            continue;
        atomic_fetch_add(&sweep->trials, 1);
    }
    emulated_nccl_free(trial.shared);
    return !late;
}

static void *work(void *argument)
{
    struct sweep *sweep = argument;
    while (atomic_load(&sweep->calls_over) != (1 << RANKS) - 1) {
        int number = sweep->first + sweep->stride * atomic_fetch_add(&sweep->next, 1), rank = number % RANKS;
        double timeout_s = TIMEOUT_S;
        for (int again = 0; again < TRIES && !(atomic_load(&sweep->calls_over) >> rank & 1); again++)
            if (try_call(sweep, number / RANKS, rank, &timeout_s, again + 1 == TRIES))
                break;
    }
    return NULL;
}

static int thread_count(void)
{
    DIR *folder = opendir("/proc/self/task");
    int count = 0;
    while (folder && readdir(folder))
        count++;
    if (folder)
        closedir(folder);
    return count;
}

/* benchmarks/run_reliability counts what was tried by these lines. */
START_TEST(a_broken_call_ends_the_run)
{
    struct error error = { 0 };
    struct graph *graph = tiny_graph(tiny_models[0]);
    struct plan *plan = tiny_plan(graph, &choice);
    plan->dtype = DTYPE_FP32;
    struct program *program = tiny_lower(graph, plan, &error);
    ck_assert_msg(program && plan->rank_count == RANKS, "%s", error.message);
    struct sweep sweep = { .graph = graph, .program = program, .fate = (enum call_fate)_i, .stride = USUAL_STRIDE };
    const char *stride = getenv("CLEAVE_TEST_NCCL_STRIDE"); /* 1: every call, for minutes */
    if (stride || share_stride() > 1)
        sweep.stride = stride ? RANKS * (atoi(stride) / RANKS) + 1 : SHARE_STRIDE, sweep.first = 5 * _i;
    pthread_mutex_init(&sweep.mutex, NULL);
    const int before = thread_count();
    pthread_t workers[WORKERS]; /* most of the time they wait */
    for (int w = 0; w < WORKERS; w++)
        ck_assert_int_eq(pthread_create(&workers[w], NULL, work, &sweep), 0);
    for (int w = 0; w < WORKERS; w++)
        pthread_join(workers[w], NULL);
    printf("trials: NCCL, at each call of each rank, that %s: %d; at most %.1f s\n", fates[_i].what,
           atomic_load(&sweep.trials), 1e-9 * (double)atomic_load(&sweep.longest_ns));
    ck_assert_msg(!sweep.wrong[0], "%s", sweep.wrong);
    ck_assert_int_gt(atomic_load(&sweep.trials), 0);
    ck_assert_int_eq(thread_count(), before);
    program_free(program);
    plan_free(plan);
    graph_free(graph);
}
END_TEST

static Suite *nccl_faults_suite(void)
{
    Suite *suite = suite_create("nccl_faults");
    CHECK_ADD_LOOP(suite, a_broken_call_ends_the_run, CALL_FATE_COUNT);
    return suite;
}

CHECK_MAIN(nccl_faults_suite)
