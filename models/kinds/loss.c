#include "base/num.h"
#include "models/builder.h"
#include "models/kinds/layers.h"
#include "models/model.h"

static const struct loss_layer loss_defaults = { 0 };
static const struct json_field loss_fields[] = {
    LAYER_HEAD_FIELDS,
    { .key = "fp32_logits",
      .type = FIELD_BOOL,
      .offset = offsetof(struct loss_layer, fp32_logits),
      .doc = "Probabilities are kept in fp32 until backward, as where the loss is not fused; false if absent." },
};

/* Four segments, so that a split of the vocabulary costs three small reductions of (b,t) and never gathers the logits.
 * Backward goes the other way round: sum_exp fills the gradient of the logits in one pass, then pick corrects one
 * element of each row. */
static bool loss_build(struct graph_builder *builder, const struct model *model, const void *fields, struct error *err)
{
    struct graph *graph = builder->graph;
    const struct loss_layer *f = fields;
    int logits = builder->input;
    int64_t positions = graph->values[logits].size[1], kinds = graph->values[logits].size[2],
            valid = min_i64(model->vocab_size, kinds);
    /* Of sequences that were pooled there is one label each. */
    if (graph->planned_layer && positions == 1 && graph->sequence > 1)
        graph->labels_value = builder_input(builder, "classes", "bt", ELEMENT_INDEX);
    else if (positions != graph->sequence)
        return fail_kind(err, ERROR_INPUT,
                         "layer %s: expected logits for the image's one label, found them at %lld positions: put a "
                         "pool layer before the head",
                         builder->prefix, (long long)positions);
    const int labels = graph->labels_value;
    builder_size(builder, 'v', kinds);
    int max = builder_value(builder, "max", "bt", ELEMENT_STATISTIC, false);
    int sum = builder_value(builder, "sum_exp", "bt", ELEMENT_STATISTIC, true);
    int pick = builder_value(builder, "pick", "bt", ELEMENT_STATISTIC, true);
    int probabilities = f->fp32_logits ? builder_value(builder, "probabilities", "btv", ELEMENT_STATISTIC, false) : -1;
    int loss = builder_value(builder, "nll", "1", ELEMENT_STATISTIC, true);
    builder_segment(builder, KERNEL_LOGIT_MAX, "max", "btv^", OPERANDS({ logits, "btv" }), NO_OPERANDS,
                    OPERANDS({ max, "bt" }))
        ->arguments.valid = valid;
    builder_segment(builder, KERNEL_PICK, "pick", "btv+", OPERANDS({ logits, "btv" }, { labels, "bt" }), NO_OPERANDS,
                    OPERANDS({ pick, "bt" }))
        ->arguments.valid = valid;
    builder_segment(builder, KERNEL_SUM_EXP, "sum_exp", "btv+", OPERANDS({ logits, "btv" }, { max, "bt" }), NO_OPERANDS,
                    OPERANDS({ sum, "bt" }, { probabilities, probabilities < 0 ? NULL : "btv" }))
        ->arguments.valid = valid;
    builder_segment(
        builder, KERNEL_NLL, "nll", "b+t+",
        OPERANDS({ sum, "bt" }, { max, "bt" }, { pick, "bt" }, { labels, "bt" }, { graph->count_value, "." }),
        NO_OPERANDS, OPERANDS({ loss, "." }));
    graph->loss_value = loss;
    builder->output = -1;
    return true;
}

extern const struct layer_kind loss_kind;
const struct layer_kind loss_kind = {
    .name = "loss",
    .place = CHAIN_LOSS,
    .min_inputs = 1,
    .max_inputs = 1,
    .doc = "Cross-entropy of the next token or the image's class, the mean over all targets of a step. The last layer.",
    .fields = loss_fields,
    .field_count = sizeof loss_fields / sizeof *loss_fields,
    .fields_bytes = sizeof(struct loss_layer),
    .defaults = &loss_defaults,
    .build = loss_build,
};
