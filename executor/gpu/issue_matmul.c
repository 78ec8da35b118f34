#include "base/num.h"
#include "executor/gpu/issue.h"
#include "executor/kernels/product.h"
#include <stdio.h>
#include <string.h>

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
    one.count = 1, one.apart = NULL;
    one.a = (const char *)m->a + i * m->a_next * gpu_type_bytes(m->a_type);
    one.b = (const char *)m->b + i * m->b_next * gpu_type_bytes(m->b_type);
    one.c = (char *)m->c + i * m->c_next * gpu_type_bytes(m->c_type);
    if (m->bias)
        one.bias = (char *)m->bias + i * m->bias_next * gpu_type_bytes(m->bias_type);
    return one;
}

static void note_own_kernel(const struct gpu_call *g, const struct gpu_matmul *m, const char *why)
{
    char text[512];
    snprintf(text, sizeof text, "a product of %lld x %lld by %lld x %lld goes by an own kernel, which is slow: %.300s",
             (long long)m->m, (long long)m->k, (long long)m->k, (long long)m->n, why);
    g->note(g->note_context, text);
}

/* A single plain product that the library does not take is left to the own kernel, and a note says so; others become
 * such first. */
static bool ask_library(const struct gpu_call *g, const struct gpu_matmul *m, bool *done, struct error *err)
{
    struct error declined = { 0 };
    bool ok = g->gpu->matmul(g->gpu->self, g->stream, m, done, &declined, err);
    if (ok && !*done && g->note && m->epilogue == GPU_PLAIN && m->count == 1)
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

/* Several products, of a call each. */
struct several {
    const struct gpu_call *const *calls; /* (count of the product) NULL: plain ones, which need none */
    const struct gpu_call *g;            /* any of them */
    const struct gpu_matmul *m;
};

static bool one_by_one(void *context, void *c, struct error *err)
{
    const struct several *s = context;
    struct gpu_matmul there = *s->m;
    there.c = c;
    for (int64_t i = 0; i < there.count; i++) {
        const struct gpu_matmul one = number(&there, i);
        bool done = false;
        if (!ask_library(s->g, &one, &done, err) || (!done && !by_kernel(s->g, &one, err)))
            return false;
    }
    return true;
}

/* The device's library multiplies where strides and the library allow; several in one call where it takes them so. */
static bool multiply(const struct gpu_call *g, const struct gpu_matmul *m, struct error *err)
{
    struct several several = { .g = g, .m = m };
    struct gpu_matmul all = *m;
    bool done = false;
    if (!g->gpu->matmul || m->k <= 0 || !matrix_leads(m->m, m->a_m, m->k, m->a_k) ||
        !matrix_leads(m->k, m->b_k, m->n, m->b_n) || !matrix_leads(m->m, m->c_m, m->n, m->c_n))
        return by_kernel(g, m, err);
    all.apart = one_by_one, all.apart_context = &several;
    if (m->count > 1 && g->gpu->fuses && g->gpu->fuses(g->gpu->self, m) && (!ask_library(g, &all, &done, err) || done))
        return done;
    return one_by_one(&several, m->c, err);
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
           x->accumulate == y->accumulate && x->a_type == y->a_type && x->b_type == y->b_type &&
           x->c_type == y->c_type && x->bias_type == y->bias_type && x->epilogue == y->epilogue && !x->bias == !y->bias;
}

/* Tells whether it lies behind those that are ready as they lie behind each other; then it is one of them. Products
 * that add to the same c come one after the other with no distance between. */
static bool joins(struct gpu_matmul *ready, const struct gpu_matmul *next)
{
    const int64_t n = ready->count, a = distance(ready->a, next->a, ready->a_type),
                  b = distance(ready->b, next->b, ready->b_type), c = distance(ready->c, next->c, ready->c_type),
                  bias = ready->bias ? distance(ready->bias, next->bias, ready->bias_type) : 0;
    if (n == 0 || !alike(ready, next) || a < 0 || b < 0 || c <= 0 || bias < 0)
        return false;
    if (n > 1 &&
        (a != n * ready->a_next || b != n * ready->b_next || c != n * ready->c_next || bias != n * ready->bias_next))
        return false;
    if (n == 1)
        ready->a_next = a, ready->b_next = b, ready->c_next = c, ready->bias_next = bias;
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

/* Of one call, or of several alike. */
static bool products(const struct gpu_call *const *calls, int count, enum role c, enum role a, enum role b,
                     bool accumulate, struct error *err)
{
    const struct gpu_call *g = calls[0];
    struct matmul_context m = {
        .g = g, .a_type = g->type[a][0], .b_type = g->type[b][0], .c_type = g->type[c][0], .err = err, .ok = true
    };
    for (int i = 0; i < count; i++)
        product_each(calls[i]->call, gpu_spot_of(calls[i], c, 0), gpu_spot_of(calls[i], a, 0),
                     gpu_spot_of(calls[i], b, 0), accumulate, take, &m);
    queue(&m);
    return m.ok;
}

static bool product(const struct gpu_call *g, enum role c, enum role a, enum role b, bool accumulate, struct error *err)
{
    return products(&g, 1, c, a, b, accumulate, err);
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

/* ---- with a bias ---- */
/* The product with its bias, or with the bias's gradient; false: it is no such, or none that could be one. */
static bool with_bias(const struct gpu_call *g, struct gpu_matmul *m)
{
    if (g->call->segment->weight_count <= 1)
        return false;
    if (g->call->phase == PHASE_FORWARD) {
        if (!begins(g->call, ROLE_OUT, 0) || !single(g, ROLE_OUT, ROLE_IN, ROLE_WEIGHT, false, m))
            return false;
        m->epilogue = GPU_BIAS;
        return follows_columns(g, ROLE_WEIGHT, ROLE_OUT, ROLE_IN, ROLE_WEIGHT) && set_bias(g, ROLE_WEIGHT, m);
    }
    if (!gpu_wanted(g, ROLE_GRADIENT_WEIGHT, 0) || !gpu_wanted(g, ROLE_GRADIENT_WEIGHT, 1) ||
        !begins(g->call, ROLE_GRADIENT_WEIGHT, 1) ||
        !single(g, ROLE_GRADIENT_WEIGHT, ROLE_IN, ROLE_GRADIENT_OUT, !begins(g->call, ROLE_GRADIENT_WEIGHT, 0), m))
        return false;
    m->epilogue = GPU_BIAS_GRADIENT;
    return follows_columns(g, ROLE_GRADIENT_WEIGHT, ROLE_GRADIENT_WEIGHT, ROLE_IN, ROLE_GRADIENT_OUT) &&
           set_bias(g, ROLE_GRADIENT_WEIGHT, m);
}

/* Forward the bias goes in first, as on the processor. */
static bool put_bias(const struct gpu_call *g, struct error *err)
{
    struct spot spots[] = { gpu_spot_of(g, ROLE_OUT, 0), gpu_spot_of(g, ROLE_WEIGHT, 1) };
    struct gpu_work work = { .integer = { 1 },
                             .spot = { gpu_operand(g, ROLE_OUT, 0), gpu_operand(g, ROLE_WEIGHT, 1) } };
    gpu_loops(g, &work, &g->call->segment->out[0], g->call->operand[ROLE_OUT][0].dim_count, false, spots, 2);
    return gpu_start_elements(g->gpu, g->stream, GPU_SUM_TERMS, &work, work.outer, err);
}

/* Biases by kernels of their own, products without. */
static bool beside_biases(const struct several *s, void *c, struct error *err)
{
    struct gpu_matmul plain = *s->m;
    const bool forward = plain.epilogue == GPU_BIAS;
    bool ok = true;
    plain.c = c, plain.epilogue = GPU_PLAIN, plain.bias = NULL, plain.accumulate |= forward;
    for (int64_t i = 0; ok && forward && i < plain.count; i++)
        ok = put_bias(s->calls[i], err);
    ok = ok && multiply(s->g, &plain, err);
    for (int64_t i = 0; ok && !forward && i < plain.count; i++)
        ok = gpu_bias_gradient(s->calls[i], 1, err);
    return ok;
}

static bool multiply_with_biases(const struct several *s, struct error *err);

/* Several go one by one, each with its bias, as long as the library takes such. */
static bool biases_apart(void *context, void *c, struct error *err)
{
    const struct several *s = context;
    struct gpu_matmul there = *s->m;
    there.c = c;
    const struct gpu_matmul first = number(&there, 0);
    if (there.count == 1 || !library_fuses(s->g, &first))
        return beside_biases(s, c, err);
    for (int64_t i = 0; i < there.count; i++) {
        const struct gpu_matmul one = number(&there, i);
        if (!multiply_with_biases(&(struct several){ s->calls + i, s->calls[i], &one }, err))
            return false;
    }
    return true;
}

static bool multiply_with_biases(const struct several *s, struct error *err)
{
    struct gpu_matmul m = *s->m;
    bool done = false;
    m.apart = biases_apart, m.apart_context = (void *)(uintptr_t)s;
    if (library_fuses(s->g, &m) && (!ask_library(s->g, &m, &done, err) || done))
        return done;
    return biases_apart((void *)(uintptr_t)s, m.c, err);
}

/* ---- the phases ---- */
/* Products of one call, or of several alike, whose biases have kernels of their own. */
static bool multiply_plain(const struct gpu_call *const *calls, int count, struct error *err)
{
    const struct gpu_call *g = calls[0];
    const bool forward = g->call->phase == PHASE_FORWARD, biased = g->call->segment->weight_count > 1;
    bool accumulate = !begins(g->call, forward ? ROLE_OUT : ROLE_GRADIENT_WEIGHT, 0), ok = true;
    if (forward) {
        for (int i = 0; ok && biased && !accumulate && i < count; i++)
            ok = put_bias(calls[i], err);
        accumulate |= biased;
        return ok && products(calls, count, ROLE_OUT, ROLE_IN, ROLE_WEIGHT, accumulate, err);
    }
    if (gpu_wanted(g, ROLE_GRADIENT_WEIGHT, 0))
        ok = products(calls, count, ROLE_GRADIENT_WEIGHT, ROLE_IN, ROLE_GRADIENT_OUT, accumulate, err);
    for (int i = 0; ok && biased && i < count; i++)
        ok = gpu_bias_gradient(calls[i], 1, err);
    return ok;
}

/* Forward, or the gradients of weights. */
static bool multiply_one(const struct gpu_call *g, struct error *err)
{
    struct gpu_matmul m;
    return with_bias(g, &m) ? multiply_with_biases(&(struct several){ &g, g, &m }, err) : multiply_plain(&g, 1, err);
}

static bool alike_calls(const struct gpu_call *x, const struct gpu_call *y, enum role written)
{
    return memcmp(x->type, y->type, sizeof x->type) == 0 &&
           x->call->segment->weight_count == y->call->segment->weight_count &&
           gpu_wanted(x, written, 0) == gpu_wanted(y, written, 0) &&
           begins(x->call, written, 0) == begins(y->call, written, 0);
}

/* Those that take their biases along, as many at a time as lie evenly, biases too; others alone. */
static bool multiply_several(const struct gpu_call *const *calls, int count, struct error *err)
{
    for (int i = 0, many; i < count; i += many) {
        struct gpu_matmul all, next;
        many = 1;
        const bool biased = with_bias(calls[i], &all);
        while (biased && i + many < count && with_bias(calls[i + many], &next) && joins(&all, &next))
            many++;
        if (!(biased ? multiply_with_biases(&(struct several){ calls + i, calls[i], &all }, err)
                     : multiply_plain(&calls[i], 1, err)))
            return false;
    }
    return true;
}

static const char *place_of(const struct gpu_call *g, enum role role)
{
    return g->call->operand[role][0].data;
}

bool gpu_issue_together(const struct gpu_call *const *calls, int count, struct error *err)
{
    const enum role written = calls[0]->call->phase == PHASE_FORWARD ? ROLE_OUT : ROLE_GRADIENT_WEIGHT;
    const struct gpu_call *ordered[GPU_MOST_TOGETHER]; /* by where they write: distances are not negative */
    struct gpu_matmul m;
    bool plain = true;
    for (int i = 0; i < count; i++) {
        int at = i;
        for (; at > 0 && place_of(ordered[at - 1], written) > place_of(calls[i], written); at--)
            ordered[at] = ordered[at - 1];
        ordered[at] = calls[i];
        plain = plain && alike_calls(calls[0], calls[i], written) && !with_bias(calls[i], &m);
    }
    return (plain ? multiply_plain : multiply_several)(ordered, count, err);
}

bool gpu_issue_matmul(const struct gpu_call *g, enum phase phase, struct error *err)
{
    switch (phase) {
    case PHASE_FORWARD:
        return multiply_one(g, err);
    case PHASE_BACKWARD_INPUT:
        return !gpu_wanted(g, ROLE_GRADIENT_IN, 0) ||
               product(g, ROLE_GRADIENT_IN, ROLE_GRADIENT_OUT, ROLE_WEIGHT, !begins(g->call, ROLE_GRADIENT_IN, 0), err);
    case PHASE_BACKWARD_WEIGHT:
        return multiply_one(g, err);
    case PHASE_STEP:
    case PHASE_COUNT:
        break;
    }
    return fail_kind(err, ERROR_BUG, "a matmul has no phase %s", phase_names[phase]);
}
