/* AdamW, four elements at a time where all operands allow it: accesses of 16 bytes, 8 for weights in bf16. */
#ifndef CLEAVE_EXECUTOR_GPU_BODIES_OPTIMIZER_H
#define CLEAVE_EXECUTOR_GPU_BODIES_OPTIMIZER_H
#include "executor/gpu/bodies/quads.h"

/* What all elements of a launch share. */
struct adamw_launch {
    struct adamw_rates rates;
    uint64_t key; /* of rounding */
    bool by_chance;
};

GPU_BODY inline struct adamw_launch adamw_launch_of(const struct gpu_work *work)
{
    const struct gpu_spot *norm = &work->spot[ADAMW_NORM], *rates = &work->spot[ADAMW_RATES];
    const double *number = rates->data ? (const double *)rates->data : work->number;
    struct adamw_launch l;
    l.rates.beta1 = (real)number[0], l.rates.beta2 = (real)number[1];
    l.rates.rest1 = (real)number[2], l.rates.rest2 = (real)number[3];
    l.rates.rate = (real)number[4], l.rates.root = (real)number[5];
    l.rates.keep = (real)number[6], l.rates.epsilon = (real)number[7];
    l.rates.scale = norm->data ? (real)clip_scale((double)spot_get(norm, 0), number[8]) : 1;
    l.key = (uint64_t)(rates->data ? *(const int64_t *)(number + GPU_NUMBERS) : work->integer[ADAMW_KEY]);
    l.by_chance = work->integer[ADAMW_BY_CHANCE] != 0;
    return l;
}

/* The copy in 16 bits of element i. */
GPU_BODY inline uint16_t adamw_round(const struct gpu_work *work, const struct adamw_launch *l, int64_t i, real w)
{
    if (!l->by_chance)
        return bf16_of_real(w);
    const int64_t element =
        work->integer[ADAMW_ORIGIN] + spot_outer(work, &work->spot[ADAMW_NUMBERS], work->integer[ADAMW_FIRST] + i);
    return bf16_by_chance(w, l->key, element);
}

GPU_BODY inline void adamw_one(const struct gpu_work *work, const struct adamw_launch *l, int64_t i)
{
    const struct gpu_spot *weight = &work->spot[ADAMW_WEIGHT], *master = &work->spot[ADAMW_MASTER];
    const struct gpu_spot *exact = master->data ? master : weight;
    real *first = (real *)work->spot[ADAMW_MOMENTS].data, *second = first + work->integer[ADAMW_COUNT];
    real w =
        adamw_element(spot_get(exact, i), spot_get(&work->spot[ADAMW_GRADIENT], i), &first[i], &second[i], &l->rates);
    spot_set(exact, i, w);
    if (master->data)
        ((uint16_t *)weight->data)[i] = adamw_round(work, l, i, w);
}

GPU_BODY inline void adamw_four(const struct gpu_work *work, const struct adamw_launch *l, int64_t at)
{
    const struct gpu_spot *weight = &work->spot[ADAMW_WEIGHT], *master = &work->spot[ADAMW_MASTER];
    const struct gpu_spot *exact = master->data ? master : weight, *moments = &work->spot[ADAMW_MOMENTS];
    const int64_t second_at = work->integer[ADAMW_COUNT] + at;
    struct real_quad w = quad_get(exact, at), g = quad_get(&work->spot[ADAMW_GRADIENT], at),
                     first = quad_get(moments, at), second = quad_get(moments, second_at);
    for (int i = 0; i < GPU_QUAD; i++)
        w.x[i] = adamw_element(w.x[i], g.x[i], &first.x[i], &second.x[i], &l->rates);
    quad_set(exact, at, &w); /* of reals */
    quad_set(moments, at, &first);
    quad_set(moments, second_at, &second);
    if (!master->data)
        return;
    struct bf16_quad half;
    for (int i = 0; i < GPU_QUAD; i++)
        half.x[i] = adamw_round(work, l, at + i, w.x[i]);
    *(struct bf16_quad *)((uint16_t *)weight->data + at) = half;
}

/* spots and integers: kinds.h. numbers, or the doubles of ADAMW_RATES: beta1, beta2, 1 - beta1, 1 - beta2, rate, root,
 * keep, epsilon (struct adamw_rates), the limit of the norm. A thread per four elements. */
GPU_BODY void gpu_adamw(const struct team *team, const struct gpu_work *work)
{
    const struct adamw_launch l = adamw_launch_of(work);
    const int64_t count = work->integer[ADAMW_COUNT];
    const struct gpu_spot *master = &work->spot[ADAMW_MASTER];
    const bool real_weight = work->spot[ADAMW_WEIGHT].type != GPU_BF16 || master->data;
    const bool wide = count % GPU_QUAD == 0 && real_weight && quad_fits(&work->spot[ADAMW_WEIGHT]) &&
                      quad_fits(&work->spot[ADAMW_GRADIENT]) && quad_fits(&work->spot[ADAMW_MOMENTS]) &&
                      quad_fits(master); /* an absent one fits */
    if (wide) {
        TEAM_EACH(i, count / GPU_QUAD) adamw_four(work, &l, i * GPU_QUAD);
        return;
    }
    TEAM_EACH(i, count) adamw_one(work, &l, i);
}
#endif
