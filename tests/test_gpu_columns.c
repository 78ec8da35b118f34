/* Sums over many rows of an emulated GPU against loops in double: down columns, of few rows and many, of columns that
 * lie as quads and that do not, in one share of the rows and in several, of rows in one loop and in two; and of losses.
 */
#include "base/num.h"
#include "check.h"
#include "executor/gpu/issue.h"
#include "executor/kernels/bf16.h"
#include "tests/emulated/emulated.h"
#include <stdlib.h>
#include <string.h>

enum { MOST_ROWS = 304, MOST_COLUMNS = 300, MARGIN = 4 };

/* A layer norm of (b, t, h), whose operands are blocks larger than the range of the call. */
struct norm_case {
    int64_t batches, tokens, columns;
    int64_t tokens_before, columns_before; /* of the block, which the range leaves out */
    bool half, begin, parts;
    bool with_input; /* in the kernel that makes the gradient of the input */
    int threads, teams;
};

struct norm_data {
    real dy[MOST_ROWS * 2 * (MOST_COLUMNS + 2 * MARGIN)], x[MOST_ROWS * 2 * (MOST_COLUMNS + 2 * MARGIN)];
    real mean[MOST_ROWS * 2], rstd[MOST_ROWS * 2], gain[MOST_COLUMNS + 2 * MARGIN], bias[MOST_COLUMNS + 2 * MARGIN];
    real scale[MOST_COLUMNS + 2 * MARGIN], dx[MOST_ROWS * 2 * (MOST_COLUMNS + 2 * MARGIN)];
    uint16_t half[2][MOST_ROWS * 2 * (MOST_COLUMNS + 2 * MARGIN)];
};

static real drawn(uint64_t seed)
{
    return real_of_bf16(bf16_of_real((real)((double)(mix64(seed) >> 11) / (double)(1ull << 52) - 1)));
}

static void fill(struct norm_data *d)
{
    memset(d, 0, sizeof *d);
    for (size_t i = 0; i < sizeof d->dy / sizeof *d->dy; i++) {
        d->dy[i] = drawn(2 * i), d->x[i] = 3 + drawn(2 * i + 1);
        d->x[i] = real_of_bf16(d->half[1][i] = bf16_of_real(d->x[i]));
        d->half[0][i] = bf16_of_real(d->dy[i]);
    }
    for (size_t i = 0; i < sizeof d->mean / sizeof *d->mean; i++)
        d->mean[i] = 3 + drawn(7 * i + 1000000), d->rstd[i] = 2 + drawn(7 * i + 2000000);
    for (int i = 0; i < MOST_COLUMNS + 2 * MARGIN; i++)
        d->scale[i] = drawn(5 * (uint64_t)i + 5000000), d->gain[i] = drawn(9 * (uint64_t)i + 3000000),
        d->bias[i] = drawn(9 * (uint64_t)i + 4000000);
}

static struct view view_of(void *data, int dim_count, int64_t a, int64_t b, int64_t c)
{
    return (struct view){ .data = data, .dim_count = (int8_t)dim_count, .count = { a, b, c } };
}

/* As weight's case says, with the gradient of the input, which is that of a kernel of its own. */
static void run_with_input(const struct norm_case *c, struct norm_data *d, const struct gpu_call *weight)
{
    const struct gpu *gpu = weight->gpu;
    struct error error = { 0 };
    struct kernel_call call = *weight->call;
    struct gpu_call input = *weight;
    const struct gpu_call *all[GPU_NORM_CALLS] = { &input, weight };
    bool done[GPU_NORM_CALLS] = { false };
    input.call = &call;
    call.phase = PHASE_BACKWARD_INPUT;
    memset(call.operand[ROLE_GRADIENT_WEIGHT], 0, sizeof call.operand[ROLE_GRADIENT_WEIGHT]);
    call.operand[ROLE_WEIGHT][0] = view_of(d->scale, 1, c->columns + c->columns_before, 0, 0);
    call.operand[ROLE_GRADIENT_IN][0] = call.operand[ROLE_IN][0];
    call.operand[ROLE_GRADIENT_IN][0].data = d->dx;
    call.define[ROLE_GRADIENT_IN] = c->begin;
    const size_t bytes = sizeof d->dx;
    real *was = malloc(2 * bytes), *alone = was + bytes / sizeof *was;
    memcpy(was, d->dx, bytes);
    ck_assert_msg(gpu_issue(&input, &error) && gpu->finish(gpu->self, weight->stream, &error), "%s", error.message);
    memcpy(alone, d->dx, bytes);
    memcpy(d->dx, was, bytes);
    ck_assert_msg(gpu_issue_norm_backward(all, false, done, &error) && gpu->finish(gpu->self, weight->stream, &error),
                  "%s", error.message);
    ck_assert(done[GPU_NORM_WEIGHTS] == c->parts && !done[GPU_NORM_RESIDUAL] && !done[GPU_NORM_BIAS]);
    if (!done[GPU_NORM_INPUT])
        ck_assert_msg(gpu_issue(&input, &error) && gpu_issue(weight, &error), "%s", error.message);
    ck_assert_msg(gpu->finish(gpu->self, weight->stream, &error), "%s", error.message);
    ck_assert_int_eq(memcmp(d->dx, alone, bytes), 0);
    memcpy(d->dx, was, bytes);
    free(was);
}

/* Runs the case; tells how often several shares were summed. */
static int run(const struct norm_case *c, struct norm_data *d)
{
    const int64_t t = c->tokens + c->tokens_before, h = c->columns + c->columns_before;
    struct gpu gpu;
    struct error error = { 0 };
    ck_assert(gpu_emulated_open(&gpu, c->threads, c->teams, true, &error));
    struct segment segment = { .name = "norm",
                               .kernel = KERNEL_LAYER_NORM,
                               .in_count = 1,
                               .weight_count = 2,
                               .out_count = 3,
                               .in = { { .axis = { 0, 1, 2 } } },
                               .weight = { { .axis = { 2 } }, { .axis = { 2 } } },
                               .out = { { .axis = { 0, 1, 2 } }, { .axis = { 0, 1 } }, { .axis = { 0, 1 } } } };
    struct kernel_call call = { .segment = &segment, .phase = PHASE_BACKWARD_WEIGHT };
    call.low[1] = c->tokens_before, call.low[2] = c->columns_before;
    call.high[0] = c->batches, call.high[1] = t, call.high[2] = h;
    call.operand[ROLE_GRADIENT_OUT][0] = view_of(c->half ? (void *)d->half[0] : d->dy, 3, c->batches, t, h);
    call.operand[ROLE_IN][0] = view_of(c->half ? (void *)d->half[1] : d->x, 3, c->batches, t, h);
    call.operand[ROLE_OUT][1] = view_of(d->mean, 2, c->batches, t, 0);
    call.operand[ROLE_OUT][2] = view_of(d->rstd, 2, c->batches, t, 0);
    call.operand[ROLE_GRADIENT_WEIGHT][0] = view_of(d->gain, 1, h, 0, 0);
    call.operand[ROLE_GRADIENT_WEIGHT][1] = view_of(d->bias, 1, h, 0, 0);
    call.define[ROLE_GRADIENT_WEIGHT] = c->begin ? 3 : 0;
    double *parts = calloc((size_t)gpu_part_count(&gpu), sizeof *parts);
    struct gpu_call g = { .gpu = &gpu, .call = &call, .parts = c->parts ? parts : NULL };
    g.type[ROLE_GRADIENT_OUT][0] = g.type[ROLE_IN][0] = c->half ? GPU_BF16 : GPU_REAL;
    g.stream = gpu.open_stream(gpu.self, false, &error);
    if (c->with_input)
        run_with_input(c, d, &g);
    else
        ck_assert_msg(gpu_issue(&g, &error), "%s", error.message);
    ck_assert_msg(gpu.finish(gpu.self, g.stream, &error), "%s", error.message);
    int used = 0;
    for (int64_t i = 0; i < gpu_part_count(&gpu); i++)
        used += parts[i] != 0;
    gpu.close_stream(gpu.self, g.stream);
    gpu.close(gpu.self);
    free(parts);
    return used;
}

/* Against sums in double; what lies outside of the range stays. */
static void expect(const struct norm_case *c, const struct norm_data *got, const struct norm_data *was)
{
    const int64_t t = c->tokens + c->tokens_before, h = c->columns + c->columns_before;
    const double tolerance = sizeof(real) == sizeof(float) ? 2e-6 : 1e-13;
    for (int64_t j = 0; j < h; j++) {
        double gain = c->begin ? 0 : (double)was->gain[j], bias = c->begin ? 0 : (double)was->bias[j], size = 1;
        for (int64_t row = 0; row < c->batches * t; row++) {
            const double dy = (double)was->dy[row * h + j],
                         z = ((double)was->x[row * h + j] - (double)was->mean[row]) * (double)was->rstd[row];
            if (row % t < c->tokens_before)
                continue;
            gain += dy * z, bias += dy, size += fabs(dy * z) + fabs(dy);
        }
        if (j < c->columns_before)
            gain = (double)was->gain[j], bias = (double)was->bias[j];
        ck_assert_msg(
            fabs((double)got->gain[j] - gain) <= tolerance * size &&
                fabs((double)got->bias[j] - bias) <= tolerance * size,
            "%lld x %lld x %lld (-%lld, -%lld)%s%s, %d threads, column %lld: %.9g and %.9g, not %.9g and %.9g",
            (long long)c->batches, (long long)c->tokens, (long long)c->columns, (long long)c->tokens_before,
            (long long)c->columns_before, c->half ? ", half" : "", c->begin ? ", begins" : "", c->threads, (long long)j,
            (double)got->gain[j], (double)got->bias[j], gain, bias);
    }
}

static const int64_t columns_tried[] = { 1, 3, 4, 8, 33, 64, 66, 132, 260 };
static const int64_t tokens_tried[] = { 1, 2, 7, 65, 150, 300 };

START_TEST(sums_are_those_of_loops)
{
    struct norm_data *was = malloc(sizeof *was), *got = malloc(sizeof *got);
    int64_t split = 0, tried = 0;
    fill(was);
    for (size_t w = 0; w < sizeof columns_tried / sizeof *columns_tried; w++)
        for (size_t r = 0; r < sizeof tokens_tried / sizeof *tokens_tried; r++)
            for (int shape = 0; shape < 16; shape++) {
                struct norm_case c = { .batches = 1 + shape % 2,
                                       .tokens = tokens_tried[r],
                                       .columns = columns_tried[w] };
                const uint64_t draw = mix64((uint64_t)tried++);
                c.tokens_before = shape & 2 ? 3 : 0;
                c.columns_before = (shape & 12) == 4 ? 4 : (shape & 12) == 8 ? 1 : 0;
                c.half = draw & 1, c.begin = draw >> 1 & 1, c.parts = (draw >> 2 & 3) > 0;
                c.threads = draw >> 4 & 1 ? 8 : draw >> 5 & 1 ? 1 : EMULATED_THREADS;
                c.teams = draw >> 6 & 1 ? 24 : 3;
                c.with_input = (draw >> 7 & 3) == 0;
                if (!in_share(draw >> 9))
                    continue;
                memcpy(got, was, sizeof *got);
                split += run(&c, got) > 0;
                expect(&c, got, was);
                memcpy(got->gain, was->gain, sizeof got->gain), memcpy(got->bias, was->bias, sizeof got->bias);
                ck_assert_int_eq(memcmp(got, was, sizeof *got), 0); /* the rest was read alone */
            }
    ck_assert_msg(10 * split > tried / share_stride(), "several shares in %lld of %lld cases", (long long)split,
                  (long long)tried);
    free(was);
    free(got);
}
END_TEST

/* The mean of many tokens' losses, by one team and by several; tokens without a label do not count. */
START_TEST(losses_of_many_tokens_are_summed)
{
    enum { BATCHES = 2, TOKENS = 1700, ALL = BATCHES * TOKENS };
    static real exps[ALL], most[ALL], picked[ALL];
    static int32_t label[ALL];
    const double tolerance = sizeof(real) == sizeof(float) ? 1e-6 : 1e-13;
    double want = 0, used = 0;
    real targets = 0;
    for (int i = 0; i < ALL; i++) {
        exps[i] = 3 + drawn(3 * (uint64_t)i), most[i] = drawn(3 * (uint64_t)i + 1);
        picked[i] = drawn(3 * (uint64_t)i + 2) - 1;
        label[i] = i % 7 == 2 ? -1 : i % 50;
        targets += label[i] >= 0;
        want += label[i] < 0 ? 0 : log((double)exps[i]) + (double)most[i] - (double)picked[i];
    }
    for (int teams = 1; teams <= 5; teams++)
        for (int begin = 0; begin < 2; begin++) {
            struct gpu gpu;
            struct error error = { 0 };
            ck_assert(gpu_emulated_open(&gpu, 4, teams, true, &error));
            struct segment segment = { .name = "loss", .kernel = KERNEL_NLL, .in_count = 5, .out_count = 1 };
            struct kernel_call call = { .segment = &segment, .phase = PHASE_FORWARD, .first = begin };
            real loss = 5;
            call.high[0] = BATCHES, call.high[1] = TOKENS;
            void *const data[] = { exps, most, picked, label, &targets };
            for (int i = 0; i < 5; i++) {
                segment.in[i].axis[0] = i < 4 ? 0 : -1, segment.in[i].axis[1] = i < 4 ? 1 : -1;
                call.operand[ROLE_IN][i] = view_of(data[i], i < 4 ? 2 : 1, i < 4 ? BATCHES : 1, TOKENS, 0);
            }
            segment.out[0].axis[0] = -1;
            call.operand[ROLE_OUT][0] = view_of(&loss, 1, 1, 0, 0);
            double *parts = calloc((size_t)gpu_part_count(&gpu), sizeof *parts);
            struct gpu_call g = { .gpu = &gpu, .call = &call, .parts = parts };
            g.type[ROLE_IN][3] = GPU_INDEX;
            g.stream = gpu.open_stream(gpu.self, false, &error);
            ck_assert_msg(gpu_issue(&g, &error) && gpu.finish(gpu.self, g.stream, &error), "%s", error.message);
            CHECK_NEAR((double)loss, want / (double)targets + (begin ? 0 : 5), tolerance * 5);
            for (int64_t i = 0; i < gpu_part_count(&gpu); i++)
                used += parts[i] != 0;
            gpu.close_stream(gpu.self, g.stream);
            gpu.close(gpu.self);
            free(parts);
        }
    ck_assert_int_eq((int)used, 2 * (2 + 3 + 4 + 4)); /* 3400 tokens are worth four teams */
}
END_TEST

static Suite *gpu_columns_suite(void)
{
    Suite *suite = suite_create("gpu_columns");
    CHECK_ADD(suite, sums_are_those_of_loops);
    CHECK_ADD(suite, losses_of_many_tokens_are_summed);
    return suite;
}

CHECK_MAIN(gpu_columns_suite)
