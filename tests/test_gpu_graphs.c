/* Steps of several ranks as graphs, on emulated GPUs that run what a graph holds in any order that it allows, one task
 * behind another: they are the steps that are queued, bit by bit; a call that fails or never ends in one ends the run;
 * calls that are not ordered among themselves do not end. */
#define _POSIX_C_SOURCE 200809L
#include "check.h"
#include "executor/comm_threads.h"
#include "executor/gpu/comm.h"
#include "executor/gpu/device.h"
#include "executor/run.h"
#include "planner/program/rendezvous.h"
#include "tests/emulated/emulated.h"
#include "tests/emulated/emulated_nccl.h"
#include "tiny_models.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_RANKS = 8, STEPS = 5, AFTER = 1 }; /* AFTER: steps of a run that goes on */
static const double PATIENCE_S = 1.5;

static const struct tiny_choice choices[] = {
    { .dp = 2, .tp = 1, .pp = 1, .micro = 2, .clip = 1 },
    { .dp = 4, .tp = 1, .pp = 1, .micro = 1, .clip = 1, .zero = 1, .bucket = 1 << 13 },
    { .dp = 2, .tp = 1, .pp = 1, .micro = 1, .clip = 1, .zero = 2 },
    { .dp = 2, .tp = 2, .pp = 1, .micro = 2, .tp_dim = DIM_tp, .clip = 1, .zero = 3, .prefetch = 1, .bucket = 1 << 14 },
    { .dp = 1, .tp = 2, .pp = 1, .micro = 1, .tp_dim = DIM_tp_sp, .clip = 1 },
    { .dp = 2, .tp = 1, .pp = 2, .micro = 4, .clip = 1, .zero = 2, .named = "1f1b" },
    { .dp = 1,
      .tp = 2,
      .pp = 2,
      .micro = 4,
      .tp_dim = DIM_tp_sp,
      .clip = 1,
      .named = "zb-h1",
      .offload = OFFLOAD_BOTH },
    { .dp = 1, .tp = 1, .pp = 2, .micro = 4, .clip = 1, .named = "dualpipe", .chunks = 2 },
    { .dp = 1, .tp = 1, .pp = 4, .micro = 4, .clip = 1, .named = "chimera", .chunks = 2 },
    { .dp = 1, .tp = 4, .pp = 1, .micro = 1, .tp_dim = DIM_cp_ring, .clip = 1, .recompute = RECOMPUTE_SELECTIVE },
};
enum { CHOICES = sizeof choices / sizeof *choices, BOTH_WAYS = 7 };

/* ---- devices that are looked at ---- */
static struct {
    struct emulated_nccl *shared;
    struct gpu gpu; /* all ranks have the same functions */
    _Atomic int replays;
    int faulty_rank; /* whose next call in a capture has the fate; -1: none */
    enum call_fate fate;
    bool unordered; /* nothing waits for the event behind the last call */
    void *_Atomic last_call[MAX_RANKS];
    _Atomic(void *) faulty;
} seen;
static _Thread_local void *_Atomic *noted; /* where the next event goes */

static bool count_replay(void *self, void *stream, void *graph, struct error *err)
{
    seen.replays++;
    return seen.gpu.replay(self, stream, graph, err);
}

static bool break_in_capture(void *self, void *stream, struct error *err)
{
    if (self == seen.faulty)
        emulated_nccl_break(seen.shared, seen.faulty_rank, 0, seen.fate);
    return seen.gpu.begin_capture(self, stream, err);
}

static void *note_event(void *self, bool timed, struct error *err)
{
    void *event = seen.gpu.open_event(self, timed, err);
    if (noted)
        *noted = event;
    return event;
}

static bool leave_order(void *self, void *stream, void *event, struct error *err)
{
    bool orders = false;
    for (int r = 0; r < MAX_RANKS && seen.unordered; r++)
        orders = orders || event == seen.last_call[r];
    return orders || seen.gpu.wait(self, stream, event, err);
}

static bool open_gpu(struct rank *rank, struct error *err)
{
    struct gpu gpu;
    struct nccl nccl;
    if (!gpu_emulated_open(&gpu, 1, 2, true, err))
        return false;
    gpu.device = rank->rank, gpu.device_count = rank->program->plan->rank_count;
    gpu.replay = count_replay, gpu.begin_capture = break_in_capture;
    gpu.open_event = note_event, gpu.wait = leave_order;
    if (rank->rank == seen.faulty_rank)
        seen.faulty = gpu.self;
    if (!emulated_nccl_open(&nccl, seen.shared, &gpu, rank->rank, err) || !gpu_device_open(rank, &gpu, &nccl, err))
        return false;
    noted = &seen.last_call[rank->rank]; /* the one event that communicators have */
    bool ok = gpu_comm_open(rank, err);
    noted = NULL;
    return ok;
}

static const struct device device_looked_at = { .name = "emulated", .open = open_gpu, GPU_DEVICE_FUNCTIONS };

/* ---- runs ---- */
struct outcome {
    double loss[STEPS + AFTER], squared_norm;
    struct error error;
};

static void on_step(void *context, const struct run_step *step)
{
    ((struct outcome *)context)->loss[step->step - 1] = step->loss;
}

static void look(int faulty_rank, enum call_fate fate, bool unordered)
{
    struct error error = { 0 };
    memset(&seen, 0, sizeof seen);
    seen.faulty_rank = faulty_rank, seen.fate = fate, seen.unordered = unordered;
    ck_assert(gpu_emulated_open(&seen.gpu, 1, 2, true, &error));
    seen.gpu.close(seen.gpu.self);
}

static bool run(struct outcome *out, const struct tiny_choice *choice, enum dtype dtype, bool graphs,
                const struct run_options *changes)
{
    struct error error = { 0 };
    struct transport transports[MAX_RANKS];
    struct run_summary summary;
    struct data data;
    struct graph *graph = tiny_graph(tiny_models[0]);
    struct plan *plan = tiny_plan(graph, choice);
    plan->dtype = dtype;
    struct program *program = tiny_lower(graph, plan, &error);
    ck_assert_msg(program != NULL, "%s", error.message);
    const int ranks = plan->rank_count;
    ck_assert(comm_threads_open(transports, ranks, &error) && emulated_nccl_new(&seen.shared, ranks, &error));
    ck_assert_msg(data_synthetic(&data, sample_shape_of(graph), 7, &error), "%s", error.message);
    struct run_options options = changes ? *changes : run_options_default();
    options.step_count = options.resume_dir ? STEPS + AFTER : STEPS, options.seed = 3, options.learning_rate = 1e-2;
    options.data = &data, options.device = &device_looked_at, options.poison = true, options.deterministic = true;
    options.context = out, options.on_step = on_step, options.graph_ranks = graphs;
    for (int r = 0; r < ranks; r++)
        transports[r].of_devices = true;
    *out = (struct outcome){ .squared_norm = 0 };
    bool ok = run_program(&summary, program, transports, ranks, &options, &out->error);
    if (ok) {
        out->squared_norm = summary.squared_norm;
        for (int r = 0; r < ranks; r++)
            ck_assert_int_eq(memory_rest_bytes(&summary.outside[r]), 0);
        ck_assert_int_eq(seen.replays, graphs ? ranks * (STEPS - 2) : 0);
        seen.replays = 0;
        run_summary_free(&summary);
    }
    ck_assert_msg(!emulated_nccl_misuse(seen.shared), "%s", emulated_nccl_misuse(seen.shared));
    for (int r = 0; r < ranks; r++)
        transports[r].close(transports[r].self);
    emulated_nccl_free(seen.shared);
    data_free(&data);
    program_free(program);
    plan_free(plan);
    graph_free(graph);
    return ok;
}

START_TEST(graphs_are_the_queued_steps)
{
    struct outcome kept, queued;
    const enum dtype dtype = _i % 2 ? DTYPE_BF16 : DTYPE_FP32;
    if (!in_share((uint64_t)_i))
        return;
    look(-1, CALL_REFUSED, false);
    ck_assert_msg(run(&queued, &choices[_i], dtype, false, NULL), "%s", queued.error.message);
    ck_assert_msg(run(&kept, &choices[_i], dtype, true, NULL), "%s", kept.error.message);
    for (int s = 0; s < STEPS; s++)
        ck_assert_msg(kept.loss[s] == queued.loss[s], "step %d: %.9g, queued %.9g", s + 1, kept.loss[s],
                      queued.loss[s]);
    ck_assert(kept.squared_norm == queued.squared_norm && kept.loss[STEPS - 1] < kept.loss[0]);
}
END_TEST

/* A save after each step takes what the graph has left, and a run that goes on from the last has the same loss. */
START_TEST(graphs_are_saved_between_steps)
{
    struct outcome saved[2], after[2];
    for (int graphs = 0; graphs < 2; graphs++) {
        char dir[] = "/tmp/cleave-graphs-XXXXXX", command[64];
        struct run_options writes = run_options_default(), goes_on = writes;
        ck_assert_ptr_nonnull(mkdtemp(dir));
        writes.checkpoint_dir = dir, writes.checkpoint_every = 1, goes_on.resume_dir = dir;
        look(-1, CALL_REFUSED, false);
        ck_assert_msg(run(&saved[graphs], &choices[1], DTYPE_FP32, graphs, &writes), "%s", saved[graphs].error.message);
        ck_assert_msg(run(&after[graphs], &choices[1], DTYPE_FP32, false, &goes_on), "%s", after[graphs].error.message);
        snprintf(command, sizeof command, "rm -r %s", dir);
        ck_assert_int_eq(system(command), 0);
    }
    ck_assert(saved[1].loss[STEPS - 1] == saved[0].loss[STEPS - 1] && after[1].loss[STEPS] == after[0].loss[STEPS]);
    ck_assert(after[0].loss[STEPS] > 0 && after[0].loss[STEPS] < saved[0].loss[0]);
}
END_TEST

/* ---- what goes wrong ---- */
static void expect_trouble(const struct tiny_choice *choice, const char *first, const char *second)
{
    struct outcome broken;
    struct run_options options = run_options_default();
    options.timeout_s = PATIENCE_S;
    ck_assert(!run(&broken, choice, DTYPE_FP32, true, &options));
    ck_assert_msg(strstr(broken.error.message, first) && strstr(broken.error.message, second), "%s",
                  broken.error.message);
}

START_TEST(a_call_that_fails_in_a_capture_ends_all)
{
    look(1, (enum call_fate)_i, false);
    expect_trouble(&choices[3], "rank 1: step 2, instruction",
                   _i == CALL_REFUSED ? "invalid argument" : "remote process exited");
}
END_TEST

START_TEST(a_call_that_never_ends_in_a_graph_ends_all)
{
    look(1, CALL_NEVER_ENDS, false);
    expect_trouble(&choices[0], "no rank made progress", "rank 1 (stage 0): step 2, in the graph of the step");
}
END_TEST

/* Without it the devices may begin with any that is ready, each with another one. */
START_TEST(calls_without_an_order_wait_for_each_other)
{
    look(-1, CALL_REFUSED, true);
    expect_trouble(&choices[BOTH_WAYS], "no rank made progress", "in the graph of the step");
}
END_TEST

static Suite *gpu_graphs_suite(void)
{
    Suite *suite = suite_create("gpu_graphs");
    CHECK_ADD_LOOP(suite, graphs_are_the_queued_steps, CHOICES);
    CHECK_ADD(suite, graphs_are_saved_between_steps);
    CHECK_ADD_LOOP(suite, a_call_that_fails_in_a_capture_ends_all, CALL_FAILS_LATER + 1);
    CHECK_ADD(suite, a_call_that_never_ends_in_a_graph_ends_all);
    CHECK_ADD(suite, calls_without_an_order_wait_for_each_other);
    return suite;
}

CHECK_MAIN(gpu_graphs_suite)
