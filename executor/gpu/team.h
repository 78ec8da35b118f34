/* How the bodies of GPU kernels see their threads. nvcc makes a team a block of a CUDA grid; elsewhere a team is a set
 * of threads that tests/emulated runs, so that the same text runs, barriers included, where there is no GPU. */
#ifndef CLEAVE_EXECUTOR_GPU_TEAM_H
#define CLEAVE_EXECUTOR_GPU_TEAM_H
#include "executor/gpu/work.h"
#include "executor/kernels/bf16.h"
#include "executor/kernels/elements.h"

struct team {
    int thread, threads;  /* threads: a power of two */
    int64_t place, count; /* which team of how many */
    double *reduce;       /* (threads) of the team */
    real *shared;         /* (work->shared_reals) of the team */
    void *barrier;        /* of the emulation */
};

/* GPU_UNROLL: in front of a loop whose index picks elements of a small array, which else lies in memory. */
#ifdef __CUDACC__
#define GPU_UNROLL _Pragma("unroll")
#define GPU_BODY static __device__
static __device__ inline void team_meet(const struct team *team)
{
    (void)team;
    __syncthreads();
}
#else
#define GPU_UNROLL
#define GPU_BODY static
/* Returns when all threads of the team have called it; what they wrote before is then seen by all. */
void team_meet(const struct team *team);
#endif

/* Both give every thread the same result, by a tree whose shape depends on the number of threads alone. All threads of
 * the team call them. */
#ifdef __CUDACC__
enum { TEAM_WARP = 32 };
/* Inside a warp by exchange of registers, between warps by shared memory: two barriers, none for a team of one warp. */
static __device__ inline double team_reduce(const struct team *team, double value, bool largest)
{
    for (int away = TEAM_WARP / 2; away > 0; away /= 2) {
        double other = __shfl_xor_sync(0xffffffffu, value, away);
        value = largest ? (other > value ? other : value) : value + other;
    }
    if (team->threads == TEAM_WARP)
        return value;
    if (team->thread % TEAM_WARP == 0)
        team->reduce[team->thread / TEAM_WARP] = value;
    team_meet(team);
    value = team->reduce[0];
    for (int warp = 1; warp < team->threads / TEAM_WARP; warp++) {
        double other = team->reduce[warp];
        value = largest ? (other > value ? other : value) : value + other;
    }
    team_meet(team); /* before the next reduction overwrites it */
    return value;
}
#else
GPU_BODY inline double team_reduce(const struct team *team, double value, bool largest)
{
    double *reduce = team->reduce;
    reduce[team->thread] = value;
    team_meet(team);
    for (int half = team->threads / 2; half > 0; half /= 2) {
        if (team->thread < half) {
            double mine = reduce[team->thread], other = reduce[team->thread + half];
            reduce[team->thread] = largest ? (other > mine ? other : mine) : mine + other;
        }
        team_meet(team);
    }
    value = reduce[0];
    team_meet(team); /* before the next reduction overwrites it */
    return value;
}
#endif

GPU_BODY inline double team_sum(const struct team *team, double value)
{
    return team_reduce(team, value, false);
}

GPU_BODY inline double team_max(const struct team *team, double value)
{
    return team_reduce(team, value, true);
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

/* Elements one by one over all threads of all teams. */
#define TEAM_EACH(index, limit)                                                                                        \
    for (int64_t index = team->place * team->threads + team->thread; index < (limit);                                  \
         index += team->count * team->threads)
/* A row per team. */
#define TEAM_ROWS(index, limit) for (int64_t index = team->place; index < (limit); index += team->count)
/* The elements of a team's row. */
#define TEAM_LINE(index, limit) for (int64_t index = team->thread; index < (limit); index += team->threads)

/* ---- elements ---- */
ELEMENT real spot_get(const struct gpu_spot *spot, int64_t at)
{
    return spot->type == GPU_BF16 ? real_of_bf16(((const uint16_t *)spot->data)[at]) : ((const real *)spot->data)[at];
}

ELEMENT int32_t spot_index(const struct gpu_spot *spot, int64_t at)
{
    return ((const int32_t *)spot->data)[at];
}

ELEMENT void spot_set(const struct gpu_spot *spot, int64_t at, real value)
{
    if (spot->type == GPU_BF16)
        ((uint16_t *)spot->data)[at] = bf16_of_real(value);
    else
        ((real *)spot->data)[at] = value;
}

/* Overwrites or adds, as the spot says. */
ELEMENT void spot_put(const struct gpu_spot *spot, int64_t at, real value)
{
    spot_set(spot, at, spot->begin ? value : spot_get(spot, at) + value);
}

/* Returns where the index-th point of the loops [first, first + count) lies. */
ELEMENT int64_t spot_at(const struct gpu_work *work, const struct gpu_spot *spot, int first, int count, int64_t index)
{
    int64_t at = 0;
    for (int loop = first + count - 1; loop > first; loop--) {
        at += index % work->extent[loop] * spot->stride[loop];
        index /= work->extent[loop];
    }
    return count > 0 ? at + index * spot->stride[first] : 0;
}

ELEMENT int64_t spot_outer(const struct gpu_work *work, const struct gpu_spot *spot, int64_t index)
{
    return spot_at(work, spot, 0, work->outer_loops, index);
}

/* Finds the places of the first `count` spots at once: divisions are dear, and shared. */
ELEMENT void spots_outer(const struct gpu_work *work, int count, int64_t index, int64_t *at)
{
    for (int i = 0; i < count; i++)
        at[i] = 0;
    for (int loop = work->outer_loops - 1; loop >= 0; loop--) {
        const int64_t rest = loop > 0 ? index / work->extent[loop] : 0, place = index - rest * work->extent[loop];
        for (int i = 0; i < count; i++)
            at[i] += place * work->spot[i].stride[loop];
        index = rest;
    }
}

ELEMENT int64_t spot_inner(const struct gpu_work *work, const struct gpu_spot *spot, int64_t index)
{
    return spot_at(work, spot, work->outer_loops, work->inner_loops, index);
}
#endif
