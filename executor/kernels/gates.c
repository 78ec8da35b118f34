/* Gates beside those of activations.c: the clamped form of SwiGLU, elementwise on (b,t,f) or (e,b,q,c,f), and the gate
 * of a whole token, x (b,t,h) times the sigmoid of g (b,t,1). */
#include "executor/kernels/elements.h"
#include "executor/kernels/primitives.h"

/* ---- swiglu_clamped ---- */
#define CLAMPED_STEEPNESS ((real)1.702)

struct clamp_context {
    real limit;
    bool begin[2];
};

static real no_more_than(real x, real limit)
{
    return x < limit ? x : limit;
}

static real sigmoid_of(real x)
{
    return 1 / (1 + real_exp(-x));
}

static void swiglu_clamped_row(const struct row *row, const void *context)
{
    const struct clamp_context *c = context;
    real *restrict y = row->data[0];
    const real *restrict gate = row->data[1], *restrict up = row->data[2];
#pragma omp simd
    for (int64_t i = 0; i < row->count; i++) {
        real g = no_more_than(gate[i], c->limit), u = -no_more_than(-no_more_than(up[i], c->limit), c->limit);
        y[i] = g * sigmoid_of(CLAMPED_STEEPNESS * g) * (u + 1);
    }
}

void ISA(swiglu_clamped_forward)(const struct kernel_call *call)
{
    const struct clamp_context context = { .limit = (real)call->segment->arguments.limit };
    struct spot spots[] = { spot_of(call, ROLE_OUT, 0), spot_of(call, ROLE_IN, 0), spot_of(call, ROLE_IN, 1) };
    walk(call, &call->segment->out[0], call->operand[ROLE_OUT][0].dim_count, true, spots, 3, swiglu_clamped_row,
         &context);
}

/* Gradients may lie where the inputs do, and either may be absent. Beyond the limit the slope is 0. */
static void swiglu_clamped_gradient_row(const struct row *row, const void *context)
{
    const struct clamp_context *c = context;
    real *dgate = row->data[0], *dup = row->data[1];
    const real *gate = row->data[2], *up = row->data[3], *dy = row->data[4];
    for (int64_t i = 0; i < row->count; i++) {
        real g = no_more_than(gate[i], c->limit), u = -no_more_than(-no_more_than(up[i], c->limit), c->limit);
        real s = sigmoid_of(CLAMPED_STEEPNESS * g);
        real gate_part = gate[i] > c->limit ? 0 : dy[i] * (u + 1) * s * (1 + CLAMPED_STEEPNESS * g * (1 - s));
        real up_part = up[i] > c->limit || up[i] < -c->limit ? 0 : dy[i] * g * s;
        if (dgate)
            dgate[i] = c->begin[0] ? gate_part : dgate[i] + gate_part;
        if (dup)
            dup[i] = c->begin[1] ? up_part : dup[i] + up_part;
    }
}

void ISA(swiglu_clamped_backward_input)(const struct kernel_call *call)
{
    const struct clamp_context context = { (real)call->segment->arguments.limit,
                                           { begins(call, ROLE_GRADIENT_IN, 0), begins(call, ROLE_GRADIENT_IN, 1) } };
    struct spot spots[] = { spot_of(call, ROLE_GRADIENT_IN, 0), spot_of(call, ROLE_GRADIENT_IN, 1),
                            spot_of(call, ROLE_IN, 0), spot_of(call, ROLE_IN, 1), spot_of(call, ROLE_GRADIENT_OUT, 0) };
    walk(call, &call->segment->out[0], call->operand[ROLE_GRADIENT_OUT][0].dim_count, true, spots, 5,
         swiglu_clamped_gradient_row, &context);
}

/* ---- token_gate ---- */
static void token_gate_row(const struct row *row, const void *context)
{
    (void)context;
    real *restrict y = row->data[0];
    const real *restrict x = row->data[1], *restrict gate = row->data[2];
    const real open = sigmoid_of(*gate);
#pragma omp simd
    for (int64_t i = 0; i < row->count; i++)
        y[i] = open * x[i];
}

void ISA(token_gate_forward)(const struct kernel_call *call)
{
    struct spot spots[] = { spot_of(call, ROLE_OUT, 0), spot_of(call, ROLE_IN, 0), spot_of(call, ROLE_IN, 1) };
    walk(call, &call->segment->out[0], call->operand[ROLE_OUT][0].dim_count, false, spots, 3, token_gate_row, NULL);
}

/* The context says which of the two gradients begin; either may be absent. */
static void token_gate_gradient_row(const struct row *row, const void *context)
{
    const bool *begin = context;
    real *restrict dx = row->data[0], *restrict dgate = row->data[1];
    const real *restrict x = row->data[2], *restrict gate = row->data[3], *restrict dy = row->data[4];
    const real open = sigmoid_of(*gate);
    if (dgate)
        *dgate = (begin[1] ? 0 : *dgate) + open * (1 - open) * dot_product(dy, x, row->count);
    if (!dx)
        return;
#pragma omp simd
    for (int64_t i = 0; i < row->count; i++)
        dx[i] = (begin[0] ? 0 : dx[i]) + open * dy[i];
}

void ISA(token_gate_backward_input)(const struct kernel_call *call)
{
    const bool begin[] = { begins(call, ROLE_GRADIENT_IN, 0), begins(call, ROLE_GRADIENT_IN, 1) };
    struct spot spots[] = { spot_of(call, ROLE_GRADIENT_IN, 0), spot_of(call, ROLE_GRADIENT_IN, 1),
                            spot_of(call, ROLE_IN, 0), spot_of(call, ROLE_IN, 1), spot_of(call, ROLE_GRADIENT_OUT, 0) };
    walk(call, &call->segment->out[0], call->operand[ROLE_GRADIENT_OUT][0].dim_count, false, spots, 5,
         token_gate_gradient_row, begin);
}
