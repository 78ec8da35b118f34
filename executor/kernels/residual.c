/* y (b,t,h) = sum of up to MAX_LAYER_INPUTS terms (b,t,h), + bias (h); of an image (b,pixel,g). */
#include "executor/kernels/primitives.h"
#include <string.h>

static void residual_row(const struct row *row, const void *context)
{
    const int *terms = context; /* inputs, then the bias */
    real *restrict y = row->data[0];
    const real *restrict x0 = row->data[1], *restrict x1 = row->data[2], *restrict x2 = row->data[3];
    if (*terms == 1) {
        memcpy(y, x0, (size_t)row->count * sizeof *y);
    } else if (*terms == 2) {
#pragma omp simd
        for (int64_t i = 0; i < row->count; i++)
            y[i] = x0[i] + x1[i];
    } else {
#pragma omp simd
        for (int64_t i = 0; i < row->count; i++)
            y[i] = x0[i] + x1[i] + x2[i];
    }
    for (int term = 3; term < *terms; term++) {
        const real *restrict x = row->data[1 + term];
#pragma omp simd
        for (int64_t i = 0; i < row->count; i++)
            y[i] += x[i];
    }
}

void ISA(residual_forward)(const struct kernel_call *call)
{
    const struct segment *segment = call->segment;
    struct spot spots[WALK_SPOTS] = { spot_of(call, ROLE_OUT, 0) };
    int terms = 0;
    for (int i = 0; i < segment->in_count; i++)
        spots[1 + terms++] = spot_of(call, ROLE_IN, i);
    if (segment->weight_count > 0)
        spots[1 + terms++] = spot_of(call, ROLE_WEIGHT, 0);
    walk(call, &segment->out[0], call->operand[ROLE_OUT][0].dim_count, true, spots, 1 + terms, residual_row, &terms);
}

void ISA(residual_backward_input)(const struct kernel_call *call)
{
    for (int i = 0; i < call->segment->in_count; i++)
        pass_gradient(call, i);
}

void ISA(residual_backward_weight)(const struct kernel_call *call)
{
    if (call->segment->weight_count > 0)
        bias_gradient(call, 0);
}
