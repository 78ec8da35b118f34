/* What kernels are made of: the matrix product, the exponential, the optimizer, sums over flat ranges, initial weights.
 * Built for float and for double. */
#include "base/num.h"
#include "executor/kernels/primitives.h"
#include "planner/program/geometry.h"
#include "tests/check.h"
#include <float.h>
#include <string.h>

#ifdef CLEAVE_REAL_DOUBLE
static const double close_enough = 1e-11;
#else
static const double close_enough = 2e-5;
#endif

static uint64_t draw(uint64_t *state)
{
    return mix64(++*state);
}
static int64_t draw_in(uint64_t *state, int64_t low, int64_t high) /* both inclusive */
{
    return low + (int64_t)(draw(state) % (uint64_t)(high - low + 1));
}
static double draw_real(uint64_t *state) /* in [-1, 1), representable in both precisions */
{
    return (double)(int64_t)(draw(state) >> 44) / (1 << 19) - 1;
}

/* ---- the matrix product against three loops ---- */
enum { MOST = 920, ELEMENTS = 2 * MOST * MOST };
struct matrices {
    double *a, *b; /* what ar and br hold */
    real *ar, *br, *cr;
};

static struct matrices draw_matrices(uint64_t *random)
{
    struct matrices x = { malloc(ELEMENTS * sizeof *x.a), malloc(ELEMENTS * sizeof *x.b),
                          malloc(ELEMENTS * sizeof *x.ar), malloc(ELEMENTS * sizeof *x.br),
                          malloc(ELEMENTS * sizeof *x.cr) };
    for (int64_t i = 0; i < ELEMENTS; i++) {
        x.ar[i] = (real)(x.a[i] = draw_real(random));
        x.br[i] = (real)(x.b[i] = draw_real(random));
    }
    return x;
}

static void free_matrices(struct matrices *x)
{
    free(x->a), free(x->b), free(x->ar), free(x->br), free(x->cr);
}

/* What the product should be, (m, n) side by side. */
static double *product_by_loops(const struct matrices *x, const struct gemm *g)
{
    double *out = malloc((size_t)(g->m * g->n) * sizeof *out);
    for (int64_t i = 0; i < g->m; i++)
        for (int64_t j = 0; j < g->n; j++) {
            double sum = g->accumulate ? 1 : g->row ? x->b[j] : 0;
            for (int64_t l = 0; l < g->k; l++)
                sum += 0.5 * x->a[i * g->a_m + l * g->a_k] * x->b[l * g->b_k + j * g->b_n];
            out[i * g->n + j] = sum;
        }
    return out;
}

/* Runs the product of given shape and strides by each instruction set; what it does not write stays NAN or 1. */
static void check_one_product(const struct matrices *x, struct gemm g)
{
    const struct primitives *set;
    g.a = x->ar, g.b = x->br, g.c = x->cr, g.alpha = (real)0.5;
    double *want = product_by_loops(x, &g);
    for (int s = 0; (set = primitives_at(s)); s++) {
        for (int64_t i = 0; i <= (g.m - 1) * g.c_m + (g.n - 1) * g.c_n; i++)
            x->cr[i] = g.accumulate ? 1 : (real)NAN;
        set->gemm(&g);
        for (int64_t i = 0; i < g.m; i++)
            for (int64_t j = 0; j < g.n; j++) {
                double found = (double)x->cr[i * g.c_m + j * g.c_n];
                ck_assert_msg(fabs(found - want[i * g.n + j]) <= close_enough * 10,
                              "%s: %g instead of %g at %lld, %lld of %lld x %lld x %lld", set->isa, found,
                              want[i * g.n + j], (long long)i, (long long)j, (long long)g.m, (long long)g.n,
                              (long long)g.k);
            }
    }
    free(want);
}

/* Adding to c, or from nothing and from a row. */
static void check_product(const struct matrices *x, struct gemm g)
{
    check_one_product(x, g);
    if (g.accumulate)
        return;
    g.row = x->br;
    check_one_product(x, g);
}

/* Shapes beyond every panel and tile, through strides that BLAS takes and ones it does not; now and then few rows that
 * meet a large matrix. */
START_TEST(gemm_of_any_strides)
{
    uint64_t random = 7;
    struct matrices x = draw_matrices(&random);
    for (int round = 0; round < 24; round++) {
        bool few_rows = round / 2 % 3 == 2;
        int64_t m = draw_in(&random, 1, few_rows ? 40 : 320),
                n = few_rows ? draw_in(&random, 400, 460) : draw_in(&random, 1, 40),
                k = draw_in(&random, few_rows ? 700 : 0, MOST), spread = round % 2 + 1;
        bool ta = round & 2, tb = round & 4, tc = round & 8;
        check_product(&x, (struct gemm){ .m = m,
                                         .n = n,
                                         .k = k,
                                         .accumulate = round % 3 == 0,
                                         .a_m = ta ? spread : spread * MOST,
                                         .a_k = ta ? spread * MOST : spread,
                                         .b_k = tb ? 1 : MOST,
                                         .b_n = tb ? MOST : 1,
                                         .c_m = tc ? 1 : MOST,
                                         .c_n = tc ? MOST : 1 });
    }
    free_matrices(&x);
}
END_TEST

/* As attention's scores are: small, the second operand by columns; whole vectors of them and not. */
START_TEST(gemm_of_small_columns)
{
    uint64_t random = 5;
    struct matrices x = draw_matrices(&random);
    for (int round = 0; round < 12; round++) {
        int64_t whole = round % 3 ? 16 : 1, m = draw_in(&random, 1, 80), n = whole * draw_in(&random, 1, 9),
                k = whole * draw_in(&random, 1, 6);
        check_product(&x, (struct gemm){ .m = m,
                                         .n = n,
                                         .k = k,
                                         .accumulate = round % 2,
                                         .a_m = round % 4 == 3 ? 1 : MOST,
                                         .a_k = round % 4 == 3 ? MOST : 1,
                                         .b_k = 1,
                                         .b_n = k + round % 5,
                                         .c_m = n,
                                         .c_n = 1 });
    }
    free_matrices(&x);
}
END_TEST

/* As weights' gradients are: large, of few products each, both operands side by side in memory; one block of rows and
 * several. Of a small share one of few products and one of many. */
START_TEST(gemm_of_short_sums)
{
    uint64_t random = 11;
    struct matrices x = draw_matrices(&random);
    for (int round = 0; round < 6; round += small_share() ? 5 : 1)
        check_product(&x, (struct gemm){ .m = draw_in(&random, 800, MOST),
                                         .n = draw_in(&random, 330, 370),
                                         .k = round % 2 ? draw_in(&random, 300, 340) : draw_in(&random, 1, 40),
                                         .accumulate = round / 2 % 2,
                                         .a_m = 1,
                                         .a_k = MOST,
                                         .b_k = MOST,
                                         .b_n = 1,
                                         .c_m = MOST,
                                         .c_n = 1 });
    free_matrices(&x);
}
END_TEST

/* Over the whole range of floats against libm in double: at most 2 units in the last place, denormals and extremes
 * included. */
START_TEST(exponential_is_accurate)
{
    enum { COUNT = 4096 };
    static real x[COUNT], y[COUNT];
    const struct primitives *set;
    for (int isa = 0; (set = primitives_at(isa)); isa++) {
        uint64_t random = 3;
        for (int round = 0; round < 1 + 199 / share_stride(); round++) {
            for (int i = 0; i < COUNT; i++)
                x[i] = (real)(draw_real(&random) * (round % 4 == 0   ? 1e-3
                                                    : round % 4 == 1 ? 1
                                                    : round % 4 == 2 ? 20
                                                                     : 110));
            x[0] = 0, x[1] = -INFINITY, x[2] = INFINITY, x[3] = (real)-1e30, x[4] = (real)1e30;
            set->exponential(y, x, COUNT);
            ck_assert(y[0] == 1 && y[1] == 0 && isinf(y[2]) && y[3] == 0 && isinf(y[4]));
            for (int i = 5; i < COUNT; i++) {
                double want = exp((double)x[i]);
#ifdef CLEAVE_REAL_DOUBLE
                ck_assert(y[i] == want);
#else
                int exponent;
                frexp(want, &exponent);
                double unit = ldexp(1, (exponent < -125 ? -125 : exponent) - 24);
                ck_assert_msg(want > (double)FLT_MAX ? isinf(y[i]) || y[i] > 3.4e38f
                                                     : fabs((double)y[i] - want) <= 2 * unit,
                              "%s: exp(%.9g): expected %.9g, found %.9g", set->isa, (double)x[i], want, (double)y[i]);
#endif
            }
            x[0] = (real)NAN;
            set->exponential(y, x, COUNT);
            ck_assert(isnan(y[0]));
        }
    }
}
END_TEST

START_TEST(adamw_follows_the_paper)
{
    enum { COUNT = 37 };
    const struct primitives *set;
    for (int isa = 0; (set = primitives_at(isa)); isa++) {
        uint64_t random = 5;
        real weight[COUNT], gradient[COUNT], state[2 * COUNT] = { 0 };
        double w[COUNT], m[COUNT] = { 0 }, v[COUNT] = { 0 };
        for (int i = 0; i < COUNT; i++)
            weight[i] = (real)(w[i] = draw_real(&random));
        for (int step = 1; step <= 4; step++) {
            struct adamw o = { .learning_rate = 0.01 * step,
                               .beta1 = 0.9,
                               .beta2 = 0.95,
                               .epsilon = 1e-8,
                               .weight_decay = 0.1,
                               .step = step,
                               .gradient_scale = 0.7 };
            for (int i = 0; i < COUNT; i++) {
                double g = draw_real(&random);
                gradient[i] = (real)g;
                g *= o.gradient_scale;
                m[i] = o.beta1 * m[i] + (1 - o.beta1) * g;
                v[i] = o.beta2 * v[i] + (1 - o.beta2) * g * g;
                w[i] -= o.learning_rate *
                        (m[i] / (1 - pow(o.beta1, step)) / (sqrt(v[i] / (1 - pow(o.beta2, step))) + o.epsilon) +
                         o.weight_decay * w[i]);
            }
            set->adamw(weight, weight, gradient, state, COUNT, &o);
        }
        for (int i = 0; i < COUNT; i++) {
            ck_assert_double_eq_tol((double)weight[i], w[i], close_enough);
            ck_assert_double_eq_tol((double)state[i], m[i], close_enough);
            ck_assert_double_eq_tol((double)state[COUNT + i], v[i], close_enough);
        }
    }
}
END_TEST

START_TEST(flat_ranges)
{
    enum { COUNT = 1003 };
    static real x[COUNT], y[COUNT], sum[COUNT], max[COUNT];
    uint64_t random = 9;
    double square = 0;
    for (int i = 0; i < COUNT; i++) {
        sum[i] = max[i] = x[i] = (real)draw_real(&random);
        y[i] = (real)draw_real(&random);
        square += (double)x[i] * (double)x[i];
    }
    const struct primitives *set;
    for (int isa = 0; (set = primitives_at(isa)); isa++) {
        double got = set->square_sum(x, COUNT);
        ck_assert_double_eq_tol(got, square, 1e-10);
        if (sizeof(real) ==
            sizeof(float)) /* products of floats are exact in double, so all sets agree to the last bit */
            ck_assert_double_eq(got, primitives_at(0)->square_sum(x, COUNT));
        memcpy(sum, x, sizeof sum);
        memcpy(max, x, sizeof max);
        set->add(sum, y, COUNT);
        set->maximum(max, y, COUNT);
        for (int i = 0; i < COUNT; i++)
            ck_assert(sum[i] == x[i] + y[i] && max[i] == (x[i] > y[i] ? x[i] : y[i]));
    }
    memcpy(sum, x, sizeof sum);
    kernel_add(sum, y, COUNT);
    kernel_maximum(sum, x, COUNT);
    ck_assert(sum[5] == (x[5] + y[5] > x[5] ? x[5] + y[5] : x[5]));
    ck_assert_double_eq(kernel_square_sum(x, COUNT), primitives_at(0)->square_sum(x, COUNT));
}
END_TEST

/* ---- initial values ---- */
START_TEST(initial_values_do_not_depend_on_the_block)
{
    struct weight weight = { .name = "3.attention.q",
                             .dim_count = 3,
                             .size = { 9, 4, 6 },
                             .valid_rows = 7,
                             .init = INIT_NORMAL,
                             .init_std = 0.02 };
    struct block whole = { .dim_count = 3, .count = { 9, 4, 6 } };
    real all[9 * 4 * 6], roughly[9 * 4 * 6], part[9 * 4 * 6];
    kernel_initialise(all, &weight, &whole, 0, 9 * 4 * 6, 42);
    kernel_initialise_roughly(roughly, &weight, &whole, 0, 9 * 4 * 6, 42);
    for (int i = 0; i < 9 * 4 * 6; i++)
        ck_assert_int_eq(all[i] == 0, i >= 7 * 4 * 6);
    uint64_t random = 1;
    for (int round = 0; round < 200; round++) {
        struct block block = { .dim_count = 3 };
        for (int dim = 0; dim < 3; dim++) {
            block.low[dim] = draw_in(&random, 0, weight.size[dim] - 1);
            block.count[dim] = draw_in(&random, 1, weight.size[dim] - block.low[dim]);
        }
        int64_t inside = block_elements(&block), first = draw_in(&random, 0, inside),
                count = draw_in(&random, 0, inside + 3 - first);
        if (count > 9 * 4 * 6)
            continue;
        bool rough = round % 2;
        (rough ? kernel_initialise_roughly : kernel_initialise)(part, &weight, &block, first, count, 42);
        for (int64_t i = 0; i < count; i++) {
            int64_t e = first + i, k = e % block.count[2], j = e / block.count[2] % block.count[1],
                    r = e / block.count[2] / block.count[1];
            real want = e >= inside ? 0
                                    : (rough ? roughly
                                             : all)[((block.low[0] + r) * 4 + block.low[1] + j) * 6 + block.low[2] + k];
            ck_assert(part[i] == want);
        }
    }
    /* more padding changes nothing; another name or seed everything */
    weight.size[0] = 12;
    whole.count[0] = 9;
    kernel_initialise(part, &weight, &whole, 0, 9 * 4 * 6, 42);
    ck_assert_mem_eq(all, part, sizeof all);
    kernel_initialise(part, &weight, &whole, 0, 9 * 4 * 6, 43);
    ck_assert(part[0] != all[0] && part[100] != all[100]);
    weight.name = "3.attention.k";
    kernel_initialise(part, &weight, &whole, 0, 9 * 4 * 6, 42);
    ck_assert(part[0] != all[0] && part[100] != all[100]);
}
END_TEST

START_TEST(initial_values_are_normal)
{
    enum { COUNT = 1 << 18 };
    real *x = malloc(COUNT * sizeof *x);
    struct weight weight = {
        .name = "w", .dim_count = 1, .size = { COUNT }, .valid_rows = COUNT, .init = INIT_NORMAL, .init_std = 2
    };
    struct block block = { .dim_count = 1, .count = { COUNT } };
    (_i ? kernel_initialise_roughly : kernel_initialise)(x, &weight, &block, 0, COUNT, 1);
    double mean = 0, square = 0, fourth = 0, neighbours = 0;
    for (int i = 0; i < COUNT; i++) {
        double z = (double)x[i] / 2;
        mean += z / COUNT, square += z * z / COUNT, fourth += z * z * z * z / COUNT;
        neighbours += i ? z * (double)x[i - 1] / 2 / COUNT : 0;
    }
    /* five standard errors of normal ones: 1, sqrt 2, sqrt 96 and 1 over sqrt COUNT */
    ck_assert_double_eq_tol(mean, 0, 5 / 512.0);
    ck_assert_double_eq_tol(square, 1, 5 * 1.4143 / 512);
    ck_assert_double_eq_tol(fourth, _i ? 1.8 : 3, 5 * 9.8 / 512); /* of even ones 9/5 */
    ck_assert_double_eq_tol(neighbours, 0, 5 / 512.0);
    weight.init = INIT_ONE;
    weight.valid_rows = 5;
    kernel_initialise(x, &weight, &block, 3, 4, 1);
    ck_assert(x[0] == 1 && x[1] == 1 && x[2] == 0 && x[3] == 0);
    weight.init = INIT_ZERO;
    kernel_initialise(x, &weight, &block, 3, 4, 1);
    ck_assert(x[0] == 0 && x[1] == 0 && x[2] == 0 && x[3] == 0);
    free(x);
}
END_TEST

/* The generator's bits are part of the format of runs: a change here changes every trained model. The value is Box and
 * Muller's formula in libm's functions on the same counters. */
START_TEST(initial_values_follow_box_and_muller)
{
    enum { PAIRS = 500 };
    struct weight weight = {
        .name = "w", .dim_count = 1, .size = { 2 * PAIRS }, .valid_rows = 2 * PAIRS, .init = INIT_NORMAL, .init_std = 1
    };
    struct block block = { .dim_count = 1, .count = { 2 * PAIRS } };
    real x[2 * PAIRS];
    kernel_initialise(x, &weight, &block, 0, 2 * PAIRS, 11);
    uint64_t key = mix64(hash_string(HASH_START, "w") ^ mix64(11));
    for (uint64_t pair = 0; pair < PAIRS; pair++) {
        double u = ((double)(mix64(key ^ mix64(2 * pair + 1)) >> 11) + 1) / 9007199254740992.0;
        double turn = (double)(mix64(key ^ mix64(2 * pair + 2)) >> 11) / 9007199254740992.0 * 2 * acos(-1);
        double tolerance = sizeof(real) == sizeof(float) ? 1e-6 : 1e-13;
        ck_assert_double_eq_tol((double)x[2 * pair], sqrt(-2 * log(u)) * cos(turn), tolerance);
        ck_assert_double_eq_tol((double)x[2 * pair + 1], sqrt(-2 * log(u)) * sin(turn), tolerance);
    }
}
END_TEST

static Suite *primitives_suite(void)
{
    Suite *suite = suite_create("kernel primitives");
    CHECK_ADD(suite, gemm_of_any_strides);
    CHECK_ADD(suite, gemm_of_small_columns);
    CHECK_ADD(suite, gemm_of_short_sums);
    CHECK_ADD(suite, exponential_is_accurate);
    CHECK_ADD(suite, adamw_follows_the_paper);
    CHECK_ADD(suite, flat_ranges);
    CHECK_ADD(suite, initial_values_do_not_depend_on_the_block);
    CHECK_ADD_LOOP(suite, initial_values_are_normal, 2);
    CHECK_ADD(suite, initial_values_follow_box_and_muller);
    return suite;
}

CHECK_MAIN(primitives_suite)
