/* Four neighbouring elements at a time: accesses of 16 bytes, 8 in bf16. */
#ifndef CLEAVE_EXECUTOR_GPU_BODIES_QUADS_H
#define CLEAVE_EXECUTOR_GPU_BODIES_QUADS_H
#include "executor/gpu/kinds.h"
#include "executor/gpu/team.h"

#ifdef __CUDACC__
#define GPU_ALIGNED(bytes) __align__(bytes)
#else
#define GPU_ALIGNED(bytes) __attribute__((aligned(bytes)))
#endif
struct GPU_ALIGNED(16) real_quad {
    real x[GPU_QUAD];
};
struct GPU_ALIGNED(8) bf16_quad {
    uint16_t x[GPU_QUAD];
};

/* An absent operand fits. */
GPU_BODY inline bool quad_fits(const struct gpu_spot *spot)
{
    return ((uint64_t)(uintptr_t)spot->data & (spot->type == GPU_BF16 ? 7 : 15)) == 0;
}

GPU_BODY inline struct real_quad quad_get(const struct gpu_spot *spot, int64_t at)
{
    struct real_quad out;
    if (spot->type != GPU_BF16)
        return *(const struct real_quad *)((const real *)spot->data + at);
    struct bf16_quad in = *(const struct bf16_quad *)((const uint16_t *)spot->data + at);
    for (int i = 0; i < GPU_QUAD; i++)
        out.x[i] = real_of_bf16(in.x[i]);
    return out;
}

/* The quad is copied in one access: nvcc makes four of an assignment of a struct where it loses sight of the alignment.
 * An intrinsic with a cache hint would make the store a strong one. */
#ifdef __CUDACC__
GPU_BODY inline void quad_store(real *to, const struct real_quad *q)
{
    *(float4 *)to = make_float4(q->x[0], q->x[1], q->x[2], q->x[3]);
}
GPU_BODY inline void half_quad_store(uint16_t *to, const struct bf16_quad *q)
{
    *(ushort4 *)to = make_ushort4(q->x[0], q->x[1], q->x[2], q->x[3]);
}
#else
GPU_BODY inline void quad_store(real *to, const struct real_quad *q)
{
    *(struct real_quad *)to = *q;
}
GPU_BODY inline void half_quad_store(uint16_t *to, const struct bf16_quad *q)
{
    *(struct bf16_quad *)to = *q;
}
#endif

GPU_BODY inline void quad_set(const struct gpu_spot *spot, int64_t at, const struct real_quad *value)
{
    struct bf16_quad half;
    if (spot->type != GPU_BF16) {
        quad_store((real *)spot->data + at, value);
        return;
    }
    for (int i = 0; i < GPU_QUAD; i++)
        half.x[i] = bf16_of_real(value->x[i]);
    half_quad_store((uint16_t *)spot->data + at, &half);
}

/* Overwrites or adds, as spot_put() does. */
GPU_BODY inline void quad_put(const struct gpu_spot *spot, int64_t at, const struct real_quad *value)
{
    struct real_quad sum = *value;
    if (!spot->begin) {
        struct real_quad old = quad_get(spot, at);
        for (int i = 0; i < GPU_QUAD; i++)
            sum.x[i] = old.x[i] + value->x[i];
    }
    quad_set(spot, at, &sum);
}

/* Tells whether the first `count` spots have, along the innermost of the outer loops, whole quads side by side. */
GPU_BODY inline bool quads_fit(const struct gpu_work *work, int count)
{
    const int last = work->outer_loops - 1;
    if (last < 0 || work->extent[last] % GPU_QUAD != 0)
        return false;
    for (int i = 0; i < count; i++) {
        const struct gpu_spot *spot = &work->spot[i];
        if (!spot->data)
            continue;
        if (spot->stride[last] != 1 || !quad_fits(spot))
            return false;
        for (int loop = 0; loop < last; loop++)
            if (spot->stride[loop] % GPU_QUAD != 0)
                return false;
    }
    return true;
}

/* Elements of each row that may be taken as quads by those of the spots whose bits the mask has: whole ones from the
 * row's begin on, 0 where the spots do not have them side by side. */
GPU_BODY inline int64_t row_quads(const struct gpu_work *work, unsigned mask, int64_t elements)
{
    const int inner = work->outer_loops;
    if (work->inner_loops != 1)
        return 0;
    for (int i = 0; i < GPU_SPOTS; i++) {
        const struct gpu_spot *spot = &work->spot[i];
        if (!(mask >> i & 1) || !spot->data)
            continue;
        if (spot->stride[inner] != 1 || !quad_fits(spot))
            return 0;
        for (int loop = 0; loop < inner; loop++)
            if (spot->stride[loop] % GPU_QUAD != 0)
                return 0;
    }
    return elements / GPU_QUAD * GPU_QUAD;
}

/* A quad, or one element in its first place. The width is a constant wherever this is called, so that what is made of
 * it has no branches. */
GPU_BODY inline struct real_quad line_get(const struct gpu_work *work, const struct gpu_spot *spot, int64_t row,
                                          int64_t i, int width)
{
    struct real_quad one;
    if (width == GPU_QUAD)
        return quad_get(spot, row + i);
    one.x[0] = spot_get(spot, row + spot_inner(work, spot, i));
    return one;
}

/* `width` neighbouring elements of a type that is a constant, too. */
GPU_BODY inline struct real_quad typed_get(const struct gpu_spot *spot, int64_t at, int type, int width)
{
    struct gpu_spot typed;
    struct real_quad one;
    typed.data = spot->data, typed.type = type;
    if (width == GPU_QUAD)
        return quad_get(&typed, at);
    one.x[0] = spot_get(&typed, at);
    return one;
}

GPU_BODY inline void line_put(const struct gpu_work *work, const struct gpu_spot *spot, int64_t row, int64_t i,
                              int width, const struct real_quad *value)
{
    if (width == GPU_QUAD)
        quad_put(spot, row + i, value);
    else
        spot_put(spot, row + spot_inner(work, spot, i), value->x[0]);
}

/* Overwrites as line_put() may, whatever the spot says. */
GPU_BODY inline void line_set(const struct gpu_work *work, const struct gpu_spot *spot, int64_t row, int64_t i,
                              int width, const struct real_quad *value)
{
    if (width == GPU_QUAD)
        quad_set(spot, row + i, value);
    else
        spot_set(spot, row + spot_inner(work, spot, i), value->x[0]);
}

/* Visits of a team's row the elements from low to high, which are whole widths. */
#define TEAM_STEPS(index, low, high, width)                                                                            \
    for (int64_t index = (low) + (int64_t)team->thread * (width); index < (high);                                      \
         index += (int64_t)team->threads * (width))

/* Quads one by one over all threads of all teams; index: of the first element. */
#define TEAM_QUADS(index, limit)                                                                                       \
    for (int64_t index = (team->place * team->threads + team->thread) * GPU_QUAD; index < (limit);                     \
         index += team->count * team->threads * GPU_QUAD)
#endif
