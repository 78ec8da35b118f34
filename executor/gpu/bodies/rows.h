/* One team per row: outer loops over rows, inner ones along the row. Sums are taken in double. */
#ifndef CLEAVE_EXECUTOR_GPU_BODIES_ROWS_H
#define CLEAVE_EXECUTOR_GPU_BODIES_ROWS_H
#include "executor/gpu/team.h"

/* Row `row`: spot 0 = (spot 1 - mean) * rstd * spot 2 + spot 3; spots 4, 5 = mean, rstd. integer 0: layer norm; else
 * RMS norm, which has no mean and no spots 3 and 4. number 0: epsilon. Each thread reads of spot 1 what TEAM_LINE gives
 * it. */
GPU_BODY inline void norm_row(const struct team *team, const struct gpu_work *work, int64_t row)
{
    const struct gpu_spot *out = &work->spot[0], *in = &work->spot[1], *gain = &work->spot[2], *bias = &work->spot[3],
                          *mean_out = &work->spot[4], *rstd_out = &work->spot[5];
    const double n = (double)work->inner;
    int64_t from = spot_outer(work, in, row), to = spot_outer(work, out, row);
    double mean = 0, square = 0;
    if (work->integer[0]) {
        TEAM_LINE(i, work->inner) mean += (double)spot_get(in, from + spot_inner(work, in, i));
        mean = team_sum(team, mean) / n;
    }
    TEAM_LINE(i, work->inner)
    {
        double x = (double)spot_get(in, from + spot_inner(work, in, i)) - mean;
        square += x * x;
    }
    real rstd = (real)(1 / sqrt(team_sum(team, square) / n + work->number[0]));
    TEAM_LINE(i, work->inner)
    {
        real z = (spot_get(in, from + spot_inner(work, in, i)) - (real)mean) * rstd;
        real y = z * spot_get(gain, spot_inner(work, gain, i));
        spot_put(out, to + spot_inner(work, out, i), bias->data ? y + spot_get(bias, spot_inner(work, bias, i)) : y);
    }
    if (team->thread == 0) {
        if (mean_out->data)
            spot_set(mean_out, spot_outer(work, mean_out, row), (real)mean);
        spot_set(rstd_out, spot_outer(work, rstd_out, row), rstd);
    }
}

GPU_BODY void gpu_norm(const struct team *team, const struct gpu_work *work)
{
    TEAM_ROWS(row, work->outer)
    {
        norm_row(team, work, row);
    }
}

/* As gpu_norm, of a spot 1 that is made before: the sum of spots 6 .. 5 + integer 1. Spot 0 may lie where one of these
 * does, element by element: a row is written when all of it has been read. */
GPU_BODY void gpu_add_norm(const struct team *team, const struct gpu_work *work)
{
    const struct gpu_spot *sum_out = &work->spot[1], *terms = &work->spot[6];
    TEAM_ROWS(row, work->outer)
    {
        int64_t to = spot_outer(work, sum_out, row);
        TEAM_LINE(i, work->inner)
        {
            real sum = spot_get(&terms[0], spot_outer(work, &terms[0], row) + spot_inner(work, &terms[0], i));
            for (int term = 1; term < (int)work->integer[1]; term++)
                sum += spot_get(&terms[term], spot_outer(work, &terms[term], row) + spot_inner(work, &terms[term], i));
            spot_set(sum_out, to + spot_inner(work, sum_out, i), sum);
        }
        norm_row(team, work, row);
    }
}

/* With z = (x - mean) rstd and g = dy gain: dx = rstd (g - average(g) - z average(g z)); RMS norm has no average(g) and
 * mean 0. spots: dx, dy, x, gain, rstd, mean (absent: RMS norm) */
GPU_BODY void gpu_norm_gradient(const struct team *team, const struct gpu_work *work)
{
    const struct gpu_spot *dx = &work->spot[0], *dy = &work->spot[1], *x = &work->spot[2], *gain = &work->spot[3],
                          *rstd_in = &work->spot[4], *mean_in = &work->spot[5];
    const double n = (double)work->inner;
    TEAM_ROWS(row, work->outer)
    {
        int64_t dy_at = spot_outer(work, dy, row), x_at = spot_outer(work, x, row), dx_at = spot_outer(work, dx, row);
        double rstd = (double)spot_get(rstd_in, spot_outer(work, rstd_in, row)),
               mean = mean_in->data ? (double)spot_get(mean_in, spot_outer(work, mean_in, row)) : 0;
        double sum = 0, product = 0;
        TEAM_LINE(i, work->inner)
        {
            double g = (double)spot_get(dy, dy_at + spot_inner(work, dy, i)) *
                       (double)spot_get(gain, spot_inner(work, gain, i));
            sum += g;
            product += g * ((double)spot_get(x, x_at + spot_inner(work, x, i)) - mean);
        }
        sum = team_sum(team, sum);
        product = team_sum(team, product);
        real slope = (real)(product * rstd * rstd / n), shift = mean_in->data ? (real)(sum / n) : 0;
        TEAM_LINE(i, work->inner)
        {
            real g = spot_get(dy, dy_at + spot_inner(work, dy, i)) * spot_get(gain, spot_inner(work, gain, i));
            real away = spot_get(x, x_at + spot_inner(work, x, i)) - (real)mean;
            spot_put(dx, dx_at + spot_inner(work, dx, i), (real)rstd * (g - shift - away * slope));
        }
    }
}

/* spot 1 = largest of spot 0's first integer 0 elements, or of those and itself; -inf without any */
GPU_BODY void gpu_logit_max(const struct team *team, const struct gpu_work *work)
{
    const struct gpu_spot *in = &work->spot[0], *out = &work->spot[1];
    TEAM_ROWS(row, work->outer)
    {
        int64_t from = spot_outer(work, in, row), to = spot_outer(work, out, row);
        double best = -(double)INFINITY;
        TEAM_LINE(i, work->integer[0])
        {
            double x = (double)spot_get(in, from + spot_inner(work, in, i));
            best = x > best ? x : best;
        }
        best = team_max(team, best);
        if (team->thread == 0 && (out->begin || best > (double)spot_get(out, to)))
            spot_set(out, to, (real)best);
    }
}

/* spot 2 (+)= sum over the first integer 0 elements of exp(spot 0 - spot 1) */
GPU_BODY void gpu_sum_exp(const struct team *team, const struct gpu_work *work)
{
    const struct gpu_spot *in = &work->spot[0], *shift_in = &work->spot[1], *out = &work->spot[2];
    TEAM_ROWS(row, work->outer)
    {
        int64_t from = spot_outer(work, in, row);
        real shift = spot_get(shift_in, spot_outer(work, shift_in, row));
        double sum = 0;
        TEAM_LINE(i, work->integer[0])
        sum += (double)real_exp(spot_get(in, from + spot_inner(work, in, i)) - shift);
        sum = team_sum(team, sum);
        if (team->thread == 0)
            spot_put(out, spot_outer(work, out, row), (real)sum);
    }
}

/* spot 1 = largest of spot 0's first integer 0 elements, spot 2 = sum over them of exp(spot 0 - spot 1). Each is read
 * once: what a thread has summed is scaled when it meets a larger one (Milakov & Gimelshein 2018). */
GPU_BODY void gpu_max_sum_exp(const struct team *team, const struct gpu_work *work)
{
    const struct gpu_spot *in = &work->spot[0], *max_out = &work->spot[1], *sum_out = &work->spot[2];
    TEAM_ROWS(row, work->outer)
    {
        int64_t from = spot_outer(work, in, row);
        real most = -(real)INFINITY;
        double sum = 0;
        TEAM_LINE(i, work->integer[0])
        {
            real x = spot_get(in, from + spot_inner(work, in, i));
            if (x > most) {
                sum = sum * (double)real_exp(most - x) + 1;
                most = x;
            } else if (x != -(real)INFINITY) { /* NaN passes */
                sum += (double)real_exp(x - most);
            }
        }
        real best = (real)team_max(team, (double)most);
        sum = team_sum(team, sum == 0 ? 0 : sum * (double)real_exp(most - best));
        if (team->thread == 0) {
            spot_set(max_out, spot_outer(work, max_out, row), best);
            spot_set(sum_out, spot_outer(work, sum_out, row), (real)sum);
        }
    }
}

/* spot 3 (+)= exp(spot 0 - spot 1) * spot 2, and 0 from element integer 0 on */
GPU_BODY void gpu_sum_exp_gradient(const struct team *team, const struct gpu_work *work)
{
    const struct gpu_spot *in = &work->spot[0], *shift_in = &work->spot[1], *scale_in = &work->spot[2],
                          *dx = &work->spot[3];
    TEAM_ROWS(row, work->outer)
    {
        int64_t from = spot_outer(work, in, row), to = spot_outer(work, dx, row);
        real shift = spot_get(shift_in, spot_outer(work, shift_in, row)),
             scale = spot_get(scale_in, spot_outer(work, scale_in, row));
        TEAM_LINE(i, work->inner)
        {
            bool word = i < work->integer[0];
            real e = word ? real_exp(spot_get(in, from + spot_inner(work, in, i)) - shift) * scale : 0;
            spot_put(dx, to + spot_inner(work, dx, i), e);
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

/* One team: no outer loops. spot 5 (+)= sum over labels (spot 3) that are not -1 of log(spot 0) + spot 1 - spot 2, over
 * spot 4; 0 where the sum is */
GPU_BODY void gpu_nll(const struct team *team, const struct gpu_work *work)
{
    const struct gpu_spot *exps = &work->spot[0], *max = &work->spot[1], *picked = &work->spot[2],
                          *label = &work->spot[3], *targets = &work->spot[4], *out = &work->spot[5];
    double sum = 0;
    if (team->place > 0)
        return;
    TEAM_LINE(i, work->inner)
    {
        if (spot_index(label, spot_inner(work, label, i)) != -1)
            sum += (double)real_log(spot_get(exps, spot_inner(work, exps, i))) +
                   (double)spot_get(max, spot_inner(work, max, i)) -
                   (double)spot_get(picked, spot_inner(work, picked, i));
    }
    sum = team_sum(team, sum);
    if (team->thread == 0)
        spot_put(out, 0, sum == 0 ? 0 : (real)(sum / (double)spot_get(targets, 0)));
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
