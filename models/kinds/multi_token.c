/* Prediction of further tokens (DeepSeek-AI 2024, DeepSeek-V3, section 2.2): multi_token joins what the trunk makes of
 * a token with the embedding of the next one, any block follows, and multi_token_loss predicts the token after that
 * with the model's own head. What the trunk made goes on to the head untouched, and takes the gradient of that loss
 * along, as the public implementations have it. For planning: loaders give no tokens beyond the next. */
#include "models/kinds/norm.h"
#include "models/model.h"

/* A norm over the hidden axis with a name of its own. */
static int named_norm(struct graph_builder *builder, const char *name, int x, int norm, double epsilon)
{
    const struct norm_of of = { name, "bth!", "bth", "h", "bt", norm, epsilon };
    return build_norm_of(builder, &of, x);
}

static int product(struct graph_builder *builder, const char *name, int x)
{
    int y = builder_value(builder, name, "btg", ELEMENT_ACTIVATION, true);
    int matrix = builder_weight(builder, name, "hg", INIT_NORMAL, builder->init_std);
    builder_segment(builder, KERNEL_MATMUL, name, "bth+g", OPERANDS({ x, "bth" }), OPERANDS({ matrix, "hg" }),
                    OPERANDS({ y, "btg" }));
    return y;
}

/* ---- what enters the block ---- */
static const struct multi_token_layer multi_token_defaults = { .norm_epsilon = 1e-5 };

static const struct json_field multi_token_fields[] = {
    LAYER_HEAD_FIELDS,
    { .key = "norm",
      .type = FIELD_ENUM,
      .offset = offsetof(struct multi_token_layer, norm),
      .required = true,
      .names = norm_names,
      .doc = "Norms of both, each with weights of its own." },
    NORM_EPSILON_FIELD(multi_token_layer),
};

static bool multi_token_check(const struct model *model, const void *fields, const struct json *at, struct error *err)
{
    (void)fields;
    if (embedding_table_width(model))
        return json_fail(at, err,
                         "expected an embedding as wide as the model: what it makes of the next token is not "
                         "brought to hidden");
    return !model->image_size || json_fail(at, err, "expected a model that reads tokens");
}

/* The next token is the label. The matrix of 2 hidden rows comes in two pieces: what is side by side is never made. */
static bool multi_token_build(struct graph_builder *builder, const struct model *model, const void *fields,
                              struct error *err)
{
    const struct multi_token_layer *f = fields;
    (void)model, (void)err;
    builder_size(builder, 'g', builder->size['h']);
    int next = builder_value(builder, "embed", "bth", ELEMENT_ACTIVATION, true);
    builder_segment(builder, KERNEL_EMBED, "embed", "bthv+", OPERANDS({ builder->graph->labels_value, "bt" }),
                    OPERANDS({ builder->table, "vh" }), OPERANDS({ next, "bth" }));
    next = named_norm(builder, "embed_norm", next, f->norm, f->norm_epsilon);
    int trunk = build_norm(builder, builder->input, f->norm, f->norm_epsilon);
    const int parts[] = { product(builder, "part0", trunk), product(builder, "part1", next) };
    builder->output = build_join(builder, parts, 2, false);
    return true;
}

extern const struct layer_kind multi_token_kind;
const struct layer_kind multi_token_kind = {
    .name = "multi_token",
    .place = CHAIN_JOIN,
    .planned = true,
    .min_inputs = 1,
    .max_inputs = 1,
    .doc = "What enters, normed, beside the normed embedding of the next token, brought back to hidden by one matrix "
           "(DeepSeek-V3's prediction of a further token). A block and a multi_token_loss follow it. For planning: it "
           "cannot be run.",
    .fields = multi_token_fields,
    .field_count = sizeof multi_token_fields / sizeof *multi_token_fields,
    .fields_bytes = sizeof(struct multi_token_layer),
    .defaults = &multi_token_defaults,
    .check = multi_token_check,
    .build = multi_token_build,
};

/* ---- what leaves it ---- */
static const struct multi_token_loss_layer multi_token_loss_defaults = { .weight = 0.1, .norm_epsilon = 1e-5 };

static const struct json_field multi_token_loss_fields[] = {
    LAYER_HEAD_FIELDS,
    { .key = "norm",
      .type = FIELD_ENUM,
      .offset = offsetof(struct multi_token_loss_layer, norm),
      .required = true,
      .names = norm_names,
      .doc = "Norm before the logits, with weights of its own." },
    { .key = "weight",
      .type = FIELD_DOUBLE,
      .offset = offsetof(struct multi_token_loss_layer, weight),
      .min = 0,
      .max = 1e6,
      .doc = "Weight of this loss beside the model's; it acts through its gradient and is not part of the loss that is "
             "shown. 0.1 if absent." },
    NORM_EPSILON_FIELD(multi_token_loss_layer),
};

/* Segments as those of head and loss (models/kinds/loss.c). */
static bool multi_token_loss_build(struct graph_builder *builder, const struct model *model, const void *fields,
                                   struct error *err)
{
    const struct multi_token_loss_layer *f = fields;
    const struct graph *graph = builder->graph;
    const int trunk = builder->inputs[0], labels = graph->labels_value, count = graph->count_value;
    (void)err;
    int y = build_norm(builder, builder->inputs[1], f->norm, f->norm_epsilon);
    int table = builder_head_table(builder, model->tied_embedding);
    int logits = builder_value(builder, "logits", "btv", ELEMENT_ACTIVATION, true);
    builder_segment(builder, KERNEL_MATMUL, "logits", "bth+v", OPERANDS({ y, "bth" }), OPERANDS({ table, "vh" }),
                    OPERANDS({ logits, "btv" }));
    int max = builder_value(builder, "max", "bt", ELEMENT_STATISTIC, false);
    int sum = builder_value(builder, "sum_exp", "bt", ELEMENT_STATISTIC, true);
    int pick = builder_value(builder, "pick", "bt", ELEMENT_STATISTIC, true);
    builder_segment(builder, KERNEL_LOGIT_MAX, "max", "btv^", OPERANDS({ logits, "btv" }), NO_OPERANDS,
                    OPERANDS({ max, "bt" }))
        ->arguments.valid = model->vocab_size;
    builder_segment(builder, KERNEL_PICK, "pick", "btv+", OPERANDS({ logits, "btv" }, { labels, "bt" }), NO_OPERANDS,
                    OPERANDS({ pick, "bt" }))
        ->arguments.valid = model->vocab_size;
    builder_segment(builder, KERNEL_SUM_EXP, "sum_exp", "btv+", OPERANDS({ logits, "btv" }, { max, "bt" }), NO_OPERANDS,
                    OPERANDS({ sum, "bt" }))
        ->arguments.valid = model->vocab_size;
    int passed = builder_value(builder, "pass", "bth", ELEMENT_ACTIVATION, true);
    builder_segment(builder, KERNEL_PASS_WITH_LOSS, "pass", "bth!",
                    OPERANDS({ trunk, "bth" }, { sum, "bt" }, { pick, "bt" }, { labels, "bt" }, { count, "." }),
                    NO_OPERANDS, OPERANDS({ passed, "bth" }))
        ->arguments.scale = f->weight;
    builder->output = passed;
    return true;
}

extern const struct layer_kind multi_token_loss_kind;
const struct layer_kind multi_token_loss_kind = {
    .name = "multi_token_loss",
    .place = CHAIN_JOIN,
    .planned = true,
    .min_inputs = 2,
    .max_inputs = 2,
    .doc = "Its first input, the trunk's, goes on as it is; of the second, the block's behind multi_token, norm, "
           "logits by "
           "the model's own head, and a loss beside the model's. For planning: it cannot be run.",
    .fields = multi_token_loss_fields,
    .field_count = sizeof multi_token_loss_fields / sizeof *multi_token_loss_fields,
    .fields_bytes = sizeof(struct multi_token_loss_layer),
    .defaults = &multi_token_loss_defaults,
    .check = multi_token_check,
    .build = multi_token_loss_build,
};
