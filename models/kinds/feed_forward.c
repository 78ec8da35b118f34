#include "models/kinds/feed_forward.h"
#include <stdio.h>

const char *const activation_names[] = { "gelu", "swiglu", "gelu_erf", "relu", "geglu", NULL };
const char activation_doc[] = "gelu: two matrices, tanh form; gelu_erf: its exact form; relu; swiglu: three matrices, "
                              "silu(gate) * up; geglu: gelu(gate) * up.";
/* By enum activation. */
static const enum kernel activation_kernels[] = { KERNEL_GELU, KERNEL_SWIGLU, KERNEL_GELU_ERF, KERNEL_RELU,
                                                  KERNEL_GEGLU };

enum { TEXT = 16 };

/* One matrix from axis `from` to axis `to`. The slots' count follows the axes that it has, which are those before the
 * slots themselves. */
static int product(struct graph_builder *builder, const struct feed_forward *f, const char *name, char from, char to,
                   bool bias, double std, int x)
{
    char in[TEXT], out[TEXT], matrix[TEXT], shift[TEXT], axes[TEXT], bias_name[32];
    snprintf(in, sizeof in, "%s%c", f->tokens, from);
    snprintf(out, sizeof out, "%s%c", f->tokens, to);
    snprintf(matrix, sizeof matrix, "%s%c%c", f->stack, from, to);
    snprintf(shift, sizeof shift, "%s%c", f->stack, to);
    snprintf(axes, sizeof axes, "%s%c+%s%c", f->tokens, from, bias ? "!" : "", to);
    snprintf(bias_name, sizeof bias_name, "%s_bias", name);
    int y = builder_value(builder, name, out, ELEMENT_ACTIVATION, true);
    int weight = builder_weight(builder, name, matrix, INIT_NORMAL, std);
    int added = bias ? builder_weight(builder, bias_name, shift, INIT_ZERO, 0) : -1;
    struct segment *segment = builder_segment(
        builder, KERNEL_MATMUL, name, axes, OPERANDS({ x, in }, { f->filled, f->filled < 0 ? NULL : "ebq" }),
        OPERANDS({ weight, matrix }, { added, bias ? shift : NULL }), OPERANDS({ y, out }));
    segment->arguments.expected_fill = f->expected_fill;
    return y;
}

int build_feed_forward(struct graph_builder *builder, const struct feed_forward *f, int x)
{
    char wide[TEXT];
    snprintf(wide, sizeof wide, "%sf", f->tokens);
    bool gated = f->activation == ACTIVATION_SWIGLU || f->activation == ACTIVATION_GEGLU;
    int gate = gated ? product(builder, f, f->gate, 'h', 'f', f->bias, builder->init_std, x) : -1;
    int up = product(builder, f, f->up, 'h', 'f', f->bias, builder->init_std, x);
    int act = builder_value(builder, f->act, wide, ELEMENT_ACTIVATION, true);
    builder_segment(builder, activation_kernels[f->activation], f->act, wide,
                    OPERANDS({ gated ? gate : up, wide }, { up, gated ? wide : NULL }), NO_OPERANDS,
                    OPERANDS({ act, wide }));
    return product(builder, f, f->down, 'f', 'h', false, f->down_std, act);
}
