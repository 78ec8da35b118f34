#include "models/kinds/norm.h"
#include "models/layer_kind.h"
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
    if (x < 0)
        return bias ? build_join(builder, (const int[]){ y }, 1, true) : y;
    return build_join(builder, (const int[]){ x, y }, 2, bias);
}

int build_sum(struct graph_builder *builder, const char *name, const char *dims, const int *terms, int count, int bias)
{
    int sum = builder_value(builder, name, dims, ELEMENT_ACTIVATION, true);
    struct operand_text in[MAX_LAYER_INPUTS + 1];
    for (int i = 0; i < count; i++)
        in[i] = (struct operand_text){ terms[i], dims };
    in[count] = (struct operand_text){ -1, NULL };
    builder_segment(builder, KERNEL_RESIDUAL, name, dims, in, OPERANDS({ bias, bias < 0 ? NULL : "h" }),
                    OPERANDS({ sum, dims }));
    return sum;
}

int build_join(struct graph_builder *builder, const int *terms, int count, bool bias)
{
    int weight = bias ? builder_weight(builder, "residual_bias", "h", INIT_ZERO, 0) : -1;
    return build_sum(builder, "residual", "bth", terms, count, weight);
}

/* ---- a norm alone ---- */

static const struct norm_layer norm_defaults = { .norm_epsilon = 1e-5 };

static const struct json_field norm_fields[] = {
    LAYER_HEAD_FIELDS,
    { .key = "norm",
      .type = FIELD_ENUM,
      .offset = offsetof(struct norm_layer, norm),
      .required = true,
      .names = norm_names,
      .doc = "Which one." },
    NORM_EPSILON_FIELD(norm_layer),
};

static bool norm_check(const struct model *model, const void *fields, const struct json *at, struct error *err)
{
    const struct norm_layer *f = fields;
    (void)model;
    return f->norm != NORM_NONE ||
           json_fail(json_at_key(at, "norm"), err, "expected layer_norm or rms_norm: none leaves nothing of the layer");
}

static bool norm_build(struct graph_builder *builder, const struct model *model, const void *fields, struct error *err)
{
    const struct norm_layer *f = fields;
    (void)model, (void)err;
    builder->output = build_norm(builder, builder->input, f->norm, f->norm_epsilon);
    return true;
}

extern const struct layer_kind norm_kind;
const struct layer_kind norm_kind = {
    .name = "norm",
    .place = CHAIN_JOIN,
    .min_inputs = 1,
    .max_inputs = 1,
    .doc = "A norm alone: what ends an encoder.",
    .fields = norm_fields,
    .field_count = sizeof norm_fields / sizeof *norm_fields,
    .fields_bytes = sizeof(struct norm_layer),
    .defaults = &norm_defaults,
    .check = norm_check,
    .build = norm_build,
};
