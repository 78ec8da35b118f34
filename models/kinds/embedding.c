#include "models/builder.h"
#include "models/kinds/layers.h"
#include "models/kinds/norm.h"
#include "models/model.h"

static const struct embedding_layer embedding_defaults = { .norm = NORM_NONE, .norm_epsilon = 1e-5 };

static const struct json_field embedding_fields[] = {
    LAYER_HEAD_FIELDS,
    { .key = "learned_positions",
      .type = FIELD_INT,
      .offset = offsetof(struct embedding_layer, learned_positions),
      .min = 0,
      .max = 1 << 27,
      .doc = "Rows of a learned position table that is added (longest sequence in tokens); 0 or absent: none." },
    { .key = "norm",
      .type = FIELD_ENUM,
      .offset = offsetof(struct embedding_layer, norm),
      .names = norm_names,
      .doc = "Norm of the sum, as BERT has it; none if absent." },
    { .key = "norm_epsilon",
      .type = FIELD_DOUBLE,
      .offset = offsetof(struct embedding_layer, norm_epsilon),
      .min = 0,
      .max = 1,
      .doc = "Added to the variance inside the norm." },
};

static bool embedding_check(const struct model *model, const void *fields, const struct json *at, struct error *err)
{
    const struct embedding_layer *f = fields;
    if (f->learned_positions && f->learned_positions < model->sequence)
        return json_fail(json_at_key(at, "learned_positions"), err,
                         "expected at least the model's sequence (%lld tokens), found %lld", (long long)model->sequence,
                         (long long)f->learned_positions);
    return true;
}

static bool embedding_build(struct graph_builder *builder, const struct model *model, const void *fields,
                            struct error *err)
{
    const struct embedding_layer *f = fields;
    const struct graph *graph = builder->graph;
    (void)model;
    if (f->learned_positions && f->learned_positions < graph->sequence)
        return fail(err,
                    "layer %s: a sequence of %lld tokens exceeds its %lld learned positions; choose a shorter sequence "
                    "or raise "
                    "learned_positions",
                    builder->prefix, (long long)graph->sequence, (long long)f->learned_positions);
    int x = builder_value(builder, "embed", "bth", ELEMENT_ACTIVATION, true);
    builder->table = builder_weight(builder, "table", "vh", INIT_NORMAL, builder->init_std);
    builder_segment(builder, KERNEL_EMBED, "embed", "bthv+", OPERANDS({ graph->tokens_value, "bt" }),
                    OPERANDS({ builder->table, "vh" }), OPERANDS({ x, "bth" }));
    if (f->learned_positions) {
        /* A segment of its own: inside embed a split of the vocabulary would add it once per part. */
        builder_size(builder, 'p', f->learned_positions);
        int positions = builder_weight(builder, "positions", "ph", INIT_NORMAL, builder->init_std);
        int sum = builder_value(builder, "position_sum", "bth", ELEMENT_ACTIVATION, true);
        builder_segment(builder, KERNEL_ADD_POSITION, "add_position", "bth", OPERANDS({ x, "bth" }),
                        OPERANDS({ positions, ".h" }), OPERANDS({ sum, "bth" }));
        x = sum;
    }
    builder->output = build_norm(builder, x, f->norm, f->norm_epsilon);
    return true;
}

extern const struct layer_kind embedding_kind;
const struct layer_kind embedding_kind = {
    .name = "embedding",
    .place = CHAIN_FIRST,
    .doc = "Token table, optionally learned positions and a norm. The first layer.",
    .fields = embedding_fields,
    .field_count = sizeof embedding_fields / sizeof *embedding_fields,
    .fields_bytes = sizeof(struct embedding_layer),
    .defaults = &embedding_defaults,
    .check = embedding_check,
    .build = embedding_build,
};
