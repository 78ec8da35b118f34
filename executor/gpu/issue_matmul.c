#include "base/num.h"
#include "executor/gpu/issue.h"
#include "executor/kernels/product.h"

struct matmul_context {
    const struct gpu_call *g;
    int a_type, b_type, c_type;
    struct error *err;
    bool ok;
};

/* By the device's library where strides and the library allow. */
static bool by_library(const struct matmul_context *m, const struct gemm *g, bool *done)
{
    const struct gpu *gpu = m->g->gpu;
    struct gpu_matmul matmul = {
        g->m,   g->n,   g->k,   g->a,      g->b,      g->c,      g->a_m,           g->a_k,       g->b_k,
        g->b_n, g->c_m, g->c_n, m->a_type, m->b_type, m->c_type, (double)g->alpha, g->accumulate
    };
    *done = gpu->matmul && g->k > 0 && matrix_leads(g->m, g->a_m, g->k, g->a_k) &&
            matrix_leads(g->k, g->b_k, g->n, g->b_n) && matrix_leads(g->m, g->c_m, g->n, g->c_n);
    return !*done || gpu->matmul(gpu->self, m->g->stream, &matmul, m->err);
}

static bool by_kernel(const struct matmul_context *m, const struct gemm *g)
{
    struct gpu_work work = {
        .outer_loops = 2,
        .outer = g->m * g->n,
        .inner = 1,
        .extent = { g->m, g->n },
        .integer = { g->k, g->a_k, g->b_k },
        .number = { (double)g->alpha },
        .spot = { { .data = g->c, .type = m->c_type, .begin = !g->accumulate, .stride = { g->c_m, g->c_n } },
                  { .data = (void *)(uintptr_t)g->a, .type = m->a_type, .stride = { g->a_m, 0 } },
                  { .data = (void *)(uintptr_t)g->b, .type = m->b_type, .stride = { 0, g->b_n } } },
    };
    return gpu_start_elements(m->g->gpu, m->g->stream, GPU_PRODUCT, &work, work.outer, m->err);
}

static void run(void *context, const struct gemm *g)
{
    struct matmul_context *m = context;
    bool done = false;
    if (!m->ok || g->m <= 0 || g->n <= 0)
        return;
    m->ok = by_library(m, g, &done) && (done || by_kernel(m, g));
}

static bool product(const struct gpu_call *g, enum role c, enum role a, enum role b, bool accumulate, struct error *err)
{
    struct matmul_context m = {
        .g = g, .a_type = g->type[a][0], .b_type = g->type[b][0], .c_type = g->type[c][0], .err = err, .ok = true
    };
    product_each(g->call, gpu_spot_of(g, c, 0), gpu_spot_of(g, a, 0), gpu_spot_of(g, b, 0), accumulate, run, &m);
    return m.ok;
}

/* The bias goes in first, as on the processor. */
static bool forward(const struct gpu_call *g, struct error *err)
{
    bool accumulate = !begins(g->call, ROLE_OUT, 0);
    if (g->call->segment->weight_count > 1 && !accumulate) {
        struct spot spots[] = { gpu_spot_of(g, ROLE_OUT, 0), gpu_spot_of(g, ROLE_WEIGHT, 1) };
        struct gpu_work work = { .integer = { 1 },
                                 .spot = { gpu_operand(g, ROLE_OUT, 0), gpu_operand(g, ROLE_WEIGHT, 1) } };
        gpu_loops(g, &work, &g->call->segment->out[0], g->call->operand[ROLE_OUT][0].dim_count, false, spots, 2);
        if (!gpu_start_elements(g->gpu, g->stream, GPU_SUM_TERMS, &work, work.outer, err))
            return false;
        accumulate = true;
    }
    return product(g, ROLE_OUT, ROLE_IN, ROLE_WEIGHT, accumulate, err);
}

bool gpu_issue_matmul(const struct gpu_call *g, enum phase phase, struct error *err)
{
    switch (phase) {
    case PHASE_FORWARD:
        return forward(g, err);
    case PHASE_BACKWARD_INPUT:
        return !gpu_wanted(g, ROLE_GRADIENT_IN, 0) ||
               product(g, ROLE_GRADIENT_IN, ROLE_GRADIENT_OUT, ROLE_WEIGHT, !begins(g->call, ROLE_GRADIENT_IN, 0), err);
    case PHASE_BACKWARD_WEIGHT:
        return (!gpu_wanted(g, ROLE_GRADIENT_WEIGHT, 0) || product(g, ROLE_GRADIENT_WEIGHT, ROLE_IN, ROLE_GRADIENT_OUT,
                                                                   !begins(g->call, ROLE_GRADIENT_WEIGHT, 0), err)) &&
               (g->call->segment->weight_count < 2 || gpu_bias_gradient(g, 1, err));
    case PHASE_STEP:
    case PHASE_COUNT:
        break;
    }
    return fail_kind(err, ERROR_BUG, "a matmul has no phase %s", phase_names[phase]);
}
