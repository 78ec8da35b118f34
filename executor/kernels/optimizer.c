#include "executor/kernels/exponential.h"
#include "executor/kernels/primitives.h"

/* One pass over four streams: memory sets the pace. */
void ISA(optimizer_adamw)(real *restrict weight, const real *restrict gradient, real *restrict state, int64_t count,
                          const struct adamw *options)
{
    real *restrict first = state, *restrict second = state + count;
    const double correction1 = 1 - pow(options->beta1, (double)options->step),
                 correction2 = 1 - pow(options->beta2, (double)options->step);
    const real beta1 = (real)options->beta1, beta2 = (real)options->beta2, rest1 = (real)(1 - options->beta1),
               rest2 = (real)(1 - options->beta2);
    const real rate = (real)(options->learning_rate / correction1), root = (real)(1 / sqrt(correction2));
    const real keep = (real)(1 - options->learning_rate * options->weight_decay);
    const real epsilon = (real)options->epsilon, scale = (real)options->gradient_scale;
#pragma omp simd
    for (int64_t i = 0; i < count; i++) {
        real g = gradient[i] * scale;
        real m = beta1 * first[i] + rest1 * g;
        real v = beta2 * second[i] + rest2 * g * g;
        first[i] = m;
        second[i] = v;
        weight[i] = keep * weight[i] - rate * m / (real_sqrt(v) * root + epsilon);
    }
}

/* Four runs side by side, which memory likes better than one; each in lanes, all added in a fixed order: the same sum
 * whatever the instruction set. */
double ISA(optimizer_square_sum)(const real *data, int64_t count)
{
    enum { RUNS = 4, LANES = 16 };
    double lanes[RUNS][LANES] = { { 0 } }, sum = 0;
    int64_t run = count / RUNS / LANES * LANES;
    for (int64_t i = 0; i < run; i += LANES)
        for (int r = 0; r < RUNS; r++)
            for (int j = 0; j < LANES; j++)
                lanes[r][j] += (double)data[r * run + i + j] * (double)data[r * run + i + j];
    for (int64_t i = RUNS * run; i < count; i++)
        lanes[0][i % LANES] += (double)data[i] * (double)data[i];
    for (int r = 0; r < RUNS; r++)
        for (int j = 0; j < LANES; j++)
            sum += lanes[r][j];
    return sum;
}

void ISA(optimizer_add)(real *restrict destination, const real *restrict source, int64_t count)
{
#pragma omp simd
    for (int64_t i = 0; i < count; i++)
        destination[i] += source[i];
}

void ISA(optimizer_maximum)(real *restrict destination, const real *restrict source, int64_t count)
{
#pragma omp simd
    for (int64_t i = 0; i < count; i++)
        destination[i] = source[i] > destination[i] ? source[i] : destination[i];
}
