/* One team per row: outer loops over rows, inner ones along the row. Sums are taken in double, those of quads in real:
 * what an element costs in double, many a device has little of. line_...() are loops along the row, over quads or over
 * single elements. */
#ifndef CLEAVE_EXECUTOR_GPU_BODIES_ROWS_H
#define CLEAVE_EXECUTOR_GPU_BODIES_ROWS_H
#include "executor/gpu/bodies/quads.h"

/* ---- the loss ---- */
GPU_BODY inline real line_largest(const struct team *team, const struct gpu_work *work, int64_t from, int64_t low,
                                  int64_t high, int width)
{
    real best = -(real)INFINITY;
    TEAM_STEPS(i, low, high, width)
    {
        struct real_quad x = line_get(work, &work->spot[0], from, i, GPU_ANY, width);
        for (int j = 0; j < width; j++)
            best = x.x[j] > best ? x.x[j] : best;
    }
    return best;
}

/* spot 1 = largest of spot 0's first integer 0 elements, or of those and itself; -inf without any */
GPU_BODY void gpu_logit_max(const struct team *team, const struct gpu_work *work)
{
    const struct gpu_spot *in = &work->spot[0], *out = &work->spot[1];
    const int64_t count = work->integer[0], whole = row_quads(work, 1, count);
    TEAM_ROWS(row, work->outer)
    {
        int64_t from = spot_outer(work, in, row), to = spot_outer(work, out, row);
        real quads = line_largest(team, work, from, 0, whole, GPU_QUAD),
             rest = line_largest(team, work, from, whole, count, 1);
        double best = team_max(team, (double)(quads > rest ? quads : rest));
        if (team->thread == 0 && (out->begin || best > (double)spot_get(out, to)))
            spot_set(out, to, (real)best);
    }
}

GPU_BODY inline double line_exponentials(const struct team *team, const struct gpu_work *work, int64_t from, real shift,
                                         int64_t low, int64_t high, int width)
{
    double sum = 0;
    TEAM_STEPS(i, low, high, width)
    {
        struct real_quad x = line_get(work, &work->spot[0], from, i, GPU_ANY, width);
        real part = 0;
        for (int j = 0; j < width; j++)
            part += real_exp(x.x[j] - shift);
        sum += (double)part;
    }
    return sum;
}

/* spot 2 (+)= sum over the first integer 0 elements of exp(spot 0 - spot 1) */
GPU_BODY void gpu_sum_exp(const struct team *team, const struct gpu_work *work)
{
    const struct gpu_spot *in = &work->spot[0], *shift_in = &work->spot[1], *out = &work->spot[2];
    const int64_t count = work->integer[0], whole = row_quads(work, 1, count);
    TEAM_ROWS(row, work->outer)
    {
        int64_t from = spot_outer(work, in, row);
        real shift = spot_get(shift_in, spot_outer(work, shift_in, row));
        double sum = team_sum(team, line_exponentials(team, work, from, shift, 0, whole, GPU_QUAD) +
                                        line_exponentials(team, work, from, shift, whole, count, 1));
        if (team->thread == 0)
            spot_put(out, spot_outer(work, out, row), (real)sum);
    }
}

struct running_sum {
    real most;
    double sum; /* of exp(x - most) */
};

/* Adds `count` widths. The largest comes first, so that what was summed is scaled once. */
GPU_BODY inline void running_add(const struct team *team, const struct gpu_work *work, int64_t from, int type,
                                 struct running_sum *r, int64_t i, int width, int count)
{
    const struct flight x = flight_get(work, &work->spot[0], from, i, team->threads * width, type, width, count);
    real most = r->most, part = 0;
    for (int k = 0; k < count; k++)
        for (int j = 0; j < width; j++)
            most = x.quad[k].x[j] > most ? x.quad[k].x[j] : most;
    const real shift = most == -(real)INFINITY ? 0 : most; /* NaN passes */
    for (int k = 0; k < count; k++)
        for (int j = 0; j < width; j++)
            part += real_exp(x.quad[k].x[j] - shift);
    if (most > r->most)
        r->sum *= (double)real_exp(r->most - most);
    r->most = most;
    r->sum += (double)part;
}

/* What is read is of one type, known where this is called. */
GPU_BODY inline void line_running(const struct team *team, const struct gpu_work *work, int64_t from, int64_t low,
                                  int64_t high, int type, int width, struct running_sum *r)
{
    const int64_t step = (int64_t)team->threads * width;
    int64_t i = low + (int64_t)team->thread * width;
    for (; i + (GPU_FLIGHT - 1) * step < high; i += GPU_FLIGHT * step)
        running_add(team, work, from, type, r, i, width, GPU_FLIGHT);
    for (; i < high; i += step)
        running_add(team, work, from, type, r, i, width, 1);
}

/* spot 1 = largest of spot 0's first integer 0 elements, spot 2 = sum over them of exp(spot 0 - spot 1). Each is read
 * once: what a thread has summed is scaled when it meets a larger one (Milakov & Gimelshein 2018). */
GPU_BODY void gpu_max_sum_exp(const struct team *team, const struct gpu_work *work)
{
    const struct gpu_spot *in = &work->spot[0], *max_out = &work->spot[1], *sum_out = &work->spot[2];
    const int64_t count = work->integer[0], whole = row_quads(work, 1, count);
    TEAM_ROWS(row, work->outer)
    {
        const int64_t from = spot_outer(work, in, row);
        struct running_sum r = { -(real)INFINITY, 0 };
        if (in->type == GPU_BF16) {
            line_running(team, work, from, 0, whole, GPU_BF16, GPU_QUAD, &r);
            line_running(team, work, from, whole, count, GPU_BF16, 1, &r);
        } else {
            line_running(team, work, from, 0, whole, GPU_REAL, GPU_QUAD, &r);
            line_running(team, work, from, whole, count, GPU_REAL, 1, &r);
        }
        real best = (real)team_max(team, (double)r.most);
        double sum = team_sum(team, r.sum == 0 ? 0 : r.sum * (double)real_exp(r.most - best));
        if (team->thread == 0) {
            spot_set(max_out, spot_outer(work, max_out, row), best);
            spot_set(sum_out, spot_outer(work, sum_out, row), (real)sum);
        }
    }
}

/* What gpu_sum_exp_gradient knows of a row. */
struct softmax_row {
    int64_t from, to;
    real shift, scale;
};

/* Writes `count` widths; elements from `counting` on have no gradient. */
GPU_BODY inline void softmax_put(const struct team *team, const struct gpu_work *work, const struct softmax_row *row,
                                 int64_t counting, int type, int64_t i, int width, int count)
{
    const int step = team->threads * width;
    struct flight x = flight_get(work, &work->spot[0], row->from, i, step, type, width, count);
    for (int k = 0; k < count; k++) {
        for (int j = 0; j < width; j++)
            x.quad[k].x[j] = i + k * step + j < counting ? real_exp(x.quad[k].x[j] - row->shift) * row->scale : 0;
        line_put(work, &work->spot[3], row->to, i + k * step, type, width, &x.quad[k]);
    }
}

/* As line_running(). */
GPU_BODY inline void line_softmax(const struct team *team, const struct gpu_work *work, const struct softmax_row *row,
                                  int64_t low, int64_t high, int type, int width)
{
    const int64_t step = (int64_t)team->threads * width, counting = work->integer[0];
    const int64_t sure = high < counting ? high : counting;
    int64_t i = low + (int64_t)team->thread * width;
    for (; i + (GPU_FLIGHT - 1) * step + width <= sure; i += GPU_FLIGHT * step)
        softmax_put(team, work, row, INT64_MAX, type, i, width, GPU_FLIGHT);
    for (; i < high; i += step)
        softmax_put(team, work, row, counting, type, i, width, 1);
}

/* spot 3 (+)= exp(spot 0 - spot 1) * spot 2, and 0 from element integer 0 on. Spot 3 may be spot 0. */
GPU_BODY void gpu_sum_exp_gradient(const struct team *team, const struct gpu_work *work)
{
    const unsigned mask = 1 | 1 << 3;
    const int64_t whole = row_quads(work, mask, work->inner);
    const bool half = spots_type(work, mask) == GPU_BF16;
    TEAM_ROWS(number, work->outer)
    {
        int64_t at[4];
        spots_outer(work, 4, number, at);
        const struct softmax_row row = { at[0], at[3], spot_get(&work->spot[1], at[1]),
                                         spot_get(&work->spot[2], at[2]) };
        if (half) {
            line_softmax(team, work, &row, 0, whole, GPU_BF16, GPU_QUAD);
            line_softmax(team, work, &row, whole, work->inner, GPU_BF16, 1);
        } else {
            line_softmax(team, work, &row, 0, whole, GPU_ANY, GPU_QUAD);
            line_softmax(team, work, &row, whole, work->inner, GPU_ANY, 1);
        }
    }
}

/* Outer loops over rows alone, a thread per row. spot 2 (+)= spot 0 at column spot 1 - integer 1, 0 where that is not
 * among the first integer 0; integer 2: stride of the columns */
GPU_BODY void gpu_pick(const struct team *team, const struct gpu_work *work)
{
    const struct gpu_spot *in = &work->spot[0], *label = &work->spot[1], *out = &work->spot[2];
    TEAM_EACH(row, work->outer)
    {
        int64_t column = spot_index(label, spot_outer(work, label, row)) - work->integer[1];
        bool here = column >= 0 && column < work->integer[0];
        spot_put(out, spot_outer(work, out, row),
                 here ? spot_get(in, spot_outer(work, in, row) + column * work->integer[2]) : 0);
    }
}

/* spot 2 (+)= spot 1 at column spot 0 - integer 1, else 0 */
GPU_BODY void gpu_pick_gradient(const struct team *team, const struct gpu_work *work)
{
    const struct gpu_spot *label = &work->spot[0], *scale_in = &work->spot[1], *dx = &work->spot[2];
    TEAM_ROWS(row, work->outer)
    {
        int64_t column = spot_index(label, spot_outer(work, label, row)) - work->integer[1];
        int64_t to = spot_outer(work, dx, row);
        real scale = spot_get(scale_in, spot_outer(work, scale_in, row));
        TEAM_LINE(i, work->inner)
        spot_put(dx, to + spot_inner(work, dx, i), i == column && column < work->integer[0] ? scale : 0);
    }
}

/* Outer loops over rows alone, a thread per row: spot 2 += spot 1 at column spot 0 - integer 1 if that is among the
 * first integer 0; integer 2: stride of the columns */
GPU_BODY void gpu_pick_add(const struct team *team, const struct gpu_work *work)
{
    const struct gpu_spot *label = &work->spot[0], *scale_in = &work->spot[1], *dx = &work->spot[2];
    TEAM_EACH(row, work->outer)
    {
        int64_t column = spot_index(label, spot_outer(work, label, row)) - work->integer[1];
        int64_t at = spot_outer(work, dx, row) + column * work->integer[2];
        if (column >= 0 && column < work->integer[0])
            spot_set(dx, at, spot_get(dx, at) + spot_get(scale_in, spot_outer(work, scale_in, row)));
    }
}

enum { NLL_FLIGHT = 4 }; /* tokens that a thread loads before it uses the first of them */

GPU_BODY inline void nll_put(const struct gpu_work *work, double sum)
{
    spot_put(&work->spot[5], 0, sum == 0 ? 0 : (real)(sum / (double)spot_get(&work->spot[4], 0)));
}

/* Outer loops over tokens. spot 5 (+)= sum over labels (spot 3) that are not -1 of log(spot 0) + spot 1 - spot 2, over
 * spot 4; 0 where the sum is. Of several teams each writes its part (doubles, spot 6) for gpu_nll_finish. */
GPU_BODY void gpu_nll(const struct team *team, const struct gpu_work *work)
{
    const struct gpu_spot *exps = &work->spot[0], *max = &work->spot[1], *picked = &work->spot[2],
                          *label = &work->spot[3];
    const int64_t step = team->count * team->threads;
    double sum = 0;
    for (int64_t i = team->place * team->threads + team->thread; i < work->outer; i += NLL_FLIGHT * step) {
        real all[NLL_FLIGHT], most[NLL_FLIGHT], own[NLL_FLIGHT];
        bool counts[NLL_FLIGHT];
        for (int k = 0; k < NLL_FLIGHT; k++) {
            const int64_t token = i + k * step < work->outer ? i + k * step : i;
            int64_t at[4];
            spots_outer(work, 4, token, at);
            all[k] = spot_get(exps, at[0]), most[k] = spot_get(max, at[1]), own[k] = spot_get(picked, at[2]);
            counts[k] = spot_index(label, at[3]) != -1 && i + k * step < work->outer;
        }
        for (int k = 0; k < NLL_FLIGHT; k++)
            sum += counts[k] ? (double)real_log(all[k]) + (double)most[k] - (double)own[k] : 0;
    }
    sum = team_sum(team, sum);
    if (team->thread > 0)
        return;
    if (team->count > 1)
        ((double *)work->spot[GPU_NLL_PARTS].data)[team->place] = sum;
    else
        nll_put(work, sum);
}

/* One team: what gpu_nll does with the integer 0 parts of spot 6 */
GPU_BODY void gpu_nll_finish(const struct team *team, const struct gpu_work *work)
{
    double sum = 0;
    TEAM_LINE(i, work->integer[0]) sum += ((const double *)work->spot[GPU_NLL_PARTS].data)[i];
    sum = team_sum(team, sum);
    if (team->thread == 0)
        nll_put(work, sum);
}

/* A thread per token. spots: sum of exponentials, labels, gradients of it and of the picked logit (either may be
 * absent), number of targets, gradient of the loss */
GPU_BODY void gpu_nll_gradient(const struct team *team, const struct gpu_work *work)
{
    const struct gpu_spot *exps = &work->spot[0], *label = &work->spot[1], *dexps = &work->spot[2],
                          *dpicked = &work->spot[3];
    const real targets = spot_get(&work->spot[4], 0), gradient = spot_get(&work->spot[5], 0);
    const real scale = targets > 0 ? gradient / targets : 0;
    TEAM_EACH(i, work->outer)
    {
        bool target = spot_index(label, spot_outer(work, label, i)) != -1;
        if (dexps->data)
            spot_put(dexps, spot_outer(work, dexps, i), target ? scale / spot_get(exps, spot_outer(work, exps, i)) : 0);
        if (dpicked->data)
            spot_put(dpicked, spot_outer(work, dpicked, i), target ? -scale : 0);
    }
}
#endif
