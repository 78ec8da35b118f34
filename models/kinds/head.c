#include "models/kinds/feed_forward.h"
#include "models/kinds/layers.h"
#include "models/kinds/norm.h"
#include "models/model.h"
#include <string.h>

static const struct head_layer head_defaults = { .norm_epsilon = 1e-5,
                                                 .transform_bias = true,
                                                 .transform_activation = ACTIVATION_GELU_ERF,
                                                 .transform_norm = NORM_LAYER };

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
    { .key = "logit_cap",
      .type = FIELD_DOUBLE,
      .offset = offsetof(struct head_layer, logit_cap),
      .min = 0,
      .max = 1e6,
      .doc = "Logits become cap * tanh(logit / cap) (Gemma 2); 0 or absent: they stay." },
    { .key = "classes",
      .type = FIELD_INT,
      .offset = offsetof(struct head_layer, classes),
      .min = 0,
      .max = 1 << 27,
      .doc =
          "What it tells apart in place of the vocabulary: kinds of sequences, by a table of its own. Such a model is "
          "planned and not run. 0 or absent: the vocabulary." },
    { .key = "width",
      .type = FIELD_INT,
      .offset = offsetof(struct head_layer, width),
      .min = 0,
      .max = 1 << 24,
      .doc = "Columns of the table of logits where they are not hidden: a matrix before it makes rows as wide, with "
             "transform that one. 0 or absent: hidden." },
    { .key = "transform",
      .type = FIELD_BOOL,
      .offset = offsetof(struct head_layer, transform),
      .doc =
          "Behind the norm a square matrix, an activation and another norm, as in BERT's head of masked tokens; false "
          "if absent." },
    { .key = "transform_bias",
      .type = FIELD_BOOL,
      .offset = offsetof(struct head_layer, transform_bias),
      .doc = "Bias of that matrix; true if absent." },
    { .key = "transform_activation",
      .type = FIELD_ENUM,
      .offset = offsetof(struct head_layer, transform_activation),
      .names = activation_names,
      .doc = "The activation, which has no gate; gelu_erf if absent." },
    { .key = "transform_norm",
      .type = FIELD_ENUM,
      .offset = offsetof(struct head_layer, transform_norm),
      .names = norm_names,
      .doc = "That norm; layer_norm if absent." },
};

static bool head_check(const struct model *model, const void *fields, const struct json *at, struct error *err)
{
    const struct head_layer *f = fields;
    if (f->classes && model->image_size)
        return json_fail(json_at_key(at, "classes"), err, "expected none: the classes of images are the vocab_size");
    int64_t table = f->classes ? f->width : embedding_table_width(model);
    if (f->classes && f->width)
        return json_fail(json_at_key(at, "width"), err, "expected no classes beside it");
    if (model->tied_embedding && !f->classes && f->width != table)
        return json_fail(json_at_key(at, "width"), err,
                         "expected the embedding's (%lld): the model's tied_embedding says that both have one table, "
                         "found %lld",
                         (long long)table, (long long)f->width);
    for (int i = 0; f->width && i < model->layer_count; i++)
        if (strcmp(model->layers[i].kind->name, "multi_token_loss") == 0)
            return json_fail(json_at_key(at, "width"), err, "expected no multi_token_loss, which uses the same table");
    return !activation_is_gated(f->transform_activation) ||
           json_fail(json_at_key(at, "transform_activation"), err, "expected an activation without a gate, found %s",
                     activation_names[f->transform_activation]);
}

/* The matrix is split by its columns, and what it makes is gathered behind it. */
static int transform(struct graph_builder *builder, const struct head_layer *f, int x)
{
    builder_size(builder, 'g', f->width ? f->width : builder->size['h']);
    int y = builder_value(builder, "transform", "btg", ELEMENT_ACTIVATION, true);
    int matrix = builder_weight(builder, "transform", "hg", INIT_NORMAL, builder->init_std);
    const bool biased = f->transform && f->transform_bias;
    int bias = biased ? builder_weight(builder, "transform_bias", "g", INIT_ZERO, 0) : -1;
    builder_segment(builder, KERNEL_MATMUL, "transform", biased ? "bth+!g" : "bth+g", OPERANDS({ x, "bth" }),
                    OPERANDS({ matrix, "hg" }, { bias, biased ? "g" : NULL }), OPERANDS({ y, "btg" }));
    if (f->width)
        builder_size(builder, 'h', f->width);
    if (!f->transform)
        return y;
    int act = builder_value(builder, "act", "btg", ELEMENT_ACTIVATION, true);
    struct segment *segment = builder_segment(builder, activation_kernel(f->transform_activation), "act", "btg",
                                              OPERANDS({ y, "btg" }), NO_OPERANDS, OPERANDS({ act, "btg" }));
    segment->arguments.score_cap = activation_cap(f->transform_activation);
    return build_norm_of(builder,
                         &(struct norm_of){ .name = "transform_norm",
                                            .axes = "bth!",
                                            .dims = "bth",
                                            .weights = "h",
                                            .rows = "bt",
                                            .norm = f->transform_norm,
                                            .epsilon = f->norm_epsilon },
                         act);
}

/* The product and its cap; a letter for what is told apart. */
static int build_logits(struct graph_builder *builder, const struct head_layer *f, int table, char kinds, int y)
{
    const char dims[] = { 'b', 't', kinds, 0 }, axes[] = { 'b', 't', 'h', '+', kinds, 0 },
               with_bias[] = { 'b', 't', 'h', '+', '!', kinds, 0 }, matrix[] = { kinds, 'h', 0 };
    int logits = builder_value(builder, "logits", dims, ELEMENT_ACTIVATION, true);
    int bias = f->bias ? builder_weight(builder, "bias", dims + 2, INIT_ZERO, 0) : -1;
    builder_segment(builder, KERNEL_MATMUL, "logits", f->bias ? with_bias : axes, OPERANDS({ y, "bth" }),
                    OPERANDS({ table, matrix }, { bias, f->bias ? dims + 2 : NULL }), OPERANDS({ logits, dims }))
        ->arguments.scale = f->logit_scale;
    if (!(f->logit_cap > 0))
        return logits;
    int capped = builder_value(builder, "capped", dims, ELEMENT_ACTIVATION, true);
    builder_segment(builder, KERNEL_SOFT_CAP, "capped", dims, OPERANDS({ logits, dims }), NO_OPERANDS,
                    OPERANDS({ capped, dims }))
        ->arguments.score_cap = f->logit_cap;
    return capped;
}

static bool head_build(struct graph_builder *builder, const struct model *model, const void *fields, struct error *err)
{
    const struct head_layer *f = fields;
    (void)err;
    int y = build_norm(builder, builder->input, f->norm, f->norm_epsilon);
    if (f->transform || f->width)
        y = transform(builder, f, y);
    if (f->classes) {
        builder_planned_only(builder); /* no data have such labels */
        builder_size(builder, 'a', f->classes);
    }
    int table = f->classes ? builder_weight(builder, "table", "ah", INIT_NORMAL, builder->init_std)
                           : builder_head_table(builder, model->tied_embedding);
    builder->output = build_logits(builder, f, table, f->classes ? 'a' : 'v', y);
    return true;
}

extern const struct layer_kind head_kind;
const struct layer_kind head_kind = {
    .name = "head",
    .place = CHAIN_HEAD,
    .min_inputs = 1,
    .max_inputs = 1,
    .doc = "Final norm and logits over the vocabulary, or over classes. The last layer but one.",
    .fields = head_fields,
    .field_count = sizeof head_fields / sizeof *head_fields,
    .fields_bytes = sizeof(struct head_layer),
    .defaults = &head_defaults,
    .check = head_check,
    .build = head_build,
};
