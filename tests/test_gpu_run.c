/* Programs on emulated GPUs compute what they compute on the processor: streams, events, copies and the conversions
 * between layouts included. Streams run in no order but that of the events, so a wait that is missing shows. */
#include "executor/gpu/choices.h"
#include "executor/gpu/device.h"
#include "host/clock.h"
#include "tests/emulated/emulated.h"
#include "tests/gpu_runs.h"
#include <stdio.h>
#include <unistd.h>

#ifdef CLEAVE_REAL_DOUBLE
static const double gradient_tolerance = 1e-10;
#else
static const double gradient_tolerance = 1e-5;
#endif

START_TEST(plans_compute_what_the_processor_computes)
{
    const char *model = tiny_models[_i];
    if (!gpu_has_turn(_i))
        return;
    struct outcome want = gpu_run(model, &gpu_single, &device_cpu, NULL, NULL);
    struct outcome alone = gpu_run(model, &gpu_single, &device_teams, NULL, NULL);
    gpu_expect_same(&alone, &want);
    ck_assert_double_lt(want.loss[STEPS - 1], want.loss[0]); /* it learns, so that updates matter */
    for (int c = 0; c < GPU_TRIED; c++) {
        if (!in_share((uint64_t)(c + _i)))
            continue;
        struct outcome got = gpu_run(model, &gpu_choices_tried[c], &device_single, NULL, NULL);
        gpu_expect_same(&got, &want);
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
    settings.gradients = &gradients, settings.steps = 1;
    gpu_run(model, &gpu_single, device, NULL, NULL);
    settings.gradients = NULL, settings.steps = STEPS;
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
    TINY_HEAD_OF("wide-normed", "16", "264", "false") /* norms of heads and of outputs, scales, norms without a bias */
    "{\"kind\": \"embedding\", \"scale\": 4, \"token_types\": 2, \"norm\": \"layer_norm_no_bias\"}, "
    "{\"kind\": \"attention\", \"heads\": 4, \"kv_heads\": 2, \"rope_base\": 10000, \"qk_norm\": \"head\", "
    "\"norm\": \"layer_norm_no_bias\", \"output_norm\": \"rms_norm\", \"residual_scale\": 0.5}, "
    "{\"kind\": \"mlp\", \"inner\": 290, \"activation\": \"geglu_erf\", \"norm\": \"rms_norm\", \"residual_scale\": "
    "0.7}, {\"kind\": \"mlp\", \"inner\": 100, \"activation\": \"silu\", \"norm\": \"layer_norm_no_bias\"}, "
    "{\"kind\": \"mlp\", \"inner\": 90, \"activation\": \"quick_gelu\", \"norm\": \"none\", \"output_norm\": "
    "\"layer_norm\", \"bias\": true}, {\"kind\": \"mlp\", \"inner\": 90, \"activation\": \"squared_relu\", \"norm\": "
    "\"rms_norm\"}, {\"kind\": \"head\", \"norm\": \"rms_norm\", \"transform\": true}, {\"kind\": \"loss\"}]}",
};
enum { WIDE_MODELS = sizeof wide_models / sizeof *wide_models };

/* Weight by weight in the 2-norm. */
START_TEST(gradients_are_the_processors)
{
    const char *model = _i < TINY_SEEING    ? tiny_models[_i]
                        : _i == TINY_SEEING ? TINY_DROPLESS
                                            : wide_models[_i - TINY_SEEING - 1];
    const struct device *const devices[] = { &device_single, &device_teams };
    if (!in_share((uint64_t)_i) || !gpu_has_turn(_i))
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
/* Losses in bf16 are those in fp32 up to its rounding, whatever the plan, of which shares have every other one. */
START_TEST(half_precision_is_near)
{
    const char *model = tiny_models[_i];
    struct outcome want = gpu_run(model, &gpu_single, &device_cpu, NULL, NULL);
    for (int c = -1; c < GPU_TRIED; c++) {
        if (!in_turn(c + 1 + _i, 2))
            continue;
        struct outcome got =
            gpu_run_as(DTYPE_BF16, model, c < 0 ? &gpu_single : &gpu_choices_tried[c], &device_single, NULL, NULL);
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
    settings.fixed_bits = true, settings.saves_beside = 1; /* one while the next step goes on, one at the end */
    struct outcome want = gpu_run_as(DTYPE_BF16, model, &gpu_choices_tried[1], &device_single, NULL, NULL);
    gpu_run_as(DTYPE_BF16, model, &gpu_choices_tried[1], &device_single, dir, NULL);
    struct outcome same = gpu_run_as(DTYPE_BF16, model, &gpu_choices_tried[1], &device_single, NULL, dir),
                   other = gpu_run_as(DTYPE_BF16, model, &gpu_choices_tried[2], &device_single, NULL, dir),
                   full = gpu_run_as(DTYPE_FP32, model, &gpu_single, &device_cpu, NULL, dir);
    settings.fixed_bits = false, settings.saves_beside = 0;
    for (int s = 2; s < STEPS; s++) {
        ck_assert_msg(same.loss[s] == want.loss[s], "step %d: %.17g, without a stop %.17g", s + 1, same.loss[s],
                      want.loss[s]);
        CHECK_NEAR(other.loss[s], want.loss[s], 0.01 * want.loss[s]);
        CHECK_NEAR(full.loss[s], want.loss[s], 0.01 * want.loss[s]);
    }
    snprintf(command, sizeof command, "rm -r %s", dir);
    ck_assert_int_eq(system(command), 0);
}
END_TEST

#endif

START_TEST(checkpoints_pass_between_devices)
{
    char dir[] = "/tmp/cleave-gpu-XXXXXX", command[64];
    ck_assert_ptr_nonnull(mkdtemp(dir));
    struct outcome want = gpu_run(tiny_models[0], &gpu_single, &device_cpu, NULL, NULL);
    gpu_run(tiny_models[0], &gpu_choices_tried[1], &device_single, dir, NULL);
    struct outcome later = gpu_run(tiny_models[0], &gpu_choices_tried[2], &device_single, NULL, dir);
    later.loss[0] = want.loss[0]; /* of the first run */
    gpu_expect_same(&later, &want);
    snprintf(command, sizeof command, "rm -r %s", dir);
    ck_assert_int_eq(system(command), 0);
}
END_TEST

START_TEST(kernels_without_a_form_for_gpus_are_refused)
{
    static const struct {
        int model;
        const char *kernel;
    } cases[] = { { TINY_SEEING, "conv" },
                  { TINY_SEEING + 1, "conv" },
                  { TINY_SEEING + 3, "sliding windows" },
                  { TINY_SEEING + 4, "norms with gains for each head" } };
    struct error error = { 0 };
    struct graph *graph = tiny_graph(tiny_models[cases[_i].model]);
    struct plan *plan = tiny_plan(graph, &gpu_single);
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
    const struct tiny_choice *choice = _i < 2 ? &gpu_single : _i < 4 ? &gpu_choices_tried[0] : &gpu_choices_tried[2];
    if (sizeof(real) == sizeof(double) && _i % 2) /* one precision: the same again */
        return;
    settings.steps = MOST_STEPS, settings.fixed_bits = true;
    for (int model = 0; model < TINY_SEEING; model += 7) {
        counted.replays = counted.marks = 0;
        struct outcome kept = gpu_run_as(dtype, tiny_models[model], choice, &device_single, NULL, NULL);
        ck_assert_int_eq(counted.replays, _i < 4 ? MOST_STEPS - 2 : 0);
        ck_assert(counted.marks > 0 && counted.open_marks == 0);
        settings.no_graphs = true;
        struct outcome want = gpu_run_as(dtype, tiny_models[model], choice, &device_single, NULL, NULL);
        settings.no_graphs = false;
        for (int s = 0; s < MOST_STEPS; s++)
            ck_assert_msg(kept.loss[s] == want.loss[s], "step %d: %.17g, queued %.17g", s + 1, kept.loss[s],
                          want.loss[s]);
    }
    settings.steps = STEPS, settings.fixed_bits = false;
}
END_TEST

/* An emulated GPU has neither context nor code: all that it holds beside the arena has a name. */
START_TEST(memory_beside_arenas_has_names)
{
    if (gpu_module_path() || !gpu_has_turn(_i))
        return;
    for (int c = -1; c < GPU_TRIED; c++) {
        const struct tiny_choice *choice = c < 0 ? &gpu_single : &gpu_choices_tried[c];
        if (!in_share((uint64_t)c + 1))
            continue;
        const struct outcome got = gpu_run(tiny_models[_i], choice, &device_single, NULL, NULL);
        for (int r = 0; r < choice->dp * choice->tp * choice->pp; r++) {
            int64_t named = 0;
            for (int part = 0; part < MEMORY_PART_COUNT; part++)
                named += memory_part_info[part].on_device ? got.outside[r].part[part] : 0;
            ck_assert_int_eq(got.outside[r].bytes, named);
            ck_assert_int_gt(got.outside[r].part[MEMORY_PINNED], 0);
            ck_assert_int_gt(got.outside[r].part[MEMORY_SUMS], 0);
            ck_assert(c >= 0 || got.outside[r].part[MEMORY_UPDATES] > 0); /* a stage may have none */
        }
    }
    const struct outcome want = gpu_run(tiny_models[_i], &gpu_single, &device_cpu, NULL, NULL);
    ck_assert_int_eq(want.outside[0].bytes, -1);
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

/* ---- clocks ---- */
enum { LATE_NS = 300000000 };
static bool (*prompt_finish)(void *self, void *stream, struct error *err);
static int finishes; /* of the step */

/* In each step the first wait is noticed late. */
static bool late_finish(void *self, void *stream, struct error *err)
{
    bool ok = prompt_finish(self, stream, err);
    if (finishes++ == 0)
        clock_sleep_until_ns(clock_now_ns() + LATE_NS);
    return ok;
}

static bool open_late(struct rank *rank, struct error *err)
{
    struct gpu gpu;
    if (!gpu_emulated_open(&gpu, 1, 1, true, err))
        return false;
    prompt_finish = gpu.finish;
    gpu.finish = late_finish;
    return gpu_device_open(rank, &gpu, NULL, err);
}

static bool begin_late_step(struct rank *rank, struct error *err)
{
    finishes = 0;
    return gpu_device_begin_step(rank, err);
}

/* The emulation's events have the host's clock: nothing has ended later than now. */
static bool finish_late_step(struct rank *rank, struct span *spans, struct error *err)
{
    bool ok = gpu_device_finish_step(rank, spans, err);
    const int64_t now_ns = clock_now_ns();
    for (int i = 0; ok && i < rank->program->stages[rank->stage].instr_count; i++)
        ck_assert_msg(spans[i].finish_ns <= now_ns + LATE_NS / 4, "instruction %d ends %g s from now", i,
                      (double)(spans[i].finish_ns - now_ns) * 1e-9);
    return ok;
}

START_TEST(a_host_that_is_late_shifts_no_times)
{
    struct device late = { .name = "emulated", .open = open_late, GPU_DEVICE_FUNCTIONS };
    late.begin_step = begin_late_step, late.finish_step = finish_late_step;
    gpu_run(tiny_models[0], &gpu_single, &late, NULL, NULL);
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
    tcase_add_loop_test(models, kernels_without_a_form_for_gpus_are_refused, 0, 4);
    tcase_add_loop_test(models, gradients_are_the_processors, 0, TINY_SEEING + 1 + WIDE_MODELS);
    suite_add_tcase(suite, models);
#ifndef CLEAVE_REAL_DOUBLE
    TCase *half = tcase_create("bf16");
    tcase_set_timeout(half, 0);
    tcase_add_loop_test(half, half_precision_is_near, 0, TINY_MIXTURE);
    suite_add_tcase(suite, half);
    TCase *saved = tcase_create("half_precision_checkpoints");
    tcase_set_timeout(saved, 0);
    tcase_add_loop_test(saved, half_precision_checkpoints, 0, 2);
    tcase_add_loop_test(saved, half_precision_checkpoints, TINY_HALF_FROZEN, TINY_HALF_FROZEN + 1);
    suite_add_tcase(suite, saved);
#endif
    CHECK_ADD_LOOP(suite, kept_steps_are_the_queued_ones, 5);
    CHECK_ADD_LOOP(suite, memory_beside_arenas_has_names, TINY_SEEING);
    CHECK_ADD(suite, checkpoints_pass_between_devices);
    CHECK_ADD(suite, chosen_algorithms_outlive_a_run);
    CHECK_ADD(suite, a_host_that_is_late_shifts_no_times);
    CHECK_ADD(suite, absent_devices_say_so);
    return suite;
}

CHECK_MAIN(gpu_run_suite)
