/* x, y (b,t,h); gain, bias (h); mean, rstd (b,t). RMS norm has neither mean nor bias. Or x, y (b,t,n,d); gain (d) or
 * (n,d); rstd (b,t,n), or (b,t) where a row is all of (n,d).
 *
 * Layer norm and RMS norm over the whole last axes; statistics are outputs, so backward never recomputes them. */
#include "executor/kernels/exponential.h"
#include "executor/kernels/primitives.h"

static real sum_of(const real *x, int64_t count)
{
    real sum = 0;
#pragma omp simd reduction(+ : sum)
    for (int64_t i = 0; i < count; i++)
        sum += x[i];
    return sum;
}

static real square_sum_of(const real *x, real shift, int64_t count)
{
    real sum = 0;
#pragma omp simd reduction(+ : sum)
    for (int64_t i = 0; i < count; i++)
        sum += (x[i] - shift) * (x[i] - shift);
    return sum;
}

static void rows_of(const struct kernel_call *call, const struct spot *spots, int spot_count, row_function *row,
                    const void *context)
{
    /* Axes are joined as far as the gain follows them and the statistics do not: these are the row. */
    walk(call, &call->segment->in[0], call->operand[ROLE_IN][0].dim_count, true, spots, spot_count, row, context);
}

static void layer_norm_row(const struct row *row, const void *context)
{
    const double *epsilon = context;
    real *restrict y = row->data[0];
    const real *restrict x = row->data[1], *restrict gain = row->data[2], *restrict bias = row->data[3];
    real *mean_out = row->data[4], *rstd_out = row->data[5];
    int64_t n = row->count;
    real mean = sum_of(x, n) / (real)n;
    real rstd = 1 / real_sqrt(square_sum_of(x, mean, n) / (real)n + (real)*epsilon);
    if (bias) {
#pragma omp simd
        for (int64_t i = 0; i < n; i++)
            y[i] = (x[i] - mean) * rstd * gain[i] + bias[i];
    } else {
#pragma omp simd
        for (int64_t i = 0; i < n; i++)
            y[i] = (x[i] - mean) * rstd * gain[i];
    }
    *mean_out = mean;
    *rstd_out = rstd;
}

void ISA(layer_norm_forward)(const struct kernel_call *call)
{
    const struct spot bias = call->segment->weight_count > 1 ? spot_of(call, ROLE_WEIGHT, 1) : (struct spot){ 0 };
    struct spot spots[] = { spot_of(call, ROLE_OUT, 0), spot_of(call, ROLE_IN, 0), spot_of(call, ROLE_WEIGHT, 0), bias,
                            spot_of(call, ROLE_OUT, 1), spot_of(call, ROLE_OUT, 2) };
    rows_of(call, spots, 6, layer_norm_row, &call->segment->arguments.epsilon);
}

static void rms_norm_row(const struct row *row, const void *context)
{
    const double *epsilon = context;
    real *restrict y = row->data[0];
    const real *restrict x = row->data[1], *restrict gain = row->data[2];
    real *rstd_out = row->data[3];
    real rstd = 1 / real_sqrt(square_sum_of(x, 0, row->count) / (real)row->count + (real)*epsilon);
#pragma omp simd
    for (int64_t i = 0; i < row->count; i++)
        y[i] = x[i] * rstd * gain[i];
    *rstd_out = rstd;
}

void ISA(rms_norm_forward)(const struct kernel_call *call)
{
    struct spot spots[] = { spot_of(call, ROLE_OUT, 0), spot_of(call, ROLE_IN, 0), spot_of(call, ROLE_WEIGHT, 0),
                            spot_of(call, ROLE_OUT, 1) };
    rows_of(call, spots, 4, rms_norm_row, &call->segment->arguments.epsilon);
}

/* With z = (x - mean) rstd and g = dy gain: dx = rstd (g - average(g) - z average(g z)); RMS norm has no average(g) and
 * mean 0. */
static void norm_gradient_row(const struct row *row, const void *context)
{
    const bool *begin = context;
    real *restrict dx = row->data[0];
    const real *restrict dy = row->data[1], *restrict x = row->data[2], *restrict gain = row->data[3];
    const real rstd = *(const real *)row->data[4], *mean_in = row->data[5];
    const real mean = mean_in ? *mean_in : 0;
    real sum = 0, product = 0;
#pragma omp simd reduction(+ : sum, product)
    for (int64_t i = 0; i < row->count; i++) {
        real g = dy[i] * gain[i];
        sum += g;
        product += g * (x[i] - mean);
    }
    const real slope = product * rstd * rstd / (real)row->count, shift = mean_in ? sum / (real)row->count : 0;
    if (*begin) {
#pragma omp simd
        for (int64_t i = 0; i < row->count; i++)
            dx[i] = rstd * (dy[i] * gain[i] - shift - (x[i] - mean) * slope);
    } else {
#pragma omp simd
        for (int64_t i = 0; i < row->count; i++)
            dx[i] += rstd * (dy[i] * gain[i] - shift - (x[i] - mean) * slope);
    }
}

static void norm_backward_input(const struct kernel_call *call, struct spot mean, struct spot rstd)
{
    bool begin = begins(call, ROLE_GRADIENT_IN, 0);
    if (!call->operand[ROLE_GRADIENT_IN][0].data)
        return;
    struct spot spots[] = { spot_of(call, ROLE_GRADIENT_IN, 0),
                            spot_of(call, ROLE_GRADIENT_OUT, 0),
                            spot_of(call, ROLE_IN, 0),
                            spot_of(call, ROLE_WEIGHT, 0),
                            rstd,
                            mean };
    rows_of(call, spots, 6, norm_gradient_row, &begin);
}

void ISA(layer_norm_backward_input)(const struct kernel_call *call)
{
    norm_backward_input(call, spot_of(call, ROLE_OUT, 1), spot_of(call, ROLE_OUT, 2));
}

void ISA(rms_norm_backward_input)(const struct kernel_call *call)
{
    norm_backward_input(call, (struct spot){ 0 }, spot_of(call, ROLE_OUT, 1));
}

static void gain_gradient_row(const struct row *row, const void *context)
{
    (void)context;
    real *restrict dgain = row->data[0], *restrict dbias = row->data[1];
    const real *restrict dy = row->data[2], *restrict x = row->data[3];
    const real rstd = *(const real *)row->data[4], *mean_in = row->data[5];
    const real mean = mean_in ? *mean_in : 0;
    if (dgain) {
#pragma omp simd
        for (int64_t i = 0; i < row->count; i++)
            dgain[i] += dy[i] * (x[i] - mean) * rstd;
    }
    if (dbias) {
#pragma omp simd
        for (int64_t i = 0; i < row->count; i++)
            dbias[i] += dy[i];
    }
}

static void norm_backward_weight(const struct kernel_call *call, int weights, struct spot mean, struct spot rstd)
{
    for (int i = 0; i < weights; i++)
        if (call->operand[ROLE_GRADIENT_WEIGHT][i].data && begins(call, ROLE_GRADIENT_WEIGHT, i))
            clear_operand(call, ROLE_GRADIENT_WEIGHT, i);
    struct spot spots[] = { spot_of(call, ROLE_GRADIENT_WEIGHT, 0),
                            weights > 1 ? spot_of(call, ROLE_GRADIENT_WEIGHT, 1) : (struct spot){ 0 },
                            spot_of(call, ROLE_GRADIENT_OUT, 0),
                            spot_of(call, ROLE_IN, 0),
                            rstd,
                            mean };
    rows_of(call, spots, 6, gain_gradient_row, NULL);
}

void ISA(layer_norm_backward_weight)(const struct kernel_call *call)
{
    norm_backward_weight(call, call->segment->weight_count, spot_of(call, ROLE_OUT, 1), spot_of(call, ROLE_OUT, 2));
}

void ISA(rms_norm_backward_weight)(const struct kernel_call *call)
{
    norm_backward_weight(call, 1, (struct spot){ 0 }, spot_of(call, ROLE_OUT, 1));
}
