/* y (b,t,f) = scale x (b,t,h) w (h,f) + bias (f), and any others whose axes say as much: what y lacks is summed over.
 * Of experts: y (e,b,q,c,f), x (e,b,q,c,h), w (e,h,f); filled (e,b,q), int32, says how many places c count.
 *
 * Matrix products of segments, all phases by product_each(). */
#include "executor/kernels/primitives.h"
#include <stddef.h>

static void run(void *context, const struct gemm *gemm)
{
    (void)context;
    gemm_run(gemm);
}

/* Operand 0 of the roles. */
static void whole_product(const struct kernel_call *call, enum role c, enum role a, enum role b, bool accumulate)
{
    product_each(call, spot_of(call, c, 0), spot_of(call, a, 0), spot_of(call, b, 0), accumulate, run, NULL);
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

struct found {
    int count;
    struct gemm gemm;
};

static void find(void *context, const struct gemm *gemm)
{
    struct found *found = context;
    found->count++;
    found->gemm = *gemm;
}

/* Tells whether the bias lies as one row of c does: then the product adds it on its way. */
static bool is_one_row(const struct kernel_call *call, const struct spot *c, const struct spot *weight,
                       const struct spot *bias)
{
    for (int axis = 0; axis < call->segment->axis_count; axis++) {
        int64_t stride = weight->stride[axis] ? c->stride[axis] : 0;
        if (call->high[axis] - call->low[axis] > 1 && bias->stride[axis] != stride)
            return false;
    }
    return true;
}

/* False: it is more than one GEMM, or the bias lies otherwise. */
static bool product_with_bias(const struct kernel_call *call)
{
    struct found found = { 0 };
    struct spot c = spot_of(call, ROLE_OUT, 0), weight = spot_of(call, ROLE_WEIGHT, 0),
                bias = spot_of(call, ROLE_WEIGHT, 1);
    if (call->segment->in_count > 1 || !is_one_row(call, &c, &weight, &bias))
        return false;
    product_each(call, c, spot_of(call, ROLE_IN, 0), weight, false, find, &found);
    if (found.count != 1 || found.gemm.accumulate || found.gemm.c_n != 1)
        return false;
    found.gemm.row = (const real *)(const void *)bias.data;
    gemm_run(&found.gemm);
    return true;
}

/* The bias goes in first where it cannot go along: a GEMM that adds to c costs no more than one that clears it. */
void ISA(matmul_forward)(const struct kernel_call *call)
{
    bool accumulate = !begins(call, ROLE_OUT, 0);
    if (call->segment->weight_count > 1 && !accumulate) {
        if (product_with_bias(call))
            return;
        fill_with_bias(call, 1);
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
