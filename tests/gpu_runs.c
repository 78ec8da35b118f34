#include "tests/gpu_runs.h"
#include "executor/comm_threads.h"
#include "executor/gpu/device.h"
#include "tests/emulated/emulated.h"
#include <stdio.h>
#include <string.h>

struct counted counted;
struct run_settings settings = { .steps = STEPS };

#ifdef CLEAVE_REAL_DOUBLE
static const double tolerance = 1e-10;
#else
static const double tolerance = 1e-4;
#endif

/* ---- a device that counts ---- */
/* Of all ranks the same functions. */
static bool (*_Atomic library_fuses)(void *self, const struct gpu_matmul *matmul);
static bool (*_Atomic library_matmul)(void *self, void *stream, const struct gpu_matmul *matmul, bool *taken,
                                      struct error *declined, struct error *err);
static bool (*_Atomic library_launch)(void *self, void *stream, enum gpu_kernel kernel, int64_t teams,
                                      const struct gpu_work *work, struct error *err);
static bool (*_Atomic library_replay)(void *self, void *stream, void *graph, struct error *err);

static bool counted_fuses(void *self, const struct gpu_matmul *matmul)
{
    bool fuses = library_fuses(self, matmul);
    counted.granted[matmul->epilogue] += fuses;
    return fuses;
}

static bool counted_matmul(void *self, void *stream, const struct gpu_matmul *matmul, bool *taken,
                           struct error *declined, struct error *err)
{
    static real elsewhere[1 << 18];
    const int64_t before = counted.products++;
    for (int time = 0; settings.compares_apart && matmul->apart && time < 2; time++) {
        ck_assert_int_le((matmul->count - 1) * matmul->c_next + matmul->m * matmul->n,
                         (int64_t)(sizeof elsewhere / sizeof *elsewhere));
        settings.compares_apart = false;
        if (!matmul->apart(matmul->apart_context, matmul->accumulate ? elsewhere : matmul->c, err))
            return false;
        settings.compares_apart = true;
        counted.compared[matmul->epilogue]++;
    }
    if (settings.refuse_each > 0 && before % settings.refuse_each == 0) {
        counted.refused[matmul->epilogue != GPU_PLAIN || matmul->count > 1]++;
        *taken = false;
        fail_kind(declined, ERROR_ENVIRONMENT, "it is refused");
        return true;
    }
    counted.products_with_fixed_bits += matmul->deterministic;
    ck_assert_int_lt(matmul->count, (int64_t)(sizeof counted.calls_of / sizeof *counted.calls_of));
    counted.calls_of[matmul->count]++;
    return library_matmul(self, stream, matmul, taken, declined, err);
}

static bool counted_launch(void *self, void *stream, enum gpu_kernel kernel, int64_t teams, const struct gpu_work *work,
                           struct error *err)
{
    counted.launches[kernel]++;
    return library_launch(self, stream, kernel, teams, work, err);
}

static bool counted_replay(void *self, void *stream, void *graph, struct error *err)
{
    counted.replays++;
    return library_replay(self, stream, graph, err);
}

static void count_mark(const char *name)
{
    ck_assert_uint_gt(strlen(name), 4);
    counted.marks++;
    counted.open_marks++;
}

static void count_unmark(void)
{
    counted.open_marks--;
}

static bool open_one(struct rank *rank, int threads, int teams, bool with_library, struct error *err)
{
    struct gpu gpu;
    if (gpu_module_path())
        gpu_module_open_or_skip(&gpu, rank->rank);
    else if (!gpu_emulated_open(&gpu, threads, teams, with_library, err))
        return false;
    if (!gpu_module_path())
        gpu.device = rank->rank, gpu.device_count = rank->program->plan->rank_count;
    if (gpu.fuses) { /* a device without a library is asked nothing */
        library_fuses = gpu.fuses;
        gpu.fuses = counted_fuses;
        library_matmul = gpu.matmul;
        gpu.matmul = counted_matmul;
    }
    library_launch = gpu.launch;
    gpu.launch = counted_launch;
    library_replay = gpu.replay;
    gpu.replay = counted_replay, gpu.mark = count_mark, gpu.unmark = count_unmark;
    return gpu_device_open(rank, &gpu, NULL, err);
}

static bool open_single(struct rank *rank, struct error *err)
{
    return open_one(rank, 1, 2, true, err);
}

static bool open_teams(struct rank *rank, struct error *err)
{
    return open_one(rank, 2, 1, false, err);
}

const struct device device_single = { .name = "emulated", .open = open_single, GPU_DEVICE_FUNCTIONS };
const struct device device_teams = { .name = "emulated", .open = open_teams, GPU_DEVICE_FUNCTIONS };

/* ---- runs ---- */
static void on_step(void *context, const struct run_step *step)
{
    ((struct outcome *)context)->loss[step->step - 1] = step->loss;
}

static void on_note(void *context, const char *text)
{
    (void)context;
    counted.notes += strstr(text, "by an own kernel, which is slow: it is refused") != NULL;
}

static void on_gradient(void *context, int64_t step, int rank, int buffer, const void *data)
{
    struct gradients *shown = settings.gradients;
    const struct buffer *b = &shown->program->buffers[buffer];
    (void)context;
    ck_assert(rank == 0 && b->is_weight && b->id < MAX_WEIGHTS);
    if (step > 0)
        return;
    shown->of[b->id] = malloc((size_t)buffer_holds(b) * sizeof(real));
    shown->elements[b->id] = buffer_holds(b);
    snprintf(shown->name[b->id], sizeof shown->name[b->id], "%s", shown->program->graph->weights[b->id].name);
    memcpy(shown->of[b->id], data, (size_t)buffer_holds(b) * sizeof(real));
}

/* Every span lies inside the step, and begins after those that it waits for have ended, and that before it on its lane.
 */
static int64_t spans_in_order(const struct program *program, const struct timeline *timeline)
{
    int64_t count = 0;
    for (int r = 0; r < timeline->rank_count; r++) {
        const struct rank_timeline *row = &timeline->ranks[r];
        const struct stage_program *stage = &program->stages[row->stage];
        int64_t lane_ns[LANE_COUNT] = { 0 };
        for (int i = 0; i < stage->instr_count; i++) {
            const struct instr *instr = &stage->instrs[i];
            ck_assert_msg(row->spans[i].start_ns >= 0 && row->spans[i].start_ns <= row->spans[i].finish_ns,
                          "rank %d instruction %d %s: from %lld to %lld ns", r, i, op_info[instr->op].name,
                          (long long)row->spans[i].start_ns, (long long)row->spans[i].finish_ns);
            for (int w = 0; w < instr->wait_count; w++, count++)
                ck_assert(row->spans[stage->waits[instr->wait_first + w]].finish_ns <= row->spans[i].start_ns);
            ck_assert(lane_ns[instr->lane] <= row->spans[i].start_ns);
            lane_ns[instr->lane] = row->spans[i].finish_ns;
        }
    }
    return count;
}

struct outcome gpu_run_as(enum dtype dtype, const char *model, const struct tiny_choice *choice,
                          const struct device *device, const char *write, const char *resume)
{
    struct outcome outcome = { .weight_sum = 0 };
    struct error error = { 0 };
    struct transport transports[MAX_RANKS];
    struct run_summary summary;
    struct data data;
    struct graph *graph = tiny_graph(model);
    struct plan *plan = tiny_plan(graph, choice);
    plan->dtype = dtype;
    struct program *program = tiny_lower(graph, plan, &error);
    ck_assert_msg(program != NULL, "%s", error.message);
    ck_assert(comm_threads_open(transports, plan->rank_count, &error));
    ck_assert_msg(data_synthetic(&data, sample_shape_of(graph), 7, &error), "%s", error.message);
    struct run_options options = run_options_default();
    options.step_count = write ? 1 + settings.saves_beside : settings.steps, options.no_graph = settings.no_graphs,
    options.seed = 3, options.deterministic = settings.fixed_bits, options.learning_rate = 1e-2;
    options.data = &data, options.device = device, options.poison = true;
    options.context = &outcome, options.on_step = on_step, options.on_note = on_note;
    options.learned = settings.learned;
    options.checkpoint_dir = write, options.checkpoint_every = 1, options.resume_dir = resume;
    if (settings.gradients) {
        settings.gradients->program = program;
        options.on_gradient = on_gradient;
    }
    ck_assert_msg(run_program(&summary, program, transports, plan->rank_count, &options, &error), "%s", error.message);
    outcome.squared_norm = summary.squared_norm;
    memcpy(outcome.outside, summary.outside, (size_t)plan->rank_count * sizeof *outcome.outside);
    if (device != &device_cpu)
        outcome.spans_in_order = spans_in_order(program, summary.timeline);
    for (int r = 0; r < plan->rank_count; r++)
        transports[r].close(transports[r].self);
    run_summary_free(&summary);
    data_free(&data);
    program_free(program);
    plan_free(plan);
    graph_free(graph);
    return outcome;
}

struct outcome gpu_run(const char *model, const struct tiny_choice *choice, const struct device *device,
                       const char *write, const char *resume)
{
    enum dtype dtype = sizeof(real) == sizeof(double) ? DTYPE_FP64 : DTYPE_FP32;
    return gpu_run_as(dtype, model, choice, device, write, resume);
}

const struct tiny_choice gpu_single = { .dp = 1, .tp = 1, .pp = 1, .micro = 1, .tp_dim = DIM_tp, .clip = 1 };
const struct tiny_choice gpu_choices_tried[GPU_TRIED] = {
    { .dp = 1, .tp = 1, .pp = 1, .micro = 2, .tp_dim = DIM_tp, .clip = 1, .offload = OFFLOAD_ALL, .recompute = 2 },
    { .dp = 2, .tp = 2, .pp = 2, .micro = 2, .tp_dim = DIM_tp_sp, .clip = 1, .zero = 1, .offload = OFFLOAD_OPTIMIZER },
    { .dp = 2,
      .tp = 2,
      .pp = 1,
      .micro = 2,
      .tp_dim = DIM_tp,
      .clip = 1,
      .zero = 3,
      .prefetch = 1,
      .bucket = 1 << 14,
      .offload = OFFLOAD_PARAMETERS },
    { .dp = 1,
      .tp = 2,
      .pp = 2,
      .micro = 4,
      .tp_dim = DIM_tp_sp,
      .clip = 1,
      .named = "zb-h1",
      .zero = 2,
      .offload = 1 },
    { .dp = 1, .tp = 2, .pp = 1, .micro = 1, .tp_dim = DIM_cp_ring, .clip = 1, .recompute = RECOMPUTE_SELECTIVE },
    { .dp = 1, .tp = 1, .pp = 1, .micro = 2, .tp_dim = DIM_tp, .clip = 1, .loss_chunks = 4 },
    { .dp = 1, .tp = 2, .pp = 1, .micro = 8, .tp_dim = DIM_tp_sp, .clip = 1, .zero = 1, .loss_chunks = 8 },
};
void gpu_expect_same(const struct outcome *got, const struct outcome *want)
{
    for (int s = 0; s < STEPS; s++)
        CHECK_NEAR(got->loss[s], want->loss[s], tolerance * fabs(want->loss[s]));
    CHECK_NEAR(got->squared_norm, want->squared_norm, 10 * tolerance * want->squared_norm);
}
