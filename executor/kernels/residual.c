/* y (b,t,h) = sum of up to MAX_LAYER_INPUTS terms (b,t,h), + bias (h); of an image (b,pixel,g). Or, without a bias, the
 * first term and a multiple of the others. */
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

struct scaled_context {
    int terms;
    real scale;
    bool begin;
};

static void scaled_row(const struct row *row, const void *context)
{
    const struct scaled_context *c = context;
    real *restrict y = row->data[0];
    const real *restrict first = row->data[1];
    for (int64_t i = 0; i < row->count; i++)
        y[i] = first[i];
    for (int term = 1; term < c->terms; term++) {
        const real *restrict x = row->data[1 + term];
#pragma omp simd
        for (int64_t i = 0; i < row->count; i++)
            y[i] += c->scale * x[i];
    }
}

static void scaled_gradient_row(const struct row *row, const void *context)
{
    const struct scaled_context *c = context;
    real *restrict dx = row->data[0];
    const real *restrict dy = row->data[1];
#pragma omp simd
    for (int64_t i = 0; i < row->count; i++)
        dx[i] = (c->begin ? 0 : dx[i]) + c->scale * dy[i];
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
    const struct scaled_context scaled = { .terms = terms, .scale = (real)segment->arguments.scale };
    walk(call, &segment->out[0], call->operand[ROLE_OUT][0].dim_count, true, spots, 1 + terms,
         scaled.scale > 0 ? scaled_row : residual_row, scaled.scale > 0 ? (const void *)&scaled : &terms);
}

void ISA(residual_backward_input)(const struct kernel_call *call)
{
    const double scale = call->segment->arguments.scale;
    for (int i = 0; i < call->segment->in_count; i++) {
        if (i == 0 || !(scale > 0)) {
            pass_gradient(call, i);
            continue;
        }
        if (!call->operand[ROLE_GRADIENT_IN][i].data)
            continue;
        const struct scaled_context scaled = { .scale = (real)scale, .begin = begins(call, ROLE_GRADIENT_IN, i) };
        struct spot spots[] = { spot_of(call, ROLE_GRADIENT_IN, i), spot_of(call, ROLE_GRADIENT_OUT, 0) };
        walk(call, &call->segment->out[0], call->operand[ROLE_GRADIENT_OUT][0].dim_count, true, spots, 2,
             scaled_gradient_row, &scaled);
    }
}

void ISA(residual_backward_weight)(const struct kernel_call *call)
{
    if (call->segment->weight_count > 0)
        bias_gradient(call, 0);
}
