/* Calibrations: what logs say, what a fit finds of speeds that are known, what a correction changes. */
#include "cli/calibrate_fit.h"
#include "cli/like_runs.h"
#include "cli/training_log.h"
#include "planner/facts/profile.h"
#include "tests/check.h"
#include "tests/toy_world.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

static struct training_log must_read(const char *file)
{
    struct training_log log = { 0 };
    struct error err = { 0 };
    char path[512], text[8192];
    snprintf(path, sizeof path, "%s/fuzz/corpus/%s", TEST_SOURCE_DIR, file);
    FILE *in = fopen(path, "rb");
    ck_assert_ptr_nonnull(in);
    size_t length = fread(text, 1, sizeof text, in);
    fclose(in);
    ck_assert_msg(training_log_read(&log, path, text, length, &err), "%s", err.message);
    return log;
}

static struct training_log read_words(const char *words)
{
    struct training_log log = { 0 };
    struct error err = { 0 };
    ck_assert_msg(training_log_read(&log, "own", words, strlen(words), &err), "%s", err.message);
    return log;
}

/* Of a Trainer's bar what passes between counts: neither its first step, nor an evaluation in it, nor bars of others.
 */
START_TEST(trainers_say_steps)
{
    struct training_log log = must_read("log_trainer.txt");
    ck_assert(log.kind == TRAINING_LOG_TRANSFORMERS && log.step_count == 30 && log.batch == 16);
    CHECK_NEAR(training_log_step_s(&log, 16, 4096, 8), 20, 1e-9);
    ck_assert_ptr_nonnull(strstr(log.how, "progress bar"));
    static const struct {
        const char *words;
        double step_s;
        int count;
    } whole[] = {
        { "100%|##| 30/30 [10:12<00:00, 20.41s/it]\n{'train_runtime': 615.0, 'train_steps_per_second': 0.049}", 20.5,
          30 },
        { "{'train_runtime': '400.0', 'train_steps_per_second': '0.05', 'train_loss': '1'}", 20, 20 },
        { "{\n \"train_runtime\": 400.0,\n \"train_steps_per_second\": 0.05\n}", 20, 20 },
        { "[default0]:100%|##| 40/40 [1:00:00<00:00, 90.0s/it]{'train_steps_per_second': 0.0}", 90, 40 },
        { "\r 50%|# | 5/10 [00:10<00:10,  1.9s/it]\r100%|##| 10/10 [00:20<00:00,  1.9s/it]", 2, 10 },
    };
    for (size_t i = 0; i < sizeof whole / sizeof *whole; i++) {
        log = read_words(whole[i].words);
        CHECK_NEAR(log.step_s, whole[i].step_s, 1e-9);
        ck_assert_int_eq(log.step_count, whole[i].count);
        ck_assert_ptr_nonnull(strstr(log.how, "mean of all of the run"));
    }
}
END_TEST

START_TEST(logs_say_steps_and_peaks)
{
    struct training_log megatron = must_read("log_megatron.txt"), titan = must_read("log_torchtitan.txt"),
                        deepspeed = must_read("log_deepspeed.txt");
    ck_assert(megatron.kind == TRAINING_LOG_MEGATRON && megatron.step_count == 4 && megatron.batch == 64);
    CHECK_NEAR(training_log_step_s(&megatron, 64, 4096, 8), 3.0159, 1e-9);
    ck_assert(megatron.devices == 8 && titan.devices == 0);
    ck_assert_int_eq(megatron.peak_bytes, (int64_t)(40211.52 * 1048576));
    ck_assert(titan.kind == TRAINING_LOG_TORCHTITAN && titan.step_count == 3 && titan.batch == 0);
    CHECK_NEAR(training_log_step_s(&titan, 16, 8192, 8), 16 * 8192 / 6877.0 / 8, 1e-9);
    ck_assert_int_eq(titan.peak_bytes, (int64_t)(47.10 * 1073741824));
    ck_assert(deepspeed.kind == TRAINING_LOG_DEEPSPEED && deepspeed.step_count == 3);
    CHECK_NEAR(training_log_step_s(&deepspeed, 32, 1024, 8), 32 / 19.26, 1e-9);
    ck_assert_int_eq(deepspeed.peak_bytes, (int64_t)(28.76 * 1073741824));
    /* as train.py of a launch prints it, on each rank; on processors it is nothing */
    static const char *const own[] = { "elapsed time per iteration (ms): 5\nrank 0: at most 21.25 GiB reserved\n"
                                       "rank 1: at most 21.50 GiB reserved in the last step\n",
                                       "elapsed time per iteration (ms): 5\nrank 0: at most 0.00 GiB reserved\n" };
    for (int i = 0; i < 2; i++) {
        struct training_log log;
        struct error err = { 0 };
        ck_assert_msg(training_log_read(&log, "own", own[i], strlen(own[i]), &err), "%s", err.message);
        ck_assert_int_eq(log.step_count, 1);
        ck_assert_int_eq(log.peak_bytes, i == 0 ? 43 * (INT64_C(1) << 29) : 0);
    }
}
END_TEST

static struct like_run run_of(int64_t layers, int64_t batch, const char *device, double left)
{
    struct like_run run = { .shape = { .device = device, .framework = "f" }, .left = left };
    for (int i = 0; i < RUN_SIZE_COUNT; i++)
        run.shape.size[i] = 1;
    run.shape.size[RUN_SIZE_layers] = layers;
    run.shape.size[RUN_SIZE_batch] = batch;
    return run;
}

/* What is left of a run once the others have told it is the same by the closed form and by leaving it out. */
START_TEST(runs_tell_what_is_like_them)
{
    struct like_run all[7], others[6];
    double others_leave[7];
    int alike;
    struct error err = { 0 };
    for (int i = 0; i < 7; i++)
        all[i] = run_of(2 + 3 * i, 1 << i, i < 5 ? "a" : "b", .01 * i);
    ck_assert(like_runs_solve(all, 7, others_leave, &err));
    for (int i = 0; i < 7; i++) {
        for (int k = 0; k < 6; k++)
            others[k] = all[k + (k >= i)];
        ck_assert(like_runs_solve(others, 6, NULL, &err));
        CHECK_NEAR(others_leave[i], all[i].left - like_runs_say(others, 6, &all[i].shape, &alike), 1e-9);
        CHECK_NEAR(like_runs_say(all, 7, &all[i].shape, &alike), all[i].left, .01);
        ck_assert_int_ge(alike, 1);
    }
    struct run_shape stranger = all[0].shape, far = all[0].shape;
    stranger.device = "c";
    far.size[RUN_SIZE_layers] = INT64_C(1) << 40;
    ck_assert(like_runs_say(all, 7, &stranger, &alike) == 0 && alike == 0);
    ck_assert(fabs(like_runs_say(all, 7, &far, &alike)) < 1e-6 && alike == 0);
}
END_TEST

static void must_refuse(const char *text, const char *why)
{
    struct training_log log = { 0 };
    struct error err = { 0 };
    ck_assert(!training_log_read(&log, "t.log", text, strlen(text), &err));
    ck_assert_msg(strstr(err.message, why) != NULL && err.kind == ERROR_INPUT, "%s", err.message);
}

START_TEST(logs_without_steps_are_refused)
{
    must_refuse("", "t.log: expected steps as Megatron-LM");
    must_refuse("step: 1 loss: 2\nmemory: 4GiB\n", "found none in 2 lines");
    must_refuse("[Rank 0] memory (MB) | allocated: 1.0 | max allocated: 2.0 |", "found none in 1 lines");
    must_refuse("a\n elapsed time per iteration (ms): nan |",
                "t.log:2:35: expected a positive number behind \"elapsed time per iteration (ms): \", found 'nan |'");
    must_refuse("memory: 4.5MB(1%) tps: 7\n", "t.log:1:9: expected a positive number of GiB behind \"memory: \"");
    must_refuse("tps: -7\n", "t.log:1:6: expected a positive number");
    must_refuse("Map: 100%|##| 10/10 [01:40<00:00, 10.0s/it]", "expected steps as Megatron-LM");
    must_refuse("{'train_runtime': nan}", "expected a positive number behind \"'train_runtime': \"");
    must_refuse("CurrSamplesPerSec=0.0, MaxMemAllocated=1GB", "behind \"CurrSamplesPerSec=\"");
}
END_TEST

/* Steps of two parts that speeds scale: t = a / products + b / links. What a fit about the truth finds is the truth,
 * but for the shrinkage; one run that is twice as long as it should moves it little; a group that is left out has no
 * say; what no run has stays as it is. */
enum { RUNS = 24 };
static void make_samples(struct fit_sample samples[RUNS], double products, double links)
{
    for (int i = 0; i < RUNS; i++) {
        double a = 1 + i % 5, b = .5 + i % 3, step = a / products + b / links;
        samples[i] = (struct fit_sample){ .holder = { 0, 1 }, .group = i % 2 ? "odd" : "even" };
        samples[i].log_ratio = log(step / (a + b));
        samples[i].slope[MECHANISM_PRODUCTS] = -a / (a + b);
        samples[i].slope[MECHANISM_LINKS] = -b / (a + b);
    }
}

static double speed(const struct fit *fit, int mechanism)
{
    return exp(fit->log_speed[mechanism] + fit->log_speed[MECHANISM_COUNT + mechanism]);
}

START_TEST(fits_find_speeds)
{
    double zeros[2 * MECHANISM_COUNT] = { 0 };
    struct fit at = { 2, zeros }, found, none;
    struct fit_sample samples[RUNS];
    struct arena arena = { 0 };
    struct error err = { 0 };
    make_samples(samples, .95, 1.08);
    ck_assert(fit_solve(&found, &at, samples, RUNS, NULL, &arena, &err));
    CHECK_NEAR(speed(&found, MECHANISM_PRODUCTS), .95, .01);
    CHECK_NEAR(speed(&found, MECHANISM_LINKS), 1.08, .02);
    for (int k = 0; k < MECHANISM_COUNT; k++)
        if (k != MECHANISM_PRODUCTS && k != MECHANISM_LINKS && k != MECHANISM_ATTENTION && k != MECHANISM_ELEMENTWISE)
            ck_assert(speed(&found, k) == 1);
    for (int i = 0; i < RUNS; i++)
        CHECK_NEAR(fit_error(&found, &at, &samples[i]), 0, .01);
    samples[4].log_ratio += log(2);
    ck_assert(fit_solve(&found, &at, samples, RUNS, NULL, &arena, &err));
    CHECK_NEAR(speed(&found, MECHANISM_PRODUCTS), .95, .02);
    samples[4].log_ratio -= log(2);
    for (int i = 0; i < RUNS; i += 2)
        samples[i].log_ratio += .2;
    ck_assert(fit_solve(&found, &at, samples, RUNS, "even", &arena, &err));
    CHECK_NEAR(speed(&found, MECHANISM_PRODUCTS), .95, .01);
    ck_assert(fit_solve(&found, &at, samples, RUNS, "odd", &arena, &err));
    ck_assert(speed(&found, MECHANISM_PRODUCTS) < .9);
    for (int i = 0; i < RUNS; i++)
        samples[i].group = "odd";
    ck_assert(fit_solve(&none, &found, samples, RUNS, "odd", &arena, &err));
    ck_assert(speed(&none, MECHANISM_PRODUCTS) == 1); /* nobody is left to say otherwise */
    arena_free(&arena);
}
END_TEST

/* A step that is measured is known: one run, or runs that are all off alike, are told, however far off they are. */
START_TEST(fits_tell_common_offsets)
{
    double zeros[2 * MECHANISM_COUNT] = { 0 };
    struct fit at = { 2, zeros }, found;
    struct fit_sample samples[RUNS];
    struct arena arena = { 0 };
    struct error err = { 0 };
    static const struct {
        int count;
        double off;
    } cases[] = { { 1, .2 }, { 1, .7 }, { 1, -.7 }, { 3, .4 }, { RUNS, .7 } };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        make_samples(samples, 1, 1);
        for (int k = 0; k < cases[i].count; k++)
            samples[k].log_ratio += cases[i].off;
        ck_assert(fit_solve(&found, &at, samples, cases[i].count, NULL, &arena, &err));
        for (int k = 0; k < cases[i].count; k++)
            CHECK_NEAR(fit_error(&found, &at, &samples[k]), 0, .05);
    }
    make_samples(samples, 1, 1);
    samples[0].log_ratio += 9; /* no speed makes so much of it */
    ck_assert(fit_solve(&found, &at, samples, 1, NULL, &arena, &err));
    for (int k = 0; k < MECHANISM_COUNT; k++)
        ck_assert(fabs(log(speed(&found, k))) <= log(MOST_SPEED) + 1e-6);
    arena_free(&arena);
}
END_TEST

static const char corrections[] = "{\"format\": \"cleave-calibration\", \"version\": 1, \"corrections\": ["
                                  "{\"device\": \"toy\", \"products\": 0.5, \"links\": 2, \"memory_bytes\": 1000},"
                                  "{\"framework\": \"f\", \"products\": 0.5, \"host\": 4},"
                                  "{\"device\": \"toy\", \"framework\": \"g\", \"attention\": 0.1}]}";

START_TEST(corrections_scale_what_they_speak_of)
{
    struct world world = world_open("2x2:toy", 80000000000, 3);
    struct cluster *cluster = world.cluster;
    struct node_type before = cluster->types[0], *now = &cluster->types[0];
    struct link_level level = before.levels[0], outer = before.levels[1];
    struct framework framework = { .name = "f", .issue_kernel_ns = 100, .issue_transfer_ns = 60 },
                     other = { .name = "h", .issue_kernel_ns = 100 };
    struct calibration c = { 0 };
    struct arena arena = { 0 };
    struct error err = { 0 };
    ck_assert(calibration_is(corrections, strlen(corrections)) && !calibration_is("{}", 2));
    ck_assert_msg(calibration_read(&c, &arena, "c", corrections, strlen(corrections), &err), "%s", err.message);
    ck_assert(calibration_apply(&c, cluster, &framework));
    CHECK_NEAR(now->device.matmul_efficiency, before.device.matmul_efficiency / 4, 1e-12);
    CHECK_NEAR(now->levels[0].efficiency, level.efficiency * 2, 1e-12);
    CHECK_NEAR(now->levels[1].efficiency, outer.efficiency, 0);
    CHECK_NEAR(now->device.attention_forward_efficiency, before.device.attention_forward_efficiency, 0);
    ck_assert_int_eq(now->memory_bytes, before.memory_bytes - 1000);
    ck_assert(framework.issue_kernel_ns == 25 && framework.issue_transfer_ns == 15);
    ck_assert(calibration_apply(&c, cluster, &other) && other.issue_kernel_ns == 100);
    c.corrections[0].device = "another";
    ck_assert(!calibration_apply(&c, cluster, &other)); /* nothing speaks of it */
    c.corrections[0] = (struct correction){ .device = "toy", .framework = "", .memory_bytes = INT64_MAX };
    ck_assert(!calibration_apply(&c, cluster, &other)); /* nothing would be left */
    arena_free(&arena);
    world_close(&world);
}
END_TEST

static void must_refuse_corrections(const char *text, const char *why)
{
    struct calibration c = { 0 };
    struct arena arena = { 0 };
    struct error err = { 0 };
    char whole[512];
    snprintf(whole, sizeof whole, "{\"format\": \"cleave-calibration\", \"version\": 1, \"corrections\": %s}", text);
    ck_assert(!calibration_read(&c, &arena, "c", whole, strlen(whole), &err));
    ck_assert_msg(strstr(err.message, why) != NULL && err.kind == ERROR_INPUT, "%s", err.message);
    arena_free(&arena);
}

START_TEST(corrections_are_read_strictly)
{
    must_refuse_corrections("[]", "expected 1 to 256 corrections");
    must_refuse_corrections("[{\"products\": 0}]", "products");
    must_refuse_corrections("[{\"products\": 21}]", "products");
    must_refuse_corrections("[{\"product\": 1}]", "did you mean");
    must_refuse_corrections("[{\"device\": \"a\"}, {\"device\": \"a\", \"links\": 2}]", "found two");
}
END_TEST

static Suite *calibrate_suite(void)
{
    Suite *suite = suite_create("calibrate");
    CHECK_ADD(suite, logs_say_steps_and_peaks);
    CHECK_ADD(suite, trainers_say_steps);
    CHECK_ADD(suite, runs_tell_what_is_like_them);
    CHECK_ADD(suite, logs_without_steps_are_refused);
    CHECK_ADD(suite, fits_find_speeds);
    CHECK_ADD(suite, fits_tell_common_offsets);
    CHECK_ADD(suite, corrections_scale_what_they_speak_of);
    CHECK_ADD(suite, corrections_are_read_strictly);
    return suite;
}

CHECK_MAIN(calibrate_suite)
