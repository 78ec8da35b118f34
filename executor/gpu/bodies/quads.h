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

/* A quad is stored in one access. On a GPU that is said in its own words: of an assignment nvcc often makes four, each
 * of which the memory's cache takes as a whole access, and an intrinsic with a cache hint would be a strong store. */
#ifdef __CUDACC__
GPU_BODY inline void quad_store(real *to, const struct real_quad *q)
{
    asm volatile("st.global.v4.f32 [%0], {%1, %2, %3, %4};" ::"l"(__cvta_generic_to_global(to)), "f"(q->x[0]),
                 "f"(q->x[1]), "f"(q->x[2]), "f"(q->x[3])
                 : "memory");
}
GPU_BODY inline void half_quad_store(uint16_t *to, const struct real_quad *q)
{
    uint32_t low, high;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(low) : "f"(q->x[1]), "f"(q->x[0]));
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(high) : "f"(q->x[3]), "f"(q->x[2]));
    asm volatile("st.global.v2.b32 [%0], {%1, %2};" ::"l"(__cvta_generic_to_global(to)), "r"(low), "r"(high)
                 : "memory");
}
#else
GPU_BODY inline void quad_store(real *to, const struct real_quad *q)
{
    *(struct real_quad *)to = *q;
}
GPU_BODY inline void half_quad_store(uint16_t *to, const struct real_quad *q)
{
    struct bf16_quad half;
    for (int i = 0; i < GPU_QUAD; i++)
        half.x[i] = bf16_of_real(q->x[i]);
    *(struct bf16_quad *)to = half;
}
#endif

GPU_BODY inline void quad_set(const struct gpu_spot *spot, int64_t at, const struct real_quad *value)
{
    if (spot->type != GPU_BF16)
        quad_store((real *)spot->data + at, value);
    else
        half_quad_store((uint16_t *)spot->data + at, value);
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

/* Where kernels know a type before they load, it is a constant that they pass on, so that no load waits for a branch
 * behind the one before it. GPU_ANY: each spot has its own. */
enum { GPU_ANY = -1 };

/* GPU_BF16 where all spots of the mask that are there have this type, else GPU_ANY. */
GPU_BODY inline int spots_type(const struct gpu_work *work, unsigned mask)
{
    for (int i = 0; i < GPU_SPOTS; i++)
        if ((mask >> i & 1) && work->spot[i].data && work->spot[i].type != GPU_BF16)
            return GPU_ANY;
    return GPU_BF16;
}

/* What element access needs of a spot whose type is known. */
GPU_BODY inline struct gpu_spot spot_typed(const struct gpu_spot *spot, int type)
{
    struct gpu_spot typed;
    typed.data = spot->data, typed.begin = spot->begin;
    typed.type = type == GPU_ANY ? spot->type : type;
    return typed;
}

/* `width` neighbouring elements, in the quad's first places. Width and type are constants wherever this is called, so
 * that what is made of it has no branches. */
GPU_BODY inline struct real_quad typed_get(const struct gpu_spot *spot, int64_t at, int type, int width)
{
    const struct gpu_spot typed = spot_typed(spot, type);
    struct real_quad one;
    if (width == GPU_QUAD)
        return quad_get(&typed, at);
    one.x[0] = spot_get(&typed, at);
    return one;
}

/* Overwrites or adds, as spot_put() does. */
GPU_BODY inline void typed_put(const struct gpu_spot *spot, int64_t at, int type, int width,
                               const struct real_quad *value)
{
    const struct gpu_spot typed = spot_typed(spot, type);
    if (width == GPU_QUAD)
        quad_put(&typed, at, value);
    else
        spot_put(&typed, at, value->x[0]);
}

/* Overwrites, whatever the spot says. */
GPU_BODY inline void typed_set(const struct gpu_spot *spot, int64_t at, int type, int width,
                               const struct real_quad *value)
{
    const struct gpu_spot typed = spot_typed(spot, type);
    if (width == GPU_QUAD)
        quad_set(&typed, at, value);
    else
        spot_set(&typed, at, value->x[0]);
}

/* The same of the i-th element of a row that begins at `row`; whole quads lie side by side. */
GPU_BODY inline int64_t line_at(const struct gpu_work *work, const struct gpu_spot *spot, int64_t row, int64_t i,
                                int width)
{
    return row + (width == GPU_QUAD ? i : spot_inner(work, spot, i));
}

GPU_BODY inline struct real_quad line_get(const struct gpu_work *work, const struct gpu_spot *spot, int64_t row,
                                          int64_t i, int type, int width)
{
    return typed_get(spot, line_at(work, spot, row, i, width), type, width);
}

GPU_BODY inline void line_put(const struct gpu_work *work, const struct gpu_spot *spot, int64_t row, int64_t i,
                              int type, int width, const struct real_quad *value)
{
    typed_put(spot, line_at(work, spot, row, i, width), type, width, value);
}

GPU_BODY inline void line_set(const struct gpu_work *work, const struct gpu_spot *spot, int64_t row, int64_t i,
                              int type, int width, const struct real_quad *value)
{
    typed_set(spot, line_at(work, spot, row, i, width), type, width, value);
}

/* What a thread loads before it uses the first of it, so that memory has enough to do: `count` widths, each a step
 * behind the one before. All are there: a load under a condition would be waited for at once. */
enum { GPU_FLIGHT = 8 };
struct flight {
    struct real_quad quad[GPU_FLIGHT];
};

/* Elements of a row from the i-th on. Count, step, type and width are constants wherever this is called. */
GPU_BODY inline struct flight flight_get(const struct gpu_work *work, const struct gpu_spot *spot, int64_t row,
                                         int64_t i, int step, int type, int width, int count)
{
    struct flight out = { { { { 0 } } } };
    GPU_UNROLL
    for (int k = 0; k < GPU_FLIGHT; k++)
        if (k < count)
            out.quad[k] = line_get(work, spot, row, i + k * step, type, width);
    return out;
}

/* Visits of a team's row the elements from low to high, which are whole widths. */
#define TEAM_STEPS(index, low, high, width)                                                                            \
    for (int64_t index = (low) + (int64_t)team->thread * (width); index < (high);                                      \
         index += (int64_t)team->threads * (width))

#endif
