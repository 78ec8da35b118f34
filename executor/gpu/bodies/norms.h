/* Norms, a row for each team: outer loops over rows, inner ones along the row. A team is a warp where there are warps,
 * so that its sums need no barrier and many rows are under way; each thread loads several quads before it uses the
 * first. Sums are taken in double, those of what is loaded at once in real. */
#ifndef CLEAVE_EXECUTOR_GPU_BODIES_NORMS_H
#define CLEAVE_EXECUTOR_GPU_BODIES_NORMS_H
#include "executor/gpu/bodies/quads.h"

/* Spots from NORM_MORE on are what a residual sum adds, or hands its gradient on to. */
enum { NORM_MORE = 6, NORM_MOST = GPU_SPOTS - NORM_MORE };

/* The type, the width and the count are constants wherever this is called. */
GPU_BODY inline struct flight norm_load(const struct team *team, const struct gpu_work *work, int spot, int64_t at,
                                        int64_t i, int type, int width, int count)
{
    return flight_get(work, &work->spot[spot], at, i, team->threads * width, type, width, count);
}

/* Calls body(..., i, width, count) for all elements of a row that are the thread's: first the `whole` ones, as quads,
 * several at once. */
#define NORM_EACH(body, whole, ...)                                                                                    \
    do {                                                                                                               \
        const int64_t quads_step = (int64_t)team->threads * GPU_QUAD;                                                  \
        int64_t at_element = (int64_t)team->thread * GPU_QUAD;                                                         \
        for (; at_element + 3 * quads_step < (whole); at_element += 4 * quads_step)                                    \
            body(team, work, __VA_ARGS__, at_element, GPU_QUAD, 4);                                                    \
        for (; at_element + quads_step < (whole); at_element += 2 * quads_step)                                        \
            body(team, work, __VA_ARGS__, at_element, GPU_QUAD, 2);                                                    \
        if (at_element < (whole))                                                                                      \
            body(team, work, __VA_ARGS__, at_element, GPU_QUAD, 1);                                                    \
        for (at_element = (whole) + team->thread; at_element < work->inner; at_element += team->threads)               \
            body(team, work, __VA_ARGS__, at_element, 1, 1);                                                           \
    } while (0)

/* What a written element then is. */
GPU_BODY inline real norm_rounded(const struct gpu_spot *spot, int type, real value)
{
    return spot_typed(spot, type).type == GPU_BF16 ? real_of_bf16(bf16_of_real(value)) : value;
}

/* A row of gpu_norm and gpu_add_norm: where each spot's begins, and what is known of it. */
struct norm_row {
    int64_t at[GPU_SPOTS];
    real mean, rstd, slope, shift;
};

/* Adds elements of spot 1 as it is, or, with terms, made of these. */
GPU_BODY inline void norm_summed(const struct team *team, const struct gpu_work *work, const struct norm_row *row,
                                 int terms, int type, double *sum, int64_t i, int width, int count)
{
    const struct gpu_spot *out = &work->spot[1];
    const int first = terms > 0 ? NORM_MORE : 1;
    struct flight x = norm_load(team, work, first, terms > 0 ? row->at[NORM_MORE] : row->at[1], i, type, width, count);
    real part = 0;
    GPU_UNROLL
    for (int term = 1; term < NORM_MOST; term++) {
        if (term >= terms)
            continue;
        const struct flight y =
            norm_load(team, work, NORM_MORE + term, row->at[NORM_MORE + term], i, type, width, count);
        for (int k = 0; k < count; k++)
            for (int j = 0; j < width; j++)
                x.quad[k].x[j] += y.quad[k].x[j];
    }
    for (int k = 0; k < count; k++) {
        if (terms > 0)
            line_set(work, out, row->at[1], i + k * team->threads * width, type, width, &x.quad[k]);
        for (int j = 0; j < width; j++)
            part += terms > 0 ? norm_rounded(out, type, x.quad[k].x[j]) : x.quad[k].x[j];
    }
    *sum += (double)part;
}

GPU_BODY inline void norm_squares(const struct team *team, const struct gpu_work *work, const struct norm_row *row,
                                  int type, double *sum, int64_t i, int width, int count)
{
    const struct flight x = norm_load(team, work, 1, row->at[1], i, type, width, count);
    real part = 0;
    for (int k = 0; k < count; k++)
        for (int j = 0; j < width; j++)
            part += (x.quad[k].x[j] - row->mean) * (x.quad[k].x[j] - row->mean);
    *sum += (double)part;
}

GPU_BODY inline void norm_normed(const struct team *team, const struct gpu_work *work, const struct norm_row *row,
                                 int type, int64_t i, int width, int count)
{
    struct flight x = norm_load(team, work, 1, row->at[1], i, type, width, count), b,
                  g = norm_load(team, work, 2, 0, i, type, width, count);
    if (work->spot[3].data)
        b = norm_load(team, work, 3, 0, i, type, width, count);
    for (int k = 0; k < count; k++) {
        for (int j = 0; j < width; j++)
            x.quad[k].x[j] =
                (x.quad[k].x[j] - row->mean) * row->rstd * g.quad[k].x[j] + (work->spot[3].data ? b.quad[k].x[j] : 0);
        line_put(work, &work->spot[0], row->at[0], i + k * team->threads * width, type, width, &x.quad[k]);
    }
}

/* The rows of gpu_norm; with terms, those of gpu_add_norm. whole: the elements of a row that are taken as quads. */
GPU_BODY inline void norm_rows(const struct team *team, const struct gpu_work *work, int terms, int64_t whole, int type)
{
    const double n = (double)work->inner;
    TEAM_ROWS(number, work->outer)
    {
        struct norm_row row;
        double sum = 0, square = 0;
        spots_outer(work, GPU_SPOTS, number, row.at);
        row.mean = 0;
        if (work->integer[0] || terms > 0)
            NORM_EACH(norm_summed, whole, &row, terms, type, &sum);
        if (work->integer[0])
            row.mean = (real)(team_sum(team, sum) / n);
        NORM_EACH(norm_squares, whole, &row, type, &square);
        row.rstd = (real)(1 / sqrt(team_sum(team, square) / n + work->number[0]));
        NORM_EACH(norm_normed, whole, &row, type);
        if (team->thread == 0) {
            if (work->spot[4].data)
                spot_set(&work->spot[4], row.at[4], row.mean);
            spot_set(&work->spot[5], row.at[5], row.rstd);
        }
    }
}

GPU_BODY inline void norm_rows_of_type(const struct team *team, const struct gpu_work *work, int terms)
{
    const unsigned mask = 0xf | ((1u << terms) - 1) << NORM_MORE;
    const int64_t whole = row_quads(work, mask, work->inner);
    if (spots_type(work, mask) == GPU_BF16)
        norm_rows(team, work, terms, whole, GPU_BF16);
    else
        norm_rows(team, work, terms, whole, GPU_ANY);
}

/* Spot 0 = (spot 1 - mean) * rstd * spot 2 + spot 3; spots 4, 5 = mean, rstd. integer 0: layer norm; else RMS norm,
 * which has no mean and no spots 3 and 4. number 0: epsilon */
GPU_BODY void gpu_norm(const struct team *team, const struct gpu_work *work)
{
    norm_rows_of_type(team, work, 0);
}

/* Does what gpu_norm does with a spot 1 that it makes before: the sum of spots 6 .. 5 + integer 1. Spot 0 may lie where
 * one of these does, element by element: a row is written when all of it has been read. */
GPU_BODY void gpu_add_norm(const struct team *team, const struct gpu_work *work)
{
    norm_rows_of_type(team, work, (int)work->integer[1]);
}

GPU_BODY inline void norm_products(const struct team *team, const struct gpu_work *work, const struct norm_row *row,
                                   int type, double *sum, double *product, int64_t i, int width, int count)
{
    const struct flight dy = norm_load(team, work, 1, row->at[1], i, type, width, count),
                        x = norm_load(team, work, 2, row->at[2], i, type, width, count),
                        gain = norm_load(team, work, 3, 0, i, type, width, count);
    real g_part = 0, product_part = 0;
    for (int k = 0; k < count; k++)
        for (int j = 0; j < width; j++) {
            const real g = dy.quad[k].x[j] * gain.quad[k].x[j];
            g_part += g;
            product_part += g * (x.quad[k].x[j] - row->mean);
        }
    *sum += (double)g_part, *product += (double)product_part;
}

/* What a team sums of the gradients of gain and bias lies in its fast memory, a row of so many reals for each. */
GPU_BODY inline int64_t norm_sums_row(const struct gpu_work *work)
{
    return (work->inner + GPU_QUAD - 1) / GPU_QUAD * GPU_QUAD;
}

GPU_BODY inline void norm_sums_add(real *to, int width, const struct real_quad *value)
{
    if (width == GPU_QUAD) {
        struct real_quad sum = *(const struct real_quad *)(const void *)to;
        for (int j = 0; j < GPU_QUAD; j++)
            sum.x[j] += value->x[j];
        *(struct real_quad *)(void *)to = sum;
    } else {
        *to += value->x[0];
    }
}

/* One quad, or element, of dx from those of dy, x and gain, and what stood there, unless it begins. passes: how many
 * operands from NORM_MORE on the gradient goes on to. sums: 0, or 1 with the gain's gradient, or 2 with the bias's,
 * too; then integers 2 and 3 mean what they do for gpu_add_norm_gradients. */
GPU_BODY inline void norm_slope(const struct gpu_work *work, real *shared, const struct norm_row *row, int passes,
                                int sums, int64_t place, int type, int width, const struct real_quad *dy,
                                const struct real_quad *x, const struct real_quad *gain, const struct real_quad *old)
{
    const bool sums_passed = passes > 0 && sums > 0 && work->integer[2],
               keeps = !(passes > 0 && sums > 0 && work->integer[3]);
    struct real_quad dx;
    if (sums > 0) {
        struct real_quad part;
        for (int j = 0; j < width; j++)
            part.x[j] = dy->x[j] * ((x->x[j] - row->mean) * row->rstd);
        norm_sums_add(shared + place, width, &part);
    }
    if (sums > 1)
        norm_sums_add(shared + norm_sums_row(work) + place, width, dy);
    for (int j = 0; j < width; j++) {
        dx.x[j] = row->rstd * (dy->x[j] * gain->x[j] - row->shift - (x->x[j] - row->mean) * row->slope);
        if (!work->spot[0].begin)
            dx.x[j] += old->x[j];
    }
    if (keeps)
        line_set(work, &work->spot[0], row->at[0], place, type, width, &dx);
    if (passes > 0)
        for (int j = 0; j < width; j++)
            dx.x[j] = norm_rounded(&work->spot[0], type, dx.x[j]);
    if (sums_passed)
        norm_sums_add(shared + sums * norm_sums_row(work) + place, width, &dx);
    GPU_UNROLL
    for (int pass = 0; pass < NORM_MOST; pass++)
        if (pass < passes)
            line_put(work, &work->spot[NORM_MORE + pass], row->at[NORM_MORE + pass], place, type, width, &dx);
}

GPU_BODY inline void norm_slopes(const struct team *team, const struct gpu_work *work, const struct norm_row *row,
                                 int passes, int sums, int type, int64_t i, int width, int count)
{
    const struct flight dy = norm_load(team, work, 1, row->at[1], i, type, width, count),
                        gain = norm_load(team, work, 3, 0, i, type, width, count),
                        x = norm_load(team, work, 2, row->at[2], i, type, width, count);
    struct flight old;
    if (!work->spot[0].begin)
        old = norm_load(team, work, 0, row->at[0], i, type, width, count);
    for (int k = 0; k < count; k++)
        norm_slope(work, team->shared, row, passes, sums, i + k * team->threads * width, type, width, &dy.quad[k],
                   &x.quad[k], &gain.quad[k], &old.quad[k]);
}

GPU_BODY inline void norm_gradient_rows(const struct team *team, const struct gpu_work *work, int passes, int sums,
                                        int64_t whole, int type)
{
    const double n = (double)work->inner;
    TEAM_ROWS(number, work->outer)
    {
        struct norm_row row;
        double sum = 0, product = 0;
        spots_outer(work, GPU_SPOTS, number, row.at);
        row.rstd = spot_get(&work->spot[4], row.at[4]);
        row.mean = work->spot[5].data ? spot_get(&work->spot[5], row.at[5]) : 0;
        NORM_EACH(norm_products, whole, &row, type, &sum, &product);
        sum = team_sum(team, sum);
        product = team_sum(team, product);
        row.slope = (real)(product * (double)row.rstd * (double)row.rstd / n);
        row.shift = work->spot[5].data ? (real)(sum / n) : 0;
        NORM_EACH(norm_slopes, whole, &row, passes, sums, type);
    }
}

GPU_BODY inline void norm_gradient_rows_of_type(const struct team *team, const struct gpu_work *work, int passes,
                                                int sums)
{
    const unsigned mask = 0xf | ((1u << passes) - 1) << NORM_MORE;
    const int64_t whole = row_quads(work, mask, work->inner);
    if (spots_type(work, mask) == GPU_BF16)
        norm_gradient_rows(team, work, passes, sums, whole, GPU_BF16);
    else
        norm_gradient_rows(team, work, passes, sums, whole, GPU_ANY);
}

/* With z = (x - mean) rstd and g = dy gain: dx = rstd (g - average(g) - z average(g z)); RMS norm has no average(g) and
 * mean 0. spots: dx, dy, x, gain, rstd, mean (absent: RMS norm) */
GPU_BODY void gpu_norm_gradient(const struct team *team, const struct gpu_work *work)
{
    norm_gradient_rows_of_type(team, work, 0, 0);
}

/* Does what gpu_norm_gradient does; what dx then is goes on to spots 6 .. 5 + integer 0, as they say. These may lie
 * where dy or x does, element by element: a thread has read its own, and sums over the row are made before. */
GPU_BODY void gpu_add_norm_gradient(const struct team *team, const struct gpu_work *work)
{
    norm_gradient_rows_of_type(team, work, (int)work->integer[0], 0);
}

GPU_BODY inline void norm_gradients(const struct team *team, const struct gpu_work *work, int passes)
{
    const int sums = work->integer[1] > 1 ? 2 : 1, rows = sums + (passes > 0 && work->integer[2]);
    real *parts = (real *)work->spot[GPU_NORM_PARTS].data + team->place * rows * work->inner;
    TEAM_LINE(i, rows * norm_sums_row(work)) team->shared[i] = 0;
    team_meet(team);
    norm_gradient_rows_of_type(team, work, passes, sums);
    team_meet(team);
    for (int row = 0; row < rows; row++)
        TEAM_LINE(i, work->inner)
    parts[row * work->inner + i] = team->shared[row * norm_sums_row(work) + i];
}

/* Does what gpu_norm_gradient does, and sums what the team's rows give for the gradients of the gain and, where integer
 * 1 is 2, of the bias: into parts, spot GPU_NORM_PARTS (reals, by team, gain, bias), for gpu_column_finish. A thread
 * has the same columns of all rows. shared: as many reals as a row has, in whole quads, for each of these */
GPU_BODY void gpu_norm_gradients(const struct team *team, const struct gpu_work *work)
{
    norm_gradients(team, work, 0);
}

/* As gpu_norm_gradients, of gpu_add_norm_gradient. integer 2: what goes on is summed, too, behind the others: the
 * gradient of the residual sum's own bias. integer 3: nobody reads dx itself, which is not written then. */
GPU_BODY void gpu_add_norm_gradients(const struct team *team, const struct gpu_work *work)
{
    norm_gradients(team, work, (int)work->integer[0]);
}
#endif
