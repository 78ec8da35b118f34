/* Norms, and residual sums that run with them: forward the sum is made and normed in one pass, going back what the norm
 * adds to the sum's gradient goes on to its terms at once. */
#include "executor/gpu/issue.h"
#include <string.h>

static struct gpu_launch norm_forward(const struct gpu_call *g, bool layer)
{
    const int mean = layer ? 1 : -1, rstd = layer ? 2 : 1, bias = layer ? 1 : -1;
    struct gpu_launch p = GPU_LAUNCH(g, { ROLE_OUT, 0 }, { ROLE_IN, 0 }, { ROLE_WEIGHT, 0 }, { ROLE_WEIGHT, bias },
                                     { ROLE_OUT, mean }, { ROLE_OUT, rstd });
    p.work.spot[0].begin = true;
    p.work.integer[0] = layer;
    p.work.number[0] = g->call->segment->arguments.epsilon;
    return p;
}

/* The strides by the axes of another segment, where dim by dim `to` has those of `from`. */
static struct spot with_axes_of(struct spot spot, const struct operand *from, const struct operand *to, int dim_count)
{
    const struct spot own = spot;
    memset(spot.stride, 0, sizeof spot.stride);
    for (int dim = 0; dim < dim_count; dim++)
        if (from->axis[dim] >= 0 && to->axis[dim] >= 0)
            spot.stride[to->axis[dim]] = own.stride[from->axis[dim]];
    return spot;
}

/* Adds one of the residual's operands to the norm's; false: the norm would overwrite elements of other rows. */
static bool add_term(const struct gpu_call *residual, const struct gpu_call *norm, struct gpu_launch *p, enum role role,
                     int index)
{
    const int dim_count = norm->call->operand[ROLE_IN][0].dim_count;
    struct spot spot = with_axes_of(gpu_spot_of(residual, role, index), &residual->call->segment->out[0],
                                    &norm->call->segment->in[0], dim_count);
    const struct gpu_spot operand = gpu_operand(residual, role, index);
    if (spot.data == p->spots[0].data &&
        (operand.type != p->work.spot[0].type || memcmp(spot.stride, p->spots[0].stride, sizeof spot.stride) != 0))
        return false;
    p->spots[p->count] = spot;
    p->work.spot[p->count++] = operand;
    p->work.integer[1]++;
    return true;
}

/* Tells whether both are of the same elements: those that the residual makes are all that the norm takes, or the same
 * of their gradients. */
static bool same_elements(const struct gpu_call *residual, enum role made_as, const struct gpu_call *norm,
                          enum role taken_as)
{
    const struct operand *made = &residual->call->segment->out[0], *taken = &norm->call->segment->in[0];
    const int dim_count = norm->call->operand[taken_as][0].dim_count;
    struct spot out = gpu_spot_of(residual, made_as, 0), in = gpu_spot_of(norm, taken_as, 0);
    if (residual->call->operand[made_as][0].dim_count != dim_count || out.data != in.data)
        return false;
    for (int dim = 0; dim < dim_count; dim++) {
        int a = made->axis[dim], b = taken->axis[dim];
        if (a < 0 || b < 0 || out.stride[a] != in.stride[b] ||
            residual->call->high[a] - residual->call->low[a] != norm->call->high[b] - norm->call->low[b])
            return false;
    }
    return true;
}

bool gpu_issue_with_norm(const struct gpu_call *residual, const struct gpu_call *norm, bool *done, struct error *err)
{
    const struct segment *segment = residual->call->segment;
    struct gpu_launch p = norm_forward(norm, norm->call->segment->kernel == KERNEL_LAYER_NORM);
    bool fits = p.count + segment->in_count + segment->weight_count <= WALK_SPOTS &&
                same_elements(residual, ROLE_OUT, norm, ROLE_IN);
    for (int i = 0; fits && i < segment->in_count; i++)
        fits = add_term(residual, norm, &p, ROLE_IN, i);
    if (fits && segment->weight_count > 0)
        fits = add_term(residual, norm, &p, ROLE_WEIGHT, 0);
    *done = fits;
    return !fits || gpu_rows(norm, &p, GPU_ADD_NORM, ROLE_IN, err);
}

static struct gpu_launch norm_backward(const struct gpu_call *g, bool layer)
{
    const int mean = layer ? 1 : -1, rstd = layer ? 2 : 1;
    return GPU_LAUNCH(g, { ROLE_GRADIENT_IN, 0 }, { ROLE_GRADIENT_OUT, 0 }, { ROLE_IN, 0 }, { ROLE_WEIGHT, 0 },
                      { ROLE_OUT, rstd }, { ROLE_OUT, mean });
}

/* Adds a gradient that the residual hands on; false: writing it, by rows, would destroy what other rows read. Buffers
 * that share bytes have all of them in common. */
static bool add_passed(const struct gpu_call *residual, const struct gpu_call *norm, struct gpu_launch *p, int index)
{
    const int dim_count = norm->call->operand[ROLE_GRADIENT_IN][0].dim_count;
    const struct view *passed = &residual->call->operand[ROLE_GRADIENT_IN][index];
    const struct spot spot = with_axes_of(gpu_spot_of(residual, ROLE_GRADIENT_IN, index),
                                          &residual->call->segment->out[0], &norm->call->segment->in[0], dim_count);
    const struct gpu_spot operand = gpu_operand(residual, ROLE_GRADIENT_IN, index);
    const enum role read[] = { ROLE_GRADIENT_IN, ROLE_GRADIENT_OUT, ROLE_IN }; /* spots 0 to 2 */
    for (int i = 0; i < (int)(sizeof read / sizeof *read); i++) {
        if (passed->data != norm->call->operand[read[i]][0].data)
            continue;
        if (i == 0 || operand.type != p->work.spot[i].type || spot.data != p->spots[i].data ||
            memcmp(spot.stride, p->spots[i].stride, sizeof spot.stride) != 0)
            return false;
    }
    p->spots[p->count] = spot;
    p->work.spot[p->count++] = operand;
    p->work.integer[0]++;
    return true;
}

bool gpu_issue_with_residual(const struct gpu_call *norm, const struct gpu_call *residual, bool *done,
                             struct error *err)
{
    const struct segment *segment = residual->call->segment;
    struct gpu_launch p = norm_backward(norm, norm->call->segment->kernel == KERNEL_LAYER_NORM);
    bool fits =
        p.count + segment->in_count <= WALK_SPOTS && same_elements(residual, ROLE_GRADIENT_OUT, norm, ROLE_GRADIENT_IN);
    for (int i = 0; fits && i < segment->in_count; i++)
        fits = !gpu_wanted(residual, ROLE_GRADIENT_IN, i) || add_passed(residual, norm, &p, i);
    *done = fits;
    return !fits || gpu_rows(norm, &p, GPU_ADD_NORM_GRADIENT, ROLE_IN, err);
}

bool gpu_issue_norm(const struct gpu_call *g, enum phase phase, bool layer, struct error *err)
{
    const int mean = layer ? 1 : -1, rstd = layer ? 2 : 1;
    if (phase == PHASE_FORWARD) {
        struct gpu_launch p = norm_forward(g, layer);
        return gpu_rows(g, &p, GPU_NORM, ROLE_IN, err);
    }
    if (phase == PHASE_BACKWARD_INPUT) {
        if (!gpu_wanted(g, ROLE_GRADIENT_IN, 0))
            return true;
        struct gpu_launch p = norm_backward(g, layer);
        return gpu_rows(g, &p, GPU_NORM_GRADIENT, ROLE_IN, err);
    }
    if (gpu_wanted(g, ROLE_GRADIENT_WEIGHT, 0)) {
        struct gpu_launch p = GPU_LAUNCH(g, { ROLE_GRADIENT_WEIGHT, 0 }, { ROLE_GRADIENT_OUT, 0 }, { ROLE_IN, 0 },
                                         { ROLE_OUT, rstd }, { ROLE_OUT, mean });
        if (!gpu_columns(g, &p, GPU_GAIN_GRADIENT, ROLE_IN, err))
            return false;
    }
    return !layer || gpu_bias_gradient(g, 1, err);
}
