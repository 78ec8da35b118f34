/* Activations, element by element: x, y and their gradients have one shape, (b,t,h) or (b,t,f), of experts (e,b,q,c,f);
 * the gated ones read gate and up of that shape. A row is as long as memory is contiguous. */
#include "executor/kernels/elements.h"
#include "executor/kernels/primitives.h"

/* One input, one output, elementwise. */
static void forward(const struct kernel_call *call, row_function *row)
{
    struct spot spots[] = { spot_of(call, ROLE_OUT, 0), spot_of(call, ROLE_IN, 0) };
    walk(call, &call->segment->out[0], call->operand[ROLE_OUT][0].dim_count, true, spots, 2, row, NULL);
}

/* Rows are those of the input's gradient, the input and the output's gradient; the context says whether it begins. */
static void backward(const struct kernel_call *call, row_function *row)
{
    if (!call->operand[ROLE_GRADIENT_IN][0].data)
        return;
    bool begin = begins(call, ROLE_GRADIENT_IN, 0);
    struct spot spots[] = { spot_of(call, ROLE_GRADIENT_IN, 0), spot_of(call, ROLE_IN, 0),
                            spot_of(call, ROLE_GRADIENT_OUT, 0) };
    walk(call, &call->segment->out[0], call->operand[ROLE_GRADIENT_OUT][0].dim_count, true, spots, 3, row, &begin);
}

static void gelu_row(const struct row *row, const void *context)
{
    (void)context;
    real *restrict y = row->data[0];
    const real *restrict x = row->data[1];
#pragma omp simd
    for (int64_t i = 0; i < row->count; i++)
        y[i] = gelu(x[i]);
}

void ISA(gelu_forward)(const struct kernel_call *call)
{
    forward(call, gelu_row);
}

static void gelu_gradient_row(const struct row *row, const void *context)
{
    real *restrict dx = row->data[0];
    const real *restrict x = row->data[1], *restrict dy = row->data[2];
    const bool *begin = context;
    if (*begin) {
#pragma omp simd
        for (int64_t i = 0; i < row->count; i++)
            dx[i] = dy[i] * gelu_slope(x[i]);
    } else {
#pragma omp simd
        for (int64_t i = 0; i < row->count; i++)
            dx[i] += dy[i] * gelu_slope(x[i]);
    }
}

void ISA(gelu_backward_input)(const struct kernel_call *call)
{
    backward(call, gelu_gradient_row);
}

static void gelu_erf_row(const struct row *row, const void *context)
{
    (void)context;
    real *restrict y = row->data[0];
    const real *restrict x = row->data[1];
    for (int64_t i = 0; i < row->count; i++)
        y[i] = gelu_erf(x[i]);
}

void ISA(gelu_erf_forward)(const struct kernel_call *call)
{
    forward(call, gelu_erf_row);
}

/* Gradients may lie where the inputs do from here on. */
static void gelu_erf_gradient_row(const struct row *row, const void *context)
{
    real *dx = row->data[0];
    const real *x = row->data[1], *dy = row->data[2];
    const bool *begin = context;
    for (int64_t i = 0; i < row->count; i++)
        dx[i] = (*begin ? 0 : dx[i]) + dy[i] * gelu_erf_slope(x[i]);
}

void ISA(gelu_erf_backward_input)(const struct kernel_call *call)
{
    backward(call, gelu_erf_gradient_row);
}

static void relu_row(const struct row *row, const void *context)
{
    (void)context;
    real *restrict y = row->data[0];
    const real *restrict x = row->data[1];
#pragma omp simd
    for (int64_t i = 0; i < row->count; i++)
        y[i] = x[i] > 0 ? x[i] : 0;
}

void ISA(relu_forward)(const struct kernel_call *call)
{
    forward(call, relu_row);
}

static void relu_gradient_row(const struct row *row, const void *context)
{
    real *dx = row->data[0];
    const real *x = row->data[1], *dy = row->data[2];
    const bool *begin = context;
    if (*begin) {
#pragma omp simd
        for (int64_t i = 0; i < row->count; i++)
            dx[i] = x[i] > 0 ? dy[i] : 0;
    } else {
#pragma omp simd
        for (int64_t i = 0; i < row->count; i++)
            dx[i] += x[i] > 0 ? dy[i] : 0;
    }
}

void ISA(relu_backward_input)(const struct kernel_call *call)
{
    backward(call, relu_gradient_row);
}

static void squared_relu_row(const struct row *row, const void *context)
{
    (void)context;
    real *restrict y = row->data[0];
    const real *restrict x = row->data[1];
#pragma omp simd
    for (int64_t i = 0; i < row->count; i++)
        y[i] = x[i] > 0 ? x[i] * x[i] : 0;
}

void ISA(squared_relu_forward)(const struct kernel_call *call)
{
    forward(call, squared_relu_row);
}

static void squared_relu_gradient_row(const struct row *row, const void *context)
{
    real *dx = row->data[0];
    const real *x = row->data[1], *dy = row->data[2];
    const bool *begin = context;
#pragma omp simd
    for (int64_t i = 0; i < row->count; i++)
        dx[i] = (*begin ? 0 : dx[i]) + (x[i] > 0 ? 2 * x[i] * dy[i] : 0);
}

void ISA(squared_relu_backward_input)(const struct kernel_call *call)
{
    backward(call, squared_relu_gradient_row);
}

static void swiglu_row(const struct row *row, const void *context)
{
    (void)context;
    real *restrict y = row->data[0];
    const real *restrict gate = row->data[1], *restrict up = row->data[2];
#pragma omp simd
    for (int64_t i = 0; i < row->count; i++)
        y[i] = silu(gate[i]) * up[i];
}

/* A gate and what it lets through. */
static void gated_forward(const struct kernel_call *call, row_function *row)
{
    struct spot spots[] = { spot_of(call, ROLE_OUT, 0), spot_of(call, ROLE_IN, 0), spot_of(call, ROLE_IN, 1) };
    walk(call, &call->segment->out[0], call->operand[ROLE_OUT][0].dim_count, true, spots, 3, row, NULL);
}

void ISA(swiglu_forward)(const struct kernel_call *call)
{
    gated_forward(call, swiglu_row);
}

static void geglu_row(const struct row *row, const void *context)
{
    (void)context;
    real *restrict y = row->data[0];
    const real *restrict gate = row->data[1], *restrict up = row->data[2];
#pragma omp simd
    for (int64_t i = 0; i < row->count; i++)
        y[i] = gelu(gate[i]) * up[i];
}

void ISA(geglu_forward)(const struct kernel_call *call)
{
    gated_forward(call, geglu_row);
}

struct gated_context {
    bool begin[2];
    bool swiglu; /* else geglu */
};

/* Both gradients in one pass; either may be absent. */
static void gated_gradient_row(const struct row *row, const void *context)
{
    const struct gated_context *c = context;
    real *dgate = row->data[0], *dup = row->data[1];
    const real *gate = row->data[2], *up = row->data[3], *dy = row->data[4];
    enum { CHUNK = 256 };
    real gate_part[CHUNK], up_part[CHUNK];
    for (int64_t low = 0; low < row->count; low += CHUNK) {
        int64_t count = row->count - low < CHUNK ? row->count - low : CHUNK;
        if (c->swiglu) {
#pragma omp simd
            for (int64_t i = 0; i < count; i++) {
                gate_part[i] = dy[low + i] * up[low + i] * silu_slope(gate[low + i]);
                up_part[i] = dy[low + i] * silu(gate[low + i]);
            }
        } else {
#pragma omp simd
            for (int64_t i = 0; i < count; i++) {
                gate_part[i] = dy[low + i] * up[low + i] * gelu_slope(gate[low + i]);
                up_part[i] = dy[low + i] * gelu(gate[low + i]);
            }
        }
        for (int64_t i = 0; dgate && i < count; i++)
            dgate[low + i] = c->begin[0] ? gate_part[i] : dgate[low + i] + gate_part[i];
        for (int64_t i = 0; dup && i < count; i++)
            dup[low + i] = c->begin[1] ? up_part[i] : dup[low + i] + up_part[i];
    }
}

static void gated_backward(const struct kernel_call *call, bool swiglu)
{
    struct gated_context context = { { begins(call, ROLE_GRADIENT_IN, 0), begins(call, ROLE_GRADIENT_IN, 1) }, swiglu };
    struct spot spots[] = { spot_of(call, ROLE_GRADIENT_IN, 0), spot_of(call, ROLE_GRADIENT_IN, 1),
                            spot_of(call, ROLE_IN, 0), spot_of(call, ROLE_IN, 1), spot_of(call, ROLE_GRADIENT_OUT, 0) };
    walk(call, &call->segment->out[0], call->operand[ROLE_GRADIENT_OUT][0].dim_count, true, spots, 5,
         gated_gradient_row, &context);
}

void ISA(swiglu_backward_input)(const struct kernel_call *call)
{
    gated_backward(call, true);
}

void ISA(geglu_backward_input)(const struct kernel_call *call)
{
    gated_backward(call, false);
}

void ISA(exponential)(real *destination, const real *source, int64_t count)
{
#pragma omp simd
    for (int64_t i = 0; i < count; i++)
        destination[i] = real_exp(source[i]);
}
