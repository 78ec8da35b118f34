/* Between the log-sum-exp of a program, (batch, row, head) at any strides, and what libraries have: fp32 (batch, head,
 * row), dense. */
#ifndef CLEAVE_EXECUTOR_GPU_ATTENTION_LSE_H
#define CLEAVE_EXECUTOR_GPU_ATTENTION_LSE_H
#include "executor/gpu/kinds.h"
#include "executor/gpu/work.h"

static inline int64_t attention_lse_elements(const struct gpu_work *attention)
{
    return attention->integer[ATTENTION_BATCHES] * attention->integer[ATTENTION_HEADS] *
           attention->integer[ATTENTION_ROWS];
}

/* The launch of SUM_TERMS, a thread per element, that copies one to the other. */
static inline struct gpu_work attention_lse_copy(const struct gpu_work *attention, void *dense, bool to_dense)
{
    const struct gpu_spot *own = &attention->spot[ATTENTION_LSE];
    const int64_t heads = attention->integer[ATTENTION_HEADS], rows = attention->integer[ATTENTION_ROWS];
    struct gpu_work work = { .outer_loops = 3,
                             .outer = attention_lse_elements(attention),
                             .inner = 1,
                             .extent = { attention->integer[ATTENTION_BATCHES], heads, rows },
                             .integer = { 1 } };
    work.spot[to_dense ? 0 : 1] =
        (struct gpu_spot){ .data = dense, .type = GPU_REAL, .begin = true, .stride = { heads * rows, rows, 1 } };
    work.spot[to_dense ? 1 : 0] = (struct gpu_spot){ .data = own->data,
                                                     .type = own->type,
                                                     .begin = true,
                                                     .stride = { own->stride[0], own->stride[2], own->stride[1] } };
    return work;
}
#endif
