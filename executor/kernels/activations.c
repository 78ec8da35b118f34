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

static void quick_gelu_row(const struct row *row, const void *context)
{
    (void)context;
    real *restrict y = row->data[0];
    const real *restrict x = row->data[1];
#pragma omp simd
    for (int64_t i = 0; i < row->count; i++)
        y[i] = quick_gelu(x[i]);
}

void ISA(quick_gelu_forward)(const struct kernel_call *call)
{
    forward(call, quick_gelu_row);
}

static void quick_gelu_gradient_row(const struct row *row, const void *context)
{
    real *dx = row->data[0];
    const real *x = row->data[1], *dy = row->data[2];
    const bool *begin = context;
#pragma omp simd
    for (int64_t i = 0; i < row->count; i++)
        dx[i] = (*begin ? 0 : dx[i]) + dy[i] * quick_gelu_slope(x[i]);
}

void ISA(quick_gelu_backward_input)(const struct kernel_call *call)
{
    backward(call, quick_gelu_gradient_row);
}

static void silu_row(const struct row *row, const void *context)
{
    (void)context;
    real *restrict y = row->data[0];
    const real *restrict x = row->data[1];
#pragma omp simd
    for (int64_t i = 0; i < row->count; i++)
        y[i] = silu(x[i]);
}

void ISA(silu_forward)(const struct kernel_call *call)
{
    forward(call, silu_row);
}

static void silu_gradient_row(const struct row *row, const void *context)
{
    real *dx = row->data[0];
    const real *x = row->data[1], *dy = row->data[2];
    const bool *begin = context;
#pragma omp simd
    for (int64_t i = 0; i < row->count; i++)
        dx[i] = (*begin ? 0 : dx[i]) + dy[i] * silu_slope(x[i]);
}

void ISA(silu_backward_input)(const struct kernel_call *call)
{
    backward(call, silu_gradient_row);
}

/* ---- caps ---- */
struct cap_context {
    real cap;
    bool begin;
};

static void soft_cap_row(const struct row *row, const void *context)
{
    const struct cap_context *c = context;
    real *restrict y = row->data[0];
    const real *restrict x = row->data[1];
#pragma omp simd
    for (int64_t i = 0; i < row->count; i++)
        y[i] = soft_cap(x[i], c->cap);
}

void ISA(soft_cap_forward)(const struct kernel_call *call)
{
    const struct cap_context context = { .cap = (real)call->segment->arguments.score_cap };
    struct spot spots[] = { spot_of(call, ROLE_OUT, 0), spot_of(call, ROLE_IN, 0) };
    walk(call, &call->segment->out[0], call->operand[ROLE_OUT][0].dim_count, true, spots, 2, soft_cap_row, &context);
}

/* Of y = cap tanh(x / cap) the slope is 1 - (y / cap)^2. */
static void soft_cap_gradient_row(const struct row *row, const void *context)
{
    const struct cap_context *c = context;
    real *dx = row->data[0];
    const real *y = row->data[1], *dy = row->data[2];
#pragma omp simd
    for (int64_t i = 0; i < row->count; i++)
        dx[i] = (c->begin ? 0 : dx[i]) + dy[i] * (1 - y[i] / c->cap * (y[i] / c->cap));
}

void ISA(soft_cap_backward_input)(const struct kernel_call *call)
{
    const struct cap_context context = { (real)call->segment->arguments.score_cap, begins(call, ROLE_GRADIENT_IN, 0) };
    if (!call->operand[ROLE_GRADIENT_IN][0].data)
        return;
    struct spot spots[] = { spot_of(call, ROLE_GRADIENT_IN, 0), spot_of(call, ROLE_OUT, 0),
                            spot_of(call, ROLE_GRADIENT_OUT, 0) };
    walk(call, &call->segment->out[0], call->operand[ROLE_GRADIENT_OUT][0].dim_count, true, spots, 3,
         soft_cap_gradient_row, &context);
}

/* ---- gates ---- */
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

static void geglu_erf_row(const struct row *row, const void *context)
{
    (void)context;
    real *restrict y = row->data[0];
    const real *restrict gate = row->data[1], *restrict up = row->data[2];
    for (int64_t i = 0; i < row->count; i++)
        y[i] = gelu_erf(gate[i]) * up[i];
}

void ISA(geglu_erf_forward)(const struct kernel_call *call)
{
    gated_forward(call, geglu_erf_row);
}

/* The gate comes second: in[0] is what it lets through. */
static void sigmoid_gate_row(const struct row *row, const void *context)
{
    (void)context;
    real *restrict y = row->data[0];
    const real *restrict x = row->data[1], *restrict gate = row->data[2];
#pragma omp simd
    for (int64_t i = 0; i < row->count; i++)
        y[i] = x[i] * sigmoid(gate[i]);
}

void ISA(sigmoid_gate_forward)(const struct kernel_call *call)
{
    gated_forward(call, sigmoid_gate_row);
}

struct gated_context {
    bool begin[2];
    enum kernel kernel;
};

/* What a gate lets through of 1, and its slope, of `count` elements. */
static void open_gates(enum kernel kernel, const real *restrict gate, real *restrict open, real *restrict slope,
                       int64_t count)
{
    if (kernel == KERNEL_SWIGLU) {
#pragma omp simd
        for (int64_t i = 0; i < count; i++)
            open[i] = silu(gate[i]), slope[i] = silu_slope(gate[i]);
    } else if (kernel == KERNEL_GEGLU) {
#pragma omp simd
        for (int64_t i = 0; i < count; i++)
            open[i] = gelu(gate[i]), slope[i] = gelu_slope(gate[i]);
    } else if (kernel == KERNEL_SIGMOID_GATE) {
#pragma omp simd
        for (int64_t i = 0; i < count; i++)
            open[i] = sigmoid(gate[i]), slope[i] = open[i] * (1 - open[i]);
    } else {
        for (int64_t i = 0; i < count; i++)
            open[i] = gelu_erf(gate[i]), slope[i] = gelu_erf_slope(gate[i]);
    }
}

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
        open_gates(c->kernel, gate + low, up_part, gate_part, count);
#pragma omp simd
        for (int64_t i = 0; i < count; i++) {
            gate_part[i] = dy[low + i] * up[low + i] * gate_part[i];
            up_part[i] = dy[low + i] * up_part[i];
        }
        for (int64_t i = 0; dgate && i < count; i++)
            dgate[low + i] = c->begin[0] ? gate_part[i] : dgate[low + i] + gate_part[i];
        for (int64_t i = 0; dup && i < count; i++)
            dup[low + i] = c->begin[1] ? up_part[i] : dup[low + i] + up_part[i];
    }
}

static void gated_backward(const struct kernel_call *call)
{
    const enum kernel kernel = call->segment->kernel;
    const int gate = kernel == KERNEL_SIGMOID_GATE ? 1 : 0, up = 1 - gate;
    struct gated_context context = { { begins(call, ROLE_GRADIENT_IN, gate), begins(call, ROLE_GRADIENT_IN, up) },
                                     kernel };
    struct spot spots[] = { spot_of(call, ROLE_GRADIENT_IN, gate), spot_of(call, ROLE_GRADIENT_IN, up),
                            spot_of(call, ROLE_IN, gate), spot_of(call, ROLE_IN, up),
                            spot_of(call, ROLE_GRADIENT_OUT, 0) };
    walk(call, &call->segment->out[0], call->operand[ROLE_GRADIENT_OUT][0].dim_count, true, spots, 5,
         gated_gradient_row, &context);
}

void ISA(swiglu_backward_input)(const struct kernel_call *call)
{
    gated_backward(call);
}

void ISA(geglu_backward_input)(const struct kernel_call *call)
{
    gated_backward(call);
}

void ISA(geglu_erf_backward_input)(const struct kernel_call *call)
{
    gated_backward(call);
}

void ISA(sigmoid_gate_backward_input)(const struct kernel_call *call)
{
    gated_backward(call);
}

void ISA(exponential)(real *destination, const real *source, int64_t count)
{
#pragma omp simd
    for (int64_t i = 0; i < count; i++)
        destination[i] = real_exp(source[i]);
}
