#include "models/kinds/norm.h"
#include "models/layer_kind.h"
#include <stddef.h>
#include <stdio.h>

const char *const norm_names[] = { "none", "layer_norm", "rms_norm", "layer_norm_no_bias", NULL };

enum { TEXT = 48 };

static int statistic(struct graph_builder *builder, const struct norm_of *of, const char *what)
{
    char name[TEXT];
    snprintf(name, sizeof name, "%s_%s", of->name, what);
    return builder_value(builder, name, of->rows, ELEMENT_STATISTIC, false);
}

static int parameter(struct graph_builder *builder, const struct norm_of *of, const char *what, enum init init)
{
    char name[TEXT];
    snprintf(name, sizeof name, "%s_%s", of->name, what);
    return builder_weight(builder, name, of->weights, init, 0);
}

int build_norm_input(struct graph_builder *builder, const char *name, const char *dims)
{
    char own[TEXT];
    snprintf(own, sizeof own, "%s_fp32", name);
    return builder->graph->keeping.eager_norms ? builder_value(builder, own, dims, ELEMENT_STATISTIC, false) : -1;
}

int build_norm_of(struct graph_builder *builder, const struct norm_of *of, int x)
{
    if (of->norm == NORM_NONE)
        return x;
    int y = builder_value(builder, of->name, of->dims, ELEMENT_ACTIVATION, true);
    int gain = parameter(builder, of, "gain", INIT_ONE);
    struct segment *segment;
    if (of->norm == NORM_RMS) {
        int rstd = statistic(builder, of, "rstd"), wide = build_norm_input(builder, of->name, of->dims);
        segment = builder_segment(builder, KERNEL_RMS_NORM, of->name, of->axes, OPERANDS({ x, of->dims }),
                                  OPERANDS({ gain, of->weights }),
                                  OPERANDS({ y, of->dims }, { rstd, of->rows }, { wide, wide < 0 ? NULL : of->dims }));
    } else {
        int bias = of->norm == NORM_LAYER ? parameter(builder, of, "bias", INIT_ZERO) : -1;
        int mean = statistic(builder, of, "mean"), rstd = statistic(builder, of, "rstd");
        segment = builder_segment(builder, KERNEL_LAYER_NORM, of->name, of->axes, OPERANDS({ x, of->dims }),
                                  OPERANDS({ gain, of->weights }, { bias, bias < 0 ? NULL : of->weights }),
                                  OPERANDS({ y, of->dims }, { mean, of->rows }, { rstd, of->rows }));
    }
    segment->arguments.epsilon = of->epsilon;
    return y;
}

static int stream_norm(struct graph_builder *builder, const char *name, int x, int norm, double epsilon)
{
    return build_norm_of(builder,
                         &(struct norm_of){ .name = name,
                                            .axes = "bth!",
                                            .dims = "bth",
                                            .weights = "h",
                                            .rows = "bt",
                                            .norm = norm,
                                            .epsilon = epsilon },
                         x);
}

int build_norm(struct graph_builder *builder, int x, int norm, double epsilon)
{
    return stream_norm(builder, "norm", x, norm, epsilon);
}

int build_output(struct graph_builder *builder, const struct layer_output *output, int x, const int *terms, int count)
{
    int all[MAX_LAYER_INPUTS] = { x }, first = x < 0 ? 0 : 1, normed = -1;
    bool bias = output->bias;
    if (output->norm != NORM_NONE || (bias && output->scale > 0)) {
        normed = terms[0];
        if (count > 1 || bias)
            normed = build_sum(builder, "output", "bth", terms, count,
                               bias ? builder_weight(builder, "output_bias", "h", INIT_ZERO, 0) : -1);
        normed = stream_norm(builder, "output_norm", normed, output->norm, output->epsilon);
        terms = &normed, count = 1, bias = false;
    }
    if (x < 0 && count == 1 && !bias)
        return terms[0];
    for (int i = 0; i < count && first + i < MAX_LAYER_INPUTS; i++)
        all[first + i] = terms[i];
    int sum = build_join(builder, all, first + count, bias);
    if (!builder->failed && x >= 0 && output->scale > 0)
        builder->graph->segments[builder->graph->segment_count - 1].arguments.scale = output->scale;
    return sum;
}

bool check_output(int output_norm, double residual_scale, bool post_norm, bool residual, const struct json *at,
                  struct error *err)
{
    if (output_norm != NORM_NONE && post_norm)
        return json_fail(json_at_key(at, "output_norm"), err, "expected no post_norm beside it");
    return residual || !(residual_scale > 0) ||
           json_fail(json_at_key(at, "residual_scale"), err, "expected a layer that is added to its input");
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
