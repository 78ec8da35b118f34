#include "models/builder.h"
#include "models/kinds/layers.h"
#include "models/model.h"
#include <math.h>

static const struct opaque_layer opaque_defaults = { .parameters = 0 };

#define AT(field) .offset = offsetof(struct opaque_layer, field)
static const struct json_field opaque_fields[] = {
    LAYER_HEAD_FIELDS,
    { .key = "forward_us",
      .type = FIELD_DOUBLE,
      AT(forward_us),
      .required = true,
      .min = 0,
      .max = 1e9,
      .doc = "Forward time in microseconds per sequence." },
    { .key = "backward_us",
      .type = FIELD_DOUBLE,
      AT(backward_us),
      .required = true,
      .min = 0,
      .max = 1e9,
      .doc = "Backward time in microseconds per sequence, gradients of input and weights together." },
    { .key = "parameters",
      .type = FIELD_INT,
      AT(parameters),
      .min = 0,
      .max = 1e15,
      .doc = "Parameters; 0 if absent." },
    { .key = "activation_elements",
      .type = FIELD_INT,
      AT(activation_elements),
      .required = true,
      .min = 1,
      .max = 1e12,
      .doc = "Elements of the output per sequence." },
    { .key = "saved_elements",
      .type = FIELD_INT,
      AT(saved_elements),
      .min = 0,
      .max = 1e12,
      .doc = "Elements per sequence that the backward pass reads beside the input; 0 if absent." },
};
#undef AT

/* The backward time is one number: half goes to each gradient where both exist. */
static void set_times(struct kernel_arguments *arguments, const struct opaque_layer *f, bool first)
{
    int64_t backward = llround(f->backward_us * 1000);
    arguments->opaque_forward_ns = llround(f->forward_us * 1000);
    if (!f->parameters)
        arguments->opaque_weight_ns = 0;
    else
        arguments->opaque_weight_ns = first ? backward : backward / 2;
    arguments->opaque_backward_ns = backward - arguments->opaque_weight_ns;
}

static bool opaque_build(struct graph_builder *builder, const struct model *model, const void *fields,
                         struct error *err)
{
    const struct opaque_layer *f = fields;
    (void)model, (void)err;
    bool first = builder->input < 0;
    struct operand_text in[MAX_LAYER_INPUTS + 1] = { { builder->graph->tokens_value, "b." } };
    for (int i = 0; i < builder->input_count; i++)
        in[i] = (struct operand_text){ builder->inputs[i], "b." };
    in[first ? 1 : builder->input_count] = (struct operand_text){ -1, NULL };
    builder_size(builder, 'o', f->activation_elements);
    builder_size(builder, 'y', f->saved_elements);
    builder_size(builder, 'w', f->parameters);
    int y = builder_value(builder, "output", "bo", ELEMENT_ACTIVATION, true);
    int saved = f->saved_elements ? builder_value(builder, "saved", "by", ELEMENT_ACTIVATION, false) : -1;
    int weight = f->parameters ? builder_weight(builder, "weights", "w", INIT_NORMAL, builder->init_std) : -1;
    struct segment *segment =
        builder_segment(builder, KERNEL_OPAQUE, "opaque", "b", in, OPERANDS({ weight, weight < 0 ? NULL : "." }),
                        OPERANDS({ y, "b." }, { saved, saved < 0 ? NULL : "b." }));
    set_times(&segment->arguments, f, first);
    builder->output = y;
    return true;
}

extern const struct layer_kind opaque_kind;
const struct layer_kind opaque_kind = {
    .name = "opaque",
    .place = CHAIN_GIVEN,
    .min_inputs = 0,
    .max_inputs = 4,
    .doc = "A layer of given costs, split only by batch: for planning what has no description yet. It cannot be run.",
    .fields = opaque_fields,
    .field_count = sizeof opaque_fields / sizeof *opaque_fields,
    .fields_bytes = sizeof(struct opaque_layer),
    .defaults = &opaque_defaults,
    .build = opaque_build,
};
