/* logits (b,t,v); labels (b,t), int32, -1 where there is no target; maximum, sum of exponentials and pick (b,t). The
 * loss is one number: the sum over (b,t) over the number of targets of the whole step.
 *
 * Cross-entropy in four pieces that fold over a split vocabulary. Columns from `valid` on are padding: -inf going
 * forward, gradient exactly 0 going back. */
#include "executor/kernels/exponential.h"
#include "executor/kernels/primitives.h"
#include <string.h>

struct columns {
    int64_t low, valid; /* first column of the range; how many of the range's columns are vocabulary */
    bool begin;
};

enum { VOCABULARY_DIM = 2 }; /* logits are (b,t,v) */

static struct columns columns_of(const struct kernel_call *call, bool begin)
{
    int axis = call->segment->in[0].axis[VOCABULARY_DIM];
    int64_t high = call->high[axis], valid = call->segment->arguments.valid;
    if (valid > 0 && high > valid)
        high = valid;
    return (struct columns){ .low = call->low[axis],
                             .valid = high > call->low[axis] ? high - call->low[axis] : 0,
                             .begin = begin };
}

static int64_t clip(int64_t count, int64_t limit)
{
    return count < limit ? count : limit;
}

/* Several running maxima: one would wait for itself at every step. */
static real largest(const real *x, int64_t count)
{
    enum { LANES = 64 };
    real lanes[LANES], best = -INFINITY;
    int64_t i = 0;
    if (count >= LANES) {
        memcpy(lanes, x, sizeof lanes);
        for (i = LANES; i + LANES <= count; i += LANES)
            for (int j = 0; j < LANES; j++)
                lanes[j] = x[i + j] > lanes[j] ? x[i + j] : lanes[j];
        for (int j = 0; j < LANES; j++)
            best = lanes[j] > best ? lanes[j] : best;
    }
    for (; i < count; i++)
        best = x[i] > best ? x[i] : best;
    return best;
}

static void max_row(const struct row *row, const void *context)
{
    const struct columns *columns = context;
    const real *x = row->data[0];
    real *out = row->data[1], best = largest(x, clip(row->count, columns->valid));
    *out = columns->begin || best > *out ? best : *out;
}

void ISA(logit_max_forward)(const struct kernel_call *call)
{
    struct columns columns = columns_of(call, begins(call, ROLE_OUT, 0));
    struct spot spots[] = { spot_of(call, ROLE_IN, 0), spot_of(call, ROLE_OUT, 0) };
    walk(call, &call->segment->in[0], call->operand[ROLE_IN][0].dim_count, false, spots, 2, max_row, &columns);
}

static void sum_exp_row(const struct row *row, const void *context)
{
    const struct columns *columns = context;
    const real *restrict x = row->data[0];
    const real shift = *(const real *)row->data[1];
    real *out = row->data[2], sum = 0;
    int64_t count = clip(row->count, columns->valid);
#pragma omp simd reduction(+ : sum)
    for (int64_t i = 0; i < count; i++)
        sum += real_exp(x[i] - shift);
    *out = columns->begin ? sum : *out + sum;
}

void ISA(sum_exp_forward)(const struct kernel_call *call)
{
    struct columns columns = columns_of(call, begins(call, ROLE_OUT, 0));
    struct spot spots[] = { spot_of(call, ROLE_IN, 0), spot_of(call, ROLE_IN, 1), spot_of(call, ROLE_OUT, 0) };
    walk(call, &call->segment->in[0], call->operand[ROLE_IN][0].dim_count, false, spots, 3, sum_exp_row, &columns);
}

/* The gradient may lie where the logits do. */
static void sum_exp_gradient_row(const struct row *row, const void *context)
{
    const struct columns *columns = context;
    const real *x = row->data[0];
    const real shift = *(const real *)row->data[1], scale = *(const real *)row->data[2];
    real *dx = row->data[3];
    int64_t count = clip(row->count, columns->valid);
    if (columns->begin) {
#pragma omp simd
        for (int64_t i = 0; i < count; i++)
            dx[i] = real_exp(x[i] - shift) * scale;
        memset(dx + count, 0, (size_t)(row->count - count) * sizeof *dx);
    } else {
#pragma omp simd
        for (int64_t i = 0; i < count; i++)
            dx[i] += real_exp(x[i] - shift) * scale;
    }
}

void ISA(sum_exp_backward_input)(const struct kernel_call *call)
{
    if (!call->operand[ROLE_GRADIENT_IN][0].data)
        return;
    struct columns columns = columns_of(call, begins(call, ROLE_GRADIENT_IN, 0));
    struct spot spots[] = { spot_of(call, ROLE_IN, 0), spot_of(call, ROLE_IN, 1), spot_of(call, ROLE_GRADIENT_OUT, 0),
                            spot_of(call, ROLE_GRADIENT_IN, 0) };
    walk(call, &call->segment->in[0], call->operand[ROLE_IN][0].dim_count, false, spots, 4, sum_exp_gradient_row,
         &columns);
}

static void pick_row(const struct row *row, const void *context)
{
    const struct columns *columns = context;
    const real *x = row->data[0];
    real *out = row->data[2];
    int64_t column = *(const int32_t *)row->data[1] - columns->low;
    real picked = column >= 0 && column < clip(row->count, columns->valid) ? x[column] : 0;
    *out = columns->begin ? picked : *out + picked;
}

void ISA(pick_forward)(const struct kernel_call *call)
{
    struct columns columns = columns_of(call, begins(call, ROLE_OUT, 0));
    struct spot spots[] = { spot_of(call, ROLE_IN, 0), spot_of_index(call, ROLE_IN, 1), spot_of(call, ROLE_OUT, 0) };
    walk(call, &call->segment->in[0], call->operand[ROLE_IN][0].dim_count, false, spots, 3, pick_row, &columns);
}

static void pick_gradient_row(const struct row *row, const void *context)
{
    const struct columns *columns = context;
    const real scale = *(const real *)row->data[1];
    real *dx = row->data[2];
    int64_t column = *(const int32_t *)row->data[0] - columns->low;
    if (columns->begin)
        memset(dx, 0, (size_t)row->count * sizeof *dx);
    if (column >= 0 && column < clip(row->count, columns->valid))
        dx[column] += scale;
}

void ISA(pick_backward_input)(const struct kernel_call *call)
{
    if (!call->operand[ROLE_GRADIENT_IN][0].data)
        return;
    struct columns columns = columns_of(call, begins(call, ROLE_GRADIENT_IN, 0));
    struct spot spots[] = { spot_of_index(call, ROLE_IN, 1), spot_of(call, ROLE_GRADIENT_OUT, 0),
                            spot_of(call, ROLE_GRADIENT_IN, 0) };
    walk(call, &call->segment->in[0], call->operand[ROLE_GRADIENT_IN][0].dim_count, false, spots, 3, pick_gradient_row,
         &columns);
}

struct nll_sum {
    double *total;
};

static void nll_row(const struct row *row, const void *context)
{
    const struct nll_sum *sum = context;
    const real *exps = row->data[0], *max = row->data[1], *picked = row->data[2];
    const int32_t *labels = row->data[3];
    for (int64_t i = 0; i < row->count; i++)
        if (labels[i] != -1)
            *sum->total += (double)real_log(exps[i]) + (double)max[i] - (double)picked[i];
}

void ISA(nll_forward)(const struct kernel_call *call)
{
    double total = 0;
    struct nll_sum sum = { &total };
    real *out = call->operand[ROLE_OUT][0].data;
    const real *count = call->operand[ROLE_IN][4].data;
    struct spot spots[] = { spot_of(call, ROLE_IN, 0), spot_of(call, ROLE_IN, 1), spot_of(call, ROLE_IN, 2),
                            spot_of_index(call, ROLE_IN, 3) };
    walk(call, &call->segment->in[0], call->operand[ROLE_IN][0].dim_count, true, spots, 4, nll_row, &sum);
    total = total == 0 ? 0 : total / (double)*count; /* no targets in the whole step: the loss is 0 */
    *out = begins(call, ROLE_OUT, 0) ? (real)total : *out + (real)total;
}

struct nll_gradient {
    real scale; /* gradient of the loss over the number of targets */
    bool begin[2];
};

static void nll_gradient_row(const struct row *row, const void *context)
{
    const struct nll_gradient *g = context;
    const real *exps = row->data[0];
    const int32_t *labels = row->data[1];
    real *dexps = row->data[2], *dpicked = row->data[3];
    for (int64_t i = 0; i < row->count; i++) {
        real step = labels[i] == -1 ? 0 : g->scale, slope = labels[i] == -1 ? 0 : step / exps[i];
        if (dexps)
            dexps[i] = (g->begin[0] ? 0 : dexps[i]) + slope;
        if (dpicked)
            dpicked[i] = (g->begin[1] ? 0 : dpicked[i]) - step;
    }
}

/* The gradients of sum and pick; the one of the maximum cancels against sum's and is never asked for. */
void ISA(nll_backward_input)(const struct kernel_call *call)
{
    const real *count = call->operand[ROLE_IN][4].data, *gradient = call->operand[ROLE_GRADIENT_OUT][0].data;
    struct nll_gradient context = { *count > 0 ? *gradient / *count : 0,
                                    { begins(call, ROLE_GRADIENT_IN, 0), begins(call, ROLE_GRADIENT_IN, 2) } };
    struct spot spots[] = { spot_of(call, ROLE_IN, 0), spot_of_index(call, ROLE_IN, 3),
                            spot_of(call, ROLE_GRADIENT_IN, 0), spot_of(call, ROLE_GRADIENT_IN, 2) };
    walk(call, &call->segment->in[0], call->operand[ROLE_IN][0].dim_count, true, spots, 4, nll_gradient_row, &context);
}
