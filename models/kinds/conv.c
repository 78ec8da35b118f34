#include "models/kinds/norm.h"
#include "models/kinds/window.h"
#include "models/model.h"
#include <math.h>

const char *const rectifier_names[] = { "none", "relu", NULL };

static const struct conv_layer conv_defaults = { .stride = 1, .norm_epsilon = 1e-5 };

#define AT(field) .offset = offsetof(struct conv_layer, field)
static const struct json_field conv_fields[] = {
    LAYER_HEAD_FIELDS,
    { .key = "channels",
      .type = FIELD_INT,
      AT(channels),
      .required = true,
      .min = 1,
      .max = 1 << 24,
      .doc = "Channels that leave." },
    { .key = "window",
      .type = FIELD_INT,
      AT(window),
      .required = true,
      .min = 1,
      .max = 1 << 14,
      .doc = "Pixels of a row and of a column of the window." },
    { .key = "stride",
      .type = FIELD_INT,
      AT(stride),
      .min = 1,
      .max = 1 << 14,
      .doc = "Pixels from one window to the next; 1 if absent." },
    { .key = "padding",
      .type = FIELD_INT,
      AT(padding),
      .min = 0,
      .max = 1 << 14,
      .doc = "Zeros around the image; 0 if absent." },
    { .key = "bias", .type = FIELD_BOOL, AT(bias), .doc = "Bias per channel; false if absent." },
    { .key = "norm_groups",
      .type = FIELD_INT,
      AT(norm_groups),
      .min = 0,
      .max = 1 << 24,
      .doc =
          "Groups of channels of a group norm that follows (Wu & He 2018), each normalised per image; 0 or absent: no "
          "norm." },
    NORM_EPSILON_FIELD(conv_layer),
    { .key = "activation",
      .type = FIELD_ENUM,
      AT(activation),
      .names = rectifier_names,
      .doc = "What ends the layer; none if absent." },
};
#undef AT

static bool conv_check(const struct model *model, const void *fields, const struct json *at, struct error *err)
{
    const struct conv_layer *f = fields;
    if (!model->image_size)
        return json_fail(at, err, "expected the model's \"image_size\": a conv reads an image");
    if (f->padding >= f->window)
        return json_fail(json_at_key(at, "padding"), err, "expected less than the window (%lld), found %lld",
                         (long long)f->window, (long long)f->padding);
    return f->norm_groups == 0 || f->channels % f->norm_groups == 0 ||
           json_fail(json_at_key(at, "norm_groups"), err, "expected a divisor of channels (%lld), found %lld",
                     (long long)f->channels, (long long)f->norm_groups);
}

/* Channels are split between groups only. */
static int group_norm(struct graph_builder *builder, int x, const struct conv_layer *f)
{
    builder_size(builder, 'j', f->norm_groups);
    int y = builder_value(builder, "norm", "btg", ELEMENT_ACTIVATION, true);
    int mean = builder_value(builder, "norm_mean", "bj", ELEMENT_STATISTIC, false);
    int rstd = builder_value(builder, "norm_rstd", "bj", ELEMENT_STATISTIC, false);
    int gain = builder_weight(builder, "norm_gain", "g", INIT_ONE, 0);
    int bias = builder_weight(builder, "norm_bias", "g", INIT_ZERO, 0);
    struct segment *segment =
        builder_segment(builder, KERNEL_GROUP_NORM, "norm", "bt!g", OPERANDS({ x, "btg" }),
                        OPERANDS({ gain, "g" }, { bias, "g" }), OPERANDS({ y, "btg" }, { mean, "bg" }, { rstd, "bg" }));
    segment->arguments.epsilon = f->norm_epsilon;
    segment->arguments.channels_per_group = f->channels / f->norm_groups;
    if (segment->axis_count == 3)
        segment->axes[2].grain = segment->arguments.channels_per_group;
    return y;
}

static bool conv_build(struct graph_builder *builder, const struct model *model, const void *fields, struct error *err)
{
    const struct conv_layer *f = fields;
    (void)model;
    double inputs = (double)(f->window * f->window) * (double)builder->size['h'];
    struct convolution conv = {
        .window = { .height = f->window, .width = f->window, .stride = f->stride, .padding = f->padding },
        .channels = f->channels,
        .bias = f->bias,
        .init_std = sqrt((f->activation == RECTIFIER_RELU ? 2 : 1) / inputs) /* He et al. 2015, section 2.2 */
    };
    if (builder->columns == 0)
        return fail_kind(err, ERROR_INPUT,
                         "layer %s: expected an image to enter, found a sequence: a conv cannot follow "
                         "patches",
                         builder->prefix);
    builder->output = build_conv(builder, builder->input, &conv, err);
    if (f->norm_groups > 0)
        builder->output = group_norm(builder, builder->output, f);
    if (f->activation == RECTIFIER_RELU)
        builder->output = build_relu(builder, "relu", "btg", builder->output);
    return true;
}

extern const struct layer_kind conv_kind;
const struct layer_kind conv_kind = {
    .name = "conv",
    .place = CHAIN_JOIN,
    .reads_image = true,
    .min_inputs = 1,
    .max_inputs = 1,
    .doc =
        "Convolution over an image, group norm, rectifier. As the first layer it reads the model's image; a window as "
        "large as the image is a fully connected layer.",
    .fields = conv_fields,
    .field_count = sizeof conv_fields / sizeof *conv_fields,
    .fields_bytes = sizeof(struct conv_layer),
    .defaults = &conv_defaults,
    .check = conv_check,
    .build = conv_build,
};
