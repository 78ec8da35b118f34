/* AdamW, four elements at a time where all operands allow it: accesses of 16 bytes, 8 for weights in bf16. */
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
    const struct gpu_update *update = (const struct gpu_update *)work->spot[ADAMW_UPDATES].data + number;
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
    const struct gpu_update *update = (const struct gpu_update *)work->spot[ADAMW_UPDATES].data + number;
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

/* The weight that holds a chunk: the last one that begins there or before. */
GPU_BODY inline int64_t adamw_weight_of(const struct gpu_update *updates, int64_t count, int64_t chunk)
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

/* Spots and integers: executor/gpu/update.h. Each team has as many chunks as any other, side by side. */
GPU_BODY void gpu_adamw(const struct team *team, const struct gpu_work *work)
{
    const struct gpu_update *updates = (const struct gpu_update *)work->spot[ADAMW_UPDATES].data;
    const int64_t count = work->integer[ADAMW_WEIGHTS], chunks = work->integer[ADAMW_CHUNKS];
    const int64_t high = chunks * (team->place + 1) / team->count;
    int64_t chunk = chunks * team->place / team->count;
    for (int64_t i = adamw_weight_of(updates, count, chunk); chunk < high; i++) {
        const int64_t begin = updates[i].chunk, next = i + 1 < count ? updates[i + 1].chunk : chunks;
        const int64_t end = next < high ? next : high, last = (end - begin) * GPU_UPDATE_CHUNK;
        adamw_elements(team, work, i, (chunk - begin) * GPU_UPDATE_CHUNK,
                       last < updates[i].count ? last : updates[i].count);
        chunk = end;
    }
}
#endif
