/* One thread per element: outer loops over all, no inner ones, unless a function says otherwise. The commonest take
 * four elements at a time where operands allow it. */
#ifndef CLEAVE_EXECUTOR_GPU_BODIES_ELEMENTWISE_H
#define CLEAVE_EXECUTOR_GPU_BODIES_ELEMENTWISE_H
#include "executor/gpu/bodies/quads.h"

/* spot 0 = number 0 */
GPU_BODY void gpu_set(const struct team *team, const struct gpu_work *work)
{
    const struct gpu_spot *out = &work->spot[0];
    TEAM_EACH(i, work->outer)
    {
        spot_set(out, spot_outer(work, out, i), (real)work->number[0]);
    }
}

/* spot 0 (+)= sum of spots 1 .. integer 0 */
GPU_BODY void gpu_sum_terms(const struct team *team, const struct gpu_work *work)
{
    const struct gpu_spot *out = &work->spot[0];
    if (quads_fit(work, (int)work->integer[0] + 1)) {
        TEAM_QUADS(i, work->outer)
        {
            struct real_quad sum = quad_get(&work->spot[1], spot_outer(work, &work->spot[1], i));
            for (int term = 2; term <= (int)work->integer[0]; term++) {
                struct real_quad more = quad_get(&work->spot[term], spot_outer(work, &work->spot[term], i));
                for (int j = 0; j < GPU_QUAD; j++)
                    sum.x[j] += more.x[j];
            }
            quad_put(out, spot_outer(work, out, i), &sum);
        }
        return;
    }
    TEAM_EACH(i, work->outer)
    {
        real sum = spot_get(&work->spot[1], spot_outer(work, &work->spot[1], i));
        for (int term = 2; term <= (int)work->integer[0]; term++)
            sum += spot_get(&work->spot[term], spot_outer(work, &work->spot[term], i));
        spot_put(out, spot_outer(work, out, i), sum);
    }
}

/* spot 0 = the larger of it and spot 1 */
GPU_BODY void gpu_maximum(const struct team *team, const struct gpu_work *work)
{
    const struct gpu_spot *out = &work->spot[0], *in = &work->spot[1];
    TEAM_EACH(i, work->outer)
    {
        int64_t at = spot_outer(work, out, i);
        real x = spot_get(in, spot_outer(work, in, i));
        if (x > spot_get(out, at))
            spot_set(out, at, x);
    }
}

GPU_BODY inline real unary_of(int64_t function, real x)
{
    if (function == GPU_UNARY_GELU)
        return gelu(x);
    return function == GPU_UNARY_GELU_ERF ? gelu_erf(x) : x > 0 ? x : 0;
}

/* spot 0 = f(spot 1), f by integer 0 */
GPU_BODY void gpu_unary(const struct team *team, const struct gpu_work *work)
{
    const struct gpu_spot *out = &work->spot[0], *in = &work->spot[1];
    if (quads_fit(work, 2)) {
        TEAM_QUADS(i, work->outer)
        {
            struct real_quad x = quad_get(in, spot_outer(work, in, i));
            for (int j = 0; j < GPU_QUAD; j++)
                x.x[j] = unary_of(work->integer[0], x.x[j]);
            quad_put(out, spot_outer(work, out, i), &x);
        }
        return;
    }
    TEAM_EACH(i, work->outer)
    {
        spot_put(out, spot_outer(work, out, i), unary_of(work->integer[0], spot_get(in, spot_outer(work, in, i))));
    }
}

GPU_BODY inline real unary_slope_of(int64_t function, real x)
{
    if (function == GPU_UNARY_GELU)
        return gelu_slope(x);
    return function == GPU_UNARY_GELU_ERF ? gelu_erf_slope(x) : x > 0 ? 1 : 0;
}

/* spot 0 (+)= spot 2 times f'(spot 1) */
GPU_BODY void gpu_unary_gradient(const struct team *team, const struct gpu_work *work)
{
    const struct gpu_spot *dx = &work->spot[0], *in = &work->spot[1], *dy = &work->spot[2];
    if (quads_fit(work, 3)) {
        TEAM_QUADS(i, work->outer)
        {
            struct real_quad x = quad_get(in, spot_outer(work, in, i)), y = quad_get(dy, spot_outer(work, dy, i));
            for (int j = 0; j < GPU_QUAD; j++)
                x.x[j] = y.x[j] * unary_slope_of(work->integer[0], x.x[j]);
            quad_put(dx, spot_outer(work, dx, i), &x);
        }
        return;
    }
    TEAM_EACH(i, work->outer)
    {
        real slope = unary_slope_of(work->integer[0], spot_get(in, spot_outer(work, in, i)));
        spot_put(dx, spot_outer(work, dx, i), spot_get(dy, spot_outer(work, dy, i)) * slope);
    }
}

/* spot 0 = gate(spot 1) * spot 2; integer 0: the gate is silu, else gelu */
GPU_BODY void gpu_gated(const struct team *team, const struct gpu_work *work)
{
    const struct gpu_spot *out = &work->spot[0], *gate = &work->spot[1], *up = &work->spot[2];
    if (quads_fit(work, 3)) {
        TEAM_QUADS(i, work->outer)
        {
            struct real_quad x = quad_get(gate, spot_outer(work, gate, i)), y = quad_get(up, spot_outer(work, up, i));
            for (int j = 0; j < GPU_QUAD; j++)
                y.x[j] = (work->integer[0] ? silu(x.x[j]) : gelu(x.x[j])) * y.x[j];
            quad_put(out, spot_outer(work, out, i), &y);
        }
        return;
    }
    TEAM_EACH(i, work->outer)
    {
        real x = spot_get(gate, spot_outer(work, gate, i));
        real open = work->integer[0] ? silu(x) : gelu(x);
        spot_put(out, spot_outer(work, out, i), open * spot_get(up, spot_outer(work, up, i)));
    }
}

/* spot 0 (+)= gradient of the gate, spot 1 (+)= of what it lets through; either may be absent. spots 2, 3, 4: gate,
 * other, output's gradient */
GPU_BODY void gpu_gated_gradient(const struct team *team, const struct gpu_work *work)
{
    const struct gpu_spot *dgate = &work->spot[0], *dup = &work->spot[1], *gate = &work->spot[2], *up = &work->spot[3],
                          *out = &work->spot[4];
    if (quads_fit(work, 5)) {
        TEAM_QUADS(i, work->outer)
        {
            struct real_quad x = quad_get(gate, spot_outer(work, gate, i)), y = quad_get(up, spot_outer(work, up, i)),
                             dy = quad_get(out, spot_outer(work, out, i)), dx;
            for (int j = 0; j < GPU_QUAD; j++) {
                dx.x[j] = dy.x[j] * y.x[j] * (work->integer[0] ? silu_slope(x.x[j]) : gelu_slope(x.x[j]));
                dy.x[j] *= work->integer[0] ? silu(x.x[j]) : gelu(x.x[j]);
            }
            if (dgate->data)
                quad_put(dgate, spot_outer(work, dgate, i), &dx);
            if (dup->data)
                quad_put(dup, spot_outer(work, dup, i), &dy);
        }
        return;
    }
    TEAM_EACH(i, work->outer)
    {
        real x = spot_get(gate, spot_outer(work, gate, i)), dy = spot_get(out, spot_outer(work, out, i));
        real slope = work->integer[0] ? silu_slope(x) : gelu_slope(x), open = work->integer[0] ? silu(x) : gelu(x);
        real other = spot_get(up, spot_outer(work, up, i));
        if (dgate->data)
            spot_put(dgate, spot_outer(work, dgate, i), dy * other * slope);
        if (dup->data)
            spot_put(dup, spot_outer(work, dup, i), dy * open);
    }
}

/* Tells whether pairs are turned four at a time: vectors of whole quads, and so are their halves and angles. */
GPU_BODY inline bool turns_fit(const struct gpu_work *work)
{
    const struct gpu_spot *angle = &work->spot[2];
    bool fits = quad_fits(angle) && work->integer[0] % GPU_QUAD == 0 && work->inner % GPU_QUAD == 0 &&
                row_quads(work, 3, GPU_QUAD) == GPU_QUAD;
    for (int loop = 0; loop < work->outer_loops; loop++)
        fits = fits && angle->stride[loop] % GPU_QUAD == 0;
    return fits;
}

/* Turns `width` pairs: low (x) and high (y) elements from `in` on to those from `out` on. */
GPU_BODY inline void turn_pairs(const struct gpu_work *work, int width, int64_t out, int64_t in, int64_t angles)
{
    const struct gpu_spot *angle = &work->spot[2];
    const int64_t half = work->integer[0];
    const struct real_quad x = line_get(work, &work->spot[1], in, 0, width),
                           y = line_get(work, &work->spot[1], in + half, 0, width);
    struct real_quad turn[2], low, high; /* turn: cosine and sine of each pair */
    if (width == GPU_QUAD) {
        turn[0] = quad_get(angle, angles), turn[1] = quad_get(angle, angles + GPU_QUAD);
    } else {
        turn[0].x[0] = spot_get(angle, angles), turn[0].x[1] = spot_get(angle, angles + 1);
    }
    for (int j = 0; j < width; j++) {
        const real c = turn[j / 2].x[2 * (j % 2)], s = (real)work->number[0] * turn[j / 2].x[2 * (j % 2) + 1];
        low.x[j] = x.x[j] * c - y.x[j] * s;
        high.x[j] = y.x[j] * c + x.x[j] * s;
    }
    line_put(work, &work->spot[0], out, 0, width, &low);
    line_put(work, &work->spot[0], out + half, 0, width, &high);
}

/* A thread has `width` pairs at a time, or as many of the elements behind them. */
GPU_BODY inline void rotate(const struct team *team, const struct gpu_work *work, int width)
{
    const int64_t half = work->integer[0], units = (work->inner - half) / width;
    TEAM_EACH(i, work->outer * units)
    {
        const int64_t vector = i / units, first = (i - vector * units) * width;
        int64_t at[3];
        spots_outer(work, 3, vector, at);
        if (first < half) {
            turn_pairs(work, width, at[0] + first, at[1] + first, at[2] + 2 * first);
        } else {
            const struct real_quad rest = line_get(work, &work->spot[1], at[1] + half + first, 0, width);
            line_put(work, &work->spot[0], at[0] + half + first, 0, width, &rest);
        }
    }
}

/* Outer: vectors, inner: their elements side by side. spot 0 (+)= spot 1, its first 2 * integer 0 elements turned by
 * the angles of spot 2 (cosine and sine of each pair), times number 0 for the sine */
GPU_BODY void gpu_rotate(const struct team *team, const struct gpu_work *work)
{
    if (turns_fit(work))
        rotate(team, work, GPU_QUAD);
    else
        rotate(team, work, 1);
}

/* spot 0 (+)= number 0 * sum over integer 0 terms of spot 1 and spot 2, whose strides along the sum are integers 1 and
 * 2: a matrix product of any strides, outer loops over rows and columns */
GPU_BODY void gpu_product(const struct team *team, const struct gpu_work *work)
{
    const struct gpu_spot *out = &work->spot[0], *a = &work->spot[1], *b = &work->spot[2];
    TEAM_EACH(i, work->outer)
    {
        int64_t a_at = spot_outer(work, a, i), b_at = spot_outer(work, b, i);
        real sum = 0;
        for (int64_t k = 0; k < work->integer[0]; k++)
            sum += spot_get(a, a_at + k * work->integer[1]) * spot_get(b, b_at + k * work->integer[2]);
        spot_put(out, spot_outer(work, out, i), (real)work->number[0] * sum);
    }
}

#endif
