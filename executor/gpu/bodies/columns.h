/* Sums over the inner loops for each point of the outer ones, in an order that depends on nothing but the number of
 * threads: gradients are the same bits every time. */
#ifndef CLEAVE_EXECUTOR_GPU_BODIES_COLUMNS_H
#define CLEAVE_EXECUTOR_GPU_BODIES_COLUMNS_H
#include "executor/gpu/bodies/quads.h"

/* A team takes `width` neighbouring columns, each by threads / width threads that share its rows. */
GPU_BODY inline int column_width(const struct team *team)
{
    if (team->threads >= 2 * GPU_COLUMN_WIDTH)
        return GPU_COLUMN_WIDTH;
    return team->threads > 1 ? team->threads / 2 : 1;
}

/* What the threads of each column have, summed; the first one of each column gets the sum. */
GPU_BODY inline double column_sum(const struct team *team, int width, double value)
{
    team->reduce[team->thread] = value;
    team_meet(team);
    for (int half = team->threads / 2; half >= width; half /= 2) {
        if (team->thread < half)
            team->reduce[team->thread] += team->reduce[team->thread + half];
        team_meet(team);
    }
    double sum = team->reduce[team->thread % width];
    team_meet(team);
    return sum;
}

/* A team takes a block of columns in one of `splits` shares of their rows. */
struct column_share {
    int64_t low, split, first, end; /* columns from low on, rows [first, end) */
};

GPU_BODY inline int64_t column_splits(const struct gpu_work *work)
{
    return work->integer[0] > 1 ? work->integer[0] : 1;
}

GPU_BODY inline struct column_share column_share_of(const struct gpu_work *work, int width, int64_t unit)
{
    struct column_share share;
    const int64_t splits = column_splits(work);
    share.low = unit / splits * width, share.split = unit % splits;
    share.first = work->inner * share.split / splits, share.end = work->inner * (share.split + 1) / splits;
    return share;
}

#define TEAM_COLUMNS(unit, width, work)                                                                                \
    for (int64_t unit = team->place; unit < ((work)->outer + (width)-1) / (width)*column_splits(work);                 \
         unit += team->count)

/* The sum of a column's share: into the result, or to the parts, spot 5 (doubles, by share and column), which
 * gpu_column_finish sums in the order of the shares. */
GPU_BODY inline void column_put(const struct gpu_work *work, const struct column_share *share, int64_t column,
                                double sum)
{
    const struct gpu_spot *out = &work->spot[0];
    if (column_splits(work) > 1)
        ((double *)work->spot[5].data)[share->split * work->outer + column] = sum;
    else
        spot_put(out, spot_outer(work, out, column), (real)sum);
}

/* spot 0 (+)= sum of spot 1. integer 0: shares of the rows, 0 or 1: no parts */
GPU_BODY void gpu_column_sum(const struct team *team, const struct gpu_work *work)
{
    const struct gpu_spot *in = &work->spot[1];
    const int width = column_width(team), rows = team->threads / width;
    TEAM_COLUMNS(unit, width, work)
    {
        const struct column_share share = column_share_of(work, width, unit);
        int64_t column = share.low + team->thread % width;
        double sum = 0;
        if (column < work->outer) {
            int64_t from = spot_outer(work, in, column);
            for (int64_t i = share.first + team->thread / width; i < share.end; i += rows)
                sum += (double)spot_get(in, from + spot_inner(work, in, i));
        }
        sum = column_sum(team, width, sum);
        if (team->thread < width && column < work->outer)
            column_put(work, &share, column, sum);
    }
}

/* spot 0 (+)= sum of dy (x - mean) rstd; spots 1 .. 4: dy, x, rstd, mean (absent: 0). integer 0 as above */
GPU_BODY void gpu_gain_gradient(const struct team *team, const struct gpu_work *work)
{
    const struct gpu_spot *dy = &work->spot[1], *x = &work->spot[2], *rstd = &work->spot[3], *mean = &work->spot[4];
    const int width = column_width(team), rows = team->threads / width;
    TEAM_COLUMNS(unit, width, work)
    {
        const struct column_share share = column_share_of(work, width, unit);
        int64_t column = share.low + team->thread % width;
        double sum = 0;
        if (column < work->outer) {
            int64_t dy_at = spot_outer(work, dy, column), x_at = spot_outer(work, x, column);
            for (int64_t i = share.first + team->thread / width; i < share.end; i += rows) {
                double shift = mean->data ? (double)spot_get(mean, spot_inner(work, mean, i)) : 0;
                sum += (double)spot_get(dy, dy_at + spot_inner(work, dy, i)) *
                       ((double)spot_get(x, x_at + spot_inner(work, x, i)) - shift) *
                       (double)spot_get(rstd, spot_inner(work, rstd, i));
            }
        }
        sum = column_sum(team, width, sum);
        if (team->thread < width && column < work->outer)
            column_put(work, &share, column, sum);
    }
}

/* A thread per column: spot 0 (+)= sum of the integer 0 parts of spot 5 */
GPU_BODY void gpu_column_finish(const struct team *team, const struct gpu_work *work)
{
    const struct gpu_spot *out = &work->spot[0];
    const double *parts = (const double *)work->spot[5].data;
    TEAM_EACH(column, work->outer)
    {
        double sum = 0;
        for (int64_t split = 0; split < work->integer[0]; split++)
            sum += parts[split * work->outer + column];
        spot_put(out, spot_outer(work, out, column), (real)sum);
    }
}

/* spot 1[place] (doubles) = sum of squares of this team's share of the integer 0 elements of spot 0 */
GPU_BODY void gpu_square_parts(const struct team *team, const struct gpu_work *work)
{
    double sum = 0;
    TEAM_EACH(i, work->integer[0])
    {
        double x = (double)spot_get(&work->spot[0], i);
        sum += x * x;
    }
    sum = team_sum(team, sum);
    if (team->thread == 0)
        ((double *)work->spot[1].data)[team->place] = sum;
}

/* One team: spot 0 += the integer 0 doubles of spot 1 */
GPU_BODY void gpu_square_sum(const struct team *team, const struct gpu_work *work)
{
    double sum = 0;
    if (team->place > 0)
        return;
    TEAM_LINE(i, work->integer[0]) sum += ((const double *)work->spot[1].data)[i];
    sum = team_sum(team, sum);
    if (team->thread == 0)
        spot_set(&work->spot[0], 0, spot_get(&work->spot[0], 0) + (real)sum);
}

/* ---- the token table ---- */
/* A thread has `width` elements of a row at a time. */
GPU_BODY inline void embed(const struct team *team, const struct gpu_work *work, int width)
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
            value = line_get(work, &work->spot[2], row * work->integer[2], h, width);
        line_put(work, &work->spot[0], at[0], h, width, &value);
    }
}

/* Outer: tokens, inner: hidden. spot 0 (+)= row spot 1 - integer 0 of spot 2, where that is among the first integer 1;
 * integer 2: stride of the rows */
GPU_BODY void gpu_embed(const struct team *team, const struct gpu_work *work)
{
    const bool quads =
        work->inner % GPU_QUAD == 0 && work->integer[2] % GPU_QUAD == 0 && row_quads(work, 1 | 4, GPU_QUAD) == GPU_QUAD;
    if (quads)
        embed(team, work, GPU_QUAD);
    else
        embed(team, work, 1);
}

/* What the threads before this one have, summed; *all: what all of them have. Whole numbers. */
GPU_BODY inline int64_t team_before(const struct team *team, int64_t value, int64_t *all)
{
    team->reduce[team->thread] = (double)value;
    team_meet(team);
    for (int step = 1; step < team->threads; step *= 2) {
        double before = team->thread >= step ? team->reduce[team->thread - step] : 0;
        team_meet(team);
        team->reduce[team->thread] += before;
        team_meet(team);
    }
    int64_t up_to_this = (int64_t)team->reduce[team->thread];
    *all = (int64_t)team->reduce[team->threads - 1];
    team_meet(team);
    return up_to_this - value;
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
            for (int64_t i = first; i < end; i++)
                sum += spot_get(dy, (int64_t)offsets[i] + from);
            spot_set(table, at, sum);
        }
    }
}

/* A team has the rows TEAM_ROWS of the table. spot 0[row] (+)= sum of spot 1 over the tokens (spot 2) that name row
 * integer 0 + row; integers 1, 2: rows and their stride. Where no token names it, the row is cleared if it begins.
 * Each thread looks once through its tokens for those that name a row of the team, and knows then from which place on
 * they stand in the team's list; the list is made and added in parts of as many as there are threads.
 * shared: as many reals as threads, which hold the rows of a part; the reduction's have where its gradients begin */
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
