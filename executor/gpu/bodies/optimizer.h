/* AdamW, four elements at a time where all operands allow it: accesses of 16 bytes, 8 for weights in bf16; and the norm
 * by which gradients are clipped. Both take all weights of a table in one launch. */
#ifndef CLEAVE_EXECUTOR_GPU_BODIES_OPTIMIZER_H
#define CLEAVE_EXECUTOR_GPU_BODIES_OPTIMIZER_H
#include "executor/gpu/bodies/quads.h"
#include "executor/gpu/update.h"

/* A weight's update as a team has it, off the memory that it writes. */
struct adamw_own {
    struct gpu_spot weight, gradient, moments, exact; /* exact: the master, or the weight itself */
    int64_t count;
    struct adamw_rates rates;
    uint64_t key; /* of rounding */
    bool copies;  /* weight is a copy in 16 bits of exact */
};

GPU_BODY inline struct adamw_own adamw_own_of(const struct gpu_work *work, int64_t number)
{
    const struct gpu_update *update = (const struct gpu_update *)work->spot[UPDATE_TABLE].data + number;
    const struct gpu_update_rates *now = (const struct gpu_update_rates *)work->spot[ADAMW_RATES].data + number;
    const struct gpu_spot *norm = &work->spot[ADAMW_NORM];
    struct adamw_own own;
    own.weight = update->weight, own.gradient = update->gradient, own.moments = update->moments;
    own.exact = update->master.data ? update->master : update->weight;
    own.moments.type = GPU_REAL;
    own.count = update->count;
    own.rates = now->rates;
    own.rates.scale = norm->data ? (real)clip_scale((double)spot_get(norm, 0), now->limit) : 1;
    own.key = now->key;
    own.copies = update->master.data != 0;
    return own;
}

/* The copy in 16 bits of element i. */
GPU_BODY inline uint16_t adamw_round(const struct gpu_update *update, uint64_t key, int64_t i, real w)
{
    if (!update->by_chance)
        return bf16_of_real(w);
    int64_t element = update->origin, index = update->first + i;
    for (int loop = update->loop_count - 1; loop > 0; loop--) {
        element += index % update->extent[loop] * update->stride[loop];
        index /= update->extent[loop];
    }
    return bf16_by_chance(w, key, element + index * update->stride[0]);
}

GPU_BODY inline void adamw_one(const struct gpu_update *update, const struct adamw_own *own, int64_t i)
{
    real *first = (real *)own->moments.data, *second = first + own->count;
    real w = adamw_element(spot_get(&own->exact, i), spot_get(&own->gradient, i), &first[i], &second[i], &own->rates);
    spot_set(&own->exact, i, w);
    if (own->copies)
        ((uint16_t *)own->weight.data)[i] = adamw_round(update, own->key, i, w);
}

GPU_BODY inline void adamw_four(const struct gpu_update *update, const struct adamw_own *own, int64_t at)
{
    const int64_t second_at = own->count + at;
    struct gpu_spot exact = own->exact;
    exact.type = GPU_REAL; /* else nothing is four wide */
    struct real_quad w = quad_get(&exact, at), g = quad_get(&own->gradient, at), first = quad_get(&own->moments, at),
                     second = quad_get(&own->moments, second_at);
    for (int i = 0; i < GPU_QUAD; i++)
        w.x[i] = adamw_element(w.x[i], g.x[i], &first.x[i], &second.x[i], &own->rates);
    quad_set(&exact, at, &w);
    quad_set(&own->moments, at, &first);
    quad_set(&own->moments, second_at, &second);
    if (!own->copies)
        return;
    struct bf16_quad half;
    for (int i = 0; i < GPU_QUAD; i++)
        half.x[i] = adamw_round(update, own->key, at + i, w.x[i]);
    *(struct bf16_quad *)((uint16_t *)own->weight.data + at) = half;
}

/* Elements from low to high of one weight. low: of whole quads */
GPU_BODY inline void adamw_elements(const struct team *team, const struct gpu_work *work, int64_t number, int64_t low,
                                    int64_t high)
{
    const struct gpu_update *update = (const struct gpu_update *)work->spot[UPDATE_TABLE].data + number;
    const struct adamw_own own = adamw_own_of(work, number);
    const bool real_weight = own.weight.type != GPU_BF16 || own.copies;
    const bool wide = own.count % GPU_QUAD == 0 && real_weight && quad_fits(&own.weight) && quad_fits(&own.gradient) &&
                      quad_fits(&own.moments) && quad_fits(&own.exact);
    if (wide) {
        TEAM_STEPS(i, low, high, GPU_QUAD) adamw_four(update, &own, i);
        return;
    }
    TEAM_STEPS(i, low, high, 1) adamw_one(update, &own, i);
}

/* Elements from low to high of one weight, of those that a team has. */
struct update_share {
    int64_t number, low, high;
    int64_t chunk, end; /* of the team: those from here on are yet to come */
};

/* The weight that holds a chunk: the last one that begins there or before. */
GPU_BODY inline int64_t update_weight_of(const struct gpu_update *updates, int64_t count, int64_t chunk)
{
    int64_t low = 0, high = count;
    while (high - low > 1) {
        const int64_t middle = low + (high - low) / 2;
        if (updates[middle].chunk <= chunk)
            low = middle;
        else
            high = middle;
    }
    return low;
}

/* Each team has as many chunks as any other, side by side. */
GPU_BODY inline struct update_share update_shares(const struct team *team, const struct gpu_work *work)
{
    const struct gpu_update *updates = (const struct gpu_update *)work->spot[UPDATE_TABLE].data;
    const int64_t chunks = work->integer[UPDATE_CHUNKS];
    struct update_share share;
    share.chunk = chunks * team->place / team->count, share.end = chunks * (team->place + 1) / team->count;
    share.number = update_weight_of(updates, work->integer[UPDATE_WEIGHTS], share.chunk) - 1;
    share.low = share.high = 0;
    return share;
}

/* Goes on to the next weight; false: there is none. */
GPU_BODY inline bool update_next(const struct gpu_work *work, struct update_share *share)
{
    if (share->chunk >= share->end)
        return false;
    const struct gpu_update *updates = (const struct gpu_update *)work->spot[UPDATE_TABLE].data;
    const int64_t i = ++share->number, begin = updates[i].chunk;
    const int64_t next = i + 1 < work->integer[UPDATE_WEIGHTS] ? updates[i + 1].chunk : work->integer[UPDATE_CHUNKS],
                  end = next < share->end ? next : share->end, last = (end - begin) * GPU_UPDATE_CHUNK;
    share->low = (share->chunk - begin) * GPU_UPDATE_CHUNK;
    share->high = last < updates[i].count ? last : updates[i].count;
    share->chunk = end;
    return true;
}

/* Spots and integers: executor/gpu/update.h. */
GPU_BODY void gpu_adamw(const struct team *team, const struct gpu_work *work)
{
    struct update_share share = update_shares(team, work);
    while (update_next(work, &share))
        adamw_elements(team, work, share.number, share.low, share.high);
}

/* ---- the norm of all gradients ---- */
enum { SQUARES_FLIGHT = 4 }; /* quads that a thread loads before it uses the first of them */

/* Behind the last quad the first is read again, and left out. Squares in real might be too large. */
GPU_BODY inline double squares_of(const struct team *team, const struct gpu_spot *in, int64_t low, int64_t high,
                                  int type, int width)
{
    const int64_t step = (int64_t)team->threads * width;
    double sum = 0;
    for (int64_t i = low + (int64_t)team->thread * width; i < high; i += SQUARES_FLIGHT * step) {
        struct real_quad x[SQUARES_FLIGHT];
        for (int k = 0; k < SQUARES_FLIGHT; k++)
            x[k] = typed_get(in, i + k * step < high ? i + k * step : i, type, width);
        for (int k = 0; k < SQUARES_FLIGHT; k++)
            for (int j = 0; j < width; j++)
                sum += i + k * step < high ? (double)x[k].x[j] * (double)x[k].x[j] : 0;
    }
    return sum;
}

/* SQUARES_PARTS[place] = sum of squares of the team's share of all gradients. Spots and integers as of gpu_adamw */
GPU_BODY void gpu_square_parts(const struct team *team, const struct gpu_work *work)
{
    struct update_share share = update_shares(team, work);
    double sum = 0;
    while (update_next(work, &share)) {
        const struct gpu_spot in = ((const struct gpu_update *)work->spot[UPDATE_TABLE].data)[share.number].gradient;
        const int64_t whole = quad_fits(&in) ? share.high / GPU_QUAD * GPU_QUAD : share.low;
        const bool half = in.type == GPU_BF16;
        sum += half ? squares_of(team, &in, share.low, whole, GPU_BF16, GPU_QUAD)
                    : squares_of(team, &in, share.low, whole, GPU_REAL, GPU_QUAD);
        sum += half ? squares_of(team, &in, whole, share.high, GPU_BF16, 1)
                    : squares_of(team, &in, whole, share.high, GPU_REAL, 1);
    }
    sum = team_sum(team, sum);
    if (team->thread == 0)
        ((double *)work->spot[SQUARES_PARTS].data)[team->place] = sum;
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
#endif
