#include "models/builder.h"
#include "models/kinds/layers.h"
#include "models/kinds/norm.h"
#include "models/model.h"

static const struct head_layer head_defaults = { .norm_epsilon = 1e-5 };

static const struct json_field head_fields[] = {
    LAYER_HEAD_FIELDS,
    { .key = "norm",
      .type = FIELD_ENUM,
      .offset = offsetof(struct head_layer, norm),
      .required = true,
      .names = norm_names,
      .doc = "The final norm." },
    NORM_EPSILON_FIELD(head_layer),
    { .key = "bias",
      .type = FIELD_BOOL,
      .offset = offsetof(struct head_layer, bias),
      .doc = "Bias of the logits; false if absent." },
    { .key = "logit_scale",
      .type = FIELD_DOUBLE,
      .offset = offsetof(struct head_layer, logit_scale),
      .min = 0,
      .max = 1e6,
      .doc = "What logits are multiplied by; 1 if absent or 0." },
};

static bool head_build(struct graph_builder *builder, const struct model *model, const void *fields, struct error *err)
{
    const struct head_layer *f = fields;
    (void)err;
    int y = build_norm(builder, builder->input, f->norm, f->norm_epsilon);
    int logits = builder_value(builder, "logits", "btv", ELEMENT_ACTIVATION, true);
    /* The vocabulary comes first in the table as in the embedding, so that both can be one weight. */
    int table =
        model->tied_embedding ? builder->table : builder_weight(builder, "table", "vh", INIT_NORMAL, builder->init_std);
    int bias = f->bias ? builder_weight(builder, "bias", "v", INIT_ZERO, 0) : -1;
    builder_segment(builder, KERNEL_MATMUL, "logits", f->bias ? "bth+!v" : "bth+v", OPERANDS({ y, "bth" }),
                    OPERANDS({ table, "vh" }, { bias, f->bias ? "v" : NULL }), OPERANDS({ logits, "btv" }))
        ->arguments.scale = f->logit_scale;
    builder->output = logits;
    return true;
}

extern const struct layer_kind head_kind;
const struct layer_kind head_kind = {
    .name = "head",
    .place = CHAIN_HEAD,
    .min_inputs = 1,
    .max_inputs = 1,
    .doc = "Final norm and logits over the vocabulary. The last layer but one.",
    .fields = head_fields,
    .field_count = sizeof head_fields / sizeof *head_fields,
    .fields_bytes = sizeof(struct head_layer),
    .defaults = &head_defaults,
    .build = head_build,
};
