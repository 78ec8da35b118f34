/* A mixture of experts: places of operands and launches. */
#include "base/num.h"
#include "executor/gpu/issue.h"
#include "executor/gpu/kinds.h"

/* The operand's element at these coordinates, and the strides of its dims; absent: no data. */
static struct gpu_spot spot_at_corner(const struct gpu_call *g, enum role role, int index, const int64_t *corner)
{
    const struct view *view = &g->call->operand[role][index];
    struct gpu_spot spot = { .type = g->type[role][index], .begin = begins(g->call, role, index) };
    int64_t stride = 1, at = 0;
    if (!view->data)
        return spot;
    for (int dim = view->dim_count - 1; dim >= 0; dim--) {
        spot.stride[dim] = stride;
        at += (corner[dim] - view->low[dim]) * stride;
        stride *= view->count[dim];
    }
    spot.data = (char *)view->data + at * gpu_type_bytes(spot.type);
    return spot;
}

/* tokens: the operand whose dims are the batch, the tokens and the width. */
struct corner {
    int64_t b, t, h;
};

static struct corner set_range(const struct gpu_call *g, const struct operand *tokens, struct gpu_work *work)
{
    const struct kernel_call *call = g->call;
    const struct kernel_arguments *a = &call->segment->arguments;
    const int batch = tokens->axis[0], token = tokens->axis[1], width = tokens->axis[2];
    work->integer[EXPERTS_BATCHES] = max_i64(call->high[batch] - call->low[batch], 0);
    work->integer[EXPERTS_TOKENS] = max_i64(call->high[token] - call->low[token], 0);
    work->integer[EXPERTS_WIDTH] = max_i64(call->high[width] - call->low[width], 0);
    work->integer[EXPERTS_COUNT] = a->experts;
    work->integer[EXPERTS_CHOICES] = a->choices;
    work->integer[EXPERTS_PLACES] = a->slots;
    work->integer[EXPERTS_GROUP] = a->group;
    work->integer[EXPERTS_GATES_OF_ALL] = a->gates_of_all;
    work->integer[EXPERTS_EVENLY] = a->evenly;
    return (struct corner){ call->low[batch], call->low[token], call->low[width] };
}

static struct gpu_spot token_spot(const struct gpu_call *g, enum role role, int index, const struct corner *c,
                                  int64_t i)
{
    const int64_t at[] = { c->b, c->t, i };
    return spot_at_corner(g, role, index, at);
}

static struct gpu_spot stack_spot(const struct gpu_call *g, enum role role, const struct corner *c)
{
    const int64_t at[] = { 0, c->b, c->t / g->call->segment->arguments.group, 0, c->h };
    return spot_at_corner(g, role, 0, at);
}

static int64_t tokens_of(const struct gpu_work *work)
{
    return work->integer[EXPERTS_BATCHES] * work->integer[EXPERTS_TOKENS];
}

static int64_t groups_of(const struct gpu_work *work)
{
    return tokens_of(work) / work->integer[EXPERTS_GROUP];
}

/* ---- route ---- */
static bool route_forward(const struct gpu_call *g, struct error *err)
{
    const struct kernel_arguments *a = &g->call->segment->arguments;
    struct gpu_work work = { .number = { a->gate_scale } };
    const struct corner c = set_range(g, &g->call->segment->in[0], &work);
    const int64_t filled[] = { 0, c.b, c.t / a->group };
    work.spot[EXPERTS_LOGITS] = token_spot(g, ROLE_IN, 0, &c, 0);
    work.spot[EXPERTS_GATES] = token_spot(g, ROLE_OUT, 0, &c, 0);
    work.spot[EXPERTS_SLOTS] = token_spot(g, ROLE_OUT, 1, &c, 0);
    work.spot[EXPERTS_FILLED] = spot_at_corner(g, ROLE_OUT, 2, filled);
    work.spot[EXPERTS_OVERFLOW].data = g->overflow;
    return gpu_start_elements(g->gpu, g->stream, GPU_ROUTE, &work, tokens_of(&work), err) &&
           gpu_start(g->gpu, g->stream, GPU_ROUTE_SLOTS, &work, groups_of(&work) * a->experts, err);
}

static bool route_gradient(const struct gpu_call *g, struct error *err)
{
    const struct kernel_arguments *a = &g->call->segment->arguments;
    const double choices = (double)(a->group * a->choices);
    struct gpu_work work = { .number = { a->gate_scale, g->call->loss_scale * a->balance * (double)a->experts /
                                                            choices / (double)a->group },
                             .shared_reals = a->experts };
    const struct corner c = set_range(g, &g->call->segment->in[0], &work);
    if (!gpu_wanted(g, ROLE_GRADIENT_IN, 0))
        return true;
    work.spot[EXPERTS_LOGITS] = token_spot(g, ROLE_IN, 0, &c, 0);
    work.spot[EXPERTS_SLOTS] = token_spot(g, ROLE_OUT, 1, &c, 0);
    work.spot[EXPERTS_GATES_GRADIENT] = token_spot(g, ROLE_GRADIENT_OUT, 0, &c, 0);
    work.spot[EXPERTS_LOGITS_GRADIENT] = token_spot(g, ROLE_GRADIENT_IN, 0, &c, 0);
    return gpu_start(g->gpu, g->stream, GPU_ROUTE_GRADIENT, &work, groups_of(&work), err);
}

/* ---- there and back ---- */
/* Makes the slots of the call's groups 0. */
static bool clear_stack(const struct gpu_call *g, const struct gpu_work *range, const struct gpu_spot *stack,
                        struct error *err)
{
    struct gpu_work work = { .outer_loops = 5,
                             .inner = 1,
                             .outer = 1,
                             .extent = { range->integer[EXPERTS_COUNT], range->integer[EXPERTS_BATCHES],
                                         range->integer[EXPERTS_TOKENS] / range->integer[EXPERTS_GROUP],
                                         range->integer[EXPERTS_PLACES], range->integer[EXPERTS_WIDTH] },
                             .spot = { *stack } };
    for (int loop = 0; loop < work.outer_loops; loop++)
        work.outer *= work.extent[loop];
    return gpu_start_elements(g->gpu, g->stream, GPU_SET, &work, work.outer, err);
}

/* Between values (b, t, h) and their slots; slots and gates: the inputs that have these, gates -1: none. */
struct travel {
    enum role values, stack;
    int slots, gates;
    const struct operand *tokens;
};

static struct gpu_work work_of(const struct gpu_call *g, const struct travel *travel)
{
    struct gpu_work work = { .number = { 0 } };
    const struct corner c = set_range(g, travel->tokens, &work);
    work.spot[EXPERTS_VALUES] = token_spot(g, travel->values, 0, &c, c.h);
    work.spot[EXPERTS_SLOTS] = token_spot(g, ROLE_IN, travel->slots, &c, 0);
    work.spot[EXPERTS_STACK] = stack_spot(g, travel->stack, &c);
    if (travel->gates >= 0)
        work.spot[EXPERTS_GATES] = token_spot(g, ROLE_IN, travel->gates, &c, 0);
    return work;
}

static bool send_to_experts(const struct gpu_call *g, const struct travel *travel, bool clear, struct error *err)
{
    const struct gpu_work work = work_of(g, travel);
    return (!clear || clear_stack(g, &work, &work.spot[EXPERTS_STACK], err)) &&
           gpu_start_elements(g->gpu, g->stream, GPU_DISPATCH, &work,
                              tokens_of(&work) * work.integer[EXPERTS_CHOICES] * work.integer[EXPERTS_WIDTH], err);
}

/* Tokens come back from there. */
static bool collect(const struct gpu_call *g, const struct travel *travel, struct error *err)
{
    struct gpu_work work = work_of(g, travel);
    if (travel->values == ROLE_OUT)
        work.spot[EXPERTS_VALUES].begin = true;
    return gpu_start_elements(g->gpu, g->stream, GPU_COLLECT, &work, tokens_of(&work) * work.integer[EXPERTS_WIDTH],
                              err);
}

static bool gate_gradient(const struct gpu_call *g, const struct operand *tokens, struct error *err)
{
    struct gpu_work work = work_of(g, &(struct travel){ ROLE_GRADIENT_OUT, ROLE_IN, 2, -1, tokens });
    const struct corner c = set_range(g, tokens, &work);
    work.spot[EXPERTS_GATES_GRADIENT] = token_spot(g, ROLE_GRADIENT_IN, 1, &c, 0);
    return gpu_start(g->gpu, g->stream, GPU_GATE_GRADIENT, &work, tokens_of(&work) * work.integer[EXPERTS_CHOICES],
                     err);
}

bool gpu_issue_route(const struct gpu_call *g, enum phase phase, struct error *err)
{
    return phase == PHASE_FORWARD ? route_forward(g, err) : route_gradient(g, err);
}

bool gpu_issue_dispatch(const struct gpu_call *g, enum phase phase, struct error *err)
{
    const struct operand *tokens = &g->call->segment->in[0];
    if (phase == PHASE_FORWARD)
        return send_to_experts(g, &(struct travel){ ROLE_IN, ROLE_OUT, 1, -1, tokens }, true, err);
    return !gpu_wanted(g, ROLE_GRADIENT_IN, 0) ||
           collect(g, &(struct travel){ ROLE_GRADIENT_IN, ROLE_GRADIENT_OUT, 1, -1, tokens }, err);
}

bool gpu_issue_combine(const struct gpu_call *g, enum phase phase, struct error *err)
{
    const struct operand *tokens = &g->call->segment->out[0];
    const struct travel back = { ROLE_GRADIENT_OUT, ROLE_GRADIENT_IN, 2, 1, tokens };
    if (phase == PHASE_FORWARD)
        return collect(g, &(struct travel){ ROLE_OUT, ROLE_IN, 2, 1, tokens }, err);
    return (!gpu_wanted(g, ROLE_GRADIENT_IN, 0) ||
            send_to_experts(g, &back, begins(g->call, ROLE_GRADIENT_IN, 0), err)) &&
           (!gpu_wanted(g, ROLE_GRADIENT_IN, 1) || gate_gradient(g, tokens, err));
}
