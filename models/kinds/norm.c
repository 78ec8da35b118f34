#include "models/kinds/norm.h"
#include <stddef.h>

const char *const norm_names[] = { "none", "layer_norm", "rms_norm", NULL };

int build_norm(struct graph_builder *builder, int x, int norm, double epsilon)
{
    if (norm == NORM_NONE)
        return x;
    int y = builder_value(builder, "norm", "bth", ELEMENT_ACTIVATION, true);
    int gain = builder_weight(builder, "norm_gain", "h", INIT_ONE, 0);
    struct segment *segment;
    if (norm == NORM_LAYER) {
        int bias = builder_weight(builder, "norm_bias", "h", INIT_ZERO, 0);
        int mean = builder_value(builder, "norm_mean", "bt", ELEMENT_STATISTIC, false);
        int rstd = builder_value(builder, "norm_rstd", "bt", ELEMENT_STATISTIC, false);
        segment = builder_segment(builder, KERNEL_LAYER_NORM, "norm", "bth!", OPERANDS({ x, "bth" }),
                                  OPERANDS({ gain, "h" }, { bias, "h" }),
                                  OPERANDS({ y, "bth" }, { mean, "bt" }, { rstd, "bt" }));
    } else {
        int rstd = builder_value(builder, "norm_rstd", "bt", ELEMENT_STATISTIC, false);
        segment = builder_segment(builder, KERNEL_RMS_NORM, "norm", "bth!", OPERANDS({ x, "bth" }),
                                  OPERANDS({ gain, "h" }), OPERANDS({ y, "bth" }, { rstd, "bt" }));
    }
    segment->arguments.epsilon = epsilon;
    return y;
}

int build_residual(struct graph_builder *builder, int x, int y, bool bias)
{
    int sum = builder_value(builder, "residual", "bth", ELEMENT_ACTIVATION, true);
    if (bias) {
        int weight = builder_weight(builder, "residual_bias", "h", INIT_ZERO, 0);
        builder_segment(builder, KERNEL_RESIDUAL, "residual", "bth", OPERANDS({ x, "bth" }, { y, "bth" }),
                        OPERANDS({ weight, "h" }), OPERANDS({ sum, "bth" }));
    } else {
        builder_segment(builder, KERNEL_RESIDUAL, "residual", "bth", OPERANDS({ x, "bth" }, { y, "bth" }), NO_OPERANDS,
                        OPERANDS({ sum, "bth" }));
    }
    return sum;
}
