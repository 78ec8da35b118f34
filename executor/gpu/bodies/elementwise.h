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

/* Calls body(..., type, i, width, count) for all elements, `count` times `width` of them at a time, the k-th at
 * element_of(): with the width and the type that the first `spots` spots allow. GPU_BF16 is of operands that lie in one
 * piece, too. */
#define GPU_ELEMENTS_OF(body, type, width, ...)                                                                        \
    do {                                                                                                               \
        const int64_t step = team->count * team->threads * (width);                                                    \
        int64_t at_element = (team->place * team->threads + team->thread) * (width);                                   \
        for (; at_element + step < work->outer; at_element += 2 * step)                                                \
            body(team, work, __VA_ARGS__, type, at_element, width, 2);                                                 \
        if (at_element < work->outer)                                                                                  \
            body(team, work, __VA_ARGS__, type, at_element, width, 1);                                                 \
    } while (0)
#define GPU_ELEMENTS(spots, body, ...)                                                                                 \
    do {                                                                                                               \
        if (!quads_fit(work, spots))                                                                                   \
            GPU_ELEMENTS_OF(body, GPU_ANY, 1, __VA_ARGS__);                                                            \
        else if (work->outer_loops == 1 && spots_type(work, (1u << (spots)) - 1) == GPU_BF16)                          \
            GPU_ELEMENTS_OF(body, GPU_BF16, GPU_QUAD, __VA_ARGS__);                                                    \
        else                                                                                                           \
            GPU_ELEMENTS_OF(body, GPU_ANY, GPU_QUAD, __VA_ARGS__);                                                     \
    } while (0)

/* Where a thread's k-th elements lie. */
GPU_BODY inline int64_t element_of(const struct team *team, const struct gpu_work *work, const struct gpu_spot *spot,
                                   int type, int64_t i, int k, int width)
{
    const int64_t index = i + k * team->count * team->threads * width;
    return type == GPU_BF16 ? index : spot_outer(work, spot, index);
}

GPU_BODY inline struct flight elements_get(const struct team *team, const struct gpu_work *work, int spot, int type,
                                           int64_t i, int width, int count)
{
    const struct gpu_spot *from = &work->spot[spot];
    struct flight out = { { { { 0 } } } };
    GPU_UNROLL
    for (int k = 0; k < GPU_FLIGHT; k++)
        if (k < count)
            out.quad[k] = typed_get(from, element_of(team, work, from, type, i, k, width), type, width);
    return out;
}

/* Overwrites or adds, as the spot says. */
GPU_BODY inline void elements_put(const struct team *team, const struct gpu_work *work, int spot, int type, int64_t i,
                                  int width, int count, const struct flight *value)
{
    const struct gpu_spot *to = &work->spot[spot];
    GPU_UNROLL
    for (int k = 0; k < GPU_FLIGHT; k++)
        if (k < count)
            typed_put(to, element_of(team, work, to, type, i, k, width), type, width, &value->quad[k]);
}

GPU_BODY inline void sum_terms(const struct team *team, const struct gpu_work *work, int terms, bool scaled, int type,
                               int64_t i, int width, int count)
{
    struct flight sum = elements_get(team, work, 1, type, i, width, count);
    if (scaled)
        for (int k = 0; k < count; k++)
            for (int j = 0; j < width; j++)
                sum.quad[k].x[j] *= (real)work->number[0];
    for (int term = 2; term <= terms; term++) {
        const struct flight more = elements_get(team, work, term, type, i, width, count);
        for (int k = 0; k < count; k++)
            for (int j = 0; j < width; j++)
                sum.quad[k].x[j] += scaled ? (real)work->number[1] * more.quad[k].x[j] : more.quad[k].x[j];
    }
    elements_put(team, work, 0, type, i, width, count, &sum);
}

/* spot 0 (+)= sum of spots 1 .. integer 0. integer 1: the first times number 0, the others times number 1 */
GPU_BODY void gpu_sum_terms(const struct team *team, const struct gpu_work *work)
{
    const int terms = (int)work->integer[0];
    if (work->integer[1])
        GPU_ELEMENTS(terms + 1, sum_terms, terms, true);
    else
        GPU_ELEMENTS(terms + 1, sum_terms, terms, false);
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

GPU_BODY inline real unary_of(int function, real x)
{
    switch (function) {
    case GPU_UNARY_GELU:
        return gelu(x);
    case GPU_UNARY_GELU_ERF:
        return gelu_erf(x);
    case GPU_UNARY_QUICK_GELU:
        return quick_gelu(x);
    case GPU_UNARY_SILU:
        return silu(x);
    case GPU_UNARY_SQUARED_RELU:
        return x > 0 ? x * x : 0;
    default:
        return x > 0 ? x : 0;
    }
}

GPU_BODY inline void unary(const struct team *team, const struct gpu_work *work, int function, int type, int64_t i,
                           int width, int count)
{
    struct flight x = elements_get(team, work, 1, type, i, width, count);
    for (int k = 0; k < count; k++)
        for (int j = 0; j < width; j++)
            x.quad[k].x[j] = unary_of(function, x.quad[k].x[j]);
    elements_put(team, work, 0, type, i, width, count, &x);
}

/* spot 0 = f(spot 1), f by integer 0 */
GPU_BODY void gpu_unary(const struct team *team, const struct gpu_work *work)
{
    if (work->integer[0] == GPU_UNARY_GELU)
        GPU_ELEMENTS(2, unary, GPU_UNARY_GELU);
    else
        GPU_ELEMENTS(2, unary, (int)work->integer[0]);
}

GPU_BODY inline real unary_slope_of(int function, real x)
{
    switch (function) {
    case GPU_UNARY_GELU:
        return gelu_slope(x);
    case GPU_UNARY_GELU_ERF:
        return gelu_erf_slope(x);
    case GPU_UNARY_QUICK_GELU:
        return quick_gelu_slope(x);
    case GPU_UNARY_SILU:
        return silu_slope(x);
    case GPU_UNARY_SQUARED_RELU:
        return x > 0 ? 2 * x : 0;
    default:
        return x > 0 ? 1 : 0;
    }
}

GPU_BODY inline void unary_gradient(const struct team *team, const struct gpu_work *work, int function, int type,
                                    int64_t i, int width, int count)
{
    struct flight x = elements_get(team, work, 1, type, i, width, count);
    const struct flight dy = elements_get(team, work, 2, type, i, width, count);
    for (int k = 0; k < count; k++)
        for (int j = 0; j < width; j++)
            x.quad[k].x[j] = dy.quad[k].x[j] * unary_slope_of(function, x.quad[k].x[j]);
    elements_put(team, work, 0, type, i, width, count, &x);
}

/* spot 0 (+)= spot 2 times f'(spot 1) */
GPU_BODY void gpu_unary_gradient(const struct team *team, const struct gpu_work *work)
{
    if (work->integer[0] == GPU_UNARY_GELU)
        GPU_ELEMENTS(3, unary_gradient, GPU_UNARY_GELU);
    else
        GPU_ELEMENTS(3, unary_gradient, (int)work->integer[0]);
}

GPU_BODY inline real gate_of(int function, real x)
{
    return function == GPU_GATE_SILU ? silu(x) : function == GPU_GATE_GELU ? gelu(x) : gelu_erf(x);
}

GPU_BODY inline real gate_slope_of(int function, real x)
{
    return function == GPU_GATE_SILU ? silu_slope(x) : function == GPU_GATE_GELU ? gelu_slope(x) : gelu_erf_slope(x);
}

GPU_BODY inline void gated(const struct team *team, const struct gpu_work *work, int function, int type, int64_t i,
                           int width, int count)
{
    const struct flight gate = elements_get(team, work, 1, type, i, width, count);
    struct flight up = elements_get(team, work, 2, type, i, width, count);
    for (int k = 0; k < count; k++)
        for (int j = 0; j < width; j++)
            up.quad[k].x[j] *= gate_of(function, gate.quad[k].x[j]);
    elements_put(team, work, 0, type, i, width, count, &up);
}

/* spot 0 = gate(spot 1) * spot 2; the gate by integer 0 */
GPU_BODY void gpu_gated(const struct team *team, const struct gpu_work *work)
{
    if (work->integer[0] == GPU_GATE_SILU)
        GPU_ELEMENTS(3, gated, GPU_GATE_SILU);
    else
        GPU_ELEMENTS(3, gated, (int)work->integer[0]);
}

GPU_BODY inline void gated_gradient(const struct team *team, const struct gpu_work *work, int function, int type,
                                    int64_t i, int width, int count)
{
    const struct flight gate = elements_get(team, work, 2, type, i, width, count),
                        up = elements_get(team, work, 3, type, i, width, count);
    struct flight dup = elements_get(team, work, 4, type, i, width, count), dgate;
    for (int k = 0; k < count; k++)
        for (int j = 0; j < width; j++) {
            const real x = gate.quad[k].x[j];
            dgate.quad[k].x[j] = dup.quad[k].x[j] * up.quad[k].x[j] * gate_slope_of(function, x);
            dup.quad[k].x[j] *= gate_of(function, x);
        }
    if (work->spot[0].data)
        elements_put(team, work, 0, type, i, width, count, &dgate);
    if (work->spot[1].data)
        elements_put(team, work, 1, type, i, width, count, &dup);
}

/* spot 0 (+)= gradient of the gate, spot 1 (+)= of what it lets through; either may be absent. spots 2, 3, 4: gate,
 * other, output's gradient */
GPU_BODY void gpu_gated_gradient(const struct team *team, const struct gpu_work *work)
{
    if (work->integer[0] == GPU_GATE_SILU)
        GPU_ELEMENTS(5, gated_gradient, GPU_GATE_SILU);
    else
        GPU_ELEMENTS(5, gated_gradient, (int)work->integer[0]);
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
GPU_BODY inline void turn_pairs(const struct gpu_work *work, int type, int width, int64_t out, int64_t in,
                                int64_t angles)
{
    const struct gpu_spot *angle = &work->spot[2];
    const int64_t half = work->integer[0];
    const struct real_quad x = line_get(work, &work->spot[1], in, 0, type, width),
                           y = line_get(work, &work->spot[1], in + half, 0, type, width);
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
    line_put(work, &work->spot[0], out, 0, type, width, &low);
    line_put(work, &work->spot[0], out + half, 0, type, width, &high);
}

/* A thread has `width` pairs at a time, or as many of the elements behind them. */
GPU_BODY inline void rotate(const struct team *team, const struct gpu_work *work, int type, int width)
{
    const int64_t half = work->integer[0], units = (work->inner - half) / width;
    TEAM_EACH(i, work->outer * units)
    {
        const int64_t vector = i / units, first = (i - vector * units) * width;
        int64_t at[3];
        spots_outer(work, 3, vector, at);
        if (first < half) {
            turn_pairs(work, type, width, at[0] + first, at[1] + first, at[2] + 2 * first);
        } else {
            const struct real_quad rest = line_get(work, &work->spot[1], at[1] + half + first, 0, type, width);
            line_put(work, &work->spot[0], at[0] + half + first, 0, type, width, &rest);
        }
    }
}

/* Outer: vectors, inner: their elements side by side. spot 0 (+)= spot 1, its first 2 * integer 0 elements turned by
 * the angles of spot 2 (cosine and sine of each pair), times number 0 for the sine */
GPU_BODY void gpu_rotate(const struct team *team, const struct gpu_work *work)
{
    if (!turns_fit(work))
        rotate(team, work, GPU_ANY, 1);
    else if (spots_type(work, 3) == GPU_BF16)
        rotate(team, work, GPU_BF16, GPU_QUAD);
    else
        rotate(team, work, GPU_ANY, GPU_QUAD);
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
