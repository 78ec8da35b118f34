/* Sums over the inner loops for each point of the outer ones, in an order that depends on nothing but the number of
 * threads: gradients are the same bits every time. */
#ifndef CLEAVE_EXECUTOR_GPU_BODIES_COLUMNS_H
#define CLEAVE_EXECUTOR_GPU_BODIES_COLUMNS_H
#include "executor/gpu/bodies/quads.h"

enum { COLUMN_FLIGHT = 8, GAIN_FLIGHT = 4 }; /* rows that a thread loads before it uses the first of them */

/* A team takes a block of lanes * wide neighbouring columns in one of `splits` shares of their rows: `lanes` threads
 * lie side by side, each with `wide` columns, and all others are behind them and take their part of the rows. */
struct column_share {
    int64_t low, column; /* the block's first column; this thread's, which may be behind the last that there is */
    int64_t split;       /* the share, */
    int64_t first, end;  /* and its rows from this thread's first one on */
    int64_t from[2];     /* where this thread's column begins in spots 1 and 2 */
};

GPU_BODY inline int column_lanes(const struct team *team)
{
    if (team->threads >= 2 * GPU_COLUMN_LANES)
        return GPU_COLUMN_LANES;
    return team->threads > 1 ? team->threads / 2 : 1;
}

GPU_BODY inline int column_lines(const struct team *team)
{
    return team->threads / column_lanes(team);
}

GPU_BODY inline int64_t column_splits(const struct gpu_work *work)
{
    return work->integer[0] > 1 ? work->integer[0] : 1;
}

GPU_BODY inline struct column_share column_share_of(const struct team *team, const struct gpu_work *work, int64_t unit,
                                                    int wide)
{
    struct column_share share;
    const int64_t splits = column_splits(work), block = unit / splits;
    const int lanes = column_lanes(team);
    int64_t at[3];
    share.low = block * lanes * wide, share.column = share.low + (int64_t)(team->thread % lanes) * wide;
    share.split = unit - block * splits;
    share.first = work->inner * share.split / splits + team->thread / lanes;
    share.end = work->inner * (share.split + 1) / splits;
    spots_outer(work, 3, share.column, at);
    share.from[0] = at[1], share.from[1] = at[2];
    return share;
}

#define TEAM_COLUMNS(unit, width, work)                                                                                \
    for (int64_t unit = team->place; unit < ((work)->outer + (width)-1) / (width)*column_splits(work);                 \
         unit += team->count)

/* Shows the team what each thread has of its columns. */
GPU_BODY inline void column_show(const struct team *team, const double *sum, int wide)
{
    double *own = (double *)(void *)team->shared;
    for (int j = 0; j < wide; j++)
        own[team->thread * wide + j] = sum[j];
    team_meet(team);
}

/* What all threads have of the i-th of the `width` columns, by threads in their order. */
GPU_BODY inline double column_total(const struct team *team, int wide, int width, int64_t i)
{
    const double *own = (const double *)(const void *)team->shared;
    double all = 0;
    for (int at = 0; at < team->threads * wide; at += width)
        all += own[at + i];
    return all;
}

/* Sums what the threads of each column have into the result; or into the parts, spot 5 (reals, by share and column),
 * which gpu_column_finish sums in the order of the shares. */
GPU_BODY inline void column_put(const struct team *team, const struct gpu_work *work, const struct column_share *share,
                                const double *sum, int wide)
{
    const struct gpu_spot *out = &work->spot[0];
    const int width = column_lanes(team) * wide;
    real *parts = column_splits(work) > 1 ? (real *)work->spot[GPU_COLUMN_PARTS].data : 0;
    column_show(team, sum, wide);
    TEAM_LINE(i, width)
    {
        const int64_t column = share->low + i;
        if (column >= work->outer)
            continue;
        const real all = (real)column_total(team, wide, width, i);
        if (parts)
            parts[share->split * work->outer + column] = all;
        else
            spot_put(out, spot_outer(work, out, column), all);
    }
    team_meet(team); /* before the next block overwrites it */
}

/* Adds the thread's rows, which lie in one loop, several at a time: behind the last one the first is read again, and
 * left out. */
GPU_BODY inline void column_rows(const struct team *team, const struct gpu_work *work, const struct column_share *share,
                                 int type, int wide, double *sum)
{
    const struct gpu_spot *in = &work->spot[1];
    const int64_t step = in->stride[work->outer_loops], from = share->from[0];
    const int lines = column_lines(team);
    for (int64_t i = share->first; i < share->end; i += lines * COLUMN_FLIGHT) {
        struct real_quad x[COLUMN_FLIGHT];
        for (int k = 0; k < COLUMN_FLIGHT; k++)
            x[k] = typed_get(in, from + (i + k * lines < share->end ? i + k * lines : i) * step, type, wide);
        for (int j = 0; j < wide; j++) {
            real part = 0;
            for (int k = 0; k < COLUMN_FLIGHT; k++)
                part += i + k * lines < share->end ? x[k].x[j] : 0;
            sum[j] += (double)part;
        }
    }
}

/* As above, wherever rows and columns lie. */
GPU_BODY inline void column_rows_anywhere(const struct team *team, const struct gpu_work *work,
                                          const struct column_share *share, double *sum)
{
    const struct gpu_spot *in = &work->spot[1];
    for (int64_t i = share->first; i < share->end; i += column_lines(team))
        *sum += (double)spot_get(in, share->from[0] + spot_inner(work, in, i));
}

GPU_BODY inline void column_sums(const struct team *team, const struct gpu_work *work, int wide)
{
    TEAM_COLUMNS(unit, (int64_t)column_lanes(team) * wide, work)
    {
        const struct column_share share = column_share_of(team, work, unit, wide);
        double sum[GPU_QUAD] = { 0 };
        if (share.column < work->outer) {
            if (wide == 1 && !work->integer[1])
                column_rows_anywhere(team, work, &share, sum);
            else if (work->spot[1].type == GPU_BF16)
                column_rows(team, work, &share, GPU_BF16, wide, sum);
            else
                column_rows(team, work, &share, GPU_REAL, wide, sum);
        }
        column_put(team, work, &share, sum, wide);
    }
}

/* spot 0 (+)= sum of spot 1. integer 0: shares of the rows, 0 or 1: no parts; integer 1: columns that a thread takes
 * side by side, GPU_QUAD or 1 where rows lie in one loop, else 0. shared: GPU_COLUMN_SHARED reals for each thread */
GPU_BODY void gpu_column_sum(const struct team *team, const struct gpu_work *work)
{
    if (work->integer[1] == GPU_QUAD)
        column_sums(team, work, GPU_QUAD);
    else
        column_sums(team, work, 1);
}

/* As column_rows(), of dy (x - mean) rstd. */
GPU_BODY inline void gain_rows(const struct team *team, const struct gpu_work *work, const struct column_share *share,
                               int type, int wide, double *sum)
{
    const struct gpu_spot *dy = &work->spot[1], *x = &work->spot[2], *rstd = &work->spot[3], *mean = &work->spot[4];
    const int inner = work->outer_loops, lines = column_lines(team);
    const int64_t dy_from = share->from[0], x_from = share->from[1];
    for (int64_t i = share->first; i < share->end; i += lines * GAIN_FLIGHT) {
        struct real_quad g[GAIN_FLIGHT], z[GAIN_FLIGHT];
        real scale[GAIN_FLIGHT], shift[GAIN_FLIGHT];
        for (int k = 0; k < GAIN_FLIGHT; k++) {
            const int64_t row = i + k * lines < share->end ? i + k * lines : i;
            g[k] = typed_get(dy, dy_from + row * dy->stride[inner], type, wide);
            z[k] = typed_get(x, x_from + row * x->stride[inner], type, wide);
            scale[k] = typed_get(rstd, row * rstd->stride[inner], GPU_REAL, 1).x[0];
            shift[k] = mean->data ? typed_get(mean, row * mean->stride[inner], GPU_REAL, 1).x[0] : 0;
        }
        for (int j = 0; j < wide; j++) {
            real part = 0;
            for (int k = 0; k < GAIN_FLIGHT; k++)
                part += i + k * lines < share->end ? g[k].x[j] * ((z[k].x[j] - shift[k]) * scale[k]) : 0;
            sum[j] += (double)part;
        }
    }
}

GPU_BODY inline void gain_rows_anywhere(const struct team *team, const struct gpu_work *work,
                                        const struct column_share *share, double *sum)
{
    const struct gpu_spot *dy = &work->spot[1], *x = &work->spot[2], *rstd = &work->spot[3], *mean = &work->spot[4];
    const int64_t dy_from = share->from[0], x_from = share->from[1];
    for (int64_t i = share->first; i < share->end; i += column_lines(team)) {
        double shift = mean->data ? (double)spot_get(mean, spot_inner(work, mean, i)) : 0;
        *sum += (double)spot_get(dy, dy_from + spot_inner(work, dy, i)) *
                ((double)spot_get(x, x_from + spot_inner(work, x, i)) - shift) *
                (double)spot_get(rstd, spot_inner(work, rstd, i));
    }
}

GPU_BODY inline void gain_sums(const struct team *team, const struct gpu_work *work, int wide)
{
    TEAM_COLUMNS(unit, (int64_t)column_lanes(team) * wide, work)
    {
        const struct column_share share = column_share_of(team, work, unit, wide);
        double sum[GPU_QUAD] = { 0 };
        if (share.column < work->outer) {
            if (wide == 1 && !work->integer[1])
                gain_rows_anywhere(team, work, &share, sum);
            else if (work->spot[1].type == GPU_BF16)
                gain_rows(team, work, &share, GPU_BF16, wide, sum);
            else
                gain_rows(team, work, &share, GPU_REAL, wide, sum);
        }
        column_put(team, work, &share, sum, wide);
    }
}

/* spot 0 (+)= sum of dy (x - mean) rstd; spots 1 .. 4: dy, x, rstd, mean (absent: 0). integers and shared as above;
 * where rows lie in one loop dy and x are of one type, rstd and mean are reals */
GPU_BODY void gpu_gain_gradient(const struct team *team, const struct gpu_work *work)
{
    if (work->integer[1] == GPU_QUAD)
        gain_sums(team, work, GPU_QUAD);
    else
        gain_sums(team, work, 1);
}

/* A team per few columns, since there are many parts: spot 0 (+)= sum of the integer 0 parts of spot 5. integer 2: of
 * how many results each part has the columns side by side, for spots from 0 on; 0: of one. shared as above */
GPU_BODY void gpu_column_finish(const struct team *team, const struct gpu_work *work)
{
    const real *parts = (const real *)work->spot[GPU_COLUMN_PARTS].data;
    const int64_t count = work->integer[0], columns = work->outer * (work->integer[2] > 1 ? work->integer[2] : 1);
    const int lanes = team->threads >= 2 * GPU_FINISH_LANES ? GPU_FINISH_LANES : 1, lines = team->threads / lanes;
    for (int64_t low = team->place * lanes; low < columns; low += team->count * lanes) {
        const int64_t column = low + team->thread % lanes;
        double sum = 0;
        for (int64_t i = team->thread / lanes; i < count && column < columns; i += lines * COLUMN_FLIGHT) {
            real x[COLUMN_FLIGHT];
            for (int k = 0; k < COLUMN_FLIGHT; k++)
                x[k] = parts[(i + k * lines < count ? i + k * lines : i) * columns + column];
            for (int k = 0; k < COLUMN_FLIGHT; k++)
                sum += i + k * lines < count ? (double)x[k] : 0;
        }
        column_show(team, &sum, 1);
        if (team->thread < lanes && column < columns) {
            const int64_t result = column / work->outer;
            const struct gpu_spot *out = &work->spot[result];
            spot_put(out, spot_outer(work, out, column - result * work->outer),
                     (real)column_total(team, 1, lanes, team->thread));
        }
        team_meet(team); /* before the next columns overwrite it */
    }
}

/* ---- the token table ---- */
/* A thread has `width` elements of a row at a time. */
GPU_BODY inline void embed(const struct team *team, const struct gpu_work *work, int type, int width)
{
    const int64_t units = work->inner / width;
    TEAM_EACH(i, work->outer * units)
    {
        const int64_t place = i / units, h = (i - place * units) * width;
        struct real_quad value = { { 0 } };
        int64_t at[2];
        spots_outer(work, 2, place, at);
        const int64_t row = spot_index(&work->spot[1], at[1]) - work->integer[0];
        if (row >= 0 && row < work->integer[1])
            value = line_get(work, &work->spot[2], row * work->integer[2], h, type, width);
        if (work->integer[3])
            for (int j = 0; j < width; j++)
                value.x[j] *= (real)work->number[0];
        line_put(work, &work->spot[0], at[0], h, type, width, &value);
    }
}

/* Outer: tokens, inner: hidden. spot 0 (+)= row spot 1 - integer 0 of spot 2, where that is among the first integer 1;
 * integer 2: stride of the rows; integer 3: times number 0 */
GPU_BODY void gpu_embed(const struct team *team, const struct gpu_work *work)
{
    const bool quads =
        work->inner % GPU_QUAD == 0 && work->integer[2] % GPU_QUAD == 0 && row_quads(work, 1 | 4, GPU_QUAD) == GPU_QUAD;
    if (quads && spots_type(work, 1 | 4) == GPU_BF16)
        embed(team, work, GPU_BF16, GPU_QUAD);
    else if (quads)
        embed(team, work, GPU_ANY, GPU_QUAD);
    else
        embed(team, work, GPU_ANY, 1);
}

/* The row of the table that a token names, where it is one of TEAM_ROWS; else -1. */
GPU_BODY inline int32_t named_row(const struct team *team, const struct gpu_work *work, int64_t place)
{
    const struct gpu_spot *token = &work->spot[2];
    int64_t row = spot_index(token, spot_outer(work, token, place)) - work->integer[0];
    bool here = row >= 0 && row < work->integer[1];
    return here && (uint32_t)row % (uint32_t)team->count == (uint32_t)team->place ? (int32_t)row : -1;
}

/* rows[i] (+)= dy from offsets[i] on, each row in the order of i. Neighbours of one row are summed before they are
 * written. A thread has the same columns in all rows, so none waits for another. */
GPU_BODY inline void add_named(const struct team *team, const struct gpu_work *work, const int32_t *rows,
                               const double *offsets, int64_t count)
{
    const struct gpu_spot *table = &work->spot[0], *dy = &work->spot[1];
    for (int64_t first = 0, end; first < count; first = end) {
        for (end = first + 1; end < count && rows[end] == rows[first];)
            end++;
        TEAM_LINE(h, work->inner)
        {
            const int64_t at = rows[first] * work->integer[2] + spot_inner(work, table, h);
            const int64_t from = spot_inner(work, dy, h);
            real sum = spot_get(table, at);
            const real scale = work->integer[3] ? (real)work->number[0] : 1;
            for (int64_t i = first; i < end; i++)
                sum += scale * spot_get(dy, (int64_t)offsets[i] + from);
            spot_set(table, at, sum);
        }
    }
}

/* A team has the rows TEAM_ROWS of the table. spot 0[row] (+)= sum of spot 1 over the tokens (spot 2) that name row
 * integer 0 + row; integers 1, 2: rows and their stride; integer 3: times number 0. Where no token names it, the row is
 * cleared if it begins. Each thread looks once through its tokens for those that name a row of the team, and knows then
 * from which place on they stand in the team's list; the list is made and added in parts of as many as there are
 * threads. shared: as many reals as threads, which hold the rows of a part; the reduction's have where its gradients
 * begin */
GPU_BODY void gpu_embed_gradient(const struct team *team, const struct gpu_work *work)
{
    const struct gpu_spot *table = &work->spot[0], *dy = &work->spot[1];
    int32_t *rows = (int32_t *)(void *)team->shared;
    int64_t own = 0, all;
    TEAM_LINE(place, work->outer) own += named_row(team, work, place) >= 0;
    int64_t at = team_before(team, own, &all), place = team->thread;
    const int64_t end = at + own;
    if (table->begin) {
        TEAM_ROWS(row, work->integer[1])
        {
            TEAM_LINE(h, work->inner) spot_set(table, row * work->integer[2] + spot_inner(work, table, h), 0);
        }
    }
    for (int64_t first = 0; first < all; first += team->threads) {
        const int64_t last = all < first + team->threads ? all : first + team->threads;
        for (; at < end && at < last; place += team->threads) {
            int32_t row = named_row(team, work, place);
            if (row < 0)
                continue;
            rows[at - first] = row;
            team->reduce[at - first] = (double)spot_outer(work, dy, place);
            at++;
        }
        team_meet(team);
        add_named(team, work, rows, team->reduce, last - first);
        team_meet(team);
    }
}
#endif
