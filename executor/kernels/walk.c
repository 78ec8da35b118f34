#include "executor/kernels/primitives.h"
#include <string.h>

struct spot spot_of(const struct kernel_call *call, enum role role, int index)
{
    return spot_locate(call, role, index, (int64_t)sizeof(real));
}

struct spot spot_of_index(const struct kernel_call *call, enum role role, int index)
{
    return spot_locate(call, role, index, (int64_t)sizeof(int32_t));
}

void walk(const struct kernel_call *call, const struct operand *order, int dim_count, bool merge,
          const struct spot *spots, int spot_count, row_function *row_function_, const void *context)
{
    struct loop loops[MAX_DIMS];
    int count = loops_make(call, order, dim_count, merge, spots, spot_count, loops);
    if (count == 0)
        return;
    for (int i = 0; i < count; i++)
        if (loops[i].extent <= 0)
            return;
    int64_t at[MAX_DIMS] = { 0 };
    struct row row = { .count = loops[count - 1].extent };
    for (int i = 0; i < spot_count; i++)
        row.step[i] = loops[count - 1].stride[i];
    for (;;) {
        for (int i = 0; i < spot_count; i++) {
            int64_t offset = 0;
            for (int j = 0; j < count - 1; j++)
                offset += at[j] * loops[j].stride[i];
            row.data[i] = spots[i].data ? spots[i].data + offset * spots[i].element_bytes : NULL;
        }
        row_function_(&row, context);
        int j = count - 2;
        while (j >= 0 && ++at[j] == loops[j].extent)
            at[j--] = 0;
        if (j < 0)
            return;
    }
}

static void clear_row(const struct row *row, const void *context)
{
    (void)context;
    real *data = row->data[0];
    memset(data, 0, (size_t)row->count * sizeof *data);
}

void clear_operand(const struct kernel_call *call, enum role role, int index)
{
    struct spot spot = spot_of(call, role, index);
    const struct view *view = &call->operand[role][index];
    walk(call, operand_of_role(call->segment, role, index), view->dim_count, true, &spot, 1, clear_row, NULL);
}

static void add_row(const struct row *row, const void *context)
{
    (void)context;
    real *restrict sum = row->data[0];
    const real *restrict x = row->data[1];
    if (row->step[0] == 0) {
        real total = 0;
#pragma omp simd reduction(+ : total)
        for (int64_t i = 0; i < row->count; i++)
            total += x[i];
        *sum += total;
        return;
    }
#pragma omp simd
    for (int64_t i = 0; i < row->count; i++)
        sum[i] += x[i];
}

static void bias_row(const struct row *row, const void *context)
{
    (void)context;
    real *restrict out = row->data[0];
    const real *restrict bias = row->data[1];
    if (row->step[1] == 1) {
        memcpy(out, bias, (size_t)row->count * sizeof *out);
        return;
    }
    for (int64_t i = 0; i < row->count; i++)
        out[i] = bias[i * row->step[1]];
}

void fill_with_bias(const struct kernel_call *call, int index)
{
    struct spot spots[] = { spot_of(call, ROLE_OUT, 0), spot_of(call, ROLE_WEIGHT, index) };
    walk(call, &call->segment->out[0], call->operand[ROLE_OUT][0].dim_count, true, spots, 2, bias_row, NULL);
}

void bias_gradient(const struct kernel_call *call, int index)
{
    const struct view *bias = &call->operand[ROLE_GRADIENT_WEIGHT][index], *out = &call->operand[ROLE_GRADIENT_OUT][0];
    if (!bias->data)
        return;
    if (begins(call, ROLE_GRADIENT_WEIGHT, index))
        clear_operand(call, ROLE_GRADIENT_WEIGHT, index);
    struct spot spots[] = { spot_of(call, ROLE_GRADIENT_WEIGHT, index), spot_of(call, ROLE_GRADIENT_OUT, 0) };
    walk(call, &call->segment->out[0], out->dim_count, true, spots, 2, add_row, NULL);
}

static void pass_row(const struct row *row, const void *context)
{
    const bool *begin = context;
    real *restrict dx = row->data[0];
    const real *restrict dy = row->data[1];
    if (*begin) {
        memcpy(dx, dy, (size_t)row->count * sizeof *dx);
        return;
    }
#pragma omp simd
    for (int64_t i = 0; i < row->count; i++)
        dx[i] += dy[i];
}

void pass_gradient(const struct kernel_call *call, int index)
{
    if (!call->operand[ROLE_GRADIENT_IN][index].data)
        return;
    bool begin = begins(call, ROLE_GRADIENT_IN, index);
    struct spot spots[] = { spot_of(call, ROLE_GRADIENT_IN, index), spot_of(call, ROLE_GRADIENT_OUT, 0) };
    walk(call, &call->segment->out[0], call->operand[ROLE_GRADIENT_OUT][0].dim_count, true, spots, 2, pass_row, &begin);
}

real dot_product(const real *x, const real *y, int64_t count)
{
    real sum = 0;
#pragma omp simd reduction(+ : sum)
    for (int64_t i = 0; i < count; i++)
        sum += x[i] * y[i];
    return sum;
}
