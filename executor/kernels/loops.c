#include "executor/kernels/loops.h"

const struct operand *operand_of_role(const struct segment *segment, enum role role, int index)
{
    switch (role) {
    case ROLE_IN:
    case ROLE_GRADIENT_IN:
        return &segment->in[index];
    case ROLE_OUT:
    case ROLE_GRADIENT_OUT:
        return &segment->out[index];
    case ROLE_WEIGHT:
    case ROLE_GRADIENT_WEIGHT:
    case ROLE_COUNT:
        break;
    }
    return &segment->weight[index];
}

struct spot spot_locate(const struct kernel_call *call, enum role role, int index, int64_t element_bytes)
{
    const struct view *view = &call->operand[role][index];
    const struct operand *operand = operand_of_role(call->segment, role, index);
    struct spot spot = { .element_bytes = element_bytes };
    int64_t offset = 0, stride = 1;
    for (int dim = view->dim_count - 1; dim >= 0; dim--) {
        int axis = operand->axis[dim];
        if (axis >= 0) {
            spot.stride[axis] = stride;
            offset += (call->low[axis] - view->low[dim]) * stride;
        }
        stride *= view->count[dim];
    }
    if (view->data)
        spot.data = (char *)view->data + offset * element_bytes;
    return spot;
}

int loops_make(const struct kernel_call *call, const struct operand *order, int dim_count, bool merge,
               const struct spot *spots, int spot_count, struct loop loops[MAX_DIMS])
{
    int count = 0;
    for (int dim = 0; dim < dim_count; dim++) {
        int axis = order->axis[dim];
        if (axis < 0)
            continue;
        struct loop loop = { .extent = call->high[axis] - call->low[axis] };
        for (int i = 0; i < spot_count; i++)
            loop.stride[i] = spots[i].stride[axis];
        bool joins = count > 0 && (merge || dim < dim_count - 1);
        for (int i = 0; joins && i < spot_count; i++)
            joins = loops[count - 1].stride[i] == loop.stride[i] * loop.extent;
        if (joins) {
            loop.extent *= loops[count - 1].extent;
            loops[count - 1] = loop;
        } else {
            loops[count++] = loop;
        }
    }
    return count;
}
