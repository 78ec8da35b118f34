/* What a list of legal instructions may still get wrong: a piece of work left out or done twice, a sum added twice, a
 * result that nobody takes. Program order is one of the orders that waits allow, so reading the list once is enough. */
#include "planner/program/access.h"
#include "planner/program/by_stage.h"
#include "planner/program/recipe.h"
#include "planner/verify/verify_parts.h"
#include <string.h>

enum {
    WORK_PHASES = 3,
    WORK_AGAIN = 3,
    WORK_AHEAD,  /* for the next step */
    WORK_OPENED, /* of the forward passes those before the first step */
    WORK_SLOTS
}; /* forward and the two backward phases; recomputation beside them */

struct flow_buffer {
    int version;  /* writes so far */
    int pending;  /* the instruction whose result nobody has read yet, -1 none */
    int added_to; /* destination that took this version as a summand, -1 none */
    int added_version;
    bool taken; /* this content has been read */
    int open;   /* the instruction whose later rounds have still to write to it, -1 none */
};
struct flow {
    struct arena arena;
    const struct program *program;
    struct error *err;
    struct by_stage by_stage;
    struct flow_buffer *buffers;
    int *rounds; /* (segments, WORK_SLOTS, micro-batches) done */
};

static int *rounds_of(const struct flow *f, int segment, int slot, int micro)
{
    return &f->rounds[(segment * WORK_SLOTS + slot) * f->program->plan->micro_batch_count + micro];
}

/* Counts rounds: a ring rotates operands that carry no weights, so weight gradients are one piece of work. */
static int wanted_rounds(const struct program *program, int segment, enum phase phase)
{
    if (phase == PHASE_BACKWARD_WEIGHT && program->assignments[segment].ring_atom >= 0)
        return 1;
    return recipe_segment_rounds(program->plan, program->graph, &program->assignments[segment], segment);
}

/* ---- work ---- */
static bool count_work(struct flow *f, int stage, int index, const struct instr *instr)
{
    if (instr->op != OP_COMPUTE || instr->phase >= (enum phase)WORK_PHASES)
        return true;
    int slot = instr->part == STEP_AHEAD ? WORK_AHEAD : instr->again ? WORK_AGAIN : (int)instr->phase;
    int *done = rounds_of(f, instr->segment, slot, instr->micro);
    *rounds_of(f, instr->segment, WORK_OPENED, instr->micro) += instr->part == STEP_OPENING;
    int wanted = wanted_rounds(f->program, instr->segment, instr->phase), next = instr->again ? *done % wanted : *done;
    if (instr->round != next || next == wanted)
        return verify_fail(f->program, stage, index, f->err, "round %d of %d comes after %d rounds of the same work",
                           instr->round, wanted, next);
    ++*done;
    return true;
}

static bool trains(const struct graph *graph, const struct segment *segment)
{
    for (int i = 0; i < segment->weight_count; i++)
        if (!graph->weights[segment->weight[i].id].frozen)
            return kernel_facts[segment->kernel].has_backward_weight;
    return false;
}

/* True when an input wants a gradient and an output can bring one. */
static bool passes_gradient(const struct graph *graph, const struct segment *segment)
{
    bool wanted = false, brought = false;
    for (int i = 0; i < segment->in_count; i++)
        wanted |= graph->values[segment->in[i].id].differentiable && graph_needs_gradient(graph, segment->in[i].id);
    for (int i = 0; i < segment->out_count; i++)
        brought |= graph->values[segment->out[i].id].differentiable;
    return wanted && brought && kernel_facts[segment->kernel].has_backward_input;
}

static bool check_segment(const struct flow *f, int stage, int segment, enum phase phase)
{
    const struct program *p = f->program;
    const struct segment *seg = &p->graph->segments[segment];
    bool asked = phase == PHASE_FORWARD || (phase == PHASE_BACKWARD_WEIGHT && trains(p->graph, seg)) ||
                 (phase == PHASE_BACKWARD_INPUT && passes_gradient(p->graph, seg));
    for (int micro = 0; micro < p->plan->micro_batch_count; micro++)
        asked |= *rounds_of(f, segment, (int)phase, micro) > 0;
    for (int micro = 0; asked && micro < p->plan->micro_batch_count; micro++) {
        int done = *rounds_of(f, segment, (int)phase, micro), wanted = wanted_rounds(p, segment, phase);
        bool cut = phase == PHASE_FORWARD && *rounds_of(f, segment, WORK_AGAIN, micro) % wanted;
        if (cut)
            return fail_kind(f->err, ERROR_BUG,
                             "stage %d: the recomputation of segment %d (%s) of micro-batch %d stops at round %d of %d",
                             stage, segment, p->graph->segments[segment].name, micro,
                             *rounds_of(f, segment, WORK_AGAIN, micro) % wanted, wanted);
        int opened = *rounds_of(f, segment, WORK_OPENED, micro), ahead = *rounds_of(f, segment, WORK_AHEAD, micro);
        if (phase == PHASE_FORWARD && opened != ahead)
            return fail_kind(f->err, ERROR_BUG,
                             "stage %d: the opening has %d rounds of segment %d (%s) of micro-batch %d, a step begins "
                             "%d of the next",
                             stage, opened, segment, p->graph->segments[segment].name, micro, ahead);
        if (done != wanted)
            return fail_kind(f->err, ERROR_BUG,
                             "stage %d: the %s phase of segment %d (%s) of micro-batch %d has %d of %d rounds", stage,
                             phase_names[phase], segment, p->graph->segments[segment].name, micro, done, wanted);
    }
    return true;
}

/* ---- sums and results ---- */
/* Checks that each version of a source is added to a destination only once. */
static bool check_sums(struct flow *f, int stage, int index, const struct instr *instr)
{
    for (int k = 0; instr->op != OP_COMPUTE && k < instr->pair_count; k++) {
        const struct pair *pair = &f->program->pairs[instr->pair_first + k];
        bool adds = instr->accumulate || instr->op == OP_NORM || instr->op == OP_UPDATE;
        if (pair->source < 0 || pair->destination < 0 || !op_info[instr->op].reads_source ||
            !op_info[instr->op].writes_destination)
            continue;
        struct flow_buffer *source = &f->buffers[pair->source];
        if (adds && source->added_to == pair->destination && source->added_version == source->version)
            return verify_fail(f->program, stage, index, f->err, "adds buffer %d to buffer %d a second time",
                               pair->source, pair->destination);
        if (adds) {
            source->added_to = pair->destination;
            source->added_version = source->version;
        }
    }
    return true;
}

/* True of results that only a later instruction in the list can want. Kernels write all outputs, wanted or not. */
static bool must_be_read(const struct program *program, const struct instr *instr, const struct buffer *buffer)
{
    if (buffer_outlives_step(buffer) || buffer->kind == BUFFER_SCALAR || instr->part == STEP_AHEAD)
        return false;
    if (!buffer->is_weight && buffer->id == program->graph->loss_value)
        return false;
    return instr->op != OP_COMPUTE || buffer->kind == BUFFER_WEIGHT_GRADIENT || buffer->kind == BUFFER_GRADIENT;
}

static bool fail_unread(const struct flow *f, int stage, int b)
{
    return verify_fail(f->program, stage, f->buffers[b].pending, f->err, "its result in buffer %d is never read", b);
}

/* True while rounds follow: parts are whole after one, and what travels around a ring is passed on between them. */
static bool more_rounds(const struct program *program, const struct instr *instr, int slot, const struct buffer *buffer)
{
    if (instr->op != OP_COMPUTE || buffer->part_count > 1 ||
        instr->round + 1 >= wanted_rounds(program, instr->segment, instr->phase))
        return false;
    return program->assignments[instr->segment].ring_atom < 0 || slot / MAX_OPERANDS != ROLE_GRADIENT_IN;
}

static bool in_place(const struct program *program, const struct instr *instr, int slot)
{
    if (instr->op == OP_COMPUTE)
        return false;
    const struct pair *pair = &program->pairs[instr->pair_first + slot / 2];
    return pair->source == pair->destination;
}

static bool check_results(struct flow *f, int stage, int index, const struct instr *instr)
{
    struct access access;
    for (struct access_walk walk = access_walk(f->program, instr); access_next(&walk, &access);)
        if (!access.writes) {
            if (f->buffers[access.buffer].open >= 0)
                return verify_fail(f->program, stage, index, f->err,
                                   "reads buffer %d before the last round of instr %d's work", access.buffer,
                                   f->buffers[access.buffer].open);
            f->buffers[access.buffer].pending = -1;
            f->buffers[access.buffer].taken |= !in_place(f->program, instr, access.slot);
        }
    for (struct access_walk walk = access_walk(f->program, instr); access_next(&walk, &access);) {
        if (!access.writes)
            continue;
        struct flow_buffer *buffer = &f->buffers[access.buffer];
        bool renews = access_renews(f->program, instr, &access);
        if (renews && buffer->pending >= 0)
            return fail_unread(f, stage, access.buffer);
        /* a value's gradient sums up all readers', so the producer's backward is last */
        if (buffer->taken && f->program->buffers[access.buffer].kind == BUFFER_VALUE_GRADIENT &&
            (instr->op == OP_COMPUTE ? !access.starts : instr->accumulate))
            return verify_fail(f->program, stage, index, f->err, "adds to the gradient in buffer %d after it was read",
                               access.buffer);
        buffer->taken = buffer->taken && !renews;
        buffer->open = more_rounds(f->program, instr, access.slot, &f->program->buffers[access.buffer]) ? index : -1;
        buffer->version++;
        buffer->pending = must_be_read(f->program, instr, &f->program->buffers[access.buffer]) ? index : -1;
    }
    return true;
}

static bool check_stage(struct flow *f, int stage)
{
    const struct stage_program *list = &f->program->stages[stage];
    for (int i = 0; i < list->instr_count; i++)
        if (!count_work(f, stage, i, &list->instrs[i]) || !check_sums(f, stage, i, &list->instrs[i]) ||
            !check_results(f, stage, i, &list->instrs[i]))
            return false;
    for (int k = f->by_stage.first[stage]; k < f->by_stage.first[stage + 1]; k++)
        if (f->buffers[f->by_stage.buffer[k]].pending >= 0)
            return fail_unread(f, stage, f->by_stage.buffer[k]);
    return true;
}

/* ---- the optimizer's step ---- */
/* Checks that every trainable stored weight is updated, as often per step as the schedule says: the step before left it
 * so. Its versions take turns, each update makes the next of the newest. */
static bool check_version(const struct flow *f, int stage, int index, const struct instr *instr, int made)
{
    const struct program *p = f->program;
    int destination = p->pairs[instr->pair_first].destination, source = access_update_source(p, instr);
    const struct buffer *weight = &p->buffers[destination];
    int count = max_int(weight->version_count, 1), newest = source < 0 ? 0 : p->buffers[source].version;
    if ((source >= 0) == (count > 1) && newest == made % count && weight->version == (made + 1) % count)
        return true;
    return verify_fail(p, stage, index, f->err, "makes version %d of %d of weight %s of version %d, expected %d of %d",
                       weight->version, count, p->graph->weights[weight->id].name, newest, (made + 1) % count,
                       made % count);
}

static bool check_updates(struct flow *f, int stage, int *updates)
{
    const struct program *p = f->program;
    int wanted = schedule_updates(p->plan);
    for (int i = 0; i < p->stages[stage].instr_count; i++) {
        const struct instr *instr = &p->stages[stage].instrs[i];
        bool returns = instr->op == OP_OFFLOAD;
        for (int k = 0; (returns || instr->op == OP_UPDATE) && k < instr->pair_count; k++) {
            const struct pair *pair = &p->pairs[instr->pair_first + k];
            int weight = pair->destination;
            if (weight < 0 ||
                (p->buffers[weight].kind != BUFFER_WEIGHT && p->buffers[weight].kind != BUFFER_WEIGHT_USE))
                continue;
            weight -= p->buffers[weight].version; /* counted at the first version */
            if (!returns && !check_version(f, stage, i, instr, updates[weight]))
                return false;
            updates[weight] +=
                returns ? updates[pair->source] : 1; /* what a copy from the host got comes back with it */
            if (updates[weight] > wanted)
                return verify_fail(p, stage, i, f->err, "updates buffer %d a second time", weight);
        }
    }
    for (int k = f->by_stage.first[stage]; k < f->by_stage.first[stage + 1]; k++) {
        int b = f->by_stage.buffer[k];
        const struct buffer *buffer = &p->buffers[b];
        if (buffer->kind == BUFFER_WEIGHT && !p->graph->weights[buffer->id].frozen && !buffer->version &&
            updates[b] < wanted)
            return fail_kind(f->err, ERROR_BUG, "stage %d: nothing updates weight %s (buffer %d)", stage,
                             p->graph->weights[buffer->id].name, b);
    }
    return true;
}

/* Checks that the squares of every trainable weight are added on one of the stages that hold it: once for each buffer
 * that is updated there. */
static bool check_norms(const struct flow *f, int *norms, int *updates)
{
    const struct program *p = f->program;
    for (int s = 0; s < p->stage_count; s++)
        for (int i = 0; i < p->stages[s].instr_count; i++) {
            const struct instr *instr = &p->stages[s].instrs[i];
            for (int k = 0; k < instr->pair_count && (instr->op == OP_NORM || instr->op == OP_UPDATE); k++) {
                const struct buffer *gradient = &p->buffers[p->pairs[instr->pair_first + k].source];
                if (gradient->id >= 0 && gradient->kind == BUFFER_GRADIENT)
                    ++(instr->op == OP_NORM ? norms : updates)[gradient->id * p->stage_count + s];
            }
        }
    for (int w = 0; w < p->graph->weight_count; w++) {
        int with = 0, whole = 0, held = 0;
        for (int s = 0; s < p->stage_count; s++) {
            int norm = norms[w * p->stage_count + s], update = updates[w * p->stage_count + s];
            with += norm > 0;
            whole += norm > 0 && norm == update;
            held += update > 0;
        }
        if (held && (with != 1 || whole != 1))
            return fail_kind(f->err, ERROR_BUG,
                             "the global norm takes weight %s on %d stages, completely on %d, but must take it once",
                             p->graph->weights[w].name, with, whole);
    }
    return true;
}

bool verify_flow(const struct program *program, struct error *err)
{
    struct flow f = { .program = program, .err = err };
    size_t work = (size_t)program->graph->segment_count * WORK_SLOTS * (size_t)program->plan->micro_batch_count;
    f.buffers = arena_alloc(&f.arena, (size_t)program->buffer_count, sizeof *f.buffers);
    f.rounds = arena_alloc(&f.arena, work, sizeof *f.rounds);
    int *updates = arena_alloc(&f.arena, (size_t)program->buffer_count, sizeof *updates);
    size_t held = (size_t)program->graph->weight_count * (size_t)program->stage_count;
    int *norms = arena_alloc(&f.arena, held, sizeof *norms),
        *norm_updates = arena_alloc(&f.arena, held, sizeof *norm_updates);
    bool ok = !arena_failed(&f.arena) && by_stage_build(&f.by_stage, &f.arena, program);
    if (!ok)
        fail_memory(err);
    for (int b = 0; ok && b < program->buffer_count; b++)
        f.buffers[b].pending = f.buffers[b].added_to = f.buffers[b].open = -1;
    for (int s = 0; ok && s < program->stage_count; s++)
        ok = check_stage(&f, s) && check_updates(&f, s, updates);
    for (int segment = 0; ok && segment < program->graph->segment_count; segment++)
        for (int phase = 0; ok && phase < WORK_PHASES; phase++)
            ok = check_segment(&f, plan_stage_of_layer(program->plan, program->graph->segments[segment].layer), segment,
                               (enum phase)phase);
    ok = ok && (program->plan->clip_norm <= 0 || check_norms(&f, norms, norm_updates));
    arena_free(&f.arena);
    return ok;
}
