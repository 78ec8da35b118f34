/* Mixture of experts: who goes where, there and back, as executor/kernels/experts.c has it. Tokens are (b, t), their
 * choices (b, t, k); a slot number is expert * slots + place, or -1 - expert where there was no place. Strides of a
 * spot are those of its dims; all coordinates count from the low corner of the call's range, which holds whole groups.
 */
#ifndef CLEAVE_EXECUTOR_GPU_BODIES_EXPERTS_H
#define CLEAVE_EXECUTOR_GPU_BODIES_EXPERTS_H
#include "executor/gpu/kinds.h"
#include "executor/gpu/team.h"

enum { EXPERTS_MOST_CHOICES = 64 };

GPU_BODY inline int64_t experts_at(const struct gpu_spot *spot, int64_t b, int64_t t, int64_t i)
{
    return b * spot->stride[0] + t * spot->stride[1] + i * spot->stride[2];
}

GPU_BODY inline real experts_logit(const struct gpu_work *w, int64_t b, int64_t t, int64_t e)
{
    const struct gpu_spot *logits = &w->spot[EXPERTS_LOGITS];
    return spot_get(logits, experts_at(logits, b, t, e));
}

GPU_BODY inline int32_t experts_slot(const struct gpu_work *w, int64_t b, int64_t t, int64_t k)
{
    const struct gpu_spot *slots = &w->spot[EXPERTS_SLOTS];
    return spot_index(slots, experts_at(slots, b, t, k));
}

GPU_BODY inline int64_t experts_of_slot(const struct gpu_work *w, int32_t slot)
{
    return slot >= 0 ? slot / w->integer[EXPERTS_PLACES] : -1 - (int64_t)slot;
}

/* Returns where a token's slot begins among the stacked ones (e, b, q, c, h). */
GPU_BODY inline int64_t experts_stacked(const struct gpu_work *w, int64_t b, int64_t t, int32_t slot)
{
    const struct gpu_spot *stack = &w->spot[EXPERTS_STACK];
    return slot / w->integer[EXPERTS_PLACES] * stack->stride[0] + b * stack->stride[1] +
           t / w->integer[EXPERTS_GROUP] * stack->stride[2] + slot % w->integer[EXPERTS_PLACES] * stack->stride[3];
}

/* ---- route ---- */
GPU_BODY inline void experts_choose_evenly(const struct gpu_work *w, int64_t t, int32_t *chosen)
{
    for (int64_t k = 0; k < w->integer[EXPERTS_CHOICES]; k++)
        chosen[k] = expert_in_turn(t, k, w->integer[EXPERTS_CHOICES], w->integer[EXPERTS_COUNT]);
}

/* The largest logits, the first of equal ones; falling. */
GPU_BODY inline void experts_choose(const struct gpu_work *w, int64_t b, int64_t t, int32_t *chosen)
{
    int64_t count = 0;
    for (int64_t e = 0; e < w->integer[EXPERTS_COUNT]; e++) {
        real logit = experts_logit(w, b, t, e);
        int64_t place = count;
        while (place > 0 && logit > experts_logit(w, b, t, chosen[place - 1]))
            place--;
        if (place == w->integer[EXPERTS_CHOICES])
            continue;
        count += count < w->integer[EXPERTS_CHOICES];
        for (int64_t i = count - 1; i > place; i--)
            chosen[i] = chosen[i - 1];
        chosen[place] = (int32_t)e;
    }
}

/* The sum of the exponentials of all logits less the largest, which is that of the first choice. */
GPU_BODY inline real experts_sum(const struct gpu_work *w, int64_t b, int64_t t, real most)
{
    real sum = 0;
    for (int64_t e = 0; e < w->integer[EXPERTS_COUNT]; e++)
        sum += real_exp(experts_logit(w, b, t, e) - most);
    return sum;
}

/* A thread per token: choices to SLOTS (as if there were no place yet), their weights to GATES. number 0: scale of the
 * gates. */
GPU_BODY void gpu_route(const struct team *team, const struct gpu_work *work)
{
    const struct gpu_spot *gates = &work->spot[EXPERTS_GATES], *slots = &work->spot[EXPERTS_SLOTS];
    const int64_t tokens = work->integer[EXPERTS_TOKENS], choices = work->integer[EXPERTS_CHOICES];
    TEAM_EACH(i, work->integer[EXPERTS_BATCHES] * tokens)
    {
        int64_t b = i / tokens, t = i % tokens;
        int32_t chosen[EXPERTS_MOST_CHOICES];
        chosen[0] = 0; /* there is one at least */
        if (work->integer[EXPERTS_EVENLY])
            experts_choose_evenly(work, t, chosen);
        else
            experts_choose(work, b, t, chosen);
        real most = experts_logit(work, b, t, chosen[0]), sum = 0;
        for (int64_t k = 0; k < choices; k++)
            sum += real_exp(experts_logit(work, b, t, chosen[k]) - most);
        if (work->integer[EXPERTS_GATES_OF_ALL])
            sum = experts_sum(work, b, t, most);
        for (int64_t k = 0; k < choices; k++) {
            real gate = real_exp(experts_logit(work, b, t, chosen[k]) - most) / sum;
            spot_set(gates, experts_at(gates, b, t, k), gate * (real)work->number[0]);
            ((int32_t *)slots->data)[experts_at(slots, b, t, k)] = -1 - chosen[k];
        }
    }
}

/* A team per group and expert, whose places first choices take before second ones; each thread has choices that follow
 * each other, and counts those of the expert before it gives them places. A slot tells its expert before and after, so
 * teams of other experts may read it meanwhile. FILLED (e, b, q) counts places taken; OVERFLOW, one number for each
 * team of the launch, absent or counted up by the choices that found none. */
GPU_BODY void gpu_route_slots(const struct team *team, const struct gpu_work *work)
{
    const struct gpu_spot *slots = &work->spot[EXPERTS_SLOTS], *filled = &work->spot[EXPERTS_FILLED];
    const int64_t group = work->integer[EXPERTS_GROUP], groups = work->integer[EXPERTS_TOKENS] / group,
                  places = work->integer[EXPERTS_PLACES], experts = work->integer[EXPERTS_COUNT],
                  all = group * work->integer[EXPERTS_CHOICES], each = (all + team->threads - 1) / team->threads,
                  first = team->thread * each, end = first + each < all ? first + each : all;
    int32_t *overflow = (int32_t *)work->spot[EXPERTS_OVERFLOW].data;
    TEAM_ROWS(row, work->integer[EXPERTS_BATCHES] * groups * experts)
    {
        const int64_t expert = row % experts, q = row / experts % groups, b = row / experts / groups;
        int64_t own = 0, total;
        for (int64_t i = first, k = first / group, t = first % group; i < end; i++) {
            own += experts_of_slot(work, experts_slot(work, b, q * group + t, k)) == expert;
            if (++t == group)
                t = 0, k++;
        }
        int64_t place = team_before(team, own, &total);
        for (int64_t i = first, k = first / group, t = first % group; i < end && place < places; i++) {
            int32_t *slot = (int32_t *)slots->data + experts_at(slots, b, q * group + t, k);
            if (experts_of_slot(work, *slot) == expert)
                *slot = (int32_t)(expert * places + place++);
            if (++t == group)
                t = 0, k++;
        }
        if (team->thread == 0) {
            const int64_t taken = total < places ? total : places;
            ((int32_t *)filled->data)[expert * filled->stride[0] + b * filled->stride[1] + q * filled->stride[2]] =
                (int32_t)taken;
            if (overflow)
                overflow[team->place] += (int32_t)(total - taken);
        }
    }
}

/* What a choice of the token gives to the slope of its logit through the gates. most: the largest logit; sum: of the
 * exponentials that gates share */
GPU_BODY inline real experts_gate_slope(const struct gpu_work *w, int64_t b, int64_t t, int64_t k, int64_t expert,
                                        real most, real sum)
{
    const struct gpu_spot *dgates = &w->spot[EXPERTS_GATES_GRADIENT];
    return real_exp(experts_logit(w, b, t, expert) - most) / sum * (real)w->number[0] *
           spot_get(dgates, experts_at(dgates, b, t, k));
}

/* A team per group. shared: slope of the auxiliary loss by each expert's mean probability. LOGITS_GRADIENT (+)= what
 * comes through the gates and through that loss; GATES_GRADIENT is given. numbers: scale of the gates; weight of the
 * loss by a choice that fell on an expert. */
GPU_BODY void gpu_route_gradient(const struct team *team, const struct gpu_work *work)
{
    const struct gpu_spot *dlogits = &work->spot[EXPERTS_LOGITS_GRADIENT];
    const int64_t group = work->integer[EXPERTS_GROUP], groups = work->integer[EXPERTS_TOKENS] / group,
                  experts = work->integer[EXPERTS_COUNT], choices = work->integer[EXPERTS_CHOICES];
    const bool of_all = work->integer[EXPERTS_GATES_OF_ALL] != 0;
    real *slopes = team->shared;
    TEAM_ROWS(row, work->integer[EXPERTS_BATCHES] * groups)
    {
        int64_t b = row / groups, first = row % groups * group;
        for (int64_t e = 0; e < experts; e++) {
            int64_t count = 0;
            TEAM_LINE(i, group)
            {
                for (int64_t k = 0; k < choices; k++)
                    count += experts_of_slot(work, experts_slot(work, b, first + i, k)) == e;
            }
            const double fallen = team_sum(team, (double)count);
            if (team->thread == 0)
                slopes[e] = (real)(fallen * work->number[1]);
        }
        team_meet(team);
        TEAM_LINE(i, group)
        {
            const int64_t t = first + i, best = experts_of_slot(work, experts_slot(work, b, t, 0));
            const real most = experts_logit(work, b, t, best), sum = experts_sum(work, b, t, most);
            real pull = 0, mean = 0, some = 0;
            for (int64_t k = 0; k < choices; k++)
                some += real_exp(experts_logit(work, b, t, experts_of_slot(work, experts_slot(work, b, t, k))) - most);
            const real shared = of_all ? sum : some;
            for (int64_t k = 0; k < choices; k++)
                pull +=
                    experts_gate_slope(work, b, t, k, experts_of_slot(work, experts_slot(work, b, t, k)), most, shared);
            for (int64_t e = 0; e < experts; e++)
                mean += slopes[e] * real_exp(experts_logit(work, b, t, e) - most) / sum;
            for (int64_t e = 0; e < experts; e++) {
                real logit = experts_logit(work, b, t, e), p = real_exp(logit - most) / sum;
                real slope = p * (slopes[e] - mean) - (of_all ? pull * p : 0);
                for (int64_t k = 0; k < choices; k++)
                    if (experts_of_slot(work, experts_slot(work, b, t, k)) == e)
                        slope += experts_gate_slope(work, b, t, k, e, most, shared) -
                                 (of_all ? 0 : pull * real_exp(logit - most) / some);
                spot_put(dlogits, experts_at(dlogits, b, t, e), slope);
            }
        }
        team_meet(team); /* before the next group overwrites the slopes */
    }
}

/* ---- there and back ---- */
/* A thread per choice and element: STACK (+)= TOKENS, times GATES where these are given. A slot belongs to one choice.
 */
GPU_BODY void gpu_dispatch(const struct team *team, const struct gpu_work *work)
{
    const struct gpu_spot *in = &work->spot[EXPERTS_VALUES], *gates = &work->spot[EXPERTS_GATES],
                          *stack = &work->spot[EXPERTS_STACK];
    const int64_t width = work->integer[EXPERTS_WIDTH], choices = work->integer[EXPERTS_CHOICES],
                  tokens = work->integer[EXPERTS_TOKENS];
    TEAM_EACH(i, work->integer[EXPERTS_BATCHES] * tokens * choices * width)
    {
        int64_t h = i % width, k = i / width % choices, t = i / width / choices % tokens,
                b = i / width / choices / tokens;
        int32_t slot = experts_slot(work, b, t, k);
        if (slot < 0)
            continue;
        real x = spot_get(in, experts_at(in, b, t, h));
        if (gates->data)
            x *= spot_get(gates, experts_at(gates, b, t, k));
        spot_put(stack, experts_stacked(work, b, t, slot) + h * stack->stride[4], x);
    }
}

/* A thread per token and element: TOKENS (+)= sum of its slots of STACK, times GATES where these are given. */
GPU_BODY void gpu_collect(const struct team *team, const struct gpu_work *work)
{
    const struct gpu_spot *out = &work->spot[EXPERTS_VALUES], *gates = &work->spot[EXPERTS_GATES],
                          *stack = &work->spot[EXPERTS_STACK];
    const int64_t width = work->integer[EXPERTS_WIDTH], tokens = work->integer[EXPERTS_TOKENS];
    TEAM_EACH(i, work->integer[EXPERTS_BATCHES] * tokens * width)
    {
        int64_t h = i % width, t = i / width % tokens, b = i / width / tokens;
        real sum = 0;
        for (int64_t k = 0; k < work->integer[EXPERTS_CHOICES]; k++) {
            int32_t slot = experts_slot(work, b, t, k);
            if (slot < 0)
                continue;
            real x = spot_get(stack, experts_stacked(work, b, t, slot) + h * stack->stride[4]);
            sum += gates->data ? x * spot_get(gates, experts_at(gates, b, t, k)) : x;
        }
        spot_put(out, experts_at(out, b, t, h), sum);
    }
}

/* A team per choice: GATES_GRADIENT (+)= the dot of TOKENS and its slot of STACK. */
GPU_BODY void gpu_gate_gradient(const struct team *team, const struct gpu_work *work)
{
    const struct gpu_spot *dy = &work->spot[EXPERTS_VALUES], *dgates = &work->spot[EXPERTS_GATES_GRADIENT],
                          *stack = &work->spot[EXPERTS_STACK];
    const int64_t choices = work->integer[EXPERTS_CHOICES], tokens = work->integer[EXPERTS_TOKENS];
    TEAM_ROWS(row, work->integer[EXPERTS_BATCHES] * tokens * choices)
    {
        int64_t k = row % choices, t = row / choices % tokens, b = row / choices / tokens;
        int32_t slot = experts_slot(work, b, t, k);
        double sum = 0;
        if (slot >= 0)
            TEAM_LINE(h, work->integer[EXPERTS_WIDTH])
        sum += (double)spot_get(dy, experts_at(dy, b, t, h)) *
               (double)spot_get(stack, experts_stacked(work, b, t, slot) + h * stack->stride[4]);
        sum = team_sum(team, sum);
        if (team->thread == 0)
            spot_put(dgates, experts_at(dgates, b, t, k), (real)sum);
    }
}
#endif
