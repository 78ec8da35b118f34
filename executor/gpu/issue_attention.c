#include "executor/gpu/issue.h"
#include "executor/gpu/kinds.h"
#include "base/num.h"
#include <stdio.h>

enum { AXIS_B, AXIS_T, AXIS_N, AXIS_D };

struct range {
    int64_t b, t, n, s, kv; /* low corner; kv: first key head that is read */
    int64_t width, kv_heads;
    int64_t ahead; /* position of the first query less that of the first key */
};

static int64_t kv_head(const struct segment *segment, int64_t n)
{
    return n * segment->arguments.kv_heads / segment->axes[segment->in[0].axis[AXIS_N]].size;
}

/* (b, line, head, d), or (b, line, head): element (b, line, head, 0) of it and its strides. */
static struct gpu_spot lines(const struct gpu_call *g, enum role role, int index, int64_t b, int64_t line, int64_t head)
{
    const struct view *view = &g->call->operand[role][index];
    struct gpu_spot spot = { .type = g->type[role][index], .begin = begins(g->call, role, index) };
    if (!view->data)
        return spot;
    spot.stride[2] = view->dim_count > 3 ? view->count[3] : 1;
    spot.stride[1] = spot.stride[2] * view->count[2];
    spot.stride[0] = spot.stride[1] * view->count[1];
    int64_t at = (b - view->low[0]) * spot.stride[0] + (line - view->low[1]) * spot.stride[1] +
                 (head - view->low[2]) * spot.stride[2];
    spot.data = (char *)view->data + at * gpu_type_bytes(spot.type);
    return spot;
}

/* The table of biases, or its gradient: (bucket, head), its rows follow no axis. */
static struct gpu_spot table(const struct gpu_call *g, enum role role, int64_t n)
{
    const struct view *view = &g->call->operand[role][0];
    struct gpu_spot spot = { .type = g->type[role][0], .begin = begins(g->call, role, 0) };
    spot.stride[0] = view->count[1], spot.stride[1] = 1;
    int64_t at = n - view->low[1] - view->low[0] * view->count[1];
    spot.data = (char *)view->data + at * gpu_type_bytes(spot.type);
    return spot;
}

static struct range range_of(const struct kernel_call *call)
{
    const struct segment *segment = call->segment;
    const int8_t *axis = segment->in[0].axis;
    struct range r = { .b = call->low[axis[AXIS_B]],
                       .t = call->low[axis[AXIS_T]],
                       .n = call->low[axis[AXIS_N]],
                       .s = call->low[segment->in[1].axis[1]],
                       .width = call->high[axis[AXIS_D]] - call->low[axis[AXIS_D]] };
    r.ahead = r.t + call->shift[axis[AXIS_T]] - r.s - call->shift[segment->in[1].axis[1]];
    r.kv = kv_head(segment, r.n);
    if (call->high[axis[AXIS_N]] > r.n)
        r.kv_heads = kv_head(segment, call->high[axis[AXIS_N]] - 1) + 1 - r.kv;
    return r;
}

static void set_integers(const struct kernel_call *call, const struct range *r, int64_t *integer)
{
    const struct segment *segment = call->segment;
    const int8_t *axis = segment->in[0].axis;
    integer[ATTENTION_BATCHES] = max_i64(call->high[axis[AXIS_B]] - r->b, 0);
    integer[ATTENTION_ROWS] = max_i64(call->high[axis[AXIS_T]] - r->t, 0);
    integer[ATTENTION_KEYS] = max_i64(call->high[segment->in[1].axis[1]] - r->s, 0);
    integer[ATTENTION_HEADS] = max_i64(call->high[axis[AXIS_N]] - r->n, 0);
    integer[ATTENTION_KV_LOW] = r->kv;
    integer[ATTENTION_WIDTH] = r->width;
    integer[ATTENTION_AHEAD] = r->ahead;
    integer[ATTENTION_CAUSAL] = segment->arguments.causal;
    integer[ATTENTION_N_LOW] = r->n;
    integer[ATTENTION_N_ALL] = segment->axes[axis[AXIS_N]].size;
    integer[ATTENTION_KV_ALL] = segment->arguments.kv_heads;
    integer[ATTENTION_ORIGIN] = -r->ahead + segment->axes[axis[AXIS_T]].size - 1;
}

static bool is_biased(const struct segment *segment)
{
    return segment->kernel == KERNEL_BIASED_ATTENTION;
}

/* What forward and backward have in common. */
static struct gpu_work work_of(const struct gpu_call *g, const struct range *r)
{
    const struct segment *segment = g->call->segment;
    struct gpu_work work = { .number = { segment->arguments.scale } };
    set_integers(g->call, r, work.integer);
    work.spot[ATTENTION_Q] = lines(g, ROLE_IN, 0, r->b, r->t, r->n);
    work.spot[ATTENTION_K] = lines(g, ROLE_IN, 1, r->b, r->s, r->kv);
    work.spot[ATTENTION_V] = lines(g, ROLE_IN, 2, r->b, r->s, r->kv);
    work.spot[ATTENTION_OUT] = lines(g, ROLE_OUT, 0, r->b, r->t, r->n);
    work.spot[ATTENTION_LSE] = lines(g, ROLE_OUT, 1, r->b, r->t, r->n);
    if (is_biased(segment)) {
        work.spot[ATTENTION_TABLE] = table(g, ROLE_WEIGHT, r->n);
        work.spot[ATTENTION_BUCKETS] = (struct gpu_spot){ .data = (void *)(uintptr_t)g->table, .type = GPU_INDEX };
    }
    return work;
}

static int64_t queries(const struct gpu_work *work)
{
    return work->integer[ATTENTION_BATCHES] * work->integer[ATTENTION_HEADS] * work->integer[ATTENTION_ROWS];
}

/* ---- by the device's library ---- */
static bool overwritten_half(const struct gpu_work *work, enum gpu_attention_spot spot)
{
    const struct gpu_spot *s = &work->spot[spot];
    return s->data && s->type == GPU_BF16 && s->begin;
}

/* Heads of whole 16 bytes, as many queries for each key head. */
static bool heads_fit(const struct gpu_work *work)
{
    int64_t heads = work->integer[ATTENTION_HEADS], kv_heads = (int64_t)work->number[1],
            group = work->integer[ATTENTION_N_ALL] / work->integer[ATTENTION_KV_ALL];
    return work->integer[ATTENTION_WIDTH] % 8 == 0 &&
           (kv_heads == 1 || (heads == kv_heads * group && work->integer[ATTENTION_N_LOW] % group == 0 &&
                              work->integer[ATTENTION_N_ALL] % work->integer[ATTENTION_KV_ALL] == 0));
}

static bool overwrites(const struct gpu_work *work, bool backward)
{
    return backward ? overwritten_half(work, ATTENTION_Q_GRADIENT) && overwritten_half(work, ATTENTION_K_GRADIENT) &&
                          overwritten_half(work, ATTENTION_V_GRADIENT)
                    : overwritten_half(work, ATTENTION_OUT);
}

/* NULL: what struct gpu_attention demands holds; else what does not. The work's CAUSAL is taken back where every query
 * sees every key. */
static const char *unsuited(struct gpu_work *work, bool backward)
{
    const int64_t rows = work->integer[ATTENTION_ROWS], keys = work->integer[ATTENTION_KEYS],
                  ahead = work->integer[ATTENTION_AHEAD];
    if (work->integer[ATTENTION_CAUSAL] && ahead + 1 >= keys)
        work->integer[ATTENTION_CAUSAL] = 0;
    const bool triangle = ahead == 0 && rows == keys;
    if (work->spot[ATTENTION_Q].type != GPU_BF16 || work->spot[ATTENTION_LSE].type != GPU_REAL)
        return "libraries take bf16 alone";
    if (work->spot[ATTENTION_TABLE].data)
        return "it has biases by position";
    if (!heads_fit(work))
        return "libraries want heads of whole 16 bytes, and as many for each head of keys";
    if (work->integer[ATTENTION_CAUSAL] && !triangle)
        return "it is a part of a causal mask";
    return overwrites(work, backward) ? NULL : "not all of its results are written, or they are added to others";
}

static void note_own_kernel(const struct gpu_call *g, const struct gpu_work *work, bool backward, const char *why)
{
    char text[512];
    snprintf(text, sizeof text,
             "attention %s of %lld x %lld queries over %lld keys, %lld heads of %lld, goes by an own kernel, which is "
             "slow: %.300s",
             backward ? "backward" : "forward", (long long)work->integer[ATTENTION_BATCHES],
             (long long)work->integer[ATTENTION_ROWS], (long long)work->integer[ATTENTION_KEYS],
             (long long)work->integer[ATTENTION_HEADS], (long long)work->integer[ATTENTION_WIDTH], why);
    g->note(g->note_context, text);
}

static bool by_library(const struct gpu_call *g, const struct gpu_work *work, bool backward, bool *done,
                       struct error *err)
{
    struct gpu_work suited = *work;
    const struct gpu_attention attention = { &suited, backward, g->deterministic };
    struct error declined = { 0 };
    *done = false;
    if (queries(work) == 0 || work->integer[ATTENTION_KEYS] == 0)
        return true; /* a shard without any */
    const char *why = unsuited(&suited, backward);
    if (g->gpu->attend && !why && !g->gpu->attend(g->gpu->self, g->stream, &attention, done, &declined, err))
        return false;
    if (g->note && !g->gpu->attend)
        g->note(g->note_context, g->gpu->libraries);
    else if (g->note && !*done)
        note_own_kernel(g, work, backward, why ? why : declined.message);
    return true;
}

/* ---- the phases ---- */
static bool forward(const struct gpu_call *g, struct error *err)
{
    struct range r = range_of(g->call);
    struct gpu_work work = work_of(g, &r);
    work.number[1] = (double)r.kv_heads;
    bool done, ok = by_library(g, &work, false, &done, err);
    if (!ok || done)
        return ok;
    work.shared_reals = 2 * r.width + gpu_kernel_threads(GPU_ATTENTION);
    return gpu_start(g->gpu, g->stream, GPU_ATTENTION, &work, queries(&work), err);
}

static bool backward_input(const struct gpu_call *g, struct error *err)
{
    struct range r = range_of(g->call);
    struct gpu_work work = work_of(g, &r);
    work.spot[ATTENTION_OUT_GRADIENT] = lines(g, ROLE_GRADIENT_OUT, 0, r.b, r.t, r.n);
    work.spot[ATTENTION_Q_GRADIENT] = lines(g, ROLE_GRADIENT_IN, 0, r.b, r.t, r.n);
    work.spot[ATTENTION_K_GRADIENT] = lines(g, ROLE_GRADIENT_IN, 1, r.b, r.s, r.kv);
    work.spot[ATTENTION_V_GRADIENT] = lines(g, ROLE_GRADIENT_IN, 2, r.b, r.s, r.kv);
    work.number[1] = (double)r.kv_heads;
    bool done, ok = by_library(g, &work, true, &done, err);
    if (!ok || done)
        return ok;
    work.shared_reals = 3 * r.width + gpu_kernel_threads(GPU_ATTENTION_QUERY_GRADIENT);
    if (gpu_wanted(g, ROLE_GRADIENT_IN, 0) &&
        !gpu_start(g->gpu, g->stream, GPU_ATTENTION_QUERY_GRADIENT, &work, queries(&work), err))
        return false;
    if (!gpu_wanted(g, ROLE_GRADIENT_IN, 1) && !gpu_wanted(g, ROLE_GRADIENT_IN, 2))
        return true;
    work.shared_reals = 4 * r.width + 2 * gpu_kernel_threads(GPU_ATTENTION_KEY_GRADIENT);
    int64_t keys = work.integer[ATTENTION_BATCHES] * r.kv_heads * work.integer[ATTENTION_KEYS];
    return gpu_start(g->gpu, g->stream, GPU_ATTENTION_KEY_GRADIENT, &work, keys, err);
}

static bool backward_weight(const struct gpu_call *g, struct error *err)
{
    struct range r = range_of(g->call);
    if (!gpu_wanted(g, ROLE_GRADIENT_WEIGHT, 0))
        return true;
    struct gpu_work work = work_of(g, &r);
    work.spot[ATTENTION_OUT_GRADIENT] = lines(g, ROLE_GRADIENT_OUT, 0, r.b, r.t, r.n);
    work.spot[ATTENTION_Q_GRADIENT] = table(g, ROLE_GRADIENT_WEIGHT, r.n);
    int64_t buckets = g->call->operand[ROLE_GRADIENT_WEIGHT][0].count[0];
    work.number[1] = (double)buckets;
    return gpu_start(g->gpu, g->stream, GPU_ATTENTION_BIAS_GRADIENT, &work, buckets * work.integer[ATTENTION_HEADS],
                     err);
}

bool gpu_issue_attention(const struct gpu_call *g, enum phase phase, struct error *err)
{
    switch (phase) {
    case PHASE_FORWARD:
        return forward(g, err);
    case PHASE_BACKWARD_INPUT:
        return backward_input(g, err);
    case PHASE_BACKWARD_WEIGHT:
        return !is_biased(g->call->segment) || backward_weight(g, err);
    case PHASE_STEP:
    case PHASE_COUNT:
        break;
    }
    return fail_kind(err, ERROR_BUG, "attention has no phase %s", phase_names[phase]);
}
