#include "models/kinds/lora.h"
#include "models/kinds/norm.h"
#include <stdio.h>

bool lora_check(const struct layer_head *head, const struct lora *lora, const struct json *at, struct error *err)
{
    if (!lora->rank)
        return !lora->targets ||
               json_fail(json_at_key(at, "target_modules"), err, "expected a lora_r beside it: the adapters' rank");
    if (!lora->targets)
        return json_fail(json_at_key(at, "lora_r"), err,
                         "expected target_modules beside it: the matrices that have an adapter");
    return head->frozen ||
           json_fail(json_at_key(at, "lora_r"), err,
                     "expected \"frozen\": true beside it: adapters are trained instead of the layer's own weights");
}

enum { TEXT = 32 };

/* One factor: out += scale x weight over the axes of x that are not tokens. */
static int factor(struct graph_builder *builder, const char *name, const char *in, const char *out, enum init init,
                  double scale, int x)
{
    char axes[TEXT] = "bt", dims[TEXT], from[TEXT], to[TEXT];
    int used = 2;
    for (const char *c = in; *c; c++)
        used += snprintf(axes + used, sizeof axes - (size_t)used, "%c+", *c);
    snprintf(axes + used, sizeof axes - (size_t)used, "%s", out);
    snprintf(dims, sizeof dims, "%s%s", in, out);
    snprintf(from, sizeof from, "bt%s", in);
    snprintf(to, sizeof to, "bt%s", out);
    int y = builder_value(builder, name, to, ELEMENT_ACTIVATION, true);
    int weight = builder_adapter(builder, name, dims, init);
    struct kernel_arguments *arguments = &builder_segment(builder, KERNEL_MATMUL, name, axes, OPERANDS({ x, from }),
                                                          OPERANDS({ weight, dims }), OPERANDS({ y, to }))
                                              ->arguments;
    arguments->scale = scale;
    arguments->scales = scale > 0;
    return y;
}

/* What an adapter reads where some of that is dropped: a copy of its own. */
static int dropped(struct graph_builder *builder, const struct lora_matrix *matrix)
{
    char name[TEXT], dims[TEXT];
    snprintf(name, sizeof name, "%s_dropped", matrix->name);
    snprintf(dims, sizeof dims, "bt%s", matrix->in);
    int copy = builder_value(builder, name, dims, ELEMENT_DROPPED, true);
    builder_segment(builder, KERNEL_RESIDUAL, name, dims, OPERANDS({ matrix->input, dims }), NO_OPERANDS,
                    OPERANDS({ copy, dims }));
    return copy;
}

int build_lora(struct graph_builder *builder, const struct lora *lora, int target, const struct lora_matrix *matrix)
{
    char down[TEXT], up[TEXT], sum[TEXT], dims[TEXT];
    if (!lora || !(lora->targets >> target & 1))
        return matrix->output;
    snprintf(down, sizeof down, "%s_lora_a", matrix->name);
    snprintf(up, sizeof up, "%s_lora_b", matrix->name);
    snprintf(sum, sizeof sum, "%s_adapted", matrix->name);
    snprintf(dims, sizeof dims, "bt%s", matrix->out);
    builder_size(builder, 'l', lora->rank);
    int input = builder->drops ? dropped(builder, matrix) : matrix->input;
    int narrow = factor(builder, down, matrix->in, "l", INIT_NORMAL, 0, input);
    int wide = factor(builder, up, "l", matrix->out, INIT_ZERO, lora->alpha / (double)lora->rank, narrow);
    return build_sum(builder, sum, dims, (const int[]){ matrix->output, wide }, 2, -1);
}
