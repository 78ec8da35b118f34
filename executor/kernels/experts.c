/* route: logits (b,t,u), u the experts; correction (u); gates (b,t,k), slots (b,t,k) and taken (e,b,q), the last two
 * int32. dispatch, combine: tokens (b,t,h); stack (e,b,q,c,h), of expert e the place c for group q of sample b.
 *
 * Mixture of experts: who goes where, there and back. Blocks hold whole groups; a group is one token's neighbours along
 * the sequence, so its number is that of its first token over the group's size. Slots are written e * slots + place; a
 * choice without one is -1 - e. */
#include "base/num.h"
#include "executor/kernels/elements.h"
#include "executor/kernels/primitives.h"
#include <string.h>

/* Element of a block at global coordinates, one per dim. */
static int64_t element_at(const struct view *view, const int64_t *at)
{
    int64_t element = 0;
    for (int dim = 0; dim < view->dim_count; dim++)
        element = element * view->count[dim] + at[dim] - view->low[dim];
    return element;
}
#define AT(...) ((const int64_t[]){ __VA_ARGS__ })

static real *real_at(const struct kernel_call *call, enum role role, int index, const int64_t *at)
{
    const struct view *view = &call->operand[role][index];
    return view->data ? (real *)view->data + element_at(view, at) : NULL;
}

static int32_t *index_at(const struct kernel_call *call, enum role role, int index, const int64_t *at)
{
    const struct view *view = &call->operand[role][index];
    return (int32_t *)view->data + element_at(view, at);
}

/* ---- the range of a call: dims 0 and 1 of the operand are the batch and the tokens ---- */
struct range {
    int64_t batch_low, batch_high, token_low, token_high;
};

static struct range range_of(const struct kernel_call *call, const struct operand *tokens)
{
    int batch = tokens->axis[0], token = tokens->axis[1];
    return (struct range){ call->low[batch], call->high[batch], call->low[token], call->high[token] };
}

/* ---- route ---- */
enum { MOST_CHOICES = 64 };

/* The largest logits, the first of equal ones; falling. */
static void choose(const real *logits, int64_t experts, int64_t choices, int32_t *chosen)
{
    int64_t count = 0;
    for (int64_t e = 0; e < experts; e++) {
        int64_t place = count;
        while (place > 0 && logits[e] > logits[chosen[place - 1]])
            place--;
        if (place == choices)
            continue;
        count += count < choices;
        for (int64_t i = count - 1; i > place; i--)
            chosen[i] = chosen[i - 1];
        chosen[place] = (int32_t)e;
    }
}

static real logistic(real x)
{
    return 1 / (1 + real_exp(-x));
}

/* Shares of the logits of `indices`, or of all `count` where it is NULL: exponentials, or sigmoids, over their sum,
 * which is returned. */
static real shares(const struct kernel_arguments *a, const real *logits, const int32_t *indices, int64_t count,
                   real *out)
{
    real most = -INFINITY, sum = 0;
    for (int64_t i = 0; i < count; i++)
        most = logits[indices ? indices[i] : i] > most ? logits[indices ? indices[i] : i] : most;
    for (int64_t i = 0; i < count; i++) {
        real logit = logits[indices ? indices[i] : i];
        sum += out[i] = a->gates_sigmoid ? logistic(logit) : real_exp(logit - most);
    }
    for (int64_t i = 0; i < count; i++)
        out[i] /= sum;
    return sum;
}

/* What a group of experts is chosen by: its greatest number, of sigmoids the sum of its two greatest. */
static real group_score(const struct kernel_arguments *a, const real *scores, int64_t count)
{
    real first = -INFINITY, second = -INFINITY;
    for (int64_t i = 0; i < count; i++) {
        real x = scores[i];
        second = x > first ? first : x > second ? x : second;
        first = x > first ? x : first;
    }
    return a->gates_sigmoid && count > 1 ? first + second : first;
}

/* Experts of other groups than the token's fall behind all others. */
static void keep_groups(const struct kernel_arguments *a, real *scores)
{
    const int64_t size = a->experts / a->expert_groups;
    for (int64_t left = a->expert_groups - a->chosen_groups; left > 0; left--) {
        int64_t worst = -1;
        real least = INFINITY;
        for (int64_t g = 0; g < a->expert_groups; g++) {
            real score = group_score(a, scores + g * size, size);
            if (score > -INFINITY && score <= least) /* the last of equal ones */
                least = score, worst = g;
        }
        for (int64_t i = 0; i < size; i++)
            scores[worst * size + i] = -INFINITY;
    }
}

/* What experts are chosen by. */
static const real *scores_of(const struct kernel_call *call, const real *logits, const real *correction)
{
    const struct kernel_arguments *a = &call->segment->arguments;
    if (!segment_ranks_experts(call->segment))
        return logits;
    for (int64_t e = 0; e < a->experts; e++)
        call->scratch[e] = (a->gates_sigmoid ? logistic(logits[e]) : logits[e]) + (correction ? correction[e] : 0);
    if (a->expert_groups > 1)
        keep_groups(a, call->scratch);
    return call->scratch;
}

/* Gates of one token; for a softmax over all experts only its sum over the others is needed beside the chosen. */
static void gate(const struct kernel_arguments *a, const real *logits, const int32_t *chosen, real *gates)
{
    real share = shares(a, logits, chosen, a->choices, gates);
    if (!a->gates_of_all)
        share = 1;
    else if (!a->gates_sigmoid) {
        real all = 0, some = 0, most = logits[chosen[0]];
        for (int64_t e = 0; e < a->experts; e++)
            all += real_exp(logits[e] - most);
        for (int64_t k = 0; k < a->choices; k++)
            some += real_exp(logits[chosen[k]] - most);
        share = some / all;
    }
    for (int64_t k = 0; k < a->choices; k++)
        gates[k] *= share * (real)a->gate_scale;
}

/* First choices take slots before second ones. Returns how many found none. */
static int64_t take_slots(const struct kernel_call *call, int64_t b, int64_t first)
{
    const struct kernel_arguments *a = &call->segment->arguments;
    int64_t overflow = 0;
    for (int64_t e = 0; e < a->experts; e++)
        *index_at(call, ROLE_OUT, 2, AT(e, b, first / a->group)) = 0;
    for (int64_t k = 0; k < a->choices; k++)
        for (int64_t t = first; t < first + a->group; t++) {
            int32_t *slot = index_at(call, ROLE_OUT, 1, AT(b, t, k)), expert = *slot;
            int32_t *taken = index_at(call, ROLE_OUT, 2, AT(expert, b, first / a->group));
            bool free = *taken < a->slots;
            *slot = free ? (int32_t)(expert * a->slots) + *taken : -1 - expert;
            *taken += free;
            overflow += !free;
        }
    return overflow;
}

void ISA(route_forward)(const struct kernel_call *call)
{
    const struct kernel_arguments *a = &call->segment->arguments;
    const struct range r = range_of(call, &call->segment->in[0]);
    const real *correction = call->segment->weight_count > 0 ? real_at(call, ROLE_WEIGHT, 0, AT(0)) : NULL;
    int64_t overflow = 0;
    for (int64_t b = r.batch_low; b < r.batch_high; b++)
        for (int64_t first = r.token_low; first < r.token_high; first += a->group) {
            for (int64_t t = first; t < first + a->group; t++) {
                const real *logits = real_at(call, ROLE_IN, 0, AT(b, t, 0));
                int32_t *chosen = index_at(call, ROLE_OUT, 1, AT(b, t, 0));
                for (int64_t k = 0; a->evenly && k < a->choices; k++)
                    chosen[k] = expert_in_turn(t, k, a->choices, a->experts);
                if (!a->evenly)
                    choose(scores_of(call, logits, correction), a->experts, a->choices, chosen);
                gate(a, logits, chosen, real_at(call, ROLE_OUT, 0, AT(b, t, 0)));
            }
            overflow += take_slots(call, b, first);
        }
    if (call->overflow)
        *call->overflow += overflow;
}

static int32_t expert_of(const struct kernel_arguments *a, int32_t slot)
{
    return slot >= 0 ? (int32_t)(slot / a->slots) : -1 - slot;
}

/* Slope of the auxiliary loss by each expert's mean probability, over the tokens of the group. */
static void balance_slopes(const struct kernel_call *call, int64_t b, int64_t first, real *slopes)
{
    const struct kernel_arguments *a = &call->segment->arguments;
    const double choices = (double)(a->group * a->choices);
    memset(slopes, 0, (size_t)a->experts * sizeof *slopes);
    for (int64_t t = first; t < first + a->group; t++)
        for (int64_t k = 0; k < a->choices; k++)
            slopes[expert_of(a, *index_at(call, ROLE_OUT, 1, AT(b, t, k)))] += 1;
    for (int64_t e = 0; e < a->experts; e++)
        slopes[e] *= (real)(call->loss_scale * a->balance * (double)a->experts / choices / (double)a->group);
}

/* Slope of what shares are made of, over itself. */
static real steepness(const struct kernel_arguments *a, real logit)
{
    return a->gates_sigmoid ? 1 - logistic(logit) : 1;
}

/* Adds what reaches the logits of one token through its gates. */
static void gate_gradient(const struct kernel_arguments *a, const real *logits, const int32_t *slots,
                          const real *dgates, const real *all, real *dlogits)
{
    const bool divided = !a->gates_of_all, softmax_of_all = a->gates_of_all && !a->gates_sigmoid;
    real part[MOST_CHOICES], mean = 0;
    int32_t chosen[MOST_CHOICES];
    for (int64_t k = 0; k < a->choices; k++)
        chosen[k] = expert_of(a, slots[k]);
    real sum = shares(a, logits, chosen, a->choices, part);
    for (int64_t k = 0; k < a->choices; k++) {
        part[k] = softmax_of_all ? all[chosen[k]] : divided ? part[k] : part[k] * sum;
        mean += (real)a->gate_scale * dgates[k] * part[k];
    }
    for (int64_t k = 0; k < a->choices; k++)
        dlogits[chosen[k]] += steepness(a, logits[chosen[k]]) *
                              ((real)a->gate_scale * dgates[k] * part[k] - (divided ? mean * part[k] : 0));
    for (int64_t e = 0; softmax_of_all && e < a->experts; e++)
        dlogits[e] -= mean * all[e];
}

void ISA(route_backward_input)(const struct kernel_call *call)
{
    const struct kernel_arguments *a = &call->segment->arguments;
    const struct range r = range_of(call, &call->segment->in[0]);
    real *slopes = call->scratch, *all = call->scratch + a->experts;
    if (!call->operand[ROLE_GRADIENT_IN][0].data)
        return;
    for (int64_t b = r.batch_low; b < r.batch_high; b++)
        for (int64_t t = r.token_low; t < r.token_high; t++) {
            const real *logits = real_at(call, ROLE_IN, 0, AT(b, t, 0));
            real *dlogits = real_at(call, ROLE_GRADIENT_IN, 0, AT(b, t, 0)), mean = 0;
            if (t % a->group == 0)
                balance_slopes(call, b, t, slopes);
            if (begins(call, ROLE_GRADIENT_IN, 0))
                memset(dlogits, 0, (size_t)a->experts * sizeof *dlogits);
            shares(a, logits, NULL, a->experts, all);
            gate_gradient(a, logits, index_at(call, ROLE_OUT, 1, AT(b, t, 0)),
                          real_at(call, ROLE_GRADIENT_OUT, 0, AT(b, t, 0)), all, dlogits);
            for (int64_t e = 0; e < a->experts; e++)
                mean += slopes[e] * all[e];
            for (int64_t e = 0; e < a->experts; e++)
                dlogits[e] += steepness(a, logits[e]) * all[e] * (slopes[e] - mean);
        }
}

/* ---- there and back ---- */
/* Row of the stacked slots (e,b,q,c,h) that a slot number means, from the hidden axis' low end. */
static real *slot_row(const struct kernel_call *call, enum role role, int64_t b, int64_t t, int32_t slot, int64_t h)
{
    const struct kernel_arguments *a = &call->segment->arguments;
    return real_at(call, role, 0, AT(slot / a->slots, b, t / a->group, slot % a->slots, h));
}

/* Makes the slots of the call's groups 0. */
static void clear_slots(const struct kernel_call *call, enum role role, const struct range *r, int64_t low,
                        int64_t high)
{
    const struct kernel_arguments *a = &call->segment->arguments;
    for (int64_t e = 0; e < a->experts; e++)
        for (int64_t b = r->batch_low; b < r->batch_high; b++)
            for (int64_t q = r->token_low / a->group; q < r->token_high / a->group; q++)
                for (int64_t c = 0; c < a->slots; c++)
                    memset(real_at(call, role, 0, AT(e, b, q, c, low)), 0, (size_t)(high - low) * sizeof(real));
}

static void add_scaled(real *restrict to, const real *restrict from, real scale, int64_t count)
{
#pragma omp simd
    for (int64_t i = 0; i < count; i++)
        to[i] += scale * from[i];
}

/* Operands of a walk over the tokens' choices. */
struct travel {
    const struct kernel_call *call;
    struct range range;
    int64_t low, high; /* of the hidden axis */
};

static struct travel travel_of(const struct kernel_call *call, const struct operand *tokens)
{
    int hidden = tokens->axis[2];
    return (struct travel){ call, range_of(call, tokens), call->low[hidden], call->high[hidden] };
}

/* What one token's choice does; slot >= 0. */
typedef void choice_function(const struct travel *travel, int64_t b, int64_t t, int64_t k, int32_t slot);

static void each_choice(const struct travel *travel, int slots, choice_function *function)
{
    const struct kernel_call *call = travel->call;
    for (int64_t b = travel->range.batch_low; b < travel->range.batch_high; b++)
        for (int64_t t = travel->range.token_low; t < travel->range.token_high; t++)
            for (int64_t k = 0; k < call->segment->arguments.choices; k++) {
                int32_t slot = *index_at(call, ROLE_IN, slots, AT(b, t, k));
                if (slot >= 0)
                    function(travel, b, t, k, slot);
            }
}

static void clear_tokens(const struct travel *travel, enum role role, int index)
{
    for (int64_t b = travel->range.batch_low; b < travel->range.batch_high; b++)
        for (int64_t t = travel->range.token_low; t < travel->range.token_high; t++)
            memset(real_at(travel->call, role, index, AT(b, t, travel->low)), 0,
                   (size_t)(travel->high - travel->low) * sizeof(real));
}

static void send_choice(const struct travel *travel, int64_t b, int64_t t, int64_t k, int32_t slot)
{
    (void)k;
    memcpy(slot_row(travel->call, ROLE_OUT, b, t, slot, travel->low),
           real_at(travel->call, ROLE_IN, 0, AT(b, t, travel->low)),
           (size_t)(travel->high - travel->low) * sizeof(real));
}

void ISA(dispatch_forward)(const struct kernel_call *call)
{
    struct travel travel = travel_of(call, &call->segment->in[0]);
    clear_slots(call, ROLE_OUT, &travel.range, travel.low, travel.high);
    each_choice(&travel, 1, send_choice);
}

static void return_choice(const struct travel *travel, int64_t b, int64_t t, int64_t k, int32_t slot)
{
    (void)k;
    add_scaled(real_at(travel->call, ROLE_GRADIENT_IN, 0, AT(b, t, travel->low)),
               slot_row(travel->call, ROLE_GRADIENT_OUT, b, t, slot, travel->low), 1, travel->high - travel->low);
}

void ISA(dispatch_backward_input)(const struct kernel_call *call)
{
    struct travel travel = travel_of(call, &call->segment->in[0]);
    if (!call->operand[ROLE_GRADIENT_IN][0].data)
        return;
    if (begins(call, ROLE_GRADIENT_IN, 0))
        clear_tokens(&travel, ROLE_GRADIENT_IN, 0);
    each_choice(&travel, 1, return_choice);
}

static void add_choice(const struct travel *travel, int64_t b, int64_t t, int64_t k, int32_t slot)
{
    add_scaled(real_at(travel->call, ROLE_OUT, 0, AT(b, t, travel->low)),
               slot_row(travel->call, ROLE_IN, b, t, slot, travel->low),
               *real_at(travel->call, ROLE_IN, 1, AT(b, t, k)), travel->high - travel->low);
}

void ISA(combine_forward)(const struct kernel_call *call)
{
    struct travel travel = travel_of(call, &call->segment->out[0]);
    clear_tokens(&travel, ROLE_OUT, 0);
    each_choice(&travel, 2, add_choice);
}

static void combine_gradients(const struct travel *travel, int64_t b, int64_t t, int64_t k, int32_t slot)
{
    const struct kernel_call *call = travel->call;
    const real *dy = real_at(call, ROLE_GRADIENT_OUT, 0, AT(b, t, travel->low));
    real *dslot =
        call->operand[ROLE_GRADIENT_IN][0].data ? slot_row(call, ROLE_GRADIENT_IN, b, t, slot, travel->low) : NULL;
    real *dgate = real_at(call, ROLE_GRADIENT_IN, 1, AT(b, t, k));
    if (dslot)
        add_scaled(dslot, dy, *real_at(call, ROLE_IN, 1, AT(b, t, k)), travel->high - travel->low);
    if (dgate)
        *dgate += dot_product(dy, slot_row(call, ROLE_IN, b, t, slot, travel->low), travel->high - travel->low);
}

void ISA(combine_backward_input)(const struct kernel_call *call)
{
    struct travel travel = travel_of(call, &call->segment->out[0]);
    if (call->operand[ROLE_GRADIENT_IN][0].data && begins(call, ROLE_GRADIENT_IN, 0))
        clear_slots(call, ROLE_GRADIENT_IN, &travel.range, travel.low, travel.high);
    const struct range *r = &travel.range;
    for (int64_t b = r->batch_low; begins(call, ROLE_GRADIENT_IN, 1) && b < r->batch_high; b++)
        for (int64_t t = r->token_low; t < r->token_high; t++)
            for (int64_t k = 0; call->operand[ROLE_GRADIENT_IN][1].data && k < call->segment->arguments.choices; k++)
                *real_at(call, ROLE_GRADIENT_IN, 1, AT(b, t, k)) = 0;
    each_choice(&travel, 2, combine_gradients);
}
