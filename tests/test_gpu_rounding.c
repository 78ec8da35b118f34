/* Weights in 16 bits beside those in full precision: small steps add up, and rounding by chance is the same whoever
 * holds an element. */
#include "base/num.h"
#include "check.h"
#include "executor/gpu/device.h"
#include "executor/kernels/bf16.h"
#include "executor/kernels/rates.h"
#include "tests/emulated/emulated.h"
#include <float.h>
#include <stdlib.h>
#include <string.h>

/* Updates as one launch of one team or more. */
static void update(int threads, int teams, struct gpu_update *updates, struct gpu_update_rates *rates, int count)
{
    struct gpu gpu;
    struct error error = { 0 };
    ck_assert(gpu_emulated_open(&gpu, threads, teams, true, &error));
    void *stream = gpu.open_stream(gpu.self, false, &error);
    const int64_t chunks = gpu_update_chunks(updates, count);
    const struct gpu_work work = { .integer = { [UPDATE_WEIGHTS] = count, [UPDATE_CHUNKS] = chunks },
                                   .spot = {
                                       [UPDATE_TABLE] = { .data = updates }, [ADAMW_RATES] = { .data = rates } } };
    ck_assert(gpu_start(&gpu, stream, GPU_ADAMW, &work, chunks, &error) && gpu.finish(gpu.self, stream, &error));
    gpu.close_stream(gpu.self, stream);
    gpu.close(gpu.self);
}

/* Steps far below the spacing of bf16 are not lost: the weights in full precision move as the processor's do. */
START_TEST(small_steps_add_up)
{
    enum { COUNT = 100, MANY = 200 };
    float exact[COUNT], gradient[COUNT], state[2 * COUNT] = { 0 }, moments[2 * COUNT] = { 0 }, master[COUNT];
    uint16_t weight[COUNT];
    struct adamw adamw = {
        .learning_rate = 1e-5, .beta1 = 0.9, .beta2 = 0.95, .epsilon = 1e-8, .weight_decay = 0.1, .gradient_scale = 1
    };
    for (int i = 0; i < COUNT; i++) {
        exact[i] = master[i] = (float)(i + 1) / 50, gradient[i] = i % 3 ? 0.5f : -0.25f;
        weight[i] = bf16_of_real(master[i]);
    }
    for (adamw.step = 1; adamw.step <= MANY; adamw.step++) {
        struct gpu_update own = { .count = COUNT,
                                  .weight = { .data = weight, .type = GPU_BF16 },
                                  .gradient = { .data = gradient },
                                  .moments = { .data = moments },
                                  .master = { .data = master } };
        update(4, 2, &own, &(struct gpu_update_rates){ .rates = adamw_rates_of(&adamw) }, 1);
        kernel_adamw(exact, exact, gradient, state, COUNT, &adamw);
    }
    for (int i = 0; i < COUNT; i++) {
        CHECK_NEAR((double)master[i], (double)exact[i],
                   MANY * (double)FLT_EPSILON * (double)exact[i]); /* of rounding */
        ck_assert_uint_eq(weight[i], bf16_of_real(master[i]));
        ck_assert(fabsf(exact[i] - (float)(i + 1) / 50) > 1e-3f);
    }
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
    int64_t row;
    float *own = calloc((size_t)count * 4 + 4, sizeof *own), *pull = own + count, *moments = pull + count;
    uint16_t *half = calloc((size_t)count + 1, sizeof *half);
    struct adamw adamw = {
        .learning_rate = 1e-3, .beta1 = 0.9, .beta2 = 0.95, .epsilon = 1e-8, .step = step, .gradient_scale = 1
    };
    for (int64_t i = 0; i < count; i++) {
        int64_t element = kernel_global_element(&rounded_weight, block, first + i, &row);
        own[i] = master[element], pull[i] = gradient[element];
    }
    struct gpu_update part = { .count = count,
                               .weight = { .data = half, .type = GPU_BF16 },
                               .gradient = { .data = pull },
                               .moments = { .data = moments },
                               .master = { .data = own } };
    gpu_update_by_chance(&part, &rounded_weight, block, first);
    update(1, 2, &part,
           &(struct gpu_update_rates){ .rates = adamw_rates_of(&adamw),
                                       .key = kernel_rounding_key(5, &rounded_weight, step) },
           1);
    for (int64_t i = 0; i < count; i++)
        out[kernel_global_element(&rounded_weight, block, first + i, &row)] = half[i];
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

/* ---- many weights in one launch ---- */
enum { WEIGHTS = 9, MOST = 5000 };
static const int64_t sizes[WEIGHTS] = { 1, 1024, 0, 5000, 7, 1028, 3, 2048, 1023 };

struct updated {
    uint16_t half[MOST];
    float master[MOST], moments[2 * MOST], gradient[MOST];
};

/* Rates and the key of each weight are its own; every third has no copy in 16 bits, and some lie at odd addresses. */
static void prepare(struct updated *all, struct gpu_update *updates, struct gpu_update_rates *rates)
{
    const struct block whole = { 2, { 0 }, { ROWS, COLUMNS } };
    for (int w = 0; w < WEIGHTS; w++) {
        struct updated *u = &all[w];
        const int odd = w == 4 || w == 7;
        const struct adamw adamw = { .learning_rate = 1e-3 * (w + 1),
                                     .beta1 = 0.9,
                                     .beta2 = 0.95,
                                     .epsilon = 1e-8,
                                     .step = 1,
                                     .gradient_scale = 1 };
        memset(u, 0, sizeof *u);
        for (int i = 0; i < MOST; i++) {
            u->master[i] = (float)(i % 97 + w + 1) / 50;
            u->gradient[i] = (float)(i % 31 - 15) / 7;
        }
        updates[w] = (struct gpu_update){ .count = sizes[w] - (sizes[w] > 0 ? odd : 0),
                                          .weight = { .data = u->half + odd, .type = GPU_BF16 },
                                          .gradient = { .data = u->gradient + odd },
                                          .moments = { .data = u->moments },
                                          .master = { .data = u->master } };
        if (w % 3 == 0)
            updates[w].weight = updates[w].master, updates[w].master.data = NULL;
        else
            gpu_update_by_chance(&updates[w], &rounded_weight, &whole, 11 * w);
        rates[w] = (struct gpu_update_rates){ .rates = adamw_rates_of(&adamw),
                                              .key = kernel_rounding_key((uint64_t)w, &rounded_weight, 1) };
    }
}

/* However many teams there are, and wherever their shares of the weights end. */
START_TEST(weights_of_one_launch_have_the_bits_of_launches_of_their_own)
{
    struct updated *want = calloc(WEIGHTS, sizeof *want), *got = calloc(WEIGHTS, sizeof *got);
    struct gpu_update updates[WEIGHTS];
    struct gpu_update_rates rates[WEIGHTS];
    prepare(want, updates, rates);
    for (int w = 0; w < WEIGHTS; w++)
        update(1, 1, &updates[w], &rates[w], 1);
    for (int teams = 1; teams <= 40; teams += 3)
        for (int count = 1; count <= WEIGHTS; count++) {
            prepare(got, updates, rates);
            update(teams % 2 + 1, teams, updates, rates, count);
            for (int w = 0; w < count; w++)
                ck_assert_msg(memcmp(&got[w], &want[w], sizeof *got) == 0, "weight %d of %d, %d teams", w, count,
                              teams);
        }
    prepare(got, updates, rates);
    for (int w = 0; w < WEIGHTS; w++)
        ck_assert((memcmp(&got[w], &want[w], sizeof *got) == 0) == (sizes[w] == 0));
    free(want);
    free(got);
}
END_TEST

/* The squares of all gradients of a table, by however many teams, in full precision or not, at odd addresses, too. */
START_TEST(squares_of_one_launch_are_those_of_all_gradients)
{
    struct updated *all = calloc(WEIGHTS, sizeof *all);
    uint16_t half[MOST + 1];
    struct gpu_update updates[WEIGHTS];
    struct gpu_update_rates rates[WEIGHTS];
    for (int teams = 1; teams <= 40; teams += 3)
        for (int count = 1; count <= WEIGHTS; count++) {
            struct gpu gpu;
            struct error error = { 0 };
            double parts[40], want = 1;
            float sum = 1;
            prepare(all, updates, rates);
            for (int i = 0; i < MOST; i++)
                half[i + teams % 2] = bf16_of_real(all[3].gradient[i]);
            updates[3].gradient = (struct gpu_spot){ .data = half + teams % 2, .type = GPU_BF16 };
            for (int w = 0; w < count; w++)
                for (int64_t i = 0; i < updates[w].count; i++) {
                    double x = w == 3 ? (double)real_of_bf16(half[i + teams % 2])
                                      : (double)((const float *)updates[w].gradient.data)[i];
                    want += x * x;
                }
            ck_assert(gpu_emulated_open(&gpu, teams % 2 ? 4 : 1, teams, true, &error));
            void *stream = gpu.open_stream(gpu.self, false, &error);
            const int64_t chunks = gpu_update_chunks(updates, count), used = min_i64(chunks, teams);
            const struct gpu_work squares = {
                .integer = { [UPDATE_WEIGHTS] = count, [UPDATE_CHUNKS] = chunks },
                .spot = { [UPDATE_TABLE] = { .data = updates }, [SQUARES_PARTS] = { .data = parts } }
            };
            const struct gpu_work added = { .integer = { used }, .spot = { { .data = &sum }, { .data = parts } } };
            ck_assert(gpu_start(&gpu, stream, GPU_SQUARE_PARTS, &squares, chunks, &error) &&
                      gpu_start(&gpu, stream, GPU_SQUARE_SUM, &added, 1, &error) &&
                      gpu.finish(gpu.self, stream, &error));
            ck_assert_msg(fabs((double)sum - want) <= 2 * (double)FLT_EPSILON * want,
                          "%d weights, %d teams: %g, not %g", count, teams, (double)sum, want);
            gpu.close_stream(gpu.self, stream);
            gpu.close(gpu.self);
        }
    free(all);
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

static Suite *gpu_rounding_suite(void)
{
    Suite *suite = suite_create("gpu_rounding");
    CHECK_ADD(suite, small_steps_add_up);
    CHECK_ADD(suite, rounding_does_not_depend_on_who_holds_an_element);
    CHECK_ADD(suite, weights_of_one_launch_have_the_bits_of_launches_of_their_own);
    CHECK_ADD(suite, squares_of_one_launch_are_those_of_all_gradients);
    CHECK_ADD(suite, rounding_by_chance_has_the_right_mean);
    return suite;
}

CHECK_MAIN(gpu_rounding_suite)
