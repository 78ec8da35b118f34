/* y (b,t,h) = scale table (v,h) at tokens (b,t), int32; a call has some rows of v, and other tokens give 0.
 * y (b,t,h) = x (b,t,h) + table (positions,h) at t, or everywhere at 0.
 *
 * Tables whose rows are looked up: by token, and by position. */
#include "executor/kernels/primitives.h"
#include <string.h>

/* ---- token table ---- */
struct table {
    struct spot spot;
    int64_t low, high, row_bytes; /* rows that this call may use */
    bool begin;
    real scale;
};

static struct table table_of(const struct kernel_call *call, enum role role, bool begin)
{
    int axis = call->segment->weight[0].axis[0];
    struct table table = {
        .spot = spot_of(call, role, 0), .low = call->low[axis], .high = call->high[axis], .begin = begin
    };
    const double scale = call->segment->arguments.scale;
    table.scale = scale > 0 ? (real)scale : 1;
    table.row_bytes = table.spot.stride[axis] * table.spot.element_bytes;
    return table;
}

static real *table_row(const struct table *table, int32_t token)
{
    if (token < table->low || token >= table->high)
        return NULL;
    return (real *)(void *)(table->spot.data + (token - table->low) * table->row_bytes);
}

static void embed_row(const struct row *row, const void *context)
{
    const struct table *table = context;
    real *restrict y = row->data[0];
    const real *restrict from = table_row(table, *(const int32_t *)row->data[1]);
    size_t bytes = (size_t)row->count * sizeof *y;
    if (table->begin && from) {
        for (int64_t i = 0; i < row->count; i++)
            y[i] = table->scale * from[i];
    } else if (table->begin) {
        memset(y, 0, bytes);
    } else if (from) {
        for (int64_t i = 0; i < row->count; i++)
            y[i] += table->scale * from[i];
    }
}

void ISA(embed_forward)(const struct kernel_call *call)
{
    struct table table = table_of(call, ROLE_WEIGHT, begins(call, ROLE_OUT, 0));
    struct spot spots[] = { spot_of(call, ROLE_OUT, 0), spot_of_index(call, ROLE_IN, 0) };
    walk(call, &call->segment->out[0], call->operand[ROLE_OUT][0].dim_count, false, spots, 2, embed_row, &table);
}

static void embed_gradient_row(const struct row *row, const void *context)
{
    const struct table *table = context;
    real *restrict to = table_row(table, *(const int32_t *)row->data[1]);
    const real *restrict dy = row->data[0];
    for (int64_t i = 0; to && i < row->count; i++)
        to[i] += table->scale * dy[i];
}

void ISA(embed_backward_weight)(const struct kernel_call *call)
{
    if (!call->operand[ROLE_GRADIENT_WEIGHT][0].data)
        return;
    if (begins(call, ROLE_GRADIENT_WEIGHT, 0))
        clear_operand(call, ROLE_GRADIENT_WEIGHT, 0);
    struct table table = table_of(call, ROLE_GRADIENT_WEIGHT, false);
    struct spot spots[] = { spot_of(call, ROLE_GRADIENT_OUT, 0), spot_of_index(call, ROLE_IN, 0) };
    walk(call, &call->segment->out[0], call->operand[ROLE_GRADIENT_OUT][0].dim_count, false, spots, 2,
         embed_gradient_row, &table);
}

/* ---- learned positions: row t of the table, which follows no axis ---- */
/* The table as if its rows followed the sequence axis. */
static struct spot table_spot(const struct kernel_call *call, enum role role)
{
    const struct view *view = &call->operand[role][0];
    struct spot spot = spot_of(call, role, 0);
    int sequence = call->segment->in[0].axis[1];
    if (!spot.data || call->segment->arguments.one_row)
        return spot;
    spot.stride[sequence] = view->count[1];
    spot.data += (call->low[sequence] + call->shift[sequence] - view->low[0]) * view->count[1] * spot.element_bytes;
    return spot;
}

static void add_position_row(const struct row *row, const void *context)
{
    (void)context;
    real *restrict y = row->data[0];
    const real *restrict x = row->data[1], *restrict table = row->data[2];
#pragma omp simd
    for (int64_t i = 0; i < row->count; i++)
        y[i] = x[i] + table[i];
}

void ISA(add_position_forward)(const struct kernel_call *call)
{
    struct spot spots[] = { spot_of(call, ROLE_OUT, 0), spot_of(call, ROLE_IN, 0), table_spot(call, ROLE_WEIGHT) };
    walk(call, &call->segment->out[0], call->operand[ROLE_OUT][0].dim_count, true, spots, 3, add_position_row, NULL);
}

void ISA(add_position_backward_input)(const struct kernel_call *call)
{
    pass_gradient(call, 0);
}

static void position_gradient_row(const struct row *row, const void *context)
{
    (void)context;
    real *restrict sum = row->data[0];
    const real *restrict dy = row->data[1];
#pragma omp simd
    for (int64_t i = 0; i < row->count; i++)
        sum[i] += dy[i];
}

/* All rows of the table's block begin where the gradient does: those of later positions are 0. */
void ISA(add_position_backward_weight)(const struct kernel_call *call)
{
    const struct view *view = &call->operand[ROLE_GRADIENT_WEIGHT][0];
    if (!view->data)
        return;
    struct spot whole = spot_of(call, ROLE_GRADIENT_WEIGHT, 0);
    int hidden = call->segment->weight[0].axis[1];
    for (int64_t row = 0; begins(call, ROLE_GRADIENT_WEIGHT, 0) && row < view->count[0]; row++)
        memset(whole.data + row * view->count[1] * whole.element_bytes, 0,
               (size_t)((call->high[hidden] - call->low[hidden]) * whole.element_bytes));
    struct spot spots[] = { table_spot(call, ROLE_GRADIENT_WEIGHT), spot_of(call, ROLE_GRADIENT_OUT, 0) };
    walk(call, &call->segment->out[0], call->operand[ROLE_GRADIENT_OUT][0].dim_count, true, spots, 2,
         position_gradient_row, NULL);
}
