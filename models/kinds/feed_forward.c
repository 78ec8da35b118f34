#include "models/kinds/feed_forward.h"
#include <stdio.h>

const char *const activation_names[] = { "gelu",       "swiglu", "gelu_erf",  "relu", "geglu",          "squared_relu",
                                         "quick_gelu", "silu",   "geglu_erf", "tanh", "swiglu_clamped", NULL };
const char activation_doc[] =
    "gelu: two matrices, tanh form; gelu_erf: its exact form; relu; swiglu: three matrices, "
    "silu(gate) * up; geglu: gelu(gate) * up, geglu_erf: with its exact form; "
    "squared_relu; quick_gelu: x / (1 + exp(-1.702 x)); silu: x / (1 + exp(-x)); tanh; swiglu_clamped: "
    "SwiGLU of what lies within 7 of 0 (GPT-OSS).";
/* The kernel of each enum activation. */
static const enum kernel activation_kernels[] = { KERNEL_GELU,      KERNEL_SWIGLU,       KERNEL_GELU_ERF,   KERNEL_RELU,
                                                  KERNEL_GEGLU,     KERNEL_SQUARED_RELU, KERNEL_QUICK_GELU, KERNEL_SILU,
                                                  KERNEL_GEGLU_ERF, KERNEL_SOFT_CAP,     KERNEL_CLAMPED };

enum kernel activation_kernel(int activation)
{
    return activation_kernels[activation];
}

double activation_cap(int activation)
{
    return activation == ACTIVATION_TANH ? 1 : 0;
}

const char *const feed_forward_matrix_names[] = { "gate_proj", "up_proj", "down_proj", NULL };

bool activation_is_gated(int activation)
{
    return activation == ACTIVATION_SWIGLU || activation == ACTIVATION_GEGLU || activation == ACTIVATION_GEGLU_ERF ||
           activation == ACTIVATION_SWIGLU_CLAMPED;
}

enum { TEXT = 16, GPT_OSS_LIMIT = 7 };

/* One matrix from axis `from` to axis `to`, and its adapter. The slots' count follows the axes that it has, which are
 * those before the slots themselves. */
static int product(struct graph_builder *builder, const struct feed_forward *f, enum feed_forward_matrix which, int x)
{
    const bool down = which == MATRIX_DOWN, bias = f->bias && !down;
    const char *name = down ? f->down : which == MATRIX_UP ? f->up : f->gate;
    const char from = down ? 'f' : 'h', to = down ? 'h' : 'f';
    char in[TEXT], out[TEXT], matrix[TEXT], shift[TEXT], axes[TEXT], bias_name[32];
    snprintf(in, sizeof in, "%s%c", f->tokens, from);
    snprintf(out, sizeof out, "%s%c", f->tokens, to);
    snprintf(matrix, sizeof matrix, "%s%c%c", f->stack, from, to);
    snprintf(shift, sizeof shift, "%s%c", f->stack, to);
    snprintf(axes, sizeof axes, "%s%c+%s%c", f->tokens, from, bias ? "!" : "", to);
    snprintf(bias_name, sizeof bias_name, "%s_bias", name);
    int y = builder_value(builder, name, out, ELEMENT_ACTIVATION, true);
    int weight = builder_weight(builder, name, matrix, INIT_NORMAL, down ? f->down_std : builder->init_std);
    int added = bias ? builder_weight(builder, bias_name, shift, INIT_ZERO, 0) : -1;
    struct segment *segment = builder_segment(
        builder, KERNEL_MATMUL, name, axes, OPERANDS({ x, in }, { f->filled, f->filled < 0 ? NULL : "ebq" }),
        OPERANDS({ weight, matrix }, { added, bias ? shift : NULL }), OPERANDS({ y, out }));
    segment->arguments.expected_fill = f->expected_fill;
    return build_lora(builder, f->lora, (int)which,
                      &(struct lora_matrix){
                          .name = name, .in = (char[]){ from, 0 }, .out = (char[]){ to, 0 }, .input = x, .output = y });
}

int build_feed_forward(struct graph_builder *builder, const struct feed_forward *f, int x)
{
    char wide[TEXT];
    snprintf(wide, sizeof wide, "%sf", f->tokens);
    bool gated = activation_is_gated(f->activation);
    int gate = gated ? product(builder, f, MATRIX_GATE, x) : -1;
    int up = product(builder, f, MATRIX_UP, x);
    int act = builder_value(builder, f->act, wide, ELEMENT_ACTIVATION, true), opened = -1;
    if (gated && builder->graph->keeping.eager_gates) {
        char name[TEXT];
        snprintf(name, sizeof name, "%s_gate", f->act);
        opened = builder_value(builder, name, wide,
                               f->activation == ACTIVATION_SWIGLU_CLAMPED ? ELEMENT_CLAMPED_GATES : ELEMENT_ACTIVATION,
                               false);
    }
    struct segment *segment =
        builder_segment(builder, activation_kernels[f->activation], f->act, wide,
                        OPERANDS({ gated ? gate : up, wide }, { up, gated ? wide : NULL }), NO_OPERANDS,
                        OPERANDS({ act, wide }, { opened, opened < 0 ? NULL : wide }));
    segment->arguments.score_cap = activation_cap(f->activation);
    segment->arguments.limit = f->activation == ACTIVATION_SWIGLU_CLAMPED ? GPT_OSS_LIMIT : 0;
    return product(builder, f, MATRIX_DOWN, act);
}
