#include "base/num.h"
#include "executor/gpu/issue.h"
#include "executor/kernels/product.h"
#include <stdio.h>

static struct gpu_matmul matmul_of(const struct gpu_call *call, const struct gemm *g, int a_type, int b_type,
                                   int c_type)
{
    return (struct gpu_matmul){ .deterministic = call->deterministic,
                                .m = g->m,
                                .n = g->n,
                                .k = g->k,
                                .count = 1,
                                .a = g->a,
                                .b = g->b,
                                .c = g->c,
                                .a_m = g->a_m,
                                .a_k = g->a_k,
                                .b_k = g->b_k,
                                .b_n = g->b_n,
                                .c_m = g->c_m,
                                .c_n = g->c_n,
                                .a_type = a_type,
                                .b_type = b_type,
                                .c_type = c_type,
                                .alpha = (double)g->alpha,
                                .accumulate = g->accumulate };
}

/* ---- products as they come ---- */
struct matmul_context {
    const struct gpu_call *g;
    int a_type, b_type, c_type;
    struct gpu_matmul ready; /* what came so far and is not queued; count 0: nothing */
    struct error *err;
    bool ok;
};

static struct gpu_matmul number(const struct gpu_matmul *m, int64_t i)
{
    struct gpu_matmul one = *m;
    one.count = 1;
    one.a = (const char *)m->a + i * m->a_next * gpu_type_bytes(m->a_type);
    one.b = (const char *)m->b + i * m->b_next * gpu_type_bytes(m->b_type);
    one.c = (char *)m->c + i * m->c_next * gpu_type_bytes(m->c_type);
    return one;
}

static void note_own_kernel(const struct gpu_call *g, const struct gpu_matmul *m, const char *why)
{
    char text[512];
    snprintf(text, sizeof text, "a product of %lld x %lld by %lld x %lld goes by an own kernel, which is slow: %.300s",
             (long long)m->m, (long long)m->k, (long long)m->k, (long long)m->n, why);
    g->note(g->note_context, text);
}

/* A product that the library does not take is left to the own kernel, and a note says so; one with an epilogue becomes
 * a plain one first. */
static bool ask_library(const struct gpu_call *g, const struct gpu_matmul *m, bool *done, struct error *err)
{
    struct error declined = { 0 };
    bool ok = g->gpu->matmul(g->gpu->self, g->stream, m, done, &declined, err);
    if (ok && !*done && g->note && m->epilogue == GPU_PLAIN)
        note_own_kernel(g, m, declined.message);
    return ok;
}

static bool by_kernel(const struct gpu_call *g, const struct gpu_matmul *m, struct error *err)
{
    struct gpu_work work = {
        .outer_loops = 3,
        .outer = m->count * m->m * m->n,
        .inner = 1,
        .extent = { m->count, m->m, m->n },
        .integer = { m->k, m->a_k, m->b_k },
        .number = { m->alpha },
        .spot = { { .data = m->c, .type = m->c_type, .begin = !m->accumulate, .stride = { m->c_next, m->c_m, m->c_n } },
                  { .data = (void *)(uintptr_t)m->a, .type = m->a_type, .stride = { m->a_next, m->a_m, 0 } },
                  { .data = (void *)(uintptr_t)m->b, .type = m->b_type, .stride = { m->b_next, 0, m->b_n } } },
    };
    return gpu_start_elements(g->gpu, g->stream, GPU_PRODUCT, &work, work.outer, err);
}

/* The device's library multiplies where strides and the library allow; several in one call where it takes them so. */
static bool multiply(const struct gpu_call *g, const struct gpu_matmul *m, struct error *err)
{
    bool done = false;
    if (!g->gpu->matmul || m->k <= 0 || !matrix_leads(m->m, m->a_m, m->k, m->a_k) ||
        !matrix_leads(m->k, m->b_k, m->n, m->b_n) || !matrix_leads(m->m, m->c_m, m->n, m->c_n))
        return by_kernel(g, m, err);
    if (m->count == 1 || (g->gpu->fuses && g->gpu->fuses(g->gpu->self, m)))
        return ask_library(g, m, &done, err) && (done || by_kernel(g, m, err));
    for (int64_t i = 0; i < m->count; i++) {
        const struct gpu_matmul one = number(m, i);
        if (!ask_library(g, &one, &done, err) || (!done && !by_kernel(g, &one, err)))
            return false;
    }
    return true;
}

static void queue(struct matmul_context *m)
{
    if (m->ok && m->ready.count > 0)
        m->ok = multiply(m->g, &m->ready, m->err);
    m->ready.count = 0;
}

/* Elements from where one product's matrix lies to where the next one's does. */
static int64_t distance(const void *from, const void *to, int type)
{
    return ((const char *)to - (const char *)from) / gpu_type_bytes(type);
}

static bool alike(const struct gpu_matmul *x, const struct gpu_matmul *y)
{
    return x->m == y->m && x->n == y->n && x->k == y->k && x->a_m == y->a_m && x->a_k == y->a_k && x->b_k == y->b_k &&
           x->b_n == y->b_n && x->c_m == y->c_m && x->c_n == y->c_n && x->alpha == y->alpha &&
           x->accumulate == y->accumulate;
}

/* Tells whether it lies behind those that are ready as they lie behind each other; then it is one of them. Products
 * that add to the same c come one after the other with no distance between. */
static bool joins(struct gpu_matmul *ready, const struct gpu_matmul *next)
{
    const int64_t n = ready->count, a = distance(ready->a, next->a, ready->a_type),
                  b = distance(ready->b, next->b, ready->b_type), c = distance(ready->c, next->c, ready->c_type);
    if (n == 0 || !alike(ready, next) || a < 0 || b < 0 || c <= 0)
        return false;
    if (n > 1 && (a != n * ready->a_next || b != n * ready->b_next || c != n * ready->c_next))
        return false;
    if (n == 1)
        ready->a_next = a, ready->b_next = b, ready->c_next = c;
    ready->count++;
    return true;
}

static void take(void *context, const struct gemm *g)
{
    struct matmul_context *m = context;
    if (!m->ok || g->m <= 0 || g->n <= 0)
        return;
    const struct gpu_matmul next = matmul_of(m->g, g, m->a_type, m->b_type, m->c_type);
    if (joins(&m->ready, &next))
        return;
    queue(m);
    m->ready = next;
}

static bool product(const struct gpu_call *g, enum role c, enum role a, enum role b, bool accumulate, struct error *err)
{
    struct matmul_context m = {
        .g = g, .a_type = g->type[a][0], .b_type = g->type[b][0], .c_type = g->type[c][0], .err = err, .ok = true
    };
    product_each(g->call, gpu_spot_of(g, c, 0), gpu_spot_of(g, a, 0), gpu_spot_of(g, b, 0), accumulate, take, &m);
    queue(&m);
    return m.ok;
}

/* ---- with an epilogue ---- */
struct collected {
    struct gemm gemm;
    int count;
};

static void collect(void *context, const struct gemm *g)
{
    struct collected *c = context;
    c->gemm = *g;
    c->count++;
}

/* The product where it is a single one with c and b by lines; false: it is not. */
static bool single(const struct gpu_call *g, enum role c, enum role a, enum role b, bool accumulate,
                   struct gpu_matmul *out)
{
    struct collected collected = { .count = 0 };
    if (!g->gpu->fuses)
        return false;
    product_each(g->call, gpu_spot_of(g, c, 0), gpu_spot_of(g, a, 0), gpu_spot_of(g, b, 0), accumulate, collect,
                 &collected);
    const struct gemm *gemm = &collected.gemm;
    *out = matmul_of(g, gemm, g->type[a][0], g->type[b][0], g->type[c][0]);
    return collected.count == 1 && gemm->m > 0 && gemm->n > 0 && gemm->k > 0 && gemm->c_n == 1 &&
           matrix_leads(gemm->m, gemm->a_m, gemm->k, gemm->a_k) && matrix_leads(gemm->k, gemm->b_k, gemm->n, gemm->b_n);
}

/* Tells whether the elements of a bias, or of its gradient, follow the columns of the product's c, side by side. */
static bool follows_columns(const struct gpu_call *g, enum role bias, enum role lines, enum role a, enum role b)
{
    const struct kernel_call *call = g->call;
    struct spot x = gpu_spot_of(g, bias, 1), c = gpu_spot_of(g, lines, 0), left = gpu_spot_of(g, a, 0),
                right = gpu_spot_of(g, b, 0);
    for (int axis = 0; axis < call->segment->axis_count; axis++) {
        bool column = c.stride[axis] && right.stride[axis] && !left.stride[axis];
        if (call->high[axis] - call->low[axis] > 1 && x.stride[axis] != (column ? c.stride[axis] : 0))
            return false;
    }
    return true;
}

static bool set_bias(const struct gpu_call *g, enum role bias, struct gpu_matmul *m)
{
    m->bias = gpu_spot_of(g, bias, 1).data;
    m->bias_type = g->type[bias][1];
    return m->bias != NULL;
}

static bool library_fuses(const struct gpu_call *g, const struct gpu_matmul *m)
{
    return g->gpu->fuses(g->gpu->self, m);
}

/* Returns the same place in another operand that lies as the first does. */
static void *moved(const void *at, const struct view *from, const struct view *to)
{
    return (char *)to->data + ((const char *)at - (const char *)from->data);
}

static bool lies_as(const struct view *x, int x_type, const struct view *y, int y_type)
{
    bool same = x_type == y_type && x->dim_count == y->dim_count && x->data && y->data;
    for (int dim = 0; same && dim < x->dim_count; dim++)
        same = x->low[dim] == y->low[dim] && x->count[dim] == y->count[dim];
    return same;
}

static bool whole(const struct gpu_call *g, enum role role, const struct gpu_matmul *m)
{
    const struct view *view = &g->call->operand[role][0];
    int64_t elements = 1;
    for (int dim = 0; dim < view->dim_count; dim++)
        elements *= view->count[dim];
    return elements == m->m * m->n;
}

/* A product and then GELU of it: one, where the library does. */
static bool forward_and_gelu(const struct gpu_call *g, const struct gpu_call *gelu, struct gpu_matmul *m)
{
    const struct view *before = &g->call->operand[ROLE_OUT][0], *after = &gelu->call->operand[ROLE_OUT][0];
    if (!begins(g->call, ROLE_OUT, 0) || !single(g, ROLE_OUT, ROLE_IN, ROLE_WEIGHT, false, m) ||
        !whole(g, ROLE_OUT, m) || !lies_as(before, g->type[ROLE_OUT][0], after, gelu->type[ROLE_OUT][0]))
        return false;
    bool biased = g->call->segment->weight_count > 1;
    m->epilogue = biased ? GPU_GELU_BIAS : GPU_GELU;
    m->aux = m->c, m->aux_m = m->c_m;
    m->c = moved(m->c, before, after);
    return (!biased ||
            (follows_columns(g, ROLE_WEIGHT, ROLE_OUT, ROLE_IN, ROLE_WEIGHT) && set_bias(g, ROLE_WEIGHT, m))) &&
           library_fuses(g, m);
}

/* The gradient of what GELU gave, and then of what it took. */
static bool backward_and_gelu(const struct gpu_call *g, const struct gpu_call *gelu, struct gpu_matmul *m)
{
    const struct view *between = &g->call->operand[ROLE_GRADIENT_IN][0],
                      *after = &gelu->call->operand[ROLE_GRADIENT_IN][0], *input = &gelu->call->operand[ROLE_IN][0];
    const int type = g->type[ROLE_GRADIENT_IN][0];
    if (!begins(g->call, ROLE_GRADIENT_IN, 0) || !begins(gelu->call, ROLE_GRADIENT_IN, 0) ||
        !single(g, ROLE_GRADIENT_IN, ROLE_GRADIENT_OUT, ROLE_WEIGHT, false, m) || !whole(g, ROLE_GRADIENT_IN, m) ||
        !lies_as(between, type, after, gelu->type[ROLE_GRADIENT_IN][0]) ||
        !lies_as(between, type, input, gelu->type[ROLE_IN][0]))
        return false;
    m->epilogue = GPU_GELU_SLOPE;
    m->aux = moved(m->c, between, input), m->aux_m = m->c_m;
    m->c = moved(m->c, between, after);
    return library_fuses(g, m);
}

struct two_calls {
    const struct gpu_call *product, *gelu;
};

static bool gelu_apart(void *context, void *c, struct error *err)
{
    const struct two_calls *two = context;
    (void)c; /* neither adds to what is there */
    return gpu_issue(two->product, err) && gpu_issue(two->gelu, err);
}

bool gpu_issue_with_gelu(const struct gpu_call *g, const struct gpu_call *gelu, bool *done, struct error *err)
{
    struct gpu_matmul m;
    *done = g->call->phase == PHASE_FORWARD ? forward_and_gelu(g, gelu, &m) : backward_and_gelu(g, gelu, &m);
    m.apart = gelu_apart, m.apart_context = &(struct two_calls){ g, gelu };
    return !*done || ask_library(g, &m, done, err);
}

/* ---- the phases ---- */
/* Without a library the bias goes in first, as on the processor. */
static bool forward_apart(void *context, void *c, struct error *err)
{
    const struct gpu_call *g = context;
    struct spot spots[] = { gpu_spot_of(g, ROLE_OUT, 0), gpu_spot_of(g, ROLE_WEIGHT, 1) };
    struct gpu_work work = { .integer = { 1 },
                             .spot = { gpu_operand(g, ROLE_OUT, 0), gpu_operand(g, ROLE_WEIGHT, 1) } };
    (void)c; /* it is written where it belongs */
    gpu_loops(g, &work, &g->call->segment->out[0], g->call->operand[ROLE_OUT][0].dim_count, false, spots, 2);
    return gpu_start_elements(g->gpu, g->stream, GPU_SUM_TERMS, &work, work.outer, err) &&
           product(g, ROLE_OUT, ROLE_IN, ROLE_WEIGHT, true, err);
}

static bool forward(const struct gpu_call *g, struct error *err)
{
    const bool accumulate = !begins(g->call, ROLE_OUT, 0);
    struct gpu_matmul m;
    bool done = false;
    if (g->call->segment->weight_count <= 1 || accumulate)
        return product(g, ROLE_OUT, ROLE_IN, ROLE_WEIGHT, accumulate, err);
    if (single(g, ROLE_OUT, ROLE_IN, ROLE_WEIGHT, false, &m) &&
        follows_columns(g, ROLE_WEIGHT, ROLE_OUT, ROLE_IN, ROLE_WEIGHT) && set_bias(g, ROLE_WEIGHT, &m)) {
        m.epilogue = GPU_BIAS;
        m.apart = forward_apart, m.apart_context = (void *)(uintptr_t)g;
        if (library_fuses(g, &m) && (!ask_library(g, &m, &done, err) || done))
            return done;
    }
    return forward_apart((void *)(uintptr_t)g, NULL, err);
}

/* The product to be timed without its epilogue, which may add to what is at m->c, and thus goes elsewhere. */
struct weight_call {
    const struct gpu_call *g;
    const struct gpu_matmul *m;
};

static bool weight_apart(void *context, void *c, struct error *err)
{
    const struct weight_call *w = context;
    struct gpu_matmul plain = *w->m;
    plain.c = c, plain.epilogue = GPU_PLAIN, plain.bias = NULL, plain.apart = NULL;
    return multiply(w->g, &plain, err) && gpu_bias_gradient(w->g, 1, err);
}

static bool backward_weight(const struct gpu_call *g, struct error *err)
{
    const bool accumulate = !begins(g->call, ROLE_GRADIENT_WEIGHT, 0), biased = g->call->segment->weight_count > 1;
    struct gpu_matmul m;
    if (biased && gpu_wanted(g, ROLE_GRADIENT_WEIGHT, 0) && gpu_wanted(g, ROLE_GRADIENT_WEIGHT, 1) &&
        begins(g->call, ROLE_GRADIENT_WEIGHT, 1) &&
        single(g, ROLE_GRADIENT_WEIGHT, ROLE_IN, ROLE_GRADIENT_OUT, accumulate, &m) &&
        follows_columns(g, ROLE_GRADIENT_WEIGHT, ROLE_GRADIENT_WEIGHT, ROLE_IN, ROLE_GRADIENT_OUT) &&
        set_bias(g, ROLE_GRADIENT_WEIGHT, &m)) {
        bool done = false;
        m.epilogue = GPU_BIAS_GRADIENT;
        m.apart = weight_apart, m.apart_context = &(struct weight_call){ g, &m };
        if (library_fuses(g, &m) && (!ask_library(g, &m, &done, err) || done))
            return done;
    }
    return (!gpu_wanted(g, ROLE_GRADIENT_WEIGHT, 0) ||
            product(g, ROLE_GRADIENT_WEIGHT, ROLE_IN, ROLE_GRADIENT_OUT, accumulate, err)) &&
           (!biased || gpu_bias_gradient(g, 1, err));
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
        return backward_weight(g, err);
    case PHASE_STEP:
    case PHASE_COUNT:
        break;
    }
    return fail_kind(err, ERROR_BUG, "a matmul has no phase %s", phase_names[phase]);
}
