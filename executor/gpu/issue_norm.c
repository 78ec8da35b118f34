/* Norms, and residual sums that run with them: forward the sum is made and normed in one pass, going back what the norm
 * adds to the sum's gradient goes on to its terms at once, and the gradients of gain and bias are summed on the way. */
#include "base/num.h"
#include "executor/gpu/issue.h"
#include "executor/gpu/kinds.h"
#include <string.h>

static bool has_bias(const struct gpu_call *norm)
{
    return norm->call->segment->weight_count > 1;
}

static struct gpu_launch norm_forward(const struct gpu_call *g, bool layer)
{
    const int mean = layer ? 1 : -1, rstd = layer ? 2 : 1, bias = has_bias(g) ? 1 : -1;
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
    bool fits = p.count + segment->in_count + segment->weight_count <= WALK_SPOTS && !(segment->arguments.scale > 0) &&
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

/* Adds all gradients that the residual hands on; false: it cannot be. */
static bool pass_on(const struct gpu_call *norm, const struct gpu_call *residual, struct gpu_launch *p)
{
    const struct segment *segment = residual->call->segment;
    const struct gpu_launch without = *p;
    bool fits = p->count + segment->in_count <= WALK_SPOTS && !(segment->arguments.scale > 0) &&
                same_elements(residual, ROLE_GRADIENT_OUT, norm, ROLE_GRADIENT_IN);
    for (int i = 0; fits && i < segment->in_count; i++)
        fits = !gpu_wanted(residual, ROLE_GRADIENT_IN, i) || add_passed(residual, norm, p, i);
    if (!fits)
        *p = without;
    return fits;
}

/* ---- with the gradients of the norm's weights ---- */
enum { MOST_SUMS_BYTES = 64 * 1024 }; /* of fast memory, which any device gives a team */

/* Tells whether both are of the same rows. */
static bool same_rows(const struct gpu_call *a, const struct gpu_call *b)
{
    static const struct {
        enum role role;
        int index;
    } read[] = { { ROLE_GRADIENT_OUT, 0 }, { ROLE_IN, 0 }, { ROLE_OUT, 1 }, { ROLE_OUT, 2 } };
    bool same = a->call->segment == b->call->segment && memcmp(a->call->low, b->call->low, sizeof a->call->low) == 0 &&
                memcmp(a->call->high, b->call->high, sizeof a->call->high) == 0;
    for (int i = 0; same && i < (int)(sizeof read / sizeof *read); i++)
        same = memcmp(&a->call->operand[read[i].role][read[i].index], &b->call->operand[read[i].role][read[i].index],
                      sizeof(struct view)) == 0;
    return same;
}

/* Tells whether the bias, whose gradient is that of the residual sum over rows, has the columns that the norm has. */
static bool same_columns(const struct gpu_call *bias, const struct gpu_call *residual, const struct gpu_call *norm)
{
    const struct operand *out = &bias->call->segment->out[0];
    const struct view *gradient = &bias->call->operand[ROLE_GRADIENT_OUT][0];
    return bias->call->segment == residual->call->segment &&
           memcmp(bias->call->low, residual->call->low, sizeof bias->call->low) == 0 &&
           memcmp(bias->call->high, residual->call->high, sizeof bias->call->high) == 0 &&
           memcmp(gradient, &residual->call->operand[ROLE_GRADIENT_OUT][0], sizeof *gradient) == 0 &&
           gradient->dim_count == norm->call->operand[ROLE_GRADIENT_IN][0].dim_count &&
           bias->call->operand[ROLE_GRADIENT_WEIGHT][0].dim_count == 1 &&
           bias->call->segment->weight[0].axis[0] == out->axis[gradient->dim_count - 1];
}

/* Teams that sum `rows` rows of what theirs give; 0: none may. */
static int64_t summing_teams(const struct gpu_call *weight, const struct gpu_work *work, int64_t rows)
{
    const int64_t row = ceil_div(work->inner, GPU_QUAD) * GPU_QUAD;
    if (!weight->parts || work->inner <= 0 || rows * row * (int64_t)sizeof(real) > MOST_SUMS_BYTES)
        return 0;
    const int64_t parts = gpu_part_count(weight->gpu) * (int64_t)(sizeof(double) / sizeof(real)) / (rows * work->inner);
    return min_i64(min_i64(work->outer, parts), min_i64(gpu_most_teams(weight->gpu, GPU_NORM_GRADIENTS),
                                                        gpu_most_teams(weight->gpu, GPU_ADD_NORM_GRADIENTS)));
}

/* Adds the gradient of a weight along its only axis to what gpu_column_finish makes of parts. */
static void add_result(struct gpu_work *work, const struct gpu_call *weight, int index)
{
    struct gpu_spot *spot = &work->spot[work->integer[2]++];
    *spot = gpu_operand(weight, ROLE_GRADIENT_WEIGHT, index);
    spot->stride[0] =
        gpu_spot_of(weight, ROLE_GRADIENT_WEIGHT, index).stride[weight->call->segment->weight[index].axis[0]];
}

/* The sums of all teams become gradients. bias: NULL, or of the residual sum */
static bool finish_sums(const struct gpu_call *weight, const struct gpu_call *bias, int64_t inner, int sums,
                        int64_t teams, struct error *err)
{
    struct gpu_work work = { .outer_loops = 1,
                             .outer = inner,
                             .inner = 1,
                             .extent = { inner },
                             .integer = { teams },
                             .shared_reals = (int64_t)gpu_kernel_threads(GPU_COLUMN_FINISH) * GPU_COLUMN_SHARED };
    for (int i = 0; i < sums; i++)
        add_result(&work, weight, i);
    if (bias)
        add_result(&work, bias, 0);
    work.spot[GPU_COLUMN_PARTS].data = weight->parts;
    return gpu_start(weight->gpu, weight->stream, GPU_COLUMN_FINISH, &work,
                     ceil_div(work.integer[2] * inner, GPU_FINISH_LANES), err);
}

bool gpu_issue_norm_backward(const struct gpu_call *const call[GPU_NORM_CALLS], bool unread, bool done[GPU_NORM_CALLS],
                             struct error *err)
{
    const struct gpu_call *norm = call[GPU_NORM_INPUT], *weight = call[GPU_NORM_WEIGHTS],
                          *residual = call[GPU_NORM_RESIDUAL], *bias = call[GPU_NORM_BIAS];
    const bool layer = norm->call->segment->kernel == KERNEL_LAYER_NORM, wanted = gpu_wanted(norm, ROLE_GRADIENT_IN, 0);
    const int sums = has_bias(norm) ? 2 : 1;
    struct gpu_launch p = norm_backward(norm, layer);
    const bool passed = wanted && residual && pass_on(norm, residual, &p);
    gpu_loops(norm, &p.work, &norm->call->segment->in[0], norm->call->operand[ROLE_IN][0].dim_count, true, p.spots,
              p.count);
    const bool together = weight && wanted && same_rows(norm, weight) && gpu_wanted(weight, ROLE_GRADIENT_WEIGHT, 0) &&
                          (sums < 2 || gpu_wanted(weight, ROLE_GRADIENT_WEIGHT, 1));
    const bool with_bias = passed && p.work.integer[0] > 0 && bias && gpu_wanted(bias, ROLE_GRADIENT_WEIGHT, 0) &&
                           same_columns(bias, residual, norm);
    const int64_t teams = together ? summing_teams(weight, &p.work, sums + with_bias) : 0;
    done[GPU_NORM_INPUT] = teams > 0 || passed;
    done[GPU_NORM_WEIGHTS] = teams > 0 || (weight && passed);
    done[GPU_NORM_RESIDUAL] = passed;
    done[GPU_NORM_BIAS] = teams > 0 && with_bias;
    if (teams > 0) {
        p.work.integer[1] = sums, p.work.integer[2] = with_bias;
        p.work.integer[3] = passed && unread && (!bias || with_bias);
        p.work.spot[GPU_NORM_PARTS].data = weight->parts;
        p.work.shared_reals = (sums + with_bias) * ceil_div(p.work.inner, GPU_QUAD) * GPU_QUAD;
        return gpu_start(norm->gpu, norm->stream, passed ? GPU_ADD_NORM_GRADIENTS : GPU_NORM_GRADIENTS, &p.work, teams,
                         err) &&
               finish_sums(weight, with_bias ? bias : NULL, p.work.inner, sums, teams, err);
    }
    return !passed || ((!weight || gpu_issue(weight, err)) && gpu_rows(norm, &p, GPU_ADD_NORM_GRADIENT, ROLE_IN, err));
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
    return !has_bias(g) || gpu_bias_gradient(g, 1, err);
}
