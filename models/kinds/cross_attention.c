#include "models/kinds/attention_parts.h"
#include "models/kinds/norm.h"

static const struct attention_layer cross_defaults = { .lora.alpha = LORA_ALPHA,
                                                       .residual = true,
                                                       .norm_epsilon = 1e-5 };

#define AT(field) .offset = offsetof(struct attention_layer, field)
static const struct json_field cross_fields[] = {
    LAYER_HEAD_FIELDS,
    ATTENTION_HEAD_FIELDS,
    ATTENTION_BIAS_FIELDS,
    { .key = "norm",
      .type = FIELD_ENUM,
      AT(norm),
      .required = true,
      .names = norm_names,
      .doc = "The norm of the first input; what is attended to is read as it comes." },
    { .key = "post_norm",
      .type = FIELD_BOOL,
      AT(post_norm),
      .doc = "The norm follows the residual sum instead of opening the layer; false if absent." },
    ATTENTION_COMMON_FIELDS,
    NORM_EPSILON_FIELD(attention_layer),
    LORA_FIELDS(attention_layer, attention_matrix_names),
};
#undef AT

static bool cross_build(struct graph_builder *builder, const struct model *model, const void *fields, struct error *err)
{
    (void)model, (void)err;
    builder->output = build_attention(builder, fields, builder->inputs[0], builder->inputs[1]);
    return true;
}

extern const struct layer_kind cross_attention_kind;
const struct layer_kind cross_attention_kind = {
    .name = "cross_attention",
    .place = CHAIN_BODY,
    .mixes = true,
    .min_inputs = 2,
    .max_inputs = 2,
    .doc =
        "Attention of its first input to all positions of its second, the encoder's output (Vaswani et al. 2017); the "
        "residual sum is the first's.",
    .fields = cross_fields,
    .field_count = sizeof cross_fields / sizeof *cross_fields,
    .fields_bytes = sizeof(struct attention_layer),
    .defaults = &cross_defaults,
    .resolve = attention_resolve,
    .check = attention_check,
    .build = cross_build,
};
