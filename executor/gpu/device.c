#include "executor/gpu/device.h"
#include "base/num.h"
#include "executor/collective_piece.h"
#include "executor/gpu/kinds.h"
#include "executor/gpu/comm.h"
#include "executor/kernels/rates.h"
#include "executor/kernels/runs.h"
#include "host/clock.h"
#include "planner/program/schedule.h"
#include "planner/sim/timeline.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool gpu_device_check(const struct program *program, struct error *err)
{
    enum dtype full = sizeof(real) == sizeof(double) ? DTYPE_FP64 : DTYPE_FP32, dtype = program->plan->dtype;
    if (dtype != full && !(dtype == DTYPE_BF16 && full == DTYPE_FP32))
        return fail_kind(err, ERROR_INPUT,
                         "the GPU computes in fp32 and bf16, found a plan in %s: plan with --dtype %s, or use "
                         "--backend timed",
                         dtype_names[dtype], dtype_names[DTYPE_BF16]);
    if (schedules[program->plan->schedule]->asynchronous)
        return fail_kind(err, ERROR_INPUT, "schedule %s: GPUs keep no stale weights yet: use --backend cpu",
                         schedules[program->plan->schedule]->name);
    if (optimizer_gradient_bytes(&program->plan->optimizer, program->graph->keeping.narrow_gradients, dtype) <
        gradient_bytes_per_element(dtype))
        return fail_kind(err, ERROR_INPUT,
                         "GPUs add up gradients in fp32, and the plan or its framework does in 16 bit: "
                         "plan with --framework cleave, without --gradient-dtype");
    if (!device_may_run(program, err))
        return false;
    for (int s = 0; s < program->graph->segment_count; s++) {
        const struct segment *segment = &program->graph->segments[s];
        const char *layer = program->graph->layers[segment->layer].name;
        const char *lacking = gpu_lacks(segment);
        if (lacking)
            return fail_kind(err, ERROR_INPUT, "layer %s: GPUs have no %s yet: use --backend cpu", layer, lacking);
        if (!gpu_computes(segment->kernel, PHASE_FORWARD))
            return fail_kind(err, ERROR_INPUT, "layer %s: GPUs have no kernel %s yet: use --backend cpu", layer,
                             kernel_facts[segment->kernel].name);
    }
    return true;
}

int gpu_buffer_type(const struct program *program, int b)
{
    const struct buffer *buffer = &program->buffers[b];
    if (!buffer->is_weight && buffer->id >= 0 && program->graph->values[buffer->id].element == ELEMENT_INDEX &&
        buffer->kind == BUFFER_VALUE)
        return GPU_INDEX;
    return buffer->element_bytes == 2 ? GPU_BF16 : GPU_REAL;
}

/* ---- order ---- */
static int index_of(const struct rank *rank, const struct instr *instr)
{
    return (int)(instr - rank->program->stages[rank->stage].instrs);
}

void *gpu_end_event(const struct gpu_rank *g, int index)
{
    return g->told ? g->done[index] : g->mark[index];
}

bool gpu_queue_begin(struct rank *rank, const struct instr *instr, struct error *err)
{
    struct gpu_rank *g = rank->device_state;
    void *stream = g->stream[instr->lane];
    if (!gpu_hold_next(rank, instr, err))
        return false;
    atomic_fetch_add(&g->queued, 1);
    for (int w = 0; w < instr->wait_count; w++) {
        int before = rank->program->stages[rank->stage].waits[instr->wait_first + w];
        if (!g->gpu.wait(g->gpu.self, stream, gpu_end_event(g, before), err))
            return false;
    }
    return !g->told || g->gpu.record(g->gpu.self, stream, g->began[index_of(rank, instr)], err);
}

bool gpu_queue_end(struct rank *rank, const struct instr *instr, struct error *err)
{
    struct gpu_rank *g = rank->device_state;
    void *event = gpu_end_event(g, index_of(rank, instr));
    return !event || g->gpu.record(g->gpu.self, g->stream[instr->lane], event, err);
}

/* ---- instructions ---- */
void *gpu_place(const struct rank *rank, int buffer)
{
    const struct gpu_rank *g = rank->device_state;
    const struct buffer *b = &rank->program->buffers[buffer];
    return (b->host ? rank->host_arena : g->arena) + b->offset;
}

/* The bytes of a loss may soon serve another buffer, so it is copied at once; the host reads it when the step is over.
 */
static bool note_loss(struct rank *rank, const struct instr *instr, struct error *err)
{
    struct gpu_rank *g = rank->device_state;
    for (int i = 0; i < MAX_OPERANDS; i++) {
        int b = instr_operand(rank->program, instr, ROLE_OUT, i);
        if (rank_is_loss(rank, instr, b) &&
            !g->gpu.copy(g->gpu.self, g->stream[instr->lane], g->host + g->loss_slot + b * (int64_t)sizeof(real),
                         gpu_place(rank, b), sizeof(real), err))
            return false;
    }
    return true;
}

/* call is borrowed by the result. */
static struct gpu_call queued_call(const struct rank *rank, const struct instr *instr, const struct kernel_call *call)
{
    const struct gpu_rank *g = rank->device_state;
    const struct segment *segment = &rank->program->graph->segments[instr->segment];
    const bool counts_overflow = segment->kernel == KERNEL_ROUTE && segment->arguments.dropless;
    struct gpu_call queued = { .gpu = &g->gpu,
                               .stream = g->stream[instr->lane],
                               .call = call,
                               .table = g->table[instr->segment],
                               .parts = instr->lane == LANE_COMPUTE ? g->parts : NULL,
                               .overflow = counts_overflow ? g->overflow : NULL,
                               .deterministic = rank->options->deterministic,
                               .note = rank->options->on_note,
                               .note_context = rank->options->context };
    for (int role = 0; role < ROLE_COUNT; role++)
        for (int i = 0; i < MAX_OPERANDS; i++)
            if (instr_has(instr, (enum role)role, i))
                queued.type[role][i] =
                    (uint8_t)gpu_buffer_type(rank->program, instr_operand(rank->program, instr, (enum role)role, i));
    return queued;
}

struct issuing {
    struct rank *rank;
    const struct instr *instr;
    struct error *err;
};

static bool issue_part(void *context, const struct kernel_call *part)
{
    const struct issuing *issuing = context;
    const struct gpu_call queued = queued_call(issuing->rank, issuing->instr, part);
    return gpu_issue(&queued, issuing->err);
}

static bool issue(struct rank *rank, const struct instr *instr, struct error *err)
{
    const struct kernel_call call = rank_call(rank, instr, ((struct gpu_rank *)rank->device_state)->arena);
    return kernel_each_run(&call, issue_part, &(struct issuing){ rank, instr, err });
}

static int norm_part(const struct rank *rank, const struct instr *instr)
{
    const bool of_sum = rank->program->graph->segments[instr->segment].kernel == KERNEL_RESIDUAL;
    if (instr->phase == PHASE_BACKWARD_WEIGHT)
        return of_sum ? GPU_NORM_BIAS : GPU_NORM_WEIGHTS;
    return of_sum ? GPU_NORM_RESIDUAL : GPU_NORM_INPUT;
}

/* The gradient of a norm's input with all that follows up to the last. */
static bool compute_norm_with(struct rank *rank, const struct instr *instr, int last, bool *done, struct error *err)
{
    struct gpu_rank *g = rank->device_state;
    const struct instr *instrs = rank->program->stages[rank->stage].instrs;
    const int first = index_of(rank, instr);
    struct kernel_call call[GPU_NORM_CALLS];
    struct gpu_call queued[GPU_NORM_CALLS];
    const struct gpu_call *all[GPU_NORM_CALLS] = { NULL };
    bool taken[GPU_NORM_CALLS] = { false };
    for (int i = first; i <= last; i++) {
        if (instrs[i].lane != instr->lane)
            continue;
        const int part = norm_part(rank, &instrs[i]);
        call[part] = rank_call(rank, &instrs[i], g->arena);
        queued[part] = queued_call(rank, &instrs[i], &call[part]);
        all[part] = &queued[part];
    }
    const bool ok = gpu_issue_norm_backward(all, g->unread[first], taken, err);
    for (int i = first + 1; i <= last; i++)
        if (instrs[i].lane == instr->lane)
            g->fused[i] = ok && taken[norm_part(rank, &instrs[i])];
    *done = taken[GPU_NORM_INPUT];
    return ok;
}

/* Both at the first one's place, where the device has that in one; going back the gradient of a weight may lie between
 * them, which goes first. */
static bool compute_with(struct rank *rank, const struct instr *instr, int partner, bool *done, struct error *err)
{
    struct gpu_rank *g = rank->device_state;
    const struct instr *instrs = rank->program->stages[rank->stage].instrs, *next = &instrs[partner];
    const enum kernel kernel = rank->program->graph->segments[instr->segment].kernel;
    if (kernel == KERNEL_LAYER_NORM || kernel == KERNEL_RMS_NORM)
        return compute_norm_with(rank, instr, partner, done, err);
    for (int i = index_of(rank, instr) + 1; instr->phase == PHASE_BACKWARD_INPUT && i < partner; i++) {
        if (instrs[i].lane != instr->lane)
            continue;
        if (!issue(rank, &instrs[i], err))
            return false;
        g->fused[i] = true;
    }
    const struct kernel_call call = rank_call(rank, instr, g->arena), next_call = rank_call(rank, next, g->arena);
    const struct gpu_call queued = queued_call(rank, instr, &call), next_queued = queued_call(rank, next, &next_call);
    bool ok = (kernel == KERNEL_RESIDUAL    ? gpu_issue_with_norm
               : kernel == KERNEL_LOGIT_MAX ? gpu_issue_with_sum
                                            : gpu_issue_with_gelu)(&queued, &next_queued, done, err);
    g->fused[partner] = ok && *done;
    return ok;
}

/* All at the first one's place. */
static bool compute_together(struct rank *rank, int first, struct error *err)
{
    struct gpu_rank *g = rank->device_state;
    const struct instr *instrs = rank->program->stages[rank->stage].instrs;
    struct kernel_call call[GPU_MOST_TOGETHER];
    struct gpu_call queued[GPU_MOST_TOGETHER];
    const struct gpu_call *calls[GPU_MOST_TOGETHER];
    int count = 0;
    for (int i = first; i >= 0 && count < GPU_MOST_TOGETHER; i = g->next[i], count++) {
        call[count] = rank_call(rank, &instrs[i], g->arena);
        queued[count] = queued_call(rank, &instrs[i], &call[count]);
        calls[count] = &queued[count];
        g->fused[i] = i != first;
    }
    return gpu_issue_together(calls, count, err);
}

static bool compute(struct rank *rank, const struct instr *instr, struct error *err)
{
    struct gpu_rank *g = rank->device_state;
    const int index = index_of(rank, instr);
    bool done = g->fused[index];
    g->fused[index] = false;
    if (done)
        return true;
    if (g->partner[index] >= 0 && !compute_with(rank, instr, g->partner[index], &done, err))
        return false;
    if (done)
        return true;
    if (g->next[index] >= 0)
        return compute_together(rank, index, err);
    return issue(rank, instr, err) && (instr->phase != PHASE_FORWARD || note_loss(rank, instr, err));
}

/* The slot is this LOAD's alone: the next step fills it when all of this one has ended. */
static bool load(struct rank *rank, const struct instr *instr, int p, struct error *err)
{
    struct gpu_rank *g = rank->device_state;
    int b = rank->program->pairs[p].destination;
    unsigned char *slot = g->host + g->load_slot[p];
    return rank_load(rank, instr, b, slot, err) && g->gpu.copy(g->gpu.self, g->stream[instr->lane], gpu_place(rank, b),
                                                               slot, (size_t)rank->program->buffers[b].bytes, err);
}

static bool set(struct rank *rank, const struct instr *instr, int b, double value, struct error *err)
{
    struct gpu_rank *g = rank->device_state;
    struct gpu_work work = {
        .outer_loops = 1,
        .outer = buffer_holds(&rank->program->buffers[b]),
        .inner = 1,
        .extent = { buffer_holds(&rank->program->buffers[b]) },
        .spot[0] = { .data = gpu_place(rank, b), .type = gpu_buffer_type(rank->program, b), .stride = { 1 } },
        .number = { value }
    };
    return gpu_start_elements(&g->gpu, g->stream[instr->lane], GPU_SET, &work, work.outer, err);
}

static bool run_pair(struct rank *rank, const struct instr *instr, int p, struct error *err)
{
    struct gpu_rank *g = rank->device_state;
    const struct pair *pair = &rank->program->pairs[p];
    switch (instr->op) {
    case OP_LOAD:
        return load(rank, instr, p, err);
    case OP_SEED:
        return set(rank, instr, pair->destination, 1, err);
    case OP_ZERO:
        return g->gpu.fill(g->gpu.self, g->stream[instr->lane], gpu_place(rank, pair->destination), 0,
                           (size_t)rank->program->buffers[pair->destination].bytes, err);
    case OP_OFFLOAD:
    case OP_FETCH:
        return g->gpu.copy(g->gpu.self, g->stream[instr->lane], gpu_place(rank, pair->destination),
                           gpu_place(rank, pair->source), (size_t)rank->program->buffers[pair->source].bytes, err);
    case OP_COMPUTE:
    case OP_SLICE:
    case OP_ADD:
    case OP_NORM:
    case OP_UPDATE:
#include "planner/program/ops_that_move.def"
    case OP_COUNT:
        break;
    }
    return fail_kind(err, ERROR_BUG, "a GPU cannot run %s", op_info[instr->op].name);
}

static bool run(struct rank *rank, const struct instr *instr, struct error *err)
{
    if (instr->op == OP_COMPUTE)
        return compute(rank, instr, err);
    if (instr->op == OP_SLICE || instr->op == OP_ADD)
        return gpu_queue_local(rank, instr, err);
    if (instr->op == OP_NORM)
        return gpu_update_norm(rank, instr, err);
    if (instr->op == OP_UPDATE)
        return gpu_update_run(rank, instr, err);
    for (int p = instr->pair_first; p < instr->pair_first + instr->pair_count; p++)
        if (!run_pair(rank, instr, p, err))
            return false;
    return true;
}

/* "compute forward 3.mlp.up" for tools that watch. */
static void mark(const struct rank *rank, const struct instr *instr)
{
    const struct gpu_rank *g = rank->device_state;
    const struct graph *graph = rank->program->graph;
    const int layer = instr->segment >= 0 ? graph->segments[instr->segment].layer : instr->layer;
    char name[96];
    if (!g->gpu.mark)
        return;
    snprintf(name, sizeof name, "%s %s %s%s%s", op_info[instr->op].name, phase_names[instr->phase],
             layer >= 0 ? graph->layers[layer].name : "", instr->segment >= 0 ? "." : "",
             instr->segment >= 0 ? graph->segments[instr->segment].name : "");
    g->gpu.mark(name);
}

bool gpu_device_execute(struct rank *rank, const struct instr *instr, struct span *span, struct error *err)
{
    (void)span; /* finish_step() tells */
    struct gpu_rank *g = rank->device_state;
    if (g->mode == GPU_STEP_REPLAYED)
        return true;
    gpu_replay_enter(g);
    mark(rank, instr);
    bool ok = gpu_queue_begin(rank, instr, err) && run(rank, instr, err) && gpu_queue_end(rank, instr, err);
    if (g->gpu.unmark)
        g->gpu.unmark();
    gpu_replay_leave(g);
    return ok;
}

/* ---- a step ---- */
enum { TIES = 3 };

/* The event lies between the host's times before it was queued and after it was reached; of several, the one of whose
 * time that says most becomes the origin. A thread that is woken late says little. */
static bool tie_clocks(struct gpu_rank *g, struct error *err)
{
    void *stream = g->stream[LANE_COMPUTE];
    int64_t tightest_ns = INT64_MAX;
    for (int i = 0; i < TIES; i++) {
        const int64_t before_ns = clock_now_ns();
        if (!g->gpu.record(g->gpu.self, stream, g->spare, err) || !g->gpu.finish(g->gpu.self, stream, err))
            return false;
        const int64_t bracket_ns = clock_now_ns() - before_ns;
        if (bracket_ns >= tightest_ns)
            continue;
        void *origin = g->spare;
        g->spare = g->origin, g->origin = origin;
        g->origin_ns = before_ns + bracket_ns / 2, tightest_ns = bracket_ns;
        g->origin_error_ns = bracket_ns - bracket_ns / 2;
    }
    return true;
}

/* Where times are told, the one wait besides that at the end: it ties the device's clock to the host's, and puts the
 * origin before all that other lanes do. */
bool gpu_device_begin_step(struct rank *rank, struct error *err)
{
    struct gpu_rank *g = rank->device_state;
    void *stream = g->stream[LANE_COMPUTE];
    if (g->overflow && !g->gpu.fill(g->gpu.self, stream, g->overflow, 0,
                                    (size_t)gpu_overflow_counts(&g->gpu) * sizeof *g->overflow, err))
        return false;
    g->mode = gpu_replay_mode(rank);
    if (g->comm)
        gpu_comm_begin_step(rank);
    g->told = g->mode == GPU_STEP_QUEUED && (rank->options->on_timeline || rank->step + 1 == rank->options->step_count);
    gpu_watch_begin(rank);
    g->origin_ns = clock_now_ns();
    return (!g->told || tie_clocks(g, err)) && gpu_replay_begin(rank, err) && gpu_hold_begin(rank, err);
}

static void read_numbers(struct rank *rank)
{
    const struct gpu_rank *g = rank->device_state;
    const real *loss = (const real *)(const void *)(g->host + g->loss_slot);
    for (int b = 0; b < rank->program->buffer_count; b++)
        rank->loss_part[b] = (double)loss[b];
    if (rank_clips(rank))
        rank->squared_norm = (double)loss[rank->program->buffer_count];
}

/* Counts all layers together: the description promised that no token is left out. */
static bool check_overflow(struct rank *rank, struct error *err)
{
    struct gpu_rank *g = rank->device_state;
    const int64_t count = gpu_overflow_counts(&g->gpu);
    const int32_t *counts = (const int32_t *)(const void *)(g->host + g->overflow_slot);
    int64_t overflow = 0;
    if (!g->overflow)
        return true;
    if (!g->gpu.copy(g->gpu.self, g->stream[LANE_COMPUTE], g->host + g->overflow_slot, g->overflow,
                     (size_t)count * sizeof *counts, err) ||
        !g->gpu.finish(g->gpu.self, g->stream[LANE_COMPUTE], err))
        return false;
    for (int64_t i = 0; i < count; i++)
        overflow += counts[i];
    return overflow == 0 ||
           fail_kind(err, ERROR_INPUT,
                     "step %lld: %lld choices of tokens found no slot at their expert: raise capacity_factor of the "
                     "layers that are dropless, or set dropless to false",
                     (long long)rank->step + 1, (long long)overflow);
}

bool gpu_device_finish_step(struct rank *rank, struct span *spans, struct error *err)
{
    struct gpu_rank *g = rank->device_state;
    gpu_hold_end(g);
    if (!gpu_replay_finish(rank, err))
        return false;
    for (int lane = 0; lane < LANE_COUNT; lane++)
        if (g->stream[lane] && !g->gpu.finish(g->gpu.self, g->stream[lane], err))
            return false;
    if (!check_overflow(rank, err))
        return false;
    if (g->comm && !gpu_comm_check(rank, err))
        return false;
    read_numbers(rank);
    if (!g->told) {
        gpu_replay_spans(rank, spans);
        return true;
    }
    for (int i = 0; i < g->instr_count; i++) {
        int64_t start_ns, finish_ns;
        if (!g->gpu.elapsed(g->gpu.self, g->origin, g->began[i], &start_ns, err) ||
            !g->gpu.elapsed(g->gpu.self, g->origin, g->done[i], &finish_ns, err))
            return false;
        spans[i].start_ns = g->origin_ns + start_ns;
        spans[i].finish_ns = g->origin_ns + finish_ns;
    }
    gpu_update_spans(rank, spans);
    gpu_watch_end(rank, spans);
    return true;
}
