#include "models/kinds/window.h"
#include "models/model.h"
#include <math.h>

static const struct patches_layer patches_defaults = { .class_token = true, .learned_positions = true, .bias = true };

#define AT(field) .offset = offsetof(struct patches_layer, field)
static const struct json_field patches_fields[] = {
    LAYER_HEAD_FIELDS,
    { .key = "patch",
      .type = FIELD_INT,
      AT(patch),
      .required = true,
      .min = 1,
      .max = 1 << 14,
      .doc = "Pixels of a row and of a column of a patch; it divides the model's image_size." },
    { .key = "class_token",
      .type = FIELD_BOOL,
      AT(class_token),
      .doc = "A learned token stands before those of the patches; true if absent." },
    { .key = "learned_positions",
      .type = FIELD_BOOL,
      AT(learned_positions),
      .doc = "A learned table of positions is added, the class token's included; true if absent." },
    { .key = "bias", .type = FIELD_BOOL, AT(bias), .doc = "Bias after the matrix; true if absent." },
};
#undef AT

static bool patches_check(const struct model *model, const void *fields, const struct json *at, struct error *err)
{
    const struct patches_layer *f = fields;
    if (!model->image_size)
        return json_fail(at, err, "expected the model's \"image_size\": patches are cut out of an image");
    return model->image_size % f->patch == 0 ||
           json_fail(json_at_key(at, "patch"), err, "expected a divisor of image_size (%lld), found %lld",
                     (long long)model->image_size, (long long)f->patch);
}

static int class_token(struct graph_builder *builder, int x)
{
    builder_size(builder, 't', builder->size['t'] + 1);
    int token = builder_weight(builder, "class_token", "h", INIT_ZERO, 0);
    int y = builder_value(builder, "tokens", "bth", ELEMENT_ACTIVATION, true);
    builder_segment(builder, KERNEL_CLASS_TOKEN, "class_token", "bth", OPERANDS({ x, "b.h" }), OPERANDS({ token, "h" }),
                    OPERANDS({ y, "bth" }));
    return y;
}

/* Non-overlapping windows: the matrix over flattened patches is a convolution whose stride is its window. */
static bool patches_build(struct graph_builder *builder, const struct model *model, const void *fields,
                          struct error *err)
{
    const struct patches_layer *f = fields;
    const struct graph *graph = builder->graph;
    builder->columns = graph->image_columns;
    builder_size(builder, 't', graph->values[graph->image_value].size[1]);
    builder_size(builder, 'h', model->image_channels);
    double inputs = (double)(f->patch * f->patch * model->image_channels);
    const struct convolution conv = { .window = { .height = f->patch, .width = f->patch, .stride = f->patch },
                                      .channels = model->hidden,
                                      .bias = f->bias,
                                      .init_std = sqrt(1 / inputs) };
    int x = build_conv(builder, graph->image_value, &conv, err);
    builder_size(builder, 'h', model->hidden);
    builder->columns = 0; /* a sequence from here on */
    if (f->class_token)
        x = class_token(builder, x);
    builder->output = x;
    if (!f->learned_positions)
        return true;
    builder_size(builder, 'p', builder->size['t']);
    int positions = builder_weight(builder, "positions", "ph", INIT_NORMAL, builder->init_std);
    builder->output = builder_value(builder, "position_sum", "bth", ELEMENT_ACTIVATION, true);
    builder_segment(builder, KERNEL_ADD_POSITION, "add_position", "bth", OPERANDS({ x, "bth" }),
                    OPERANDS({ positions, ".h" }), OPERANDS({ builder->output, "bth" }));
    return true;
}

extern const struct layer_kind patches_kind;
const struct layer_kind patches_kind = {
    .name = "patches",
    .place = CHAIN_FIRST,
    .min_inputs = 0,
    .max_inputs = 0,
    .doc =
        "The image in square patches, each brought to hidden by one matrix, optionally with a class token and learned "
        "positions (Dosovitskiy et al. 2021). The first layer of a vision transformer.",
    .fields = patches_fields,
    .field_count = sizeof patches_fields / sizeof *patches_fields,
    .fields_bytes = sizeof(struct patches_layer),
    .defaults = &patches_defaults,
    .check = patches_check,
    .build = patches_build,
};
