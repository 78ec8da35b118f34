/* One product of two operands into a third serves all phases: which axes are rows, columns or contracted follows from
 * which of the three operands have them. Axes that do not lie side by side in memory are looped over; the rest is one
 * GEMM. */
#include "executor/kernels/primitives.h"

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
static void product(const struct kernel_call *call, struct spot c, struct spot a, struct spot b, bool accumulate)
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
        g.a = (const real *)(void *)a.data + a_offset;
        g.b = (const real *)(void *)b.data + b_offset;
        g.c = (real *)(void *)c.data + c_offset;
        gemm_run(&g);
        int i = loops.count - 1;
        while (i >= 0 && ++at[i] >= extent_of(call, loops.axis[i]))
            at[i--] = 0;
        if (i < 0)
            return;
    }
}

/* Operand 0 of the roles. */
static void whole_product(const struct kernel_call *call, enum role c, enum role a, enum role b, bool accumulate)
{
    product(call, spot_of(call, c, 0), spot_of(call, a, 0), spot_of(call, b, 0), accumulate);
}

static int slot_axis(const struct segment *segment)
{
    int axis = 0;
    while (segment->axes[axis].tag != TAG_CAPACITY)
        axis++;
    return axis;
}

/* The next place of the axes that in[1] follows; false beyond the last. first: c begins there, unless it accumulates.
 */
static bool next_place(const struct kernel_call *whole, struct kernel_call *place, const struct spot *c, bool *first)
{
    const struct operand *filled = &whole->segment->in[1];
    *first = true;
    for (int dim = whole->operand[ROLE_IN][1].dim_count - 1; dim >= 0; dim--) {
        int axis = filled->axis[dim];
        place->low[axis]++;
        if (place->low[axis] == whole->high[axis])
            place->low[axis] = whole->low[axis];
        place->high[axis] = place->low[axis] + 1;
        if (place->low[axis] > whole->low[axis]) {
            for (int i = 0; i < whole->segment->axis_count; i++)
                *first &= c->stride[i] != 0 || i == slot_axis(whole->segment) || place->low[i] == whole->low[i];
            return true;
        }
    }
    return false;
}

/* Only the slots that count are computed: each place that in[1] speaks of is a product by itself, with its range of
 * slots cut. Slots beyond become 0. */
static void filled_product(const struct kernel_call *whole, enum role c, enum role a, enum role b, bool accumulate)
{
    struct kernel_call place = *whole;
    const struct operand *filled = &whole->segment->in[1];
    const struct spot result = spot_of(whole, c, 0);
    const int slots = slot_axis(whole->segment);
    for (int dim = 0; dim < whole->operand[ROLE_IN][1].dim_count; dim++) {
        int axis = filled->axis[dim];
        if (whole->low[axis] >= whole->high[axis])
            return;
        place.high[axis] = place.low[axis] + 1;
    }
    bool first = true;
    do {
        int64_t low = whole->low[slots], high = *(const int32_t *)(void *)spot_of_index(&place, ROLE_IN, 1).data;
        high = high < low ? low : high < whole->high[slots] ? high : whole->high[slots];
        place.low[slots] = low, place.high[slots] = high;
        whole_product(&place, c, a, b, accumulate || !first);
        place.low[slots] = high, place.high[slots] = whole->high[slots];
        if (result.stride[slots] && !accumulate)
            clear_operand(&place, c, 0);
    } while (next_place(whole, &place, &result, &first));
}

static void product_of(const struct kernel_call *call, enum role c, enum role a, enum role b, bool accumulate)
{
    (call->segment->in_count > 1 ? filled_product : whole_product)(call, c, a, b, accumulate);
}

static void fill_row(const struct row *row, const void *context)
{
    (void)context;
    real *restrict out = row->data[0];
    const real *restrict bias = row->data[1];
    for (int64_t i = 0; i < row->count; i++)
        out[i] = bias[i * row->step[1]];
}

/* The bias goes in first: a GEMM that adds to c costs no more than one that clears it. */
void ISA(matmul_forward)(const struct kernel_call *call)
{
    bool accumulate = !begins(call, ROLE_OUT, 0);
    if (call->segment->weight_count > 1 && !accumulate) {
        struct spot spots[] = { spot_of(call, ROLE_OUT, 0), spot_of(call, ROLE_WEIGHT, 1) };
        walk(call, &call->segment->out[0], call->operand[ROLE_OUT][0].dim_count, true, spots, 2, fill_row, NULL);
        accumulate = true;
    }
    product_of(call, ROLE_OUT, ROLE_IN, ROLE_WEIGHT, accumulate);
}

void ISA(matmul_backward_input)(const struct kernel_call *call)
{
    if (call->operand[ROLE_GRADIENT_IN][0].data)
        product_of(call, ROLE_GRADIENT_IN, ROLE_GRADIENT_OUT, ROLE_WEIGHT, !begins(call, ROLE_GRADIENT_IN, 0));
}

void ISA(matmul_backward_weight)(const struct kernel_call *call)
{
    if (call->operand[ROLE_GRADIENT_WEIGHT][0].data)
        product_of(call, ROLE_GRADIENT_WEIGHT, ROLE_IN, ROLE_GRADIENT_OUT, !begins(call, ROLE_GRADIENT_WEIGHT, 0));
    if (call->segment->weight_count > 1)
        bias_gradient(call, 1);
}
