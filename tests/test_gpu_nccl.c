/* Programs whose ranks talk by NCCL, on emulated GPUs: the same channels, moves and calls as on real ones. They compute
 * what the processor computes; every rank of a stage begins its calls in one order, whatever its lanes' threads do; a
 * rank that fails, or does not come, ends the run with its name. */
#include "check.h"
#include "executor/backends.h"
#include "executor/comm_threads.h"
#include "executor/gpu/channels.h"
#include "executor/gpu/comm.h"
#include "executor/gpu/device.h"
#include "executor/gpu/nccl_environment.h"
#include "executor/run.h"
#include "tests/emulated/emulated.h"
#include "tests/emulated/emulated_nccl.h"
#include "tests/random_numbers.h"
#include "tests/random_plans.h"
#include "tiny_models.h"
#include <stdio.h>
#include <time.h>

enum { MAX_RANKS = 8, STEPS = 3, LONGEST_NAP_NS = 200000, TIMEOUT_S = 3, SHORT_STREAM = 4 };

#ifdef CLEAVE_REAL_DOUBLE
static const double tolerance = 1e-10;
static const enum dtype full = DTYPE_FP64;
#else
static const enum dtype full = DTYPE_FP32;
#endif

struct run_here {
    struct emulated_nccl *shared; /* NULL: on the processor */
    const struct program *program;
    double loss[STEPS], squared_norm;
    int64_t packed_bytes;          /* of all ranks */
    int faulty_rank, faulty_instr; /* -1: none */
    enum instr_fate fate;
    bool absent, late;  /* the faulty rank has no GPU, or loses it when all have met */
    bool breaks;        /* a call of the faulty rank is refused: the faulty_instr-th */
    int bound;          /* tasks that a stream holds; 0: any number */
    struct error error; /* of a run that failed */
};

static bool open_gpu(struct rank *rank, struct error *err)
{
    const struct run_here *run = rank->options->context;
    struct gpu gpu;
    struct nccl nccl;
    if (run->absent && rank->rank == run->faulty_rank)
        return fail_kind(err, ERROR_ENVIRONMENT, "its GPU fell off the bus");
    if (!gpu_emulated_open(&gpu, 1, 2, true, err))
        return false;
    gpu_emulated_bound(&gpu, run->bound);
    gpu.device = rank->rank, gpu.device_count = rank->program->plan->rank_count;
    return emulated_nccl_open(&nccl, run->shared, &gpu, rank->rank, err) && gpu_device_open(rank, &gpu, &nccl, err) &&
           gpu_comm_open(rank, err) &&
           (!run->late || rank->rank != run->faulty_rank ||
            fail_kind(err, ERROR_ENVIRONMENT, "its GPU fell off the bus"));
}

static const struct device device_nccl = { .name = "emulated", .open = open_gpu, GPU_DEVICE_FUNCTIONS };

static void on_step(void *context, const struct run_step *step)
{
    ((struct run_here *)context)->loss[step->step - 1] = step->loss;
}

/* Some lanes' threads are late, others on each rank: only the order that the program gives stays the same. */
static enum instr_fate on_instr(void *context, int64_t step, int rank, int instr, struct error *err)
{
    const struct run_here *run = context;
    uint64_t state = (uint64_t)(step * 1000003 + rank * 1009 + instr);
    const struct timespec nap = { 0, (long)draw(&state, LONGEST_NAP_NS) };
    if (step == 1 && !run->breaks && rank == run->faulty_rank && instr == run->faulty_instr) {
        if (run->fate == INSTR_FAILS)
            fail_kind(err, ERROR_ENVIRONMENT, "the device broke");
        return run->fate;
    }
    if (draw(&state, 8) == 0)
        nanosleep(&nap, NULL);
    return INSTR_RUNS;
}

static bool execute(struct run_here *run, const struct graph *graph, const struct program *program, bool by_nccl,
                    const struct run_options *changes)
{
    struct error error = { 0 };
    struct transport transports[MAX_RANKS];
    struct run_summary summary;
    struct data data;
    int ranks = program->plan->rank_count;
    ck_assert(comm_threads_open(transports, ranks, &error));
    ck_assert(!by_nccl || emulated_nccl_new(&run->shared, ranks, &error));
    if (run->breaks)
        emulated_nccl_break(run->shared, run->faulty_rank, run->faulty_instr, CALL_REFUSED);
    ck_assert_msg(data_synthetic(&data, sample_shape_of(graph), 7, &error), "%s", error.message);
    struct run_options options = changes ? *changes : run_options_default();
    options.step_count = STEPS, options.seed = 3, options.learning_rate = 1e-2;
    options.data = &data, options.device = by_nccl ? &device_nccl : &device_cpu, options.poison = true;
    options.context = run, options.on_step = on_step, options.on_instr = by_nccl ? on_instr : NULL;
    for (int r = 0; r < ranks; r++)
        transports[r].of_devices = by_nccl;
    run->program = program;
    bool ok = run_program(&summary, program, transports, ranks, &options, &run->error);
    if (ok) {
        run->squared_norm = summary.squared_norm;
        for (int r = 0; by_nccl && r < ranks; r++) { /* the emulation holds nothing that has no name */
            ck_assert_int_ge(summary.outside[r].bytes, summary.outside[r].part[MEMORY_PACKED]);
            ck_assert_int_eq(memory_rest_bytes(&summary.outside[r]), 0);
            run->packed_bytes += summary.outside[r].part[MEMORY_PACKED];
        }
        run_summary_free(&summary);
    }
    for (int r = 0; r < ranks; r++)
        transports[r].close(transports[r].self);
    data_free(&data);
    return ok;
}

/* All ranks of a stage have the same list, so they begin the same calls in the same order. */
static void expect_one_order(const struct run_here *run)
{
    const struct plan *plan = run->program->plan;
    ck_assert_msg(!emulated_nccl_misuse(run->shared), "%s", emulated_nccl_misuse(run->shared));
    for (int r = 0; r < plan->rank_count; r++) {
        int first = plan->stages[plan_stage_of_rank(plan, r)].first_rank;
        ck_assert_str_eq(emulated_nccl_order(run->shared, r), emulated_nccl_order(run->shared, first));
    }
}

struct lowered {
    struct graph *graph;
    struct plan *plan;
    struct program *program;
};

/* Takes over both. */
static struct lowered lower_plan(struct graph *graph, struct plan *plan)
{
    struct error error = { 0 };
    struct lowered l = { graph, plan, tiny_lower(graph, plan, &error) };
    ck_assert_msg(l.program != NULL, "%s", error.message);
    return l;
}

static struct lowered lower(const char *model, const struct tiny_choice *choice, enum dtype dtype)
{
    struct graph *graph = tiny_graph(model);
    struct plan *plan = tiny_plan(graph, choice);
    plan->dtype = dtype;
    return lower_plan(graph, plan);
}

static void release(struct lowered *l)
{
    program_free(l->program);
    plan_free(l->plan);
    graph_free(l->graph);
}

static struct run_here run(const char *model, const struct tiny_choice *choice, enum dtype dtype, bool by_nccl)
{
    struct run_here here = { .faulty_rank = -1 };
    struct lowered l = lower(model, choice, dtype);
    ck_assert_msg(execute(&here, l.graph, l.program, by_nccl, NULL), "%s", here.error.message);
    if (by_nccl)
        expect_one_order(&here);
    emulated_nccl_free(here.shared);
    here.shared = NULL;
    release(&l);
    return here;
}

static const struct tiny_choice single = { .dp = 1, .tp = 1, .pp = 1, .micro = 1, .tp_dim = DIM_tp, .clip = 1 };
static const struct tiny_choice choices[] = {
    { .dp = 4, .tp = 1, .pp = 1, .micro = 1, .clip = 1 },
    { .dp = 4, .tp = 1, .pp = 1, .micro = 1, .clip = 1, .zero = 1, .bucket = 1 << 13 },
    { .dp = 2, .tp = 2, .pp = 1, .micro = 2, .tp_dim = DIM_tp, .clip = 1, .zero = 3, .prefetch = 1, .bucket = 1 << 14 },
    { .dp = 2, .tp = 2, .pp = 2, .micro = 2, .tp_dim = DIM_tp_sp, .clip = 1, .zero = 1, .offload = OFFLOAD_OPTIMIZER },
    { .dp = 2, .tp = 1, .pp = 4, .micro = 4, .clip = 1, .zero = 2, .named = "1f1b" },
    { .dp = 1, .tp = 2, .pp = 2, .micro = 4, .tp_dim = DIM_tp_sp, .clip = 1, .named = "zb-h1", .zero = 2 },
    { .dp = 1, .tp = 4, .pp = 1, .micro = 1, .tp_dim = DIM_cp_ring, .clip = 1, .recompute = RECOMPUTE_SELECTIVE },
    { .dp = 2, .tp = 2, .pp = 1, .micro = 1, .tp_dim = DIM_cp_gather, .clip = 1, .zero = 2 },
    { .dp = 2, .tp = 2, .pp = 1, .micro = 1, .tp_dim = DIM_cp_ulysses, .clip = 1 },
    { .dp = 2, .tp = 2, .pp = 1, .micro = 1, .tp_dim = DIM_tp_deferred, .clip = 1, .server = true },
    { .dp = 1, .tp = 1, .pp = 2, .micro = 4, .clip = 1, .turns = { 2, 1 } },
    { .dp = 1, .tp = 1, .pp = 2, .micro = 4, .clip = 1, .named = "dualpipe", .chunks = 2 },
    { .dp = 2, .tp = 1, .pp = 4, .micro = 4, .clip = 1, .named = "chimera", .chunks = 2 },
};
enum { CHOICES = sizeof choices / sizeof *choices };

static void expect_near(const struct run_here *got, const struct run_here *want, double part)
{
    for (int s = 0; s < STEPS; s++)
        CHECK_NEAR(got->loss[s], want->loss[s], part * fabs(want->loss[s]));
    CHECK_NEAR(got->squared_norm, want->squared_norm, 10 * part * want->squared_norm);
}

#ifndef CLEAVE_REAL_DOUBLE
/* Whom tokens go to is told by another rank, into bytes that had numbers before: where all is tried once before the
 * first step, nobody has told it yet. */
START_TEST(experts_that_others_choose_are_tried_first)
{
    enum { SEED = 27 };
    struct run_here here = { .faulty_rank = -1 }, want = run(tiny_models[TINY_MIXTURE], &single, full, false);
    struct graph *graph = tiny_graph(tiny_models[TINY_MIXTURE]);
    struct lowered l = lower_plan(graph, random_shape(graph, SEED));
    ck_assert_msg(execute(&here, l.graph, l.program, true, NULL), "%s", here.error.message);
    expect_near(&here, &want, 1e-4);
    emulated_nccl_free(here.shared);
    release(&l);
}
END_TEST

/* Every choice of plans in 16 bits. */
START_TEST(half_precision_is_near)
{
    struct run_here want = run(tiny_models[2], &single, full, false);
    struct run_here got = run(tiny_models[2], &choices[_i], DTYPE_BF16, true);
    expect_near(&got, &want, 0.01);
    ck_assert(choices[_i].zero < 2 || got.packed_bytes > 0);
}
END_TEST
#else
static const int models[] = { 0, 3, 4, 6 }; /* tied and not, grouped heads, two towers and an encoder */

START_TEST(plans_compute_what_the_processor_computes)
{
    const char *model = tiny_models[models[_i]];
    struct run_here want = run(model, &single, full, false);
    for (int c = 0; c < CHOICES; c++) {
        if ((c + _i) % 2 || !in_share((uint64_t)(c + _i)))
            continue;
        struct run_here got = run(model, &choices[c], full, true);
        expect_near(&got, &want, tolerance);
    }
}
END_TEST

/* Schedules, meshes that differ by stage, layers that each divide otherwise: whatever is legal ends, and computes the
 * same. */
START_TEST(random_plans_compute_what_the_processor_computes)
{
    enum { PLANS = 24, SEED_STRIDE = 7 };
    const char *model = tiny_models[models[_i]];
    struct run_here want = run(model, &single, full, false);
    for (int n = 0; n < PLANS; n++) {
        const uint64_t seed = (uint64_t)(n * SEED_STRIDE + _i);
        struct run_here here = { .faulty_rank = -1 };
        struct graph *graph = in_share((uint64_t)(n + _i)) ? tiny_graph(model) : NULL;
        if (!graph)
            continue;
        struct lowered l = lower_plan(graph, n % 2 ? random_shape(graph, seed) : random_plan(graph, seed));
        ck_assert_msg(execute(&here, l.graph, l.program, true, NULL), "seed %llu: %s", (unsigned long long)seed,
                      here.error.message);
        ck_assert_msg(!emulated_nccl_misuse(here.shared), "seed %llu: %s", (unsigned long long)seed,
                      emulated_nccl_misuse(here.shared));
        expect_near(&here, &want, tolerance);
        emulated_nccl_free(here.shared);
        release(&l);
    }
}
END_TEST

/* ---- what goes wrong ---- */
static int first_transfer(const struct program *program, int stage)
{
    for (int i = 0; i < program->stages[stage].instr_count; i++) {
        if (instr_moves_data(&program->stages[stage].instrs[i]))
            return i;
    }
    ck_abort_msg("stage %d has no transfer", stage);
    return -1;
}

static void expect_trouble(enum instr_fate fate, int rank, int bound, const char *first, const char *second)
{
    struct run_here here = { .faulty_rank = rank, .fate = fate, .bound = bound };
    struct lowered l = lower(tiny_models[0], &choices[3], full);
    struct run_options options = run_options_default();
    options.timeout_s = TIMEOUT_S;
    here.faulty_instr = first_transfer(l.program, plan_stage_of_rank(l.plan, rank));
    ck_assert(!execute(&here, l.graph, l.program, true, &options));
    ck_assert_msg(strstr(here.error.message, first) && strstr(here.error.message, second), "%s", here.error.message);
    ck_assert_msg(!emulated_nccl_misuse(here.shared), "%s", emulated_nccl_misuse(here.shared));
    emulated_nccl_free(here.shared);
    release(&l);
}

START_TEST(a_rank_that_fails_ends_all)
{
    expect_trouble(INSTR_FAILS, _i, 0, "the device broke",
                   _i == 0 ? "rank 0: step 2, instruction" : "rank 5: step 2, instruction");
}
END_TEST

/* The others wait for it to join. */
START_TEST(a_rank_that_does_not_join_ends_all)
{
    struct run_here here = { .faulty_rank = 2, .faulty_instr = -1, .absent = true };
    struct lowered l = lower(tiny_models[0], &choices[3], full);
    ck_assert(!execute(&here, l.graph, l.program, true, NULL));
    ck_assert_str_eq(here.error.message, "rank 2: its GPU fell off the bus");
    emulated_nccl_free(here.shared);
    release(&l);
}
END_TEST

/* When all communicators stand, but no step has begun: it must not wait for the others to leave them, too. */
START_TEST(a_rank_that_fails_before_the_first_step_ends_all)
{
    struct run_here here = { .faulty_rank = 2, .faulty_instr = -1, .late = true };
    struct lowered l = lower(tiny_models[0], &choices[3], full);
    ck_assert(!execute(&here, l.graph, l.program, true, NULL));
    ck_assert_str_eq(here.error.message, "rank 2: its GPU fell off the bus");
    ck_assert_msg(!emulated_nccl_misuse(here.shared), "%s", emulated_nccl_misuse(here.shared));
    emulated_nccl_free(here.shared);
    release(&l);
}
END_TEST

/* In the middle of a group, which is ended before anything is aborted: the library would put that off. */
START_TEST(a_call_that_is_refused_ends_all)
{
    struct run_here here = { .faulty_rank = 1, .faulty_instr = _i, .breaks = true };
    struct lowered l = lower(tiny_models[0], &choices[3], full);
    ck_assert(!execute(&here, l.graph, l.program, true, NULL));
    ck_assert_msg(strstr(here.error.message, "rank 1") && strstr(here.error.message, "invalid argument"), "%s",
                  here.error.message);
    ck_assert_msg(!emulated_nccl_misuse(here.shared), "%s", emulated_nccl_misuse(here.shared));
    emulated_nccl_free(here.shared);
    release(&l);
}
END_TEST

static void *settled(const struct nccl *nccl, void *comm)
{
    struct error error = { 0 };
    while (nccl->state(nccl->self, comm, &error) == COMM_BUSY)
        ;
    return comm;
}

/* NCCL may wait for the device while it gives back what an aborted communicator had, and there for the kernel of
 * another that was not told to end: together they end, one after the other they may not. */
START_TEST(communicators_are_aborted_together)
{
    struct error error = { 0 };
    struct emulated_nccl *shared;
    struct nccl nccl;
    unsigned char id[COMM_ID_BYTES];
    void *comms[2] = { NULL };
    ck_assert(emulated_nccl_new(&shared, 1, &error) && emulated_nccl_open(&nccl, shared, NULL, 0, &error));
    ck_assert(nccl.make_id(nccl.self, id, &error));
    comms[0] = settled(&nccl, nccl.join(nccl.self, id, 0, 1, &error));
    ck_assert(nccl.split(nccl.self, comms[0], 0, 0, &comms[1], &error));
    settled(&nccl, comms[0]);
    ck_assert_ptr_nonnull(comms[1]);
    const int at_once = _i == 0 ? 2 : 1;
    for (int i = 0; i < 2; i += at_once)
        nccl.abort(nccl.self, &comms[i], at_once, NULL, NULL);
    ck_assert_int_eq(emulated_nccl_misuse(shared) == NULL, at_once == 2);
    nccl.close(nccl.self);
    emulated_nccl_free(shared);
}
END_TEST

/* Its neighbours' kernels wait on their devices; the message names what each rank is at. */
START_TEST(a_transfer_that_does_not_come_ends_all)
{
    struct run_here here = { .faulty_rank = 1, .fate = INSTR_LOST };
    struct lowered l = lower(tiny_models[0], &choices[3], full);
    char place[64];
    here.faulty_instr = first_transfer(l.program, 0);
    snprintf(place, sizeof place, "rank 0 (stage 0): step 2, instruction %d %s", here.faulty_instr,
             op_info[l.program->stages[0].instrs[here.faulty_instr].op].name);
    release(&l);
    expect_trouble(INSTR_LOST, 1, 0, "no rank made progress for 3 s", place);
}
END_TEST

/* Lanes cannot queue further, and stand still in the middle of a transfer: the run ends all the same. */
START_TEST(a_stream_that_is_full_keeps_no_rank_alive)
{
    expect_trouble(INSTR_LOST, 1, SHORT_STREAM, "no rank made progress for 3 s",
                   "rank 0 (stage 0): step 2, instruction");
}
END_TEST

/* Without the ranks' messages to each other another loss comes out: transfers matter, and none comes from elsewhere. */
START_TEST(a_muted_transfer_shows)
{
    if (!in_share((uint64_t)_i))
        return;
    struct run_here want = run(tiny_models[0], &choices[_i], full, true), here = { .faulty_rank = -1 };
    struct lowered l = lower(tiny_models[0], &choices[_i], full);
    struct run_options options = run_options_default();
    const struct stage_program *stage = &l.program->stages[0];
    options.mute_stage = 0, options.mute_instr = -1;
    for (int i = 0; i < stage->instr_count && options.mute_instr < 0; i++)
        if (stage->instrs[i].op == OP_ALL_REDUCE || stage->instrs[i].op == OP_REDUCE_SCATTER ||
            stage->instrs[i].op == OP_SHIFT || stage->instrs[i].op == OP_SEND)
            options.mute_instr = i;
    ck_assert_int_ge(options.mute_instr, 0);
    ck_assert_msg(execute(&here, l.graph, l.program, true, &options), "%s", here.error.message);
    ck_assert(!(fabs(here.loss[STEPS - 1] - want.loss[STEPS - 1]) < 1e-6 * want.loss[STEPS - 1]));
    emulated_nccl_free(here.shared);
    release(&l);
}
END_TEST

/* ---- channels ---- */
/* Against what the program says, rank by rank: all members of a transfer find one channel, whose members they are. */
START_TEST(members_agree_on_their_channel)
{
    struct error error = { 0 };
    struct channels channels;
    struct lowered l = lower(tiny_models[3], &choices[_i], full);
    ck_assert_msg(channels_of(&channels, l.program, &error), "%s", error.message);
    for (int r = 0; r < l.plan->rank_count; r++) {
        const struct stage_program *stage = &l.program->stages[plan_stage_of_rank(l.plan, r)];
        for (int i = 0; i < stage->instr_count; i++) {
            const struct instr *instr = &stage->instrs[i];
            int found = channels_find(&channels, l.program, r, instr);
            bool message = instr->op == OP_SEND || instr->op == OP_RECEIVE;
            if (message || instr->op == OP_NORM_REDUCE)
                ck_assert_int_ge(found, 0);
            if (found < 0)
                continue;
            const struct channel *c = &channels.list[found];
            ck_assert_int_eq(c->members[channel_place(c, r)], r);
            for (int m = 0; m < c->count && !message && instr->op != OP_NORM_REDUCE; m++)
                ck_assert_int_eq(channels_find(&channels, l.program, c->members[m], instr), found);
            if (message)
                ck_assert_int_eq(channel_place(c, r) < c->sender_count, instr->op == OP_SEND);
        }
    }
    for (int a = 0; a < channels.count; a++) /* a round is one split: nobody is in two of its channels */
        for (int b = 0; b < a; b++)
            for (int m = 0; m < channels.list[a].count && channels.list[a].round == channels.list[b].round; m++)
                ck_assert_int_lt(channel_place(&channels.list[b], channels.list[a].members[m]), 0);
    channels_free(&channels);
    release(&l);
}
END_TEST

#endif

/* What people set themselves stays. */
START_TEST(variables_are_set_once)
{
    setenv("NCCL_PROTO", "LL", 1);
    nccl_set_environment(3, false, true);
    ck_assert_str_eq(getenv("CUDA_DEVICE_MAX_CONNECTIONS"), "32");
    ck_assert_ptr_null(getenv("NCCL_HOSTID"));
    nccl_set_environment(3, true, true);
    ck_assert_str_eq(getenv("NCCL_HOSTID"), "cleave-rank3");
    ck_assert_str_eq(getenv("NCCL_SOCKET_IFNAME"), "lo");
    ck_assert_str_eq(getenv("NCCL_NET"), "Socket");
    ck_assert_str_eq(getenv("NCCL_PROTO"), "LL");
}
END_TEST

/* Of four ranks on a host: each sees all four GPUs, or its own alone, or there are too few. */
START_TEST(ranks_that_see_one_gpu_take_it)
{
    for (int place = 0; place < 4; place++) {
        ck_assert(nccl_may_have_own_gpu(place, 4));
        ck_assert(nccl_may_have_own_gpu(place, 1));
        ck_assert_int_eq(nccl_may_have_own_gpu(place, 2), place < 2);
    }
}
END_TEST

static Suite *gpu_nccl_suite(void)
{
    Suite *suite = suite_create("gpu_nccl");
    TCase *programs = tcase_create("programs");
    tcase_set_timeout(programs, 0);
#ifdef CLEAVE_REAL_DOUBLE
    TCase *trouble = tcase_create("trouble");
    tcase_add_loop_test(programs, plans_compute_what_the_processor_computes, 0, sizeof models / sizeof *models);
    tcase_add_loop_test(programs, random_plans_compute_what_the_processor_computes, 0, sizeof models / sizeof *models);
    tcase_add_loop_test(programs, members_agree_on_their_channel, 0, CHOICES);
    tcase_add_loop_test(programs, a_muted_transfer_shows, 2, 7);
    tcase_set_timeout(trouble, 60);
    tcase_add_test(trouble, a_rank_that_does_not_join_ends_all);
    tcase_add_test(trouble, a_rank_that_fails_before_the_first_step_ends_all);
    tcase_add_loop_test(trouble, communicators_are_aborted_together, 0, 2);
    tcase_add_test(trouble, a_transfer_that_does_not_come_ends_all);
    tcase_add_test(trouble, a_stream_that_is_full_keeps_no_rank_alive);
    tcase_add_loop_test(trouble, a_call_that_is_refused_ends_all, 0, 12);
    tcase_add_loop_test(trouble, a_rank_that_fails_ends_all, 0, 1);
    tcase_add_loop_test(trouble, a_rank_that_fails_ends_all, 5, 6);
    suite_add_tcase(suite, trouble);
#else
    tcase_add_loop_test(programs, half_precision_is_near, 0, CHOICES);
    tcase_add_test(programs, experts_that_others_choose_are_tried_first);
#endif
    tcase_add_test(programs, variables_are_set_once);
    tcase_add_test(programs, ranks_that_see_one_gpu_take_it);
    suite_add_tcase(suite, programs);
    return suite;
}

CHECK_MAIN(gpu_nccl_suite)
