/* Programs on emulated GPUs compute what they compute on the processor: streams, events, copies and the conversions
 * between layouts included. Streams run in no order but that of the events, so a wait that is missing shows. */
#include "check.h"
#include "base/num.h"
#include "executor/backends.h"
#include "executor/comm_threads.h"
#include "executor/gpu/choices.h"
#include "executor/gpu/device.h"
#include "executor/gpu/emulated.h"
#include "executor/gpu/kinds.h"
#include "executor/kernels/bf16.h"
#include "executor/run.h"
#include "tests/gpu_module.h"
#include "tiny_models.h"
#include <float.h>
#include <stdio.h>
#include <unistd.h>

enum { MAX_RANKS = 8, STEPS = 3, MOST_STEPS = 7 };

#ifdef CLEAVE_REAL_DOUBLE
static const double tolerance = 1e-10, gradient_tolerance = 1e-10;
#else
static const double tolerance = 1e-4, gradient_tolerance = 1e-5;
#endif

/* What was asked of the library and granted, by epilogue; a device without one is asked nothing. */
static _Atomic int granted[GPU_BIAS_GRADIENT + 1];
static bool (*_Atomic library_fuses)(void *self, const struct gpu_matmul *matmul);

static bool counted_fuses(void *self, const struct gpu_matmul *matmul)
{
    bool fuses = library_fuses(self, matmul);
    granted[matmul->epilogue] += fuses;
    return fuses;
}

/* Calls of the library that are several products, and products in these; of all, those with fixed bits. */
static _Atomic int64_t calls_of_several, products_in_several, products_with_fixed_bits, products;
static bool (*_Atomic library_matmul)(void *self, void *stream, const struct gpu_matmul *matmul, struct error *err);

static bool counted_matmul(void *self, void *stream, const struct gpu_matmul *matmul, struct error *err)
{
    products++;
    products_with_fixed_bits += matmul->deterministic;
    if (matmul->count > 1) {
        calls_of_several++;
        products_in_several += matmul->count;
    }
    return library_matmul(self, stream, matmul, err);
}

static _Atomic int64_t launches[GPU_KERNEL_COUNT];
static bool (*_Atomic library_launch)(void *self, void *stream, enum gpu_kernel kernel, int64_t teams,
                                      const struct gpu_work *work, struct error *err);

static bool counted_launch(void *self, void *stream, enum gpu_kernel kernel, int64_t teams, const struct gpu_work *work,
                           struct error *err)
{
    launches[kernel]++;
    return library_launch(self, stream, kernel, teams, work, err);
}

static _Atomic int replays, marks, open_marks;
static bool (*_Atomic library_replay)(void *self, void *stream, void *graph, struct error *err);

static bool counted_replay(void *self, void *stream, void *graph, struct error *err)
{
    replays++;
    return library_replay(self, stream, graph, err);
}

static void count_mark(const char *name)
{
    ck_assert_uint_gt(strlen(name), 4);
    marks++;
    open_marks++;
}

static void count_unmark(void)
{
    open_marks--;
}

static bool open_one(struct rank *rank, int threads, int teams, bool with_library, struct error *err)
{
    struct gpu gpu;
    if (gpu_module_path())
        gpu_module_open_or_skip(&gpu, rank->rank);
    else if (!gpu_emulated_open(&gpu, threads, teams, with_library, err))
        return false;
    if (gpu.fuses) { /* of all ranks the same function */
        library_fuses = gpu.fuses;
        gpu.fuses = counted_fuses;
        library_matmul = gpu.matmul;
        gpu.matmul = counted_matmul;
    }
    library_launch = gpu.launch;
    gpu.launch = counted_launch;
    library_replay = gpu.replay;
    gpu.replay = counted_replay, gpu.mark = count_mark, gpu.unmark = count_unmark;
    return gpu_device_open(rank, &gpu, err);
}

static bool open_single(struct rank *rank, struct error *err)
{
    return open_one(rank, 1, 2, true, err);
}

static bool open_teams(struct rank *rank, struct error *err)
{
    return open_one(rank, 2, 1, false, err);
}

static const struct device device_single = { .name = "emulated", .open = open_single, GPU_DEVICE_FUNCTIONS };
static const struct device device_teams = { .name = "emulated", .open = open_teams, GPU_DEVICE_FUNCTIONS };

static int steps_of_runs = STEPS;
static bool fixed_bits;
static bool no_graphs;

struct outcome {
    double loss[MOST_STEPS], weight_sum, squared_norm;
    int64_t spans_in_order;
};

static void on_step(void *context, const struct run_step *step)
{
    ((struct outcome *)context)->loss[step->step - 1] = step->loss;
}

/* The first step's gradient of each weight of a plan of one rank. */
enum { MAX_WEIGHTS = 64 };
struct gradients {
    const struct program *program; /* of the running plan */
    real *of[MAX_WEIGHTS];         /* NULL: it has none */
    int64_t elements[MAX_WEIGHTS];
    char name[MAX_WEIGHTS][64];
};
static struct gradients *gradients_shown; /* where runs put them; NULL: nobody asks */

static void on_gradient(void *context, int64_t step, int rank, int buffer, const void *data)
{
    struct gradients *shown = gradients_shown;
    const struct buffer *b = &shown->program->buffers[buffer];
    (void)context;
    ck_assert(rank == 0 && b->is_weight && b->id < MAX_WEIGHTS);
    if (step > 0)
        return;
    shown->of[b->id] = malloc((size_t)b->elements * sizeof(real));
    shown->elements[b->id] = b->elements;
    snprintf(shown->name[b->id], sizeof shown->name[b->id], "%s", shown->program->graph->weights[b->id].name);
    memcpy(shown->of[b->id], data, (size_t)b->elements * sizeof(real));
}

/* Every span lies inside the step, and begins after those that it waits for have ended. */
static int64_t spans_in_order(const struct program *program, const struct timeline *timeline)
{
    int64_t count = 0;
    for (int r = 0; r < timeline->rank_count; r++) {
        const struct rank_timeline *row = &timeline->ranks[r];
        const struct stage_program *stage = &program->stages[row->stage];
        for (int i = 0; i < stage->instr_count; i++) {
            const struct instr *instr = &stage->instrs[i];
            ck_assert_msg(row->spans[i].start_ns >= 0 && row->spans[i].start_ns <= row->spans[i].finish_ns,
                          "rank %d instruction %d %s: from %lld to %lld ns", r, i, op_info[instr->op].name,
                          (long long)row->spans[i].start_ns, (long long)row->spans[i].finish_ns);
            for (int w = 0; w < instr->wait_count; w++, count++)
                ck_assert(row->spans[stage->waits[instr->wait_first + w]].finish_ns <= row->spans[i].start_ns);
        }
    }
    return count;
}

static struct outcome run_as(enum dtype dtype, const char *model, const struct tiny_choice *choice,
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
    options.step_count = write ? 1 : steps_of_runs, options.no_graph = no_graphs, options.seed = 3,
    options.deterministic = fixed_bits, options.learning_rate = 1e-2;
    options.data = &data, options.device = device, options.poison = true;
    options.context = &outcome, options.on_step = on_step;
    options.checkpoint_dir = write, options.resume_dir = resume;
    if (gradients_shown) {
        gradients_shown->program = program;
        options.on_gradient = on_gradient;
    }
    ck_assert_msg(run_program(&summary, program, transports, plan->rank_count, &options, &error), "%s", error.message);
    outcome.squared_norm = summary.squared_norm;
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

static struct outcome run(const char *model, const struct tiny_choice *choice, const struct device *device,
                          const char *write, const char *resume)
{
    enum dtype dtype = sizeof(real) == sizeof(double) ? DTYPE_FP64 : DTYPE_FP32;
    return run_as(dtype, model, choice, device, write, resume);
}

static const struct tiny_choice single = { .dp = 1, .tp = 1, .pp = 1, .micro = 1, .tp_dim = DIM_tp, .clip = 1 };
static const struct tiny_choice choices[] = {
    { .dp = 1, .tp = 1, .pp = 1, .micro = 2, .tp_dim = DIM_tp, .clip = 1, .offload = OFFLOAD_BOTH, .recompute = 2 },
    { .dp = 2, .tp = 2, .pp = 2, .micro = 2, .tp_dim = DIM_tp_sp, .clip = 1, .zero = 1, .offload = OFFLOAD_OPTIMIZER },
    { .dp = 2, .tp = 2, .pp = 1, .micro = 2, .tp_dim = DIM_tp, .clip = 1, .zero = 3, .prefetch = 1, .bucket = 1 << 14 },
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
};
enum { CHOICES = sizeof choices / sizeof *choices };

static void expect_same(const struct outcome *got, const struct outcome *want)
{
    for (int s = 0; s < STEPS; s++)
        CHECK_NEAR(got->loss[s], want->loss[s], tolerance * fabs(want->loss[s]));
    CHECK_NEAR(got->squared_norm, want->squared_norm, 10 * tolerance * want->squared_norm);
}

START_TEST(plans_compute_what_the_processor_computes)
{
    const char *model = tiny_models[_i];
    struct outcome want = run(model, &single, &device_cpu, NULL, NULL);
    struct outcome alone = run(model, &single, &device_teams, NULL, NULL);
    expect_same(&alone, &want);
    ck_assert_double_lt(want.loss[STEPS - 1], want.loss[0]); /* it learns, so that updates matter */
    for (int c = 0; c < CHOICES; c++) {
        if (!in_share((uint64_t)(c + _i)))
            continue;
        struct outcome got = run(model, &choices[c], &device_single, NULL, NULL);
        expect_same(&got, &want);
        ck_assert_int_gt(got.spans_in_order, c == 0 ? -1 : 0);
    }
}
END_TEST

/* ---- gradients of whole models ---- */
static double norm_of(const real *x, int64_t count)
{
    double sum = 0;
    for (int64_t i = 0; i < count; i++)
        sum += (double)x[i] * (double)x[i];
    return sqrt(sum);
}

/* The gradient of a key's bias is 0 but for rounding, as a softmax does not change when all its scores do: what is
 * smaller counts as SMALL_TENSOR of the whole gradient. */
static void expect_gradients(const struct gradients *got, const struct gradients *want)
{
    const double SMALL_TENSOR = 1e-3;
    double all = 0;
    int seen = 0;
    for (int w = 0; w < MAX_WEIGHTS; w++)
        if (want->of[w])
            all = hypot(all, norm_of(want->of[w], want->elements[w]));
    for (int w = 0; w < MAX_WEIGHTS; w++) {
        ck_assert_msg(!got->of[w] == !want->of[w] && got->elements[w] == want->elements[w], "weight %d: %lld and %lld",
                      w, (long long)got->elements[w], (long long)want->elements[w]);
        if (!want->of[w])
            continue;
        double sum = 0, bar = fmax(norm_of(want->of[w], want->elements[w]), SMALL_TENSOR * all);
        for (int64_t i = 0; i < want->elements[w]; i++)
            sum += pow((double)got->of[w][i] - (double)want->of[w][i], 2);
        ck_assert_msg(sqrt(sum) <= gradient_tolerance * bar, "%s: differs by %.2g of its norm", want->name[w],
                      sqrt(sum) / bar);
        seen++;
    }
    ck_assert_int_gt(seen, 0);
}

static struct gradients gradients_of(const char *model, const struct device *device)
{
    struct gradients gradients = { .of = { NULL } };
    gradients_shown = &gradients, steps_of_runs = 1;
    run(model, &single, device, NULL, NULL);
    gradients_shown = NULL, steps_of_runs = STEPS;
    return gradients;
}

static void gradients_free(struct gradients *gradients)
{
    for (int w = 0; w < MAX_WEIGHTS; w++)
        free(gradients->of[w]);
}

/* Rows longer than a team, and of no round length. */
static const char *const wide_models[] = {
    TINY_GPT_OF("wide-gpt", "16", "264", "true", "16", "1", "4", "300"),
    TINY_LLAMA_OF("wide-llama", "16", "272", "false", "1", "4", "2", "290"),
};
enum { WIDE_MODELS = sizeof wide_models / sizeof *wide_models };

/* Weight by weight in the 2-norm. */
START_TEST(gradients_are_the_processors)
{
    const char *model = _i < TINY_SEEING    ? tiny_models[_i]
                        : _i == TINY_SEEING ? TINY_DROPLESS
                                            : wide_models[_i - TINY_SEEING - 1];
    const struct device *const devices[] = { &device_single, &device_teams };
    if (!in_share((uint64_t)_i))
        return;
    struct gradients want = gradients_of(model, &device_cpu);
    for (int d = 0; d < (gpu_module_path() || _i > TINY_SEEING ? 1 : 2); d++) {
        struct gradients got = gradients_of(model, devices[d]);
        expect_gradients(&got, &want);
        gradients_free(&got);
    }
    gradients_free(&want);
}
END_TEST

#ifndef CLEAVE_REAL_DOUBLE
/* Losses in bf16 are those in fp32 up to its rounding, whatever the plan. */
START_TEST(half_precision_is_near)
{
    const char *model = tiny_models[_i];
    struct outcome want = run(model, &single, &device_cpu, NULL, NULL);
    for (int c = -1; c < CHOICES; c++) {
        struct outcome got = run_as(DTYPE_BF16, model, c < 0 ? &single : &choices[c], &device_single, NULL, NULL);
        for (int s = 0; s < STEPS; s++)
            CHECK_NEAR(got.loss[s], want.loss[s], 0.01 * want.loss[s]);
        CHECK_NEAR(got.squared_norm, want.squared_norm, 0.1 * want.squared_norm);
        ck_assert_double_lt(got.loss[STEPS - 1], got.loss[0]);
    }
}
END_TEST

/* A run in bf16 that stops and goes on, on the same plan and with fixed bits, has the losses of one that does not, bit
 * by bit; on another plan, and in fp32, those up to rounding. */
START_TEST(half_precision_checkpoints)
{
    char dir[] = "/tmp/cleave-gpu-half-XXXXXX", command[64];
    const char *model = tiny_models[_i];
    ck_assert_ptr_nonnull(mkdtemp(dir));
    fixed_bits = true;
    struct outcome want = run_as(DTYPE_BF16, model, &choices[1], &device_single, NULL, NULL);
    run_as(DTYPE_BF16, model, &choices[1], &device_single, dir, NULL);
    struct outcome same = run_as(DTYPE_BF16, model, &choices[1], &device_single, NULL, dir),
                   other = run_as(DTYPE_BF16, model, &choices[2], &device_single, NULL, dir),
                   full = run_as(DTYPE_FP32, model, &single, &device_cpu, NULL, dir);
    fixed_bits = false;
    for (int s = 1; s < STEPS; s++) {
        ck_assert_msg(same.loss[s] == want.loss[s], "step %d: %.17g, without a stop %.17g", s + 1, same.loss[s],
                      want.loss[s]);
        CHECK_NEAR(other.loss[s], want.loss[s], 0.01 * want.loss[s]);
        CHECK_NEAR(full.loss[s], want.loss[s], 0.01 * want.loss[s]);
    }
    snprintf(command, sizeof command, "rm -r %s", dir);
    ck_assert_int_eq(system(command), 0);
}
END_TEST

/* Steps far below the spacing of bf16 are not lost: the weights in full precision move as the processor's do. */
START_TEST(small_steps_add_up)
{
    enum { COUNT = 100, MANY = 200 };
    struct gpu gpu;
    struct error error = { 0 };
    float exact[COUNT], gradient[COUNT], state[2 * COUNT] = { 0 }, moments[2 * COUNT] = { 0 }, master[COUNT];
    uint16_t weight[COUNT];
    struct adamw adamw = {
        .learning_rate = 1e-5, .beta1 = 0.9, .beta2 = 0.95, .epsilon = 1e-8, .weight_decay = 0.1, .gradient_scale = 1
    };
    ck_assert(gpu_emulated_open(&gpu, 4, 2, true, &error));
    void *stream = gpu.open_stream(gpu.self, &error);
    for (int i = 0; i < COUNT; i++) {
        exact[i] = master[i] = (float)(i + 1) / 50, gradient[i] = i % 3 ? 0.5f : -0.25f;
        weight[i] = bf16_of_real(master[i]);
    }
    for (adamw.step = 1; adamw.step <= MANY; adamw.step++) {
        struct gpu_work work = { .integer = { [ADAMW_COUNT] = COUNT },
                                 .spot = { [ADAMW_WEIGHT] = { .data = weight, .type = GPU_BF16 },
                                           [ADAMW_GRADIENT] = { .data = gradient },
                                           [ADAMW_MOMENTS] = { .data = moments },
                                           [ADAMW_MASTER] = { .data = master } } };
        gpu_adamw_numbers(&work, &adamw, 0);
        ck_assert(gpu_start_elements(&gpu, stream, GPU_ADAMW, &work, COUNT, &error));
        ck_assert(gpu.finish(gpu.self, stream, &error));
        kernel_adamw(exact, exact, gradient, state, COUNT, &adamw);
    }
    for (int i = 0; i < COUNT; i++) {
        CHECK_NEAR((double)master[i], (double)exact[i],
                   MANY * (double)FLT_EPSILON * (double)exact[i]); /* of rounding */
        ck_assert_uint_eq(weight[i], bf16_of_real(master[i]));
        ck_assert(fabsf(exact[i] - (float)(i + 1) / 50) > 1e-3f);
    }
    gpu.close_stream(gpu.self, stream);
    gpu.close(gpu.self);
}
END_TEST

/* ---- rounding by chance ---- */
enum { ROWS = 36, COLUMNS = 50, ELEMENTS = ROWS * COLUMNS };
static const struct weight rounded_weight = {
    .name = "w", .dim_count = 2, .size = { ROWS, COLUMNS }, .valid_rows = ROWS
};

/* One update of elements [first, first + count) of the flattened block, gathered from whole arrays and put back. */
static void update_piece(const struct block *block, int64_t first, int64_t count, int64_t step, const float *master,
                         const float *gradient, uint16_t *out)
{
    struct gpu gpu;
    struct error error = { 0 };
    int64_t row;
    float *own = calloc((size_t)count * 4 + 4, sizeof *own), *pull = own + count, *moments = pull + count;
    uint16_t *half = calloc((size_t)count + 1, sizeof *half);
    struct adamw adamw = {
        .learning_rate = 1e-3, .beta1 = 0.9, .beta2 = 0.95, .epsilon = 1e-8, .step = step, .gradient_scale = 1
    };
    ck_assert(gpu_emulated_open(&gpu, 1, 2, true, &error));
    void *stream = gpu.open_stream(gpu.self, &error);
    for (int64_t i = 0; i < count; i++) {
        int64_t element = kernel_global_element(&rounded_weight, block, first + i, &row);
        own[i] = master[element], pull[i] = gradient[element];
    }
    struct gpu_work work = { .integer = { [ADAMW_COUNT] = count },
                             .spot = { [ADAMW_WEIGHT] = { .data = half, .type = GPU_BF16 },
                                       [ADAMW_GRADIENT] = { .data = pull },
                                       [ADAMW_MOMENTS] = { .data = moments },
                                       [ADAMW_MASTER] = { .data = own } } };
    gpu_adamw_numbers(&work, &adamw, 0);
    gpu_adamw_chance(&work, &rounded_weight, block, first, 5, step);
    ck_assert(gpu_start_elements(&gpu, stream, GPU_ADAMW, &work, count, &error) &&
              gpu.finish(gpu.self, stream, &error));
    for (int64_t i = 0; i < count; i++)
        out[kernel_global_element(&rounded_weight, block, first + i, &row)] = half[i];
    gpu.close_stream(gpu.self, stream);
    gpu.close(gpu.self);
    free(own);
    free(half);
}

/* Whole, by columns, by rows, and pieces of the flattened blocks: the same bits, also where elements come one by one.
 */
START_TEST(rounding_does_not_depend_on_who_holds_an_element)
{
    float *master = calloc(2 * ELEMENTS, sizeof *master), *gradient = master + ELEMENTS;
    uint16_t *want = calloc(3 * ELEMENTS, sizeof *want), *got = want + ELEMENTS, *later = got + ELEMENTS;
    const struct block whole = { 2, { 0 }, { ROWS, COLUMNS } };
    for (int i = 0; i < ELEMENTS; i++) {
        master[i] = (float)((double)(mix64((uint64_t)i) >> 11) / (double)(1ull << 53) + 0.5);
        gradient[i] = i % 3 ? 1.f : -1.f;
    }
    update_piece(&whole, 0, ELEMENTS, 1, master, gradient, want);
    static const int64_t cuts[][2] = { { 1, 2 }, { 1, 5 }, { 3, 1 }, { 4, 2 } }; /* by rows, by columns */
    for (size_t c = 0; c < sizeof cuts / sizeof *cuts; c++)
        for (int64_t pieces = 1; pieces <= 4; pieces++) {
            memset(got, 0, ELEMENTS * sizeof *got);
            for (int64_t i = 0; i < cuts[c][0] * cuts[c][1]; i++) {
                const int64_t rows = ROWS / cuts[c][0], columns = COLUMNS / cuts[c][1],
                              each = ceil_div(rows * columns, pieces);
                const struct block block = { 2,
                                             { i / cuts[c][1] * rows, i % cuts[c][1] * columns },
                                             { rows, columns } };
                for (int64_t first = 0; first < rows * columns; first += each)
                    update_piece(&block, first, min_i64(each, rows * columns - first), 1, master, gradient, got);
            }
            ck_assert_msg(memcmp(got, want, ELEMENTS * sizeof *got) == 0, "cut %zu in %lld pieces", c,
                          (long long)pieces);
        }
    update_piece(&whole, 0, ELEMENTS, 2, master, gradient, later);
    ck_assert_int_ne(memcmp(later, want, ELEMENTS * sizeof *want), 0);
    free(master);
    free(want);
}
END_TEST

/* Of numbers between two neighbours a part as large as their distance says becomes the upper one. */
START_TEST(rounding_by_chance_has_the_right_mean)
{
    enum { MANY = 100000 };
    const uint64_t key = kernel_rounding_key(1, &rounded_weight, 1);
    const float low = 1.f, step = 1.f / 128; /* the spacing of bf16 from 1 on */
    for (int part = 0; part <= 4; part++) {
        int up = 0;
        for (int i = 0; i < MANY; i++) {
            real x = real_of_bf16(bf16_by_chance(low + step * (float)part / 4, key, i));
            ck_assert(x == low || x == low + step);
            up += x > low;
        }
        double share = (double)part / 4, deviation = sqrt(MANY * share * (1 - share));
        CHECK_NEAR((double)up, MANY * share, 5 * deviation);
    }
    ck_assert_uint_eq(bf16_by_chance(-INFINITY, key, 3), 0xff80);
    ck_assert(isnan(real_of_bf16(bf16_by_chance(NAN, key, 3))));
}
END_TEST
#endif

/* A model with biases and GELU: products take what follows them, in every plan, and the numbers are those of the
 * processor, which has no such products. A real library may refuse what is as small as here. */
START_TEST(products_take_what_follows_them)
{
    struct outcome want = run(tiny_models[0], &single, &device_cpu, NULL, NULL);
    for (int c = -1; c < CHOICES; c += 2) {
        for (int e = 0; e <= GPU_BIAS_GRADIENT; e++)
            granted[e] = 0;
        struct outcome got = run(tiny_models[0], c < 0 ? &single : &choices[c], &device_single, NULL, NULL);
        expect_same(&got, &want);
        if (gpu_module_path())
            continue;
        ck_assert_msg(granted[GPU_BIAS] > 0, "choice %d: no bias went with a product", c);
        ck_assert_msg(c >= 0 ||
                          (granted[GPU_GELU_BIAS] > 0 && granted[GPU_GELU_SLOPE] > 0 && granted[GPU_BIAS_GRADIENT] > 0),
                      "choice %d: %d, %d and %d epilogues", c, granted[GPU_GELU_BIAS], granted[GPU_GELU_SLOPE],
                      granted[GPU_BIAS_GRADIENT]);
    }
}
END_TEST

/* Every norm but the first stands behind a residual sum, in whatever layout: both run as one, and what the sum leaves
 * for later layers is there. */
START_TEST(sums_take_the_norm_behind_them)
{
    for (int c = -1; c < CHOICES; c++) {
        if (!in_share((uint64_t)c + 1))
            continue;
        struct outcome want = run(tiny_models[_i], c < 0 ? &single : &choices[c], &device_cpu, NULL, NULL);
        launches[GPU_NORM] = launches[GPU_ADD_NORM] = 0;
        struct outcome got = run(tiny_models[_i], c < 0 ? &single : &choices[c], &device_single, NULL, NULL);
        expect_same(&got, &want);
        if (c < 0)
            ck_assert_msg(launches[GPU_ADD_NORM] > launches[GPU_NORM], "model %d: %lld norms of their own, %lld others",
                          _i, (long long)launches[GPU_NORM], (long long)launches[GPU_ADD_NORM]);
    }
}
END_TEST

/* The logits are read once for their maximum and the sum of their exponentials, where the vocabulary is not split. */
START_TEST(the_loss_reads_logits_once)
{
    for (int c = -1; c < CHOICES; c += 2) {
        if (!in_share((uint64_t)c + 1))
            continue;
        struct outcome want = run(tiny_models[_i], c < 0 ? &single : &choices[c], &device_cpu, NULL, NULL);
        for (int d = 0; d < 2; d++) {
            launches[GPU_LOGIT_MAX] = launches[GPU_SUM_EXP] = launches[GPU_MAX_SUM_EXP] = 0;
            struct outcome got =
                run(tiny_models[_i], c < 0 ? &single : &choices[c], d ? &device_teams : &device_single, NULL, NULL);
            expect_same(&got, &want);
            ck_assert_int_eq(launches[GPU_LOGIT_MAX], launches[GPU_SUM_EXP]);
            ck_assert(c >= 0 || (launches[GPU_MAX_SUM_EXP] > 0 && launches[GPU_SUM_EXP] == 0));
        }
    }
}
END_TEST

/* Two layers of four experts with two matrices each: every matrix is one call for all experts, forward and both ways
 * back. A real library may have reasons of its own. */
START_TEST(experts_are_multiplied_together)
{
    const int64_t calls = 2 * 2 * 3 * STEPS;
    struct outcome want = run(TINY_DROPLESS, &single, &device_cpu, NULL, NULL);
    calls_of_several = products_in_several = 0;
    struct outcome got = run(TINY_DROPLESS, &single, &device_single, NULL, NULL);
    expect_same(&got, &want);
    if (gpu_module_path())
        return;
    ck_assert_int_eq(calls_of_several, calls);
    ck_assert_int_eq(products_in_several, 4 * calls);
}
END_TEST

/* What is timed differs from run to run: a library must know of every product that none of its choices may. */
START_TEST(no_product_with_fixed_bits_is_timed)
{
    for (int fixed = 0; fixed < 2; fixed++) {
        products = products_with_fixed_bits = 0;
        fixed_bits = fixed;
        run(tiny_models[0], &single, &device_single, NULL, NULL);
        ck_assert_int_gt(products, 0);
        ck_assert_int_eq(products_with_fixed_bits, fixed ? products : 0);
    }
    fixed_bits = false;
}
END_TEST

START_TEST(checkpoints_pass_between_devices)
{
    char dir[] = "/tmp/cleave-gpu-XXXXXX", command[64];
    ck_assert_ptr_nonnull(mkdtemp(dir));
    struct outcome want = run(tiny_models[0], &single, &device_cpu, NULL, NULL);
    run(tiny_models[0], &choices[1], &device_single, dir, NULL);
    struct outcome later = run(tiny_models[0], &choices[2], &device_single, NULL, dir);
    later.loss[0] = want.loss[0]; /* of the first run */
    expect_same(&later, &want);
    snprintf(command, sizeof command, "rm -r %s", dir);
    ck_assert_int_eq(system(command), 0);
}
END_TEST

START_TEST(kernels_without_a_form_for_gpus_are_refused)
{
    static const struct {
        int model;
        const char *kernel;
    } cases[] = { { TINY_SEEING, "conv" }, { TINY_SEEING + 1, "conv" } };
    struct error error = { 0 };
    struct graph *graph = tiny_graph(tiny_models[cases[_i].model]);
    struct plan *plan = tiny_plan(graph, &single);
    struct program *program = tiny_lower(graph, plan, &error);
    ck_assert_msg(program != NULL, "%s", error.message);
    ck_assert(!gpu_device_check(program, &error));
    ck_assert_msg(strstr(error.message, cases[_i].kernel) && strstr(error.message, "--backend cpu"), "%s",
                  error.message);
    program_free(program);
    plan_free(plan);
    graph_free(graph);
}
END_TEST

/* Steps that are repeated as graphs are the steps that are queued, bit by bit where bits are fixed: of one rank, with
 * streams for what leaves the device, losses that fall by rates which change, in both precisions. Several ranks
 * exchange data: none of theirs are. */
START_TEST(kept_steps_are_the_queued_ones)
{
#ifdef CLEAVE_REAL_DOUBLE
    const enum dtype dtype = DTYPE_FP64;
#else
    const enum dtype dtype = _i % 2 ? DTYPE_BF16 : DTYPE_FP32;
#endif
    const struct tiny_choice *choice = _i < 2 ? &single : _i < 4 ? &choices[0] : &choices[2];
    if (sizeof(real) == sizeof(double) && _i % 2) /* one precision: the same again */
        return;
    steps_of_runs = MOST_STEPS, fixed_bits = true;
    for (int model = 0; model < TINY_SEEING; model += 7) {
        replays = marks = 0;
        struct outcome kept = run_as(dtype, tiny_models[model], choice, &device_single, NULL, NULL);
        ck_assert_int_eq(replays, _i < 4 ? MOST_STEPS - 2 : 0);
        ck_assert(marks > 0 && open_marks == 0);
        no_graphs = true;
        struct outcome want = run_as(dtype, tiny_models[model], choice, &device_single, NULL, NULL);
        no_graphs = false;
        for (int s = 0; s < MOST_STEPS; s++)
            ck_assert_msg(kept.loss[s] == want.loss[s], "step %d: %.17g, queued %.17g", s + 1, kept.loss[s],
                          want.loss[s]);
    }
    steps_of_runs = STEPS, fixed_bits = false;
}
END_TEST

/* ---- what a run learns of its device ---- */
static int learned_count; /* what the pretended device was told */

static bool learn(void *self, const struct gpu_choice *known, int count, struct error *err)
{
    (void)self, (void)err;
    learned_count = count == 2 && known[1].key[0] == 8 && known[1].setting[GPU_CHOICE_SETTINGS - 1] == 9 ? count : -1;
    return true;
}

static int learned(void *self, struct gpu_choice *out, int most)
{
    (void)self, (void)most;
    out[0] = (struct gpu_choice){ .key = { 7 } };
    out[1] = (struct gpu_choice){ .key = { 8 }, .setting = { [GPU_CHOICE_SETTINGS - 1] = 9 } };
    return 2;
}

START_TEST(chosen_algorithms_outlive_a_run)
{
    char path[] = "/tmp/cleave-tuned-XXXXXX";
    struct error error = { 0 };
    struct gpu gpu = { .description = "a GPU", .learn = learn, .learned = learned };
    ck_assert_int_ge(mkstemp(path), 0);
    ck_assert_msg(gpu_choices_save(&gpu, path, &error) && gpu_choices_load(&gpu, path, &error), "%s", error.message);
    ck_assert_int_eq(learned_count, 2);
    snprintf(gpu.description, sizeof gpu.description, "another GPU");
    ck_assert(!gpu_choices_load(&gpu, path, &error));
    ck_assert_msg(strstr(error.message, "\"a GPU\"") && strstr(error.message, "\"another GPU\""), "%s", error.message);
    ck_assert_int_eq(unlink(path), 0);
    ck_assert_msg(gpu_choices_load(&gpu, path, &(struct error){ 0 }), "a first run finds no file");
}
END_TEST

START_TEST(absent_devices_say_so)
{
    struct error error = { 0 };
    const struct device *cuda = device_find("cuda", &error);
    ck_assert_ptr_eq(cuda, &device_cuda);
    struct run_options options = run_options_default();
    options.module_dir = "/nonexistent";
    struct rank rank = { .options = &options };
    ck_assert(!cuda->open(&rank, &error));
    ck_assert_msg(strstr(error.message, "backend cuda is absent") && strstr(error.message, "/nonexistent"), "%s",
                  error.message);
}
END_TEST

static Suite *gpu_run_suite(void)
{
    Suite *suite = suite_create("gpu_run");
    TCase *models = tcase_create("models");
    tcase_set_timeout(models, 0);
    tcase_add_loop_test(models, plans_compute_what_the_processor_computes, 0, TINY_SEEING);
    tcase_add_loop_test(models, kernels_without_a_form_for_gpus_are_refused, 0, 2);
    tcase_add_loop_test(models, gradients_are_the_processors, 0, TINY_SEEING + 1 + WIDE_MODELS);
    suite_add_tcase(suite, models);
#ifndef CLEAVE_REAL_DOUBLE
    TCase *half = tcase_create("bf16");
    tcase_set_timeout(half, 0);
    tcase_add_loop_test(half, half_precision_is_near, 0, TINY_MIXTURE);
    tcase_add_loop_test(half, half_precision_checkpoints, 0, 2);
    tcase_add_loop_test(half, half_precision_checkpoints, TINY_HALF_FROZEN, TINY_HALF_FROZEN + 1);
    suite_add_tcase(suite, half);
    CHECK_ADD(suite, small_steps_add_up);
    CHECK_ADD(suite, rounding_does_not_depend_on_who_holds_an_element);
    CHECK_ADD(suite, rounding_by_chance_has_the_right_mean);
#endif
    CHECK_ADD_LOOP(suite, kept_steps_are_the_queued_ones, 5);
    CHECK_ADD(suite, products_take_what_follows_them);
    CHECK_ADD_LOOP(suite, sums_take_the_norm_behind_them, 2);
    CHECK_ADD_LOOP(suite, the_loss_reads_logits_once, 2);
    CHECK_ADD(suite, checkpoints_pass_between_devices);
    CHECK_ADD(suite, experts_are_multiplied_together);
    CHECK_ADD(suite, no_product_with_fixed_bits_is_timed);
    CHECK_ADD(suite, chosen_algorithms_outlive_a_run);
    CHECK_ADD(suite, absent_devices_say_so);
    return suite;
}

CHECK_MAIN(gpu_run_suite)
