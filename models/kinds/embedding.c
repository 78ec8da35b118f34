#include "base/num.h"
#include "models/builder.h"
#include "models/kinds/layers.h"
#include "models/kinds/norm.h"
#include "models/model.h"

extern const struct layer_kind embedding_kind;

static const struct embedding_layer embedding_defaults = { .norm = NORM_NONE, .norm_epsilon = 1e-5 };

static const char *const stream_names[] = { "tokens", "source", NULL };

static const struct json_field embedding_fields[] = {
    LAYER_HEAD_FIELDS,
    { .key = "stream",
      .type = FIELD_ENUM,
      .offset = offsetof(struct embedding_layer, stream),
      .names = stream_names,
      .doc =
          "Which tokens it reads: those before the labels, or the source, a second sequence as long (for an encoder, "
          "the other tower); tokens if absent." },
    { .key = "shared_table",
      .type = FIELD_BOOL,
      .offset = offsetof(struct embedding_layer, shared_table),
      .doc = "It uses the token table of the embedding before; false if absent." },
    { .key = "tokens",
      .type = FIELD_INT,
      .offset = offsetof(struct embedding_layer, tokens),
      .min = 0,
      .max = 1 << 28,
      .doc = "Rows of its token table, where the head gives classes and no tokens: the model's vocab_size counts those "
             "then; vocab_size if absent or 0." },
    { .key = "learned_positions",
      .type = FIELD_INT,
      .offset = offsetof(struct embedding_layer, learned_positions),
      .min = 0,
      .max = 1 << 27,
      .doc = "Rows of a learned position table that is added (longest sequence in tokens); 0 or absent: none." },
    { .key = "token_types",
      .type = FIELD_INT,
      .offset = offsetof(struct embedding_layer, token_types),
      .min = 0,
      .max = 1 << 20,
      .doc = "Rows of a table of kinds of tokens that is added, as BERT has it; all tokens are of the first kind. 0 or "
             "absent: none." },
    { .key = "scale",
      .type = FIELD_DOUBLE,
      .offset = offsetof(struct embedding_layer, scale),
      .min = 0,
      .max = 1e6,
      .doc = "What rows of the token table are multiplied by (the root of hidden in Gemma); 1 if absent or 0." },
    { .key = "width",
      .type = FIELD_INT,
      .offset = offsetof(struct embedding_layer, width),
      .min = 0,
      .max = 1 << 24,
      .doc = "Columns of the tables where they are not hidden: a matrix behind sum and norm brings rows to hidden "
             "(ELECTRA, ALBERT). 0 or absent: hidden." },
    { .key = "width_bias",
      .type = FIELD_BOOL,
      .offset = offsetof(struct embedding_layer, width_bias),
      .doc = "Bias of that matrix; false if absent." },
    { .key = "wide_positions",
      .type = FIELD_BOOL,
      .offset = offsetof(struct embedding_layer, wide_positions),
      .doc = "Positions and token types have hidden columns and are added behind that matrix, and the norm follows "
             "(OPT); false if absent." },
    { .key = "norm",
      .type = FIELD_ENUM,
      .offset = offsetof(struct embedding_layer, norm),
      .names = norm_names,
      .doc = "Norm of the sum, as BERT has it; none if absent." },
    NORM_EPSILON_FIELD(embedding_layer),
};

int64_t embedding_table_width(const struct model *model)
{
    int64_t width = 0;
    for (int i = 0; i < model->layer_count; i++) {
        const struct embedding_layer *f = model->layers[i].fields;
        if (model->layers[i].kind == &embedding_kind && !f->shared_table)
            width = f->width;
    }
    return width;
}

static bool embedding_check(const struct model *model, const void *fields, const struct json *at, struct error *err)
{
    const struct embedding_layer *f = fields;
    if (model->image_size)
        return json_fail(at, err,
                         "expected patches or conv: the model has an \"image_size\", so it reads images and no "
                         "tokens");
    if (f->learned_positions && f->learned_positions < model->sequence)
        return json_fail(json_at_key(at, "learned_positions"), err,
                         "expected at least the model's sequence (%lld tokens), found %lld", (long long)model->sequence,
                         (long long)f->learned_positions);
    if (f->tokens && (model->tied_embedding || f->shared_table || f->tokens < model->vocab_size))
        return json_fail(
            json_at_key(at, "tokens"), err,
            "expected at least the model's vocab_size (%lld), a table of its own and no tied_embedding, found "
            "%lld",
            (long long)model->vocab_size, (long long)f->tokens);
    if (f->shared_table && f->width != embedding_table_width(model))
        return json_fail(json_at_key(at, "width"), err, "expected that of the table that it shares (%lld), found %lld",
                         (long long)embedding_table_width(model), (long long)f->width);
    if ((f->width_bias || f->wide_positions) && !f->width)
        return json_fail(json_at_key(at, f->width_bias ? "width_bias" : "wide_positions"), err,
                         "expected a width: without one there is no matrix");
    bool first = true;
    for (int i = 0; i < model->layer_count; i++)
        first &= model->layers[i].kind != &embedding_kind;
    if (f->shared_table && first)
        return json_fail(json_at_key(at, "shared_table"), err, "expected an embedding before this one, found none");
    return true;
}

/* The source is an input of the graph only if somebody reads it. */
static int stream_value(struct graph_builder *builder, int stream)
{
    struct graph *graph = builder->graph;
    if (stream == STREAM_TOKENS)
        return graph->tokens_value;
    if (graph->source_value < 0)
        graph->source_value = builder_input(builder, "source", "bt", ELEMENT_INDEX);
    return graph->source_value;
}

/* A table's rows are added by a segment of its own: inside embed a split of the vocabulary would add them once per
 * part. */
static int add_rows(struct graph_builder *builder, const char *table, const char *sum, const char *name, int64_t rows,
                    bool one_row, int x)
{
    builder_size(builder, 'p', rows);
    int weight = builder_weight(builder, table, "ph", INIT_NORMAL, builder->init_std);
    int y = builder_value(builder, sum, "bth", ELEMENT_ACTIVATION, true);
    builder_segment(builder, KERNEL_ADD_POSITION, name, "bth", OPERANDS({ x, "bth" }), OPERANDS({ weight, ".h" }),
                    OPERANDS({ y, "bth" }))
        ->arguments.one_row = one_row;
    return y;
}

/* Brings rows of another width to hidden. Its columns are split as a square matrix' are, and gathered behind it. */
static int widen(struct graph_builder *builder, const struct embedding_layer *f, int64_t hidden, int x)
{
    builder_size(builder, 'g', hidden);
    int y = builder_value(builder, "transform", "btg", ELEMENT_ACTIVATION, true);
    int matrix = builder_weight(builder, "transform", "hg", INIT_NORMAL, builder->init_std);
    int bias = f->width_bias ? builder_weight(builder, "transform_bias", "g", INIT_ZERO, 0) : -1;
    builder_segment(builder, KERNEL_MATMUL, "transform", f->width_bias ? "bth+!g" : "bth+g", OPERANDS({ x, "bth" }),
                    OPERANDS({ matrix, "hg" }, { bias, f->width_bias ? "g" : NULL }), OPERANDS({ y, "btg" }));
    builder_size(builder, 'h', hidden);
    return build_join(builder, &y, 1, false);
}

static bool embedding_build(struct graph_builder *builder, const struct model *model, const void *fields,
                            struct error *err)
{
    const struct embedding_layer *f = fields;
    struct graph *graph = builder->graph;
    (void)model;
    if (f->learned_positions && f->learned_positions < graph->sequence)
        return fail(err,
                    "layer %s: a sequence of %lld tokens exceeds its %lld learned positions; choose a shorter sequence "
                    "or raise "
                    "learned_positions",
                    builder->prefix, (long long)graph->sequence, (long long)f->learned_positions);
    const int64_t hidden = builder->size['h'];
    if (f->width)
        builder_size(builder, 'h', f->width);
    int x = builder_value(builder, "embed", "bth", ELEMENT_ACTIVATION, true);
    if (f->tokens)
        builder_size(builder, 'v', round_up(f->tokens, graph->vocab_multiple));
    if (!f->shared_table)
        builder->table = builder_weight(builder, "table", "vh", INIT_NORMAL, builder->init_std);
    builder_segment(builder, KERNEL_EMBED, "embed", "bthv+", OPERANDS({ stream_value(builder, f->stream), "bt" }),
                    OPERANDS({ builder->table, "vh" }), OPERANDS({ x, "bth" }))
        ->arguments.scale = f->scale;
    if (f->tokens && !builder->failed)
        graph->weights[builder->table].valid_rows = f->tokens;
    builder_size(builder, 'v', graph->vocab_padded);
    if (f->width && f->wide_positions)
        x = widen(builder, f, hidden, x);
    if (f->learned_positions)
        x = add_rows(builder, "positions", "position_sum", "add_position", f->learned_positions, false, x);
    if (f->token_types)
        x = add_rows(builder, "token_types", "type_sum", "add_type", f->token_types, true, x);
    x = build_norm(builder, x, f->norm, f->norm_epsilon);
    builder->output = f->width && !f->wide_positions ? widen(builder, f, hidden, x) : x;
    return true;
}

const struct layer_kind embedding_kind = {
    .name = "embedding",
    .place = CHAIN_FIRST,
    .min_inputs = 0,
    .max_inputs = 0,
    .doc = "Token table, optionally learned positions and a norm. The first layer; more of them begin an encoder or a "
           "tower of their own.",
    .fields = embedding_fields,
    .field_count = sizeof embedding_fields / sizeof *embedding_fields,
    .fields_bytes = sizeof(struct embedding_layer),
    .defaults = &embedding_defaults,
    .check = embedding_check,
    .build = embedding_build,
};
