/* Which neighbouring kernels of a rank's program may run as one: products and the GELU behind them, residual sums and
 * the norm behind them, both ways; the loss's maximum and sum over the vocabulary. The program says that the second may
 * begin when the first has ended; running both at the first's place is the same where nothing between them waits,
 * touches the second's results or wants what is no longer written. */
#include "executor/gpu/device.h"
#include "planner/program/access.h"
#include <stdlib.h>

static const struct stage_program *stage_of(const struct rank *rank)
{
    return &rank->program->stages[rank->stage];
}

static bool is_kernel(const struct rank *rank, const struct instr *instr, enum kernel kernel, enum phase phase)
{
    return instr->op == OP_COMPUTE && instr->lane == LANE_COMPUTE && instr->phase == phase &&
           rank->program->graph->segments[instr->segment].kernel == kernel;
}

static bool overlap(const struct rank *rank, int a, int b)
{
    const struct buffer *x = &rank->program->buffers[a], *y = &rank->program->buffers[b];
    return x->host == y->host && x->offset < y->offset + y->bytes && y->offset < x->offset + x->bytes;
}

static bool touches(const struct rank *rank, const struct instr *instr, int buffer)
{
    struct access access;
    for (int slot = 0; slot < access_slots(instr); slot++)
        if (access_at(rank->program, instr, slot, &access) && overlap(rank, access.buffer, buffer))
            return true;
    return false;
}

/* Operands and pairs of the whole stage that name the buffer. */
static int uses(const struct rank *rank, int buffer)
{
    int count = 0;
    for (int i = 0; i < stage_of(rank)->instr_count; i++) {
        const struct instr *instr = &stage_of(rank)->instrs[i];
        for (int role = 0; instr->op == OP_COMPUTE && role < ROLE_COUNT; role++)
            for (int o = 0; o < MAX_OPERANDS; o++)
                count += instr_operand(rank->program, instr, (enum role)role, o) == buffer;
        for (int p = instr->pair_first; instr->op != OP_COMPUTE && p < instr->pair_first + instr->pair_count; p++)
            count += rank->program->pairs[p].source == buffer || rank->program->pairs[p].destination == buffer;
    }
    return count;
}

/* The lane's next instruction, -1. Those of other lanes between them either wait for what runs before, or could as well
 * run beside it: who waits for nothing does not wait for them. */
static int following(const struct rank *rank, int i)
{
    const struct instr *instrs = stage_of(rank)->instrs;
    int next = i + 1;
    while (next < stage_of(rank)->instr_count && instrs[next].lane != instrs[i].lane)
        next++;
    return next < stage_of(rank)->instr_count ? next : -1;
}

static bool can_begin_early(const struct instr *instr)
{
    return instr->op == OP_COMPUTE && instr->lane == LANE_COMPUTE && instr->wait_count == 0;
}

/* GELU of the product's result, right behind it. */
static int forward_partner(const struct rank *rank, int i)
{
    const struct instr *instr = &stage_of(rank)->instrs[i];
    const int last = following(rank, i);
    if (last < 0)
        return -1;
    const struct instr *next = &stage_of(rank)->instrs[last];
    bool fits = is_kernel(rank, next, KERNEL_GELU, PHASE_FORWARD) && can_begin_early(next) &&
                instr_operand(rank->program, next, ROLE_IN, 0) == instr_operand(rank->program, instr, ROLE_OUT, 0) &&
                !touches(rank, instr, instr_operand(rank->program, next, ROLE_OUT, 0));
    return fits ? last : -1;
}

/* Tells whether the gradient of a weight, which lies between both, may run before the first: what it writes, neither
 * touches. What they write may take the place of what it reads. */
static bool may_go_first(const struct rank *rank, const struct instr *weight, const struct instr *first,
                         const struct instr *second)
{
    if (!can_begin_early(weight))
        return false;
    for (int i = 0; i < MAX_OPERANDS; i++) {
        int written = instr_operand(rank->program, weight, ROLE_GRADIENT_WEIGHT, i);
        if (written >= 0 && (touches(rank, first, written) || touches(rank, second, written)))
            return false;
    }
    return true;
}

/* Tells whether what the second writes lies where the first reads or writes, other than byte for byte. */
static bool in_the_way(const struct rank *rank, const struct instr *first, int buffer)
{
    const struct buffer *written = &rank->program->buffers[buffer];
    struct access access;
    for (int slot = 0; slot < access_slots(first); slot++) {
        if (!access_at(rank->program, first, slot, &access) || !overlap(rank, access.buffer, buffer))
            continue;
        const struct buffer *other = &rank->program->buffers[access.buffer];
        if (other->offset != written->offset || other->bytes != written->bytes)
            return true;
    }
    return false;
}

/* Tells whether all that the instruction writes in this role leaves `first` its operands. */
static bool leaves(const struct rank *rank, const struct instr *instr, enum role role, const struct instr *first)
{
    for (int o = 0; o < MAX_OPERANDS; o++) {
        int written = instr_operand(rank->program, instr, role, o);
        if (written >= 0 && in_the_way(rank, first, written))
            return false;
    }
    return true;
}

static bool is_norm(const struct rank *rank, const struct instr *instr, enum phase phase)
{
    return is_kernel(rank, instr, KERNEL_LAYER_NORM, phase) || is_kernel(rank, instr, KERNEL_RMS_NORM, phase);
}

/* The norm of the residual sum, right behind it. */
static int norm_partner(const struct rank *rank, int i)
{
    const struct instr *instr = &stage_of(rank)->instrs[i];
    const int last = following(rank, i);
    if (last < 0)
        return -1;
    const struct instr *next = &stage_of(rank)->instrs[last];
    bool fits = is_norm(rank, next, PHASE_FORWARD) && can_begin_early(next) &&
                instr_operand(rank->program, next, ROLE_IN, 0) == instr_operand(rank->program, instr, ROLE_OUT, 0) &&
                leaves(rank, next, ROLE_OUT, instr);
    return fits ? last : -1;
}

/* The gradient of the residual sum's own bias, right behind that of its terms. */
static int bias_behind(const struct rank *rank, const struct instr *norm, int residual)
{
    const struct instr *instrs = stage_of(rank)->instrs;
    const int next = following(rank, residual);
    bool fits = next >= 0 && is_kernel(rank, &instrs[next], KERNEL_RESIDUAL, PHASE_BACKWARD_WEIGHT) &&
                instrs[next].segment == instrs[residual].segment &&
                may_go_first(rank, &instrs[next], norm, &instrs[residual]);
    return fits ? next : residual;
}

/* Tells whether nobody but instructions [first, last] of their lane reads what lies in the buffer when these have run:
 * who comes next to it, in this step or the following one, begins it anew. */
static bool is_unread(const struct rank *rank, int first, int last, int buffer)
{
    const struct stage_program *stage = stage_of(rank);
    struct access access;
    for (int n = 1; n <= stage->instr_count; n++) {
        const int i = (first + n) % stage->instr_count;
        const struct instr *instr = &stage->instrs[i];
        bool begins_anew = false;
        if (i > first && i <= last && instr->lane == stage->instrs[first].lane)
            continue;
        for (int slot = 0; slot < access_slots(instr); slot++) {
            if (!access_at(rank->program, instr, slot, &access) || access.buffer != buffer)
                continue;
            if (access.reads)
                return false;
            begins_anew = true;
        }
        if (begins_anew)
            return true;
    }
    return true;
}

/* The residual sum whose gradient the norm completes, behind it; the gradient of the norm's own weights may lie between
 * them, or is all that there is; that of the sum's bias may follow. */
static int residual_partner(const struct rank *rank, int i)
{
    const struct stage_program *stage = stage_of(rank);
    const struct instr *instr = &stage->instrs[i], *weight = NULL;
    const int sum = instr_operand(rank->program, instr, ROLE_GRADIENT_IN, 0);
    int last = following(rank, i);
    if (last >= 0 && is_norm(rank, &stage->instrs[last], PHASE_BACKWARD_WEIGHT)) {
        weight = &stage->instrs[last];
        last = following(rank, last);
    }
    const struct instr *residual = &stage->instrs[last < 0 ? i : last];
    bool fits = sum >= 0 && is_kernel(rank, residual, KERNEL_RESIDUAL, PHASE_BACKWARD_INPUT) &&
                can_begin_early(residual) && instr_operand(rank->program, residual, ROLE_GRADIENT_OUT, 0) == sum &&
                leaves(rank, residual, ROLE_GRADIENT_IN, instr) &&
                (!weight || may_go_first(rank, weight, instr, residual));
    return fits                                                 ? bias_behind(rank, instr, last)
           : weight && may_go_first(rank, weight, instr, instr) ? (int)(weight - stage->instrs)
                                                                : -1;
}

/* Tells whether what is computed at `from` may begin there as well as behind what is between, which stays where it is.
 */
static bool may_begin_at(const struct rank *rank, int from, const struct instr *later)
{
    const int out = instr_operand(rank->program, later, ROLE_OUT, 0);
    if (!can_begin_early(later))
        return false;
    for (const struct instr *instr = &stage_of(rank)->instrs[from]; instr < later; instr++)
        if (touches(rank, instr, out) || (instr != &stage_of(rank)->instrs[from] && instr->wait_count > 0))
            return false;
    return true;
}

/* The sum over the vocabulary behind its maximum; in between labels come and their logits are picked. */
static int sum_partner(const struct rank *rank, int i)
{
    const struct stage_program *stage = stage_of(rank);
    const struct instr *instr = &stage->instrs[i];
    int last = i + 1;
    while (last < stage->instr_count && stage->instrs[last].lane == LANE_COMPUTE &&
           (stage->instrs[last].op == OP_LOAD || is_kernel(rank, &stage->instrs[last], KERNEL_PICK, PHASE_FORWARD)))
        last++;
    if (last >= stage->instr_count || !is_kernel(rank, &stage->instrs[last], KERNEL_SUM_EXP, PHASE_FORWARD))
        return -1;
    const struct instr *sum = &stage->instrs[last];
    bool fits = instr_operand(rank->program, sum, ROLE_IN, 0) == instr_operand(rank->program, instr, ROLE_IN, 0) &&
                instr_operand(rank->program, sum, ROLE_IN, 1) == instr_operand(rank->program, instr, ROLE_OUT, 0) &&
                may_begin_at(rank, i, sum);
    return fits ? last : -1;
}

/* GELU's gradient behind that of its result, which nobody else asks for. */
static int backward_partner(const struct rank *rank, int i)
{
    const struct stage_program *stage = stage_of(rank);
    const struct instr *instr = &stage->instrs[i], *weight = NULL;
    const int between = instr_operand(rank->program, instr, ROLE_GRADIENT_IN, 0);
    int last = following(rank, i);
    if (last >= 0 && is_kernel(rank, &stage->instrs[last], KERNEL_MATMUL, PHASE_BACKWARD_WEIGHT)) {
        weight = &stage->instrs[last];
        last = following(rank, last);
    }
    if (last < 0 || between < 0)
        return -1;
    const struct instr *gelu = &stage->instrs[last];
    bool fits = is_kernel(rank, gelu, KERNEL_GELU, PHASE_BACKWARD_INPUT) && can_begin_early(gelu) &&
                instr_operand(rank->program, gelu, ROLE_GRADIENT_OUT, 0) == between &&
                instr_operand(rank->program, gelu, ROLE_GRADIENT_IN, 0) >= 0 &&
                !touches(rank, instr, instr_operand(rank->program, gelu, ROLE_GRADIENT_IN, 0)) &&
                uses(rank, between) == 2 && (!weight || may_go_first(rank, weight, instr, gelu));
    return fits ? last : -1;
}

/* ---- products of one input ---- */
/* Tells whether the instruction writes in a place that `buffer` has. */
static bool writes(const struct rank *rank, const struct instr *instr, int buffer)
{
    for (int role = 0; role < ROLE_COUNT; role++)
        for (int o = 0; o < MAX_OPERANDS; o++) {
            const int b = instr_operand(rank->program, instr, (enum role)role, o);
            if (b >= 0 && role_written(instr->phase, (enum role)role) && overlap(rank, b, buffer))
                return true;
        }
    return false;
}

/* Tells whether a product may run at the place of another one of its lane, before all that is between them there: it
 * changes nothing that these read or write, they nothing that it reads, and nobody waits. */
static bool may_run_at(const struct rank *rank, int from, int later)
{
    const struct instr *instrs = stage_of(rank)->instrs, *moved = &instrs[later];
    if (!can_begin_early(moved))
        return false;
    for (int i = from; i >= 0 && i < later; i = following(rank, i)) {
        if (i > from && instrs[i].wait_count > 0)
            return false;
        for (int role = 0; role < ROLE_COUNT; role++)
            for (int o = 0; o < MAX_OPERANDS; o++) {
                const int b = instr_operand(rank->program, moved, (enum role)role, o);
                if (b >= 0 && (role_written(moved->phase, (enum role)role) ? touches(rank, &instrs[i], b)
                                                                           : writes(rank, &instrs[i], b)))
                    return false;
            }
    }
    return true;
}

/* The next product of the same phase and input, behind gradients of inputs at most; -1: none. */
static int next_alike(const struct rank *rank, int i)
{
    const struct instr *instrs = stage_of(rank)->instrs;
    int next = following(rank, i);
    while (next >= 0 && is_kernel(rank, &instrs[next], KERNEL_MATMUL, PHASE_BACKWARD_INPUT))
        next = following(rank, next);
    const bool same =
        next >= 0 && is_kernel(rank, &instrs[next], KERNEL_MATMUL, instrs[i].phase) &&
        instr_operand(rank->program, &instrs[next], ROLE_IN, 0) == instr_operand(rank->program, &instrs[i], ROLE_IN, 0);
    return same ? next : -1;
}

static void join_products(const struct rank *rank, int first)
{
    struct gpu_rank *g = rank->device_state;
    int last = first, next;
    for (int count = 1; count < GPU_MOST_TOGETHER; count++, last = next) {
        next = next_alike(rank, last);
        if (next < 0 || g->partner[next] >= 0 || !may_run_at(rank, first, next))
            return;
        g->next[last] = next;
    }
}

/* As queries, keys and values are made of one input, or a gate beside what it is for. */
static void find_together(const struct rank *rank)
{
    struct gpu_rank *g = rank->device_state;
    for (int i = 0; i < stage_of(rank)->instr_count; i++)
        g->next[i] = -1;
    if (rank->options->learned) /* a profile wants the time of each */
        return;
    for (int i = 0, past = 0; i < stage_of(rank)->instr_count; i++) {
        const struct instr *instr = &stage_of(rank)->instrs[i];
        if (i >= past && g->partner[i] < 0 &&
            (is_kernel(rank, instr, KERNEL_MATMUL, PHASE_FORWARD) ||
             is_kernel(rank, instr, KERNEL_MATMUL, PHASE_BACKWARD_WEIGHT)))
            join_products(rank, i);
        for (int member = i; member >= past; member = g->next[member]) /* none begins a list of its own */
            past = member + 1;
    }
}

bool gpu_fuse_open(struct rank *rank, struct error *err)
{
    struct gpu_rank *g = rank->device_state;
    const struct stage_program *stage = stage_of(rank);
    g->partner = malloc(((size_t)stage->instr_count + 1) * sizeof *g->partner);
    g->next = malloc(((size_t)stage->instr_count + 1) * sizeof *g->next);
    g->unread = calloc((size_t)stage->instr_count + 1, sizeof *g->unread);
    g->fused = calloc((size_t)stage->instr_count + 1, sizeof *g->fused);
    if (!g->partner || !g->unread || !g->next || !g->fused)
        return fail_kind(err, ERROR_ENVIRONMENT, "no memory for %d instructions", stage->instr_count);
    for (int i = 0; i < stage->instr_count; i++) {
        const struct instr *instr = &stage->instrs[i];
        g->partner[i] = is_kernel(rank, instr, KERNEL_MATMUL, PHASE_FORWARD)          ? forward_partner(rank, i)
                        : is_kernel(rank, instr, KERNEL_MATMUL, PHASE_BACKWARD_INPUT) ? backward_partner(rank, i)
                        : is_kernel(rank, instr, KERNEL_RESIDUAL, PHASE_FORWARD)      ? norm_partner(rank, i)
                        : is_kernel(rank, instr, KERNEL_LOGIT_MAX, PHASE_FORWARD)     ? sum_partner(rank, i)
                        : is_norm(rank, instr, PHASE_BACKWARD_INPUT)                  ? residual_partner(rank, i)
                                                                                      : -1;
    }
    for (int i = 0; i < stage->instr_count; i++)
        if (g->partner[i] >= 0 && is_norm(rank, &stage->instrs[i], PHASE_BACKWARD_INPUT))
            g->unread[i] =
                is_unread(rank, i, g->partner[i], instr_operand(rank->program, &stage->instrs[i], ROLE_GRADIENT_IN, 0));
    find_together(rank);
    return true;
}

void gpu_fuse_close(struct gpu_rank *g)
{
    free(g->partner);
    free(g->next);
    free(g->unread);
    free(g->fused);
}
