/* c (rows, columns) = a (rows, sums) b (sums, columns), each of the three a group of axes of the segment.
 *
 * Which axes are rows, columns or contracted follows from which of the three operands have them. Axes that do not lie
 * side by side in memory are looped over; the rest is one GEMM. */
#include "executor/kernels/product.h"

struct group { /* axes that act as one index of the GEMM, outermost first */
    int count;
    int axis[MAX_AXES];
};

static int64_t extent_of(const struct kernel_call *call, int axis)
{
    return call->high[axis] - call->low[axis];
}

/* Axes that x and y have and z lacks, by falling stride in x. */
static struct group shared_axes(const struct kernel_call *call, const struct spot *x, const struct spot *y,
                                const struct spot *z)
{
    struct group group = { 0 };
    for (int axis = 0; axis < call->segment->axis_count; axis++) {
        if (!x->stride[axis] || !y->stride[axis] || z->stride[axis] || extent_of(call, axis) == 1)
            continue;
        int i = group.count++;
        for (; i > 0 && x->stride[group.axis[i - 1]] < x->stride[axis]; i--)
            group.axis[i] = group.axis[i - 1];
        group.axis[i] = axis;
    }
    return group;
}

/* Moves the outermost axes of a group to `loops` until the rest is one index in both operands. */
static void peel(const struct kernel_call *call, struct group *group, const struct spot *x, const struct spot *y,
                 struct group *loops)
{
    int inner = group->count - 1;
    for (; inner > 0; inner--) {
        int outer_axis = group->axis[inner - 1], axis = group->axis[inner];
        int64_t extent = extent_of(call, axis);
        if (x->stride[outer_axis] != x->stride[axis] * extent || y->stride[outer_axis] != y->stride[axis] * extent)
            break;
    }
    for (int i = 0; i < inner; i++)
        loops->axis[loops->count++] = group->axis[i];
    for (int i = inner; inner > 0 && i < group->count; i++)
        group->axis[i - inner] = group->axis[i];
    group->count -= inner > 0 ? inner : 0;
}

static int64_t group_extent(const struct kernel_call *call, const struct group *group)
{
    int64_t extent = 1;
    for (int i = 0; i < group->count; i++)
        extent *= extent_of(call, group->axis[i]);
    return extent;
}

static int64_t group_stride(const struct group *group, const struct spot *spot)
{
    return group->count ? spot->stride[group->axis[group->count - 1]] : 1;
}

/* c (+)= a b; a later pass over a looped contracted axis adds to what the first one left. */
void product_each(const struct kernel_call *call, struct spot c, struct spot a, struct spot b, bool accumulate,
                  void (*run)(void *context, const struct gemm *gemm), void *context)
{
    struct group rows = shared_axes(call, &c, &a, &b), columns = shared_axes(call, &c, &b, &a),
                 sums = shared_axes(call, &a, &b, &c);
    struct group loops = { 0 };
    for (int axis = 0; axis < call->segment->axis_count; axis++) {
        if (extent_of(call, axis) <= 0 && c.stride[axis])
            return;
        if (a.stride[axis] && b.stride[axis] && c.stride[axis])
            loops.axis[loops.count++] = axis;
    }
    peel(call, &rows, &c, &a, &loops);
    peel(call, &columns, &c, &b, &loops);
    if (group_extent(call, &sums) > 0)
        peel(call, &sums, &a, &b, &loops);
    struct gemm g = {
        .m = group_extent(call, &rows),
        .n = group_extent(call, &columns),
        .k = group_extent(call, &sums),
        .a_m = group_stride(&rows, &a),
        .a_k = group_stride(&sums, &a),
        .b_k = group_stride(&sums, &b),
        .b_n = group_stride(&columns, &b),
        .c_m = group_stride(&rows, &c),
        .c_n = group_stride(&columns, &c),
        .alpha = call->segment->arguments.scale > 0 ? (real)call->segment->arguments.scale : 1,
    };
    int64_t at[MAX_AXES] = { 0 };
    for (;;) {
        int64_t c_offset = 0, a_offset = 0, b_offset = 0;
        g.accumulate = accumulate;
        for (int i = 0; i < loops.count; i++) {
            int axis = loops.axis[i];
            c_offset += at[i] * c.stride[axis];
            a_offset += at[i] * a.stride[axis];
            b_offset += at[i] * b.stride[axis];
            g.accumulate |= !c.stride[axis] && at[i] > 0;
        }
        g.a = (const real *)(void *)(a.data + a_offset * a.element_bytes);
        g.b = (const real *)(void *)(b.data + b_offset * b.element_bytes);
        g.c = (real *)(void *)(c.data + c_offset * c.element_bytes);
        run(context, &g);
        int i = loops.count - 1;
        while (i >= 0 && ++at[i] >= extent_of(call, loops.axis[i]))
            at[i--] = 0;
        if (i < 0)
            return;
    }
}
