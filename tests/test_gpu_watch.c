/* What really ran in the last step, on emulated GPUs: every copy, fill and launch of that step and of no other comes to
 * rank 0 with its lane, on the step's clock; where there are no records the run goes on and says so once. */
#include "check.h"
#include "executor/activity.h"
#include "executor/comm_threads.h"
#include "executor/gpu/comm.h"
#include "executor/gpu/device.h"
#include "executor/run.h"
#include "host/clock.h"
#include "tests/emulated/emulated.h"
#include "tests/emulated/emulated_nccl.h"
#include "tiny_models.h"
#include <stdio.h>
#include <string.h>
#include <time.h>

enum { MAX_RANKS = 8, STEPS = 4, SLOWED_NS = 100000000 };
enum records { RECORDS_KEPT, RECORDS_UNKNOWN, RECORDS_ABSENT, RECORDS_REFUSED, RECORDS_LOST };

/* One run at a time, of all its ranks. */
static struct {
    enum records records;
    struct emulated_nccl *shared; /* NULL: transfers go through the host */
    int faulty_rank;              /* fails in the last step; -1: none */
    _Atomic int begins, ends, forgotten, notes;
    _Atomic int64_t copies, fills, launches; /* that were queued while a rank watched */
    char note[256];
    struct run_summary summary;
    double loss[STEPS];
    int64_t step_ns[STEPS];
} here;
/* Of the runs that follow. */
static int step_count = STEPS;
/* Of all ranks the same functions. */
static struct gpu plain;

static bool is_watched(void)
{
    return here.begins > here.ends + here.forgotten;
}

static bool copy(void *self, void *stream, void *to, const void *from, size_t bytes, struct error *err)
{
    here.copies += is_watched();
    return plain.copy(self, stream, to, from, bytes, err);
}

static bool fill(void *self, void *stream, void *to, int byte, size_t bytes, struct error *err)
{
    here.fills += is_watched();
    return plain.fill(self, stream, to, byte, bytes, err);
}

static bool launch(void *self, void *stream, enum gpu_kernel kernel, int64_t teams, const struct gpu_work *work,
                   struct error *err)
{
    here.launches += is_watched();
    return plain.launch(self, stream, kernel, teams, work, err);
}

static bool watch_ready(void *self, struct error *err)
{
    return here.records == RECORDS_ABSENT ? fail(err, "there is no library of records") : plain.watch_ready(self, err);
}

static void *watch_begin(void *self, void *const *streams, int64_t (*now_ns)(void), struct error *err)
{
    here.begins++;
    if (step_count < STEPS)
        nanosleep(&(struct timespec){ 0, SLOWED_NS }, NULL);
    if (here.records != RECORDS_REFUSED)
        return plain.watch_begin(self, streams, now_ns, err);
    fail(err, "records are for others");
    return NULL;
}

static bool watch_end(void *self, void *watch, struct rank_activity *out, struct error *err)
{
    bool lost = out && here.records == RECORDS_LOST;
    bool ok = plain.watch_end(self, watch, lost ? NULL : out, err);
    out ? here.ends++ : here.forgotten++;
    return lost ? fail(err, "the records were lost") : ok;
}

static bool open_watched(struct rank *rank, struct error *err)
{
    struct gpu gpu;
    struct nccl nccl;
    if (!gpu_emulated_open(&gpu, 1, 2, true, err))
        return false;
    gpu.copy = copy, gpu.fill = fill, gpu.launch = launch;
    gpu.watch_ready = watch_ready, gpu.watch_begin = watch_begin, gpu.watch_end = watch_end;
    if (here.records == RECORDS_UNKNOWN)
        gpu.watch_ready = NULL, gpu.watch_begin = NULL, gpu.watch_end = NULL;
    if (!here.shared)
        return gpu_device_open(rank, &gpu, NULL, err);
    return emulated_nccl_open(&nccl, here.shared, &gpu, rank->rank, err) && gpu_device_open(rank, &gpu, &nccl, err) &&
           gpu_comm_open(rank, err);
}

static const struct device device_watched = { .name = "emulated", .open = open_watched, GPU_DEVICE_FUNCTIONS };

static void on_step(void *context, const struct run_step *step)
{
    (void)context;
    here.loss[step->step - 1] = step->loss;
    here.step_ns[step->step - 1] = step->step_ns;
}

static void on_note(void *context, const char *text)
{
    (void)context;
    if (strstr(text, "attention"))
        return;
    here.notes++;
    snprintf(here.note, sizeof here.note, "%s", text);
}

static enum instr_fate on_instr(void *context, int64_t step, int rank, int instr, struct error *err)
{
    (void)context, (void)instr;
    if (rank != here.faulty_rank || step + 1 < STEPS)
        return INSTR_RUNS;
    fail_kind(err, ERROR_ENVIRONMENT, "the device broke");
    return INSTR_FAILS;
}

struct lowered {
    struct graph *graph;
    struct plan *plan;
    struct program *program;
};

static struct lowered lower(const struct tiny_choice *choice)
{
    struct error error = { 0 };
    struct lowered l = { .graph = tiny_graph(tiny_models[0]) };
    l.plan = tiny_plan(l.graph, choice);
    l.plan->dtype = sizeof(real) == sizeof(double) ? DTYPE_FP64 : DTYPE_FP32;
    ck_assert_msg((l.program = tiny_lower(l.graph, l.plan, &error)) != NULL, "%s", error.message);
    return l;
}

static void lowered_free(struct lowered *l)
{
    run_summary_free(&here.summary);
    emulated_nccl_free(here.shared);
    program_free(l->program);
    plan_free(l->plan);
    graph_free(l->graph);
}

/* Leaves the summary in `here`; *took_ns: of the whole run. */
static bool run(const struct lowered *l, bool kernels, enum records records, bool by_nccl, int faulty_rank,
                int64_t *took_ns)
{
    struct error error = { 0 };
    struct transport transports[MAX_RANKS];
    struct data data;
    const int64_t before_ns = clock_now_ns();
    const int ranks = l->plan->rank_count;
    ck_assert(gpu_emulated_open(&plain, 1, 2, true, &error));
    plain.close(plain.self);
    memset(&here, 0, sizeof here);
    here.records = records, here.faulty_rank = faulty_rank;
    ck_assert(!by_nccl || emulated_nccl_new(&here.shared, ranks, &error));
    ck_assert(comm_threads_open(transports, ranks, &error));
    ck_assert_msg(data_synthetic(&data, sample_shape_of(l->graph), 7, &error), "%s", error.message);
    struct run_options options = run_options_default();
    options.step_count = step_count, options.seed = 3, options.data = &data, options.device = &device_watched;
    options.on_step = on_step, options.on_note = on_note, options.kernels = kernels;
    options.on_instr = faulty_rank < 0 ? NULL : on_instr;
    for (int r = 0; r < ranks; r++)
        transports[r].of_devices = by_nccl;
    bool ok = run_program(&here.summary, l->program, transports, ranks, &options, &error);
    ck_assert_msg(ok == (faulty_rank < 0), "%s", error.message);
    for (int r = 0; r < ranks; r++)
        transports[r].close(transports[r].self);
    data_free(&data);
    *took_ns = clock_now_ns() - before_ns;
    return ok;
}

static const struct {
    struct tiny_choice choice;
    bool by_nccl;
} cases[] = {
    { { .dp = 1, .tp = 1, .pp = 1, .micro = 2, .tp_dim = DIM_tp, .clip = 1 }, false }, /* its steps are graphs */
    { { .dp = 1, .tp = 1, .pp = 1, .micro = 2, .tp_dim = DIM_tp, .clip = 1, .offload = OFFLOAD_BOTH }, false },
    { { .dp = 2, .tp = 2, .pp = 2, .micro = 2, .tp_dim = DIM_tp_sp, .clip = 1, .zero = 1 }, false },
    { { .dp = 2, .tp = 2, .pp = 2, .micro = 2, .tp_dim = DIM_tp_sp, .clip = 1, .zero = 1 }, true },
};
enum { CASES = sizeof cases / sizeof *cases };

/* Whether instructions of the lane do anything: of one rank alone, those between ranks do not. */
static bool works(const struct stage_program *stage, int lane, int rank_count)
{
    bool any = false;
    for (int i = 0; i < stage->instr_count; i++)
        any = any || ((int)stage->instrs[i].lane == lane && (rank_count > 1 || !instr_moves_data(&stage->instrs[i])));
    return any;
}

/* Of a rank: in order, on lanes that it has, on the clock that begins with the step. Returns how many by kind. */
static void check_rank(const struct lowered *l, const struct rank_timeline *rank, int64_t took_ns,
                       int64_t count[ACTIVITY_KIND_COUNT])
{
    const struct rank_activity *a = &rank->activity;
    const struct stage_program *stage = &l->program->stages[rank->stage];
    int64_t before_ns = 0;
    bool ran[LANE_COUNT] = { false };
    ck_assert_int_eq(a->counts.recorded, 1);
    ck_assert_int_gt(a->counts.count, 0);
    for (int64_t i = 0; i < a->counts.count; before_ns = a->list[i++].start_ns) {
        const struct activity *x = &a->list[i];
        ck_assert_msg(before_ns <= x->start_ns && x->start_ns <= x->finish_ns && x->finish_ns <= took_ns,
                      "rank %d: %lld to %lld, after %lld, in a run of %lld ns", rank->rank, (long long)x->start_ns,
                      (long long)x->finish_ns, (long long)before_ns, (long long)took_ns);
        ck_assert_int_lt(x->lane, LANE_COUNT);
        ck_assert(x->instr < 0 || (int)stage->instrs[x->instr].lane == x->lane);
        ran[x->lane] = true;
        count[x->kind]++;
    }
    for (int lane = 0; lane < LANE_COUNT; lane++)
        ck_assert_msg(ran[lane] == works(stage, lane, l->plan->rank_count), "rank %d: lane %s", rank->rank,
                      lane_names[lane]);
}

START_TEST(the_last_step_is_recorded)
{
    struct lowered l = lower(&cases[_i].choice);
    struct activity_overlap overlap;
    struct error error = { 0 };
    int64_t took_ns, count[ACTIVITY_KIND_COUNT] = { 0 };
    run(&l, true, RECORDS_KEPT, cases[_i].by_nccl, -1, &took_ns);
    const struct timeline *t = here.summary.timeline;
    for (int r = 0; r < t->rank_count; r++) {
        check_rank(&l, &t->ranks[r], took_ns, count);
        ck_assert_msg(activity_overlap(&overlap, l.program, t, r, &error), "%s", error.message);
        ck_assert(overlap.lane[LANE_COMPUTE].ran_ns > 0 && overlap.lane[LANE_COMPUTE].alone_ns == 0);
    }
    ck_assert_int_eq(here.begins, t->rank_count);
    ck_assert_int_eq(here.ends, t->rank_count);
    ck_assert_int_eq(here.notes, 0);
    if (t->rank_count == 1) { /* of several, one may watch already while another is in the step before */
        ck_assert_int_eq(count[ACTIVITY_COPY], here.copies);
        ck_assert_int_eq(count[ACTIVITY_FILL], here.fills);
        ck_assert_int_ge(count[ACTIVITY_KERNEL], here.launches); /* products do not go by launch() */
    }
    lowered_free(&l);
}
END_TEST

/* Nothing but time may depend on whether somebody looks. */
START_TEST(looking_changes_nothing)
{
    struct lowered l = lower(&cases[_i].choice);
    double loss[STEPS];
    int64_t took_ns;
    run(&l, true, RECORDS_KEPT, cases[_i].by_nccl, -1, &took_ns);
    memcpy(loss, here.loss, sizeof loss);
    run_summary_free(&here.summary);
    emulated_nccl_free(here.shared);
    run(&l, false, RECORDS_KEPT, cases[_i].by_nccl, -1, &took_ns);
    ck_assert_mem_eq(loss, here.loss, sizeof loss);
    ck_assert_int_eq(here.begins, 0);
    for (int r = 0; r < here.summary.rank_count; r++)
        ck_assert_int_eq(here.summary.timeline->ranks[r].activity.counts.recorded, 0);
    lowered_free(&l);
}
END_TEST

START_TEST(without_records_the_run_goes_on)
{
    static const struct {
        enum records records;
        const char *why;
        int begins;
    } ways[] = { { RECORDS_UNKNOWN, "the device keeps no records", 0 },
                 { RECORDS_ABSENT, "there is no library of records", 0 },
                 { RECORDS_REFUSED, "records are for others", 1 },
                 { RECORDS_LOST, "the records were lost", 1 } };
    struct lowered l = lower(&cases[0].choice);
    int64_t took_ns;
    run(&l, true, ways[_i].records, false, -1, &took_ns);
    ck_assert_int_eq(here.notes, 1);
    ck_assert_int_eq(here.begins, ways[_i].begins);
    ck_assert_msg(strstr(here.note, "kernels are not recorded") && strstr(here.note, ways[_i].why), "%s", here.note);
    ck_assert_int_eq(here.summary.timeline->ranks[0].activity.counts.recorded, 0);
    ck_assert_int_gt(here.summary.timeline->ranks[0].spans[0].finish_ns, 0);
    lowered_free(&l);
}
END_TEST

/* Recording costs time that no other step takes: that step is not typical, unless there is no other. */
START_TEST(a_recorded_step_is_not_typical)
{
    struct lowered l = lower(&cases[0].choice);
    int64_t took_ns;
    step_count = 2 + _i;
    run(&l, true, RECORDS_KEPT, false, -1, &took_ns);
    ck_assert_int_gt(here.step_ns[step_count - 1], SLOWED_NS);
    ck_assert_int_eq(here.summary.step_ns_median, here.step_ns[1]);
    step_count = STEPS;
    lowered_free(&l);
}
END_TEST

/* Ranks that watch wait for each other at the end: one that fails must not leave them there. */
START_TEST(a_rank_that_fails_watches_no_longer)
{
    struct lowered l = lower(&cases[2].choice);
    int64_t took_ns;
    run(&l, true, RECORDS_KEPT, false, 3, &took_ns);
    ck_assert_int_ge(here.forgotten, 1);
    ck_assert_int_eq(here.begins, here.ends + here.forgotten);
    lowered_free(&l);
}
END_TEST

static Suite *gpu_watch_suite(void)
{
    Suite *suite = suite_create("gpu_watch");
    CHECK_ADD_LOOP(suite, the_last_step_is_recorded, CASES);
    CHECK_ADD_LOOP(suite, looking_changes_nothing, CASES);
    CHECK_ADD_LOOP(suite, without_records_the_run_goes_on, 4);
    CHECK_ADD_LOOP(suite, a_recorded_step_is_not_typical, 2);
    CHECK_ADD(suite, a_rank_that_fails_watches_no_longer);
    return suite;
}

CHECK_MAIN(gpu_watch_suite)
