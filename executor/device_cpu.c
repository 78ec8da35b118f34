#include "executor/device.h"
#include "base/text.h"
#include "executor/kernels/elements.h"
#include "executor/kernels/runs.h"
#include "executor/rank.h"
#include "host/clock.h"
#include "planner/program/access.h"
#include <string.h>

static bool may_update(const struct program *program, struct error *err)
{
    const struct plan *plan = program->plan;
    struct optimizer own = plan->optimizer;
    struct text words = { 0 };
    own.gradients = GRADIENTS_USUAL; /* of which each device says what it has */
    if (optimizer_is_usual(&own))
        return true;
    optimizer_describe(&words, &plan->optimizer);
    fail_kind(err, ERROR_INPUT, "optimizer %s: devices update by adamw alone, in 32 bit: use --backend timed",
              words.data ? words.data : "");
    text_free(&words);
    return false;
}

bool device_may_run(const struct program *program, struct error *err)
{
    if (!may_update(program, err))
        return false;
    if (program->graph->planned_layer)
        return fail_kind(err, ERROR_INPUT, "layer %s is planned and nothing runs it: use --backend timed",
                         program->graph->planned_layer);
    for (int s = 0; s < program->graph->segment_count; s++) {
        const struct segment *segment = &program->graph->segments[s];
        if (segment->kernel == KERNEL_OPAQUE)
            return fail_kind(err, ERROR_INPUT, "layer %s has given times and no mathematics: use --backend timed",
                             program->graph->layers[segment->layer].name);
        if (segment_input_reads_in(program->graph, segment) != kernel_facts[segment->kernel].input_reads_in)
            return fail_kind(err, ERROR_INPUT,
                             "layer %s: the plan's framework weights what experts give before their last product, and "
                             "no device does so yet: plan with --framework cleave, or use --backend timed",
                             program->graph->layers[segment->layer].name);
    }
    return true;
}

static bool check(const struct program *program, struct error *err)
{
    enum dtype wanted = sizeof(real) == sizeof(double) ? DTYPE_FP64 : DTYPE_FP32;
    if (program->plan->dtype != wanted)
        return fail_kind(err, ERROR_INPUT,
                         "the cpu device computes in %s, found a plan in %s: plan with --dtype %s, or use "
                         "--backend timed",
                         dtype_names[wanted], dtype_names[program->plan->dtype], dtype_names[wanted]);
    return device_may_run(program, err);
}

/* The loss buffer is read at once: later its bytes may serve another buffer. */
static void note_loss(struct rank *rank, const struct instr *instr)
{
    for (int i = 0; i < MAX_OPERANDS; i++) {
        int b = instr_operand(rank->program, instr, ROLE_OUT, i);
        if (rank_is_loss(rank, instr, b))
            rank->loss_part[b] = (double)*(const real *)(const void *)rank_data(rank, b);
    }
}

/* The description promised that no token is left out. */
static bool fail_overflow(const struct rank *rank, const struct segment *segment, int64_t overflow, struct error *err)
{
    const struct kernel_arguments *a = &segment->arguments;
    return fail_kind(err, ERROR_INPUT,
                     "step %lld, layer %s: %lld choices of tokens found no slot at their expert, which has %lld for a "
                     "group of %lld tokens: raise the layer's capacity_factor, or set dropless to false",
                     (long long)rank->step + 1, rank->program->graph->layers[segment->layer].name, (long long)overflow,
                     (long long)a->slots, (long long)a->group);
}

static bool run_part(void *context, const struct kernel_call *part)
{
    (*(kernel_function **)context)(part);
    return true;
}

static bool compute(struct rank *rank, const struct instr *instr, struct error *err)
{
    const struct program *program = rank->program;
    const struct segment *segment = &program->graph->segments[instr->segment];
    kernel_function *kernel = kernel_find(segment->kernel, instr->phase);
    if (!kernel)
        return fail_kind(err, ERROR_BUG, "segment %s has no kernel for %s", segment->name, phase_names[instr->phase]);
    struct kernel_call call = rank_call(rank, instr, rank->arena);
    const struct stage_program *stage = &program->stages[rank->stage];
    if (stage->scratch_bytes > 0)
        call.scratch = (real *)(void *)(rank->arena + stage->scratch_offset);
    int64_t overflow = 0;
    call.overflow = &overflow;
    kernel_each_run(&call, run_part, &kernel);
    if (overflow > 0 && segment->arguments.dropless)
        return fail_overflow(rank, segment, overflow, err);
    if (segment->kernel == KERNEL_ROUTE && instr->phase == PHASE_FORWARD && !instr->again) {
        rank->choices += buffer_holds(&program->buffers[instr_operand(program, instr, ROLE_OUT, 1)]);
        rank->dropped += overflow;
    }
    if (instr->phase == PHASE_FORWARD && program->graph->loss_value >= 0)
        note_loss(rank, instr);
    return true;
}

static void norm(struct rank *rank, const struct pair *pair)
{
    if (!geometry_norm_counts(rank->program, rank->stage, pair, rank->local_rank))
        return;
    int64_t first, count;
    rank_flat_range(rank, pair->source, &first, &count);
    *(real *)(void *)rank_data(rank, pair->destination) +=
        (real)kernel_square_sum((const real *)(const void *)rank_data(rank, pair->source), count);
}

static double gradient_scale(struct rank *rank)
{
    if (!rank_clips(rank))
        return 1;
    rank->squared_norm = (double)*(const real *)(const void *)rank_data(rank, rank->scalar);
    return clip_scale(rank->squared_norm, rank->program->plan->clip_norm);
}

static bool update(struct rank *rank, const struct instr *instr, struct error *err)
{
    const struct pair *pair = &rank->program->pairs[instr->pair_first];
    const struct run_options *o = rank->options;
    const struct weight *weight = &rank->program->graph->weights[rank->program->buffers[pair->destination].id];
    if (o->on_gradient)
        o->on_gradient(o->context, rank->step, rank->rank, pair->source, rank_data(rank, pair->source));
    int state = rank_state(rank, instr);
    if (state < 0)
        return fail_kind(err, ERROR_BUG, "weight %s is updated without optimizer state", weight->name);
    int64_t first, count, weight_first, weight_count;
    rank_flat_range(rank, pair->source, &first, &count);
    rank_flat_range(rank, pair->destination, &weight_first, &weight_count);
    int source = access_update_source(rank->program, instr);
    real *data = (real *)(void *)rank_data(rank, pair->destination);
    const real *present = source < 0 ? data : (const real *)(const void *)rank_data(rank, source);
    struct adamw adamw = rank_adamw(rank, weight, instr);
    adamw.gradient_scale = gradient_scale(rank);
    kernel_adamw(data + (first - weight_first), present + (first - weight_first),
                 (const real *)(const void *)rank_data(rank, pair->source), (real *)(void *)rank_data(rank, state),
                 count, &adamw);
    return true;
}

static void fill(struct rank *rank, int b, real value)
{
    real *data = (real *)(void *)rank_data(rank, b);
    for (int64_t i = 0; i < buffer_holds(&rank->program->buffers[b]); i++)
        data[i] = value;
}

/* A copy takes as long as the cluster's description says, if the memory is faster. */
static void wait_for_link(const struct rank *rank, const struct instr *instr, const struct span *span)
{
    const struct facts *facts = rank->options->facts;
    if (facts)
        clock_sleep_until_ns(span->start_ns + cost_instr_rank_ns(facts, rank->program, rank->stage, instr, rank->rank));
}

static bool execute(struct rank *rank, const struct instr *instr, struct span *span, struct error *err)
{
    if (instr->op == OP_COMPUTE)
        return compute(rank, instr, err);
    if (instr->op == OP_SLICE || instr->op == OP_ADD) {
        collective_local(rank->collectives[instr->lane], instr);
        return true;
    }
    for (int p = 0; p < instr->pair_count; p++) {
        const struct pair *pair = &rank->program->pairs[instr->pair_first + p];
        switch (instr->op) {
        case OP_LOAD:
            if (!rank_load(rank, instr, pair->destination, rank_data(rank, pair->destination), err))
                return false;
            break;
        case OP_SEED:
            fill(rank, pair->destination, (real)schedule_updates(rank->program->plan));
            break;
        case OP_ZERO:
            memset(rank_data(rank, pair->destination), 0, (size_t)rank->program->buffers[pair->destination].bytes);
            break;
        case OP_NORM:
            norm(rank, pair);
            break;
        case OP_UPDATE:
            if (p == 0 && geometry_rank_updates(rank->program, instr, rank->local_rank) &&
                !update(rank, instr, err)) /* further pairs are what it reads beside the gradient */
                return false;
            break;
        case OP_OFFLOAD:
        case OP_FETCH:
            memcpy(rank_data(rank, pair->destination), rank_data(rank, pair->source),
                   (size_t)rank->program->buffers[pair->source].bytes);
            break;
        case OP_COMPUTE:
        case OP_SLICE:
        case OP_ADD:
#include "planner/program/ops_that_move.def"
        case OP_COUNT:
            return fail_kind(err, ERROR_BUG, "the cpu device cannot run %s", op_info[instr->op].name);
        }
    }
    if (instr->op == OP_OFFLOAD || instr->op == OP_FETCH)
        wait_for_link(rank, instr, span);
    return true;
}

const struct device device_cpu = { .name = "cpu", .check = check, .execute = execute, .computes = true };
