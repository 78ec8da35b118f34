#include "models/builder.h"
#include "models/kinds/layers.h"
#include "models/kinds/norm.h"
#include "models/model.h"

static const struct concat_layer concat_defaults = { .bias = false };

#define AT(field) .offset = offsetof(struct concat_layer, field)
static const struct json_field concat_fields[] = {
    LAYER_HEAD_FIELDS,
    { .key = "bias", .type = FIELD_BOOL, AT(bias), .doc = "Bias after the matrix; false if absent." },
};
#undef AT

/* The matrix of n * hidden rows in n pieces, one for each input: the concatenated value is never made. */
static int project(struct graph_builder *builder, int index)
{
    static const char *const names[MAX_LAYER_INPUTS] = { "part0", "part1", "part2", "part3" };
    const char *name = names[index];
    int y = builder_value(builder, name, "bth", ELEMENT_ACTIVATION, true);
    int matrix = builder_weight(builder, name, "hg", INIT_NORMAL, builder->init_std);
    builder_segment(builder, KERNEL_MATMUL, name, "bth+g", OPERANDS({ builder->inputs[index], "bth" }),
                    OPERANDS({ matrix, "hg" }), OPERANDS({ y, "btg" }));
    return y;
}

static bool concat_build(struct graph_builder *builder, const struct model *model, const void *fields,
                         struct error *err)
{
    const struct concat_layer *f = fields;
    int parts[MAX_LAYER_INPUTS];
    (void)model, (void)err;
    builder_size(builder, 'g', builder->size['h']);
    for (int i = 0; i < builder->input_count; i++)
        parts[i] = project(builder, i);
    builder->output = build_join(builder, parts, builder->input_count, f->bias);
    return true;
}

extern const struct layer_kind concat_kind;
const struct layer_kind concat_kind = {
    .name = "concat",
    .place = CHAIN_JOIN,
    .min_inputs = 2,
    .max_inputs = MAX_LAYER_INPUTS,
    .doc =
        "Its inputs side by side, brought back to hidden by one matrix: the long skip connection of U-ViT (Bao et al. "
        "2023), or what joins two towers.",
    .fields = concat_fields,
    .field_count = sizeof concat_fields / sizeof *concat_fields,
    .fields_bytes = sizeof(struct concat_layer),
    .defaults = &concat_defaults,
    .build = concat_build,
};
