#include "models/builder.h"
#include "models/kinds/layers.h"
#include "models/kinds/norm.h"
#include "models/kinds/window.h"

static const struct add_layer add_defaults = { .activation = RECTIFIER_NONE };
static const struct json_field add_fields[] = {
    LAYER_HEAD_FIELDS,
    { .key = "activation",
      .type = FIELD_ENUM,
      .offset = offsetof(struct add_layer, activation),
      .names = rectifier_names,
      .doc = "What the sum passes, as in a residual network; none if absent." },
};

static bool add_build(struct graph_builder *builder, const struct model *model, const void *fields, struct error *err)
{
    const struct add_layer *f = fields;
    (void)model, (void)err;
    builder->output = build_join(builder, builder->inputs, builder->input_count, false);
    if (f->activation == RECTIFIER_RELU)
        builder->output = build_relu(builder, "relu", "bth", builder->output);
    return true;
}

extern const struct layer_kind add_kind;
const struct layer_kind add_kind = {
    .name = "add",
    .place = CHAIN_JOIN,
    .min_inputs = 2,
    .max_inputs = MAX_LAYER_INPUTS,
    .doc = "The sum of its inputs: a skip connection, or branches that ran side by side (Wang & Komatsuzaki 2021).",
    .fields = add_fields,
    .field_count = sizeof add_fields / sizeof *add_fields,
    .fields_bytes = sizeof(struct add_layer),
    .defaults = &add_defaults,
    .build = add_build,
};
