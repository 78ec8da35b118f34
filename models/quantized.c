#include "models/quantized.h"
#include "base/num.h"
#include <stddef.h>

const char *const quantized_names[QUANTIZED_COUNT + 1] = {
    [QUANTIZED_NONE] = "none",
#define QUANTIZED(id, name, bits, scale_elements, scale_bytes, second_elements, flops) [QUANTIZED_##id] = name,
#include "models/quantized.def"
#undef QUANTIZED
};

static const struct form {
    int64_t bits, scale_elements, scale_bytes, second_elements, flops;
} forms[QUANTIZED_COUNT] = {
#define QUANTIZED(id, name, bits, scale_elements, scale_bytes, second_elements, flops)                                 \
    [QUANTIZED_##id] = { bits, scale_elements, scale_bytes, second_elements, flops },
#include "models/quantized.def"
#undef QUANTIZED
};

static int64_t bytes_in(enum quantized quantized, enum dtype dtype, int64_t elements)
{
    return quantized ? ceil_div(elements, 8 / forms[quantized].bits) : elements * weight_bytes_per_element(dtype);
}

int64_t weight_bytes(const struct weight *weight, enum dtype dtype, int64_t elements)
{
    return bytes_in(weight->quantized, dtype, elements);
}

int64_t weight_scale_bytes(const struct weight *weight, int64_t elements)
{
    if (!weight->quantized)
        return 0;
    const struct form *form = &forms[weight->quantized];
    int64_t row = 1;
    for (int dim = 0; dim < weight->dim_count; dim++)
        row *= weight->column_dims >> dim & 1 ? weight->size[dim] : 1;
    int64_t scales = ceil_div(elements, form->scale_elements ? form->scale_elements : row);
    int64_t second = form->second_elements ? ceil_div(scales, form->second_elements) : 0;
    return scales * form->scale_bytes + second * element_bytes(DTYPE_FP32, ELEMENT_STATISTIC);
}

/* Elements of its matrix that a call of the phase expands, of all experts or of one. */
static int64_t expanded(const struct segment *segment, enum phase phase, const int64_t extents[MAX_AXES], bool all)
{
    if (!segment->arguments.quantized || (phase != PHASE_FORWARD && phase != PHASE_BACKWARD_INPUT))
        return 0;
    int64_t elements = 1;
    for (int axis = 0; axis < segment->axis_count; axis++)
        if (operand_dim(&segment->weight[0], MAX_DIMS, axis) >= 0 && (all || segment->axes[axis].tag != TAG_EXPERT))
            elements *= extents[axis];
    return elements;
}

int64_t segment_expanded_bytes(const struct segment *segment, enum phase phase, enum dtype dtype,
                               const int64_t extents[MAX_AXES])
{
    return bytes_in(QUANTIZED_NONE, dtype, expanded(segment, phase, extents, false));
}

struct expansion segment_expansion(const struct segment *segment, enum phase phase, enum dtype dtype,
                                   const int64_t extents[MAX_AXES])
{
    int64_t elements = expanded(segment, phase, extents, true);
    return (struct expansion){ (double)elements * (double)forms[segment->arguments.quantized].flops,
                               bytes_in(segment->arguments.quantized, dtype, elements) +
                                   bytes_in(QUANTIZED_NONE, dtype, elements) };
}
