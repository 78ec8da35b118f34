#include "tests/emulated/emulated_library.h"
#include "executor/gpu/attention_lse.h"
#include "executor/kernels/product.h"
#include "tests/emulated/emulated.h"

/* Loops over the lines and columns of c. */
static struct gpu_work over_c(const struct gpu_matmul *m)
{
    return (struct gpu_work){ .outer_loops = 2,
                              .outer = m->m * m->n,
                              .inner = 1,
                              .extent = { m->m, m->n },
                              .integer = { 1 },
                              .spot = {
                                  { .data = m->c, .type = m->c_type, .begin = true, .stride = { m->c_m, m->c_n } } } };
}

static bool product(void *self, void *stream, const struct gpu_matmul *m, void *c, int64_t c_m, bool accumulate,
                    struct error *err)
{
    struct gpu_work work = {
        .outer_loops = 2,
        .outer = m->m * m->n,
        .inner = 1,
        .extent = { m->m, m->n },
        .integer = { m->k, m->a_k, m->b_k },
        .number = { m->alpha },
        .spot = { { .data = c, .type = m->c_type, .begin = !accumulate, .stride = { c_m, m->c_n } },
                  { .data = (void *)(uintptr_t)m->a, .type = m->a_type, .stride = { m->a_m, 0 } },
                  { .data = (void *)(uintptr_t)m->b, .type = m->b_type, .stride = { 0, m->b_n } } },
    };
    return emulated_launch(self, stream, GPU_PRODUCT, 1, &work, err);
}

/* to (m,n) = the bias in every line. */
static bool put_bias(void *self, void *stream, const struct gpu_matmul *m, void *to, int64_t to_m, struct error *err)
{
    struct gpu_work work = over_c(m);
    work.spot[0].data = to, work.spot[0].stride[0] = to_m;
    work.spot[1] = (struct gpu_spot){ .data = m->bias, .type = m->bias_type, .stride = { 0, 1 } };
    return emulated_launch(self, stream, GPU_SUM_TERMS, 1, &work, err);
}

/* c = f(aux), or c = c f'(aux). */
static bool activate(void *self, void *stream, const struct gpu_matmul *m, bool slope, struct error *err)
{
    struct gpu_work work = over_c(m);
    work.integer[0] = GPU_UNARY_GELU;
    work.spot[1] = (struct gpu_spot){ .data = m->aux, .type = m->c_type, .stride = { m->aux_m, 1 } };
    work.spot[2] = work.spot[0];
    return emulated_launch(self, stream, slope ? GPU_UNARY_GRADIENT : GPU_UNARY, 1, &work, err);
}

static bool sum_bias(void *self, void *stream, const struct gpu_matmul *m, struct error *err)
{
    struct gpu_work work = {
        .outer_loops = 1, .inner_loops = 1, .outer = m->n, .inner = m->k, .extent = { m->n, m->k }
    };
    work.spot[0] = (struct gpu_spot){ .data = m->bias, .type = m->bias_type, .begin = true, .stride = { 1, 0 } };
    work.spot[1] =
        (struct gpu_spot){ .data = (void *)(uintptr_t)m->b, .type = m->b_type, .stride = { m->b_n, m->b_k } };
    work.shared_reals = (int64_t)EMULATED_THREADS * GPU_COLUMN_SHARED;
    return emulated_launch(self, stream, GPU_COLUMN_SUM, 1, &work, err);
}

/* cuBLASLt's table of types, as far as ours go: one type of both factors; of bf16 the product in either, else alike. */
static bool takes_types(const struct gpu_matmul *m)
{
    return m->a_type == m->b_type && (m->c_type == m->a_type || (m->a_type == GPU_BF16 && m->c_type == GPU_REAL));
}

static void *behind(const void *at, int64_t elements, int type)
{
    int64_t bytes = type == GPU_BF16 ? 2 : (int64_t)sizeof(real);
    return (unsigned char *)(uintptr_t)at + elements * bytes;
}

static struct gpu_matmul number(const struct gpu_matmul *m, int64_t i)
{
    struct gpu_matmul one = *m;
    one.count = 1;
    one.a = behind(m->a, i * m->a_next, m->a_type), one.b = behind(m->b, i * m->b_next, m->b_type);
    one.c = behind(m->c, i * m->c_next, m->c_type);
    if (m->bias)
        one.bias = behind(m->bias, i * m->bias_next, m->bias_type);
    return one;
}

bool emulated_matmul(void *self, void *stream, const struct gpu_matmul *m, bool *taken, struct error *declined,
                     struct error *err)
{
    (void)declined;
    *taken = true;
    if (!takes_types(m))
        return fail_kind(err, ERROR_BUG, "a matrix product of types that no library takes");
    if (m->count < 1 || (m->count > 1 && (m->aux || m->c_next <= 0)))
        return fail_kind(err, ERROR_BUG, "several matrix products that no library takes as one");
    if (m->m <= 0 || m->n <= 0 || m->k <= 0 || !matrix_leads(m->m, m->a_m, m->k, m->a_k) ||
        !matrix_leads(m->k, m->b_k, m->n, m->b_n) || !matrix_leads(m->m, m->c_m, m->n, m->c_n))
        return fail_kind(err, ERROR_BUG, "a matrix product that no library takes");
    for (int64_t i = 0; m->count > 1 && i < m->count; i++) {
        const struct gpu_matmul one = number(m, i);
        if (!emulated_matmul(self, stream, &one, taken, declined, err))
            return false;
    }
    if (m->count > 1)
        return true;
    switch (m->epilogue) {
    case GPU_PLAIN:
        return product(self, stream, m, m->c, m->c_m, m->accumulate, err);
    case GPU_BIAS:
        return put_bias(self, stream, m, m->c, m->c_m, err) && product(self, stream, m, m->c, m->c_m, true, err);
    case GPU_GELU:
        return product(self, stream, m, m->aux, m->aux_m, false, err) && activate(self, stream, m, false, err);
    case GPU_GELU_BIAS:
        return put_bias(self, stream, m, m->aux, m->aux_m, err) &&
               product(self, stream, m, m->aux, m->aux_m, true, err) && activate(self, stream, m, false, err);
    case GPU_GELU_SLOPE:
        return product(self, stream, m, m->c, m->c_m, false, err) && activate(self, stream, m, true, err);
    case GPU_BIAS_GRADIENT:
        return product(self, stream, m, m->c, m->c_m, m->accumulate, err) && sum_bias(self, stream, m, err);
    }
    return false;
}

/* As a library that wants lines of some alignment. */
bool emulated_fuses(void *self, const struct gpu_matmul *m)
{
    (void)self;
    return m->c_n == 1 && m->n % 4 == 0 && (m->epilogue != GPU_BIAS_GRADIENT || m->b_n == 1);
}

enum { WIDEST_HEAD = 32 };

/* As a library would: not for all heads, statistics in a layout of its own; computed by the kernels. */
bool emulated_attend(void *self, void *stream, const struct gpu_attention *a, bool *taken, struct error *declined,
                     struct error *err)
{
    struct gpu_work work = *a->work;
    const int64_t heads = work.integer[ATTENTION_HEADS], rows = work.integer[ATTENTION_ROWS];
    if (!(*taken = work.integer[ATTENTION_WIDTH] <= WIDEST_HEAD)) {
        fail_kind(declined, ERROR_ENVIRONMENT, "no heads of more than %d elements", (int)WIDEST_HEAD);
        return true;
    }
    real *dense = emulated_keep(self, (size_t)attention_lse_elements(a->work) * sizeof *dense);
    const struct gpu_work to_dense = attention_lse_copy(a->work, dense, true),
                          from_dense = attention_lse_copy(a->work, dense, false);
    work.spot[ATTENTION_LSE] =
        (struct gpu_spot){ .data = dense, .type = GPU_REAL, .begin = true, .stride = { heads * rows, 1, rows } };
    work.shared_reals = 4 * work.integer[ATTENTION_WIDTH] + 2 * EMULATED_THREADS;
    if (!a->backward)
        return emulated_launch(self, stream, GPU_ATTENTION, 1, &work, err) &&
               emulated_launch(self, stream, GPU_SUM_TERMS, 1, &from_dense, err);
    return emulated_launch(self, stream, GPU_SUM_TERMS, 1, &to_dense, err) &&
           emulated_launch(self, stream, GPU_ATTENTION_QUERY_GRADIENT, 1, &work, err) &&
           emulated_launch(self, stream, GPU_ATTENTION_KEY_GRADIENT, 1, &work, err);
}
