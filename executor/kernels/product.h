/* One product of two operands into a third serves all phases of MATMUL, on any device. */
#ifndef CLEAVE_EXECUTOR_KERNELS_PRODUCT_H
#define CLEAVE_EXECUTOR_KERNELS_PRODUCT_H
#include "executor/kernels/loops.h"

/* c(m,n) = alpha * sum over k of a(m,k) b(k,n), plus c where accumulate, or the row where there is one; any strides.
 * Elements are those of the spots. */
struct gemm {
    int64_t m, n, k;
    const real *a;
    int64_t a_m, a_k;
    const real *b;
    int64_t b_k, b_n;
    real *c;
    int64_t c_m, c_n;
    real alpha;
    bool accumulate; /* false: c is not read */
    const real *row; /* (n) added to each row of c; NULL: none. Not with accumulate */
};

/* A matrix (lines, width) whose lines are contiguous, as BLAS libraries want it; *out: from line to line. */
static inline bool matrix_lead(int64_t lines, int64_t line_stride, int64_t width, int64_t width_stride, int64_t *out)
{
    if (width > 1 && width_stride != 1)
        return false;
    *out = lines > 1 ? line_stride : width > 1 ? width : 1;
    return *out >= width;
}

/* Tells whether it can be had by lines or by columns. */
static inline bool matrix_leads(int64_t lines, int64_t line_stride, int64_t width, int64_t width_stride)
{
    int64_t lead;
    return matrix_lead(lines, line_stride, width, width_stride, &lead) ||
           matrix_lead(width, width_stride, lines, line_stride, &lead);
}

/* c (+)= a b as a sequence of GEMMs; a later pass over a looped contracted axis adds to what the first one left. */
void product_each(const struct kernel_call *call, struct spot c, struct spot a, struct spot b, bool accumulate,
                  void (*run)(void *context, const struct gemm *gemm), void *context);
#endif
