/* weight, present, gradient (count); state (2, count): first moments, then second ones.
 *
 * The optimizer and sums, on flat ranges. */
#include "executor/kernels/exponential.h"
#include "executor/kernels/primitives.h"
#include "executor/kernels/bf16.h"
#include "executor/kernels/rates.h"

enum { CACHE_LINE = 64 / (int)sizeof(real) };

/* Memory sets the pace of these loops. A processor follows streams by itself, but begins anew at every 4 KiB. */
static inline void fetch_ahead(const real *at)
{
    enum { AHEAD_BYTES = 2048 };
    __builtin_prefetch((const void *)((uintptr_t)at + AHEAD_BYTES), 0, 2);
}

/* One pass over four streams, or five where the new weight lies elsewhere. */
void ISA(optimizer_adamw)(real *weight, const real *present, const real *restrict gradient, real *restrict state,
                          int64_t count, const struct adamw *options)
{
    real *restrict first = state, *restrict second = state + count;
    const struct adamw_rates rates = adamw_rates_of(options);
    int64_t i = 0;
    for (; i + CACHE_LINE <= count; i += CACHE_LINE) {
        fetch_ahead(present + i), fetch_ahead(gradient + i), fetch_ahead(first + i), fetch_ahead(second + i);
#pragma omp simd
        for (int64_t j = i; j < i + CACHE_LINE; j++)
            weight[j] = adamw_element(present[j], gradient[j], &first[j], &second[j], &rates);
    }
    for (; i < count; i++)
        weight[i] = adamw_element(present[i], gradient[i], &first[i], &second[i], &rates);
}

/* Four runs side by side, which memory likes better than one; each in lanes, all added in a fixed order: the same sum
 * whatever the instruction set. */
double ISA(optimizer_square_sum)(const real *data, int64_t count)
{
    enum { RUNS = 4, LANES = 16 };
    double lanes[RUNS][LANES] = { { 0 } }, sum = 0;
    int64_t run = count / RUNS / LANES * LANES;
    for (int64_t i = 0; i < run; i += LANES)
        for (int r = 0; r < RUNS; r++) {
            fetch_ahead(data + r * run + i);
            for (int j = 0; j < LANES; j++)
                lanes[r][j] += (double)data[r * run + i + j] * (double)data[r * run + i + j];
        }
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

void ISA(optimizer_add_bf16)(uint16_t *restrict destination, const uint16_t *restrict source, int64_t count)
{
    for (int64_t i = 0; i < count; i++)
        destination[i] = bf16_of_real(real_of_bf16(destination[i]) + real_of_bf16(source[i]));
}

void ISA(optimizer_maximum)(real *restrict destination, const real *restrict source, int64_t count)
{
#pragma omp simd
    for (int64_t i = 0; i < count; i++)
        destination[i] = source[i] > destination[i] ? source[i] : destination[i];
}
