#include "models/kinds/scan_parts.h"
#include <stdio.h>

enum { TEXT = 32 };

int build_projection(struct graph_builder *builder, const struct projection *p, int x)
{
    char name[TEXT];
    snprintf(name, sizeof name, "%s_bias", p->name);
    int y = builder_value(builder, p->name, p->to, ELEMENT_ACTIVATION, true);
    int matrix = builder_weight(builder, p->name, p->matrix, INIT_NORMAL, p->std > 0 ? p->std : builder->init_std);
    int shift = p->shift ? builder_weight(builder, name, p->shift, INIT_ZERO, 0) : -1;
    builder_segment(builder, KERNEL_MATMUL, p->name, p->axes, OPERANDS({ x, p->from }),
                    OPERANDS({ matrix, p->matrix }, { shift, p->shift }), OPERANDS({ y, p->to }));
    return y;
}

int build_short_conv(struct graph_builder *builder, const char *name, const char *channels, int64_t taps, bool bias,
                     int x)
{
    char dims[TEXT], axes[TEXT], filter[TEXT], filter_dims[TEXT], shift_name[2 * TEXT];
    snprintf(dims, sizeof dims, "bt%s", channels);
    snprintf(axes, sizeof axes, "bt!%s", channels);
    snprintf(filter, sizeof filter, "%sk", channels);
    snprintf(filter_dims, sizeof filter_dims, "%s.", channels);
    snprintf(shift_name, sizeof shift_name, "%s_bias", name);
    builder_size(builder, 'k', taps);
    int y = builder_value(builder, name, dims, ELEMENT_ACTIVATION, true);
    int weight = builder_weight(builder, name, filter, INIT_NORMAL, builder->init_std);
    int shift = bias ? builder_weight(builder, shift_name, channels, INIT_ZERO, 0) : -1;
    builder_segment(builder, KERNEL_SHORT_CONV, name, axes, OPERANDS({ x, dims }),
                    OPERANDS({ weight, filter_dims }, { shift, bias ? channels : NULL }), OPERANDS({ y, dims }))
        ->arguments.taps = taps;
    return y;
}

int build_gated_norm(struct graph_builder *builder, int x, int z, char width, int64_t over, const char *gain,
                     double epsilon)
{
    const char dims[] = { 'b', 't', 'n', width, 0 }, axes[] = { 'b', 't', 'n', width, '!', 0 };
    builder_size(builder, 'm', builder->size['n'] / over);
    int y = builder_value(builder, "norm_gated", dims, ELEMENT_ACTIVATION, true);
    int rstd = builder_value(builder, "norm_gated_rstd", "btm", ELEMENT_STATISTIC, false);
    int weight = builder_weight(builder, "norm_gated_gain", gain, INIT_ONE, 0);
    struct segment *segment =
        builder_segment(builder, KERNEL_GATED_NORM, "norm_gated", axes, OPERANDS({ x, dims }, { z, dims }),
                        OPERANDS({ weight, gain }), OPERANDS({ y, dims }, { rstd, "btn" }));
    segment->arguments.epsilon = epsilon;
    for (int i = 0; i < segment->axis_count; i++)
        if (segment->axes[i].tag == TAG_HEAD)
            segment->axes[i].grain = over;
    return y;
}
