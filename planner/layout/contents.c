#include "planner/layout/contents.h"
#include "base/num.h"
#include "models/model.h"
#include "planner/layout/layout.h"
#include "planner/layout/lives.h"
#include "planner/program/access.h"
#include <stdlib.h>

const char *const memory_kind_names[MEMORY_KIND_COUNT + 1] = {
    [MEMORY_WEIGHTS] = "weights",         [MEMORY_OPTIMIZER] = "optimizer", [MEMORY_GRADIENTS] = "gradients",
    [MEMORY_ACTIVATIONS] = "activations", [MEMORY_LOGITS] = "logits",       [MEMORY_GATHERED] = "gathered",
    [MEMORY_TRANSIENT] = "transient",     [MEMORY_WORKSPACE] = "workspace", [MEMORY_GAPS] = "gaps",
};

/* Tells which kind of memory the buffer is; gathered: ranks gathered it. */
static enum memory_kind kind_of(const struct program *program, const struct buffer *buffer, bool gathered)
{
    const struct value *value = buffer->is_weight || buffer->id < 0 ? NULL : &program->graph->values[buffer->id];
    for (int i = 0; value && i < value->dim_count; i++)
        if (value->tag[i] == TAG_VOCAB)
            return MEMORY_LOGITS;
    if (gathered && buffer->kind == BUFFER_VALUE)
        return MEMORY_GATHERED;
    switch (buffer->kind) {
    case BUFFER_WEIGHT:
        return MEMORY_WEIGHTS;
    case BUFFER_STATE:
    case BUFFER_STATE_USE:
    case BUFFER_SCALAR:
        return MEMORY_OPTIMIZER;
    case BUFFER_WEIGHT_GRADIENT:
    case BUFFER_GRADIENT:
        return MEMORY_GRADIENTS;
    case BUFFER_VALUE:
        return MEMORY_ACTIVATIONS;
    case BUFFER_WEIGHT_USE:
        return MEMORY_GATHERED;
    case BUFFER_VALUE_GRADIENT:
    case BUFFER_TEMPORARY:
    case BUFFER_KIND_COUNT:
        break;
    }
    return MEMORY_TRANSIENT;
}

/* Gives the bytes that a buffer takes in its arena: up to where the next one may begin. */
static int64_t taken_bytes(const struct buffer *buffer)
{
    return round_up(buffer->bytes, ARENA_ALIGNMENT_BYTES);
}

/* ---- when each buffer has its bytes to itself ---- */

/* Hands bytes over where instructions work in place: the source has them until just before, then the destination. */
static void hand_over(const struct program *program, int stage, struct life *lives)
{
    const struct stage_program *list = &program->stages[stage];
    for (int i = 0; i < list->instr_count; i++) {
        const struct instr *instr = &list->instrs[i];
        for (int slot = 0; slot < access_slots(instr); slot++) {
            int from = lives_taken_over(program, lives, stage, i, slot);
            struct access into;
            if (from < 0 || !access_at(program, instr, slot, &into) ||
                program->buffers[from].offset != program->buffers[into.buffer].offset)
                continue;
            struct life *source = &lives[from], *destination = &lives[into.buffer];
            destination->held = program->buffers[from].persistent
                                    ? destination->since - 1 /* it has the bytes all the time */
                                    : max_int(destination->held, source->held);
            source->held = i - 1;
        }
    }
}

/* Gives a buffer that nobody touches a place at the first moment. */
static struct life alive(const struct life *life)
{
    return life->first < 0 ? (struct life){ 0, 0, 0, 0 } : *life;
}

/* Finds the instruction at which most bytes of temporary buffers live. change: (instructions + 1), zeroes. */
static int fullest_moment(const struct program *program, int stage, const struct by_stage *of, const struct life *lives,
                          int64_t *change)
{
    int64_t now = 0, most = -1;
    int moment = 0;
    for (int at = of->first[stage]; at < of->first[stage + 1]; at++) {
        int b = of->buffer[at];
        const struct buffer *buffer = &program->buffers[b];
        if (buffer->persistent || buffer->host)
            continue;
        struct life life = alive(&lives[b]);
        if (life.held < life.since)
            continue; /* handed over where it began */
        change[life.since] += taken_bytes(buffer);
        change[life.held + 1] -= taken_bytes(buffer);
    }
    for (int i = 0; i < program->stages[stage].instr_count; i++) {
        now += change[i];
        if (now > most) {
            most = now;
            moment = i;
        }
    }
    return moment;
}

/* Marks the stage's buffers that ranks gathered in gathered, (buffers). */
static void mark_gathered(const struct program *program, int stage, const struct by_stage *of, bool *gathered)
{
    const struct stage_program *list = &program->stages[stage];
    for (int at = of->first[stage]; at < of->first[stage + 1]; at++)
        gathered[of->buffer[at]] = false;
    for (int i = 0; i < list->instr_count; i++) {
        const struct instr *instr = &list->instrs[i];
        for (int k = 0; instr->op == OP_ALL_GATHER && k < instr->pair_count; k++)
            gathered[program->pairs[instr->pair_first + k].destination] = true;
    }
}

static void fill(struct stage_memory *out, const struct program *program, int stage, const struct by_stage *of,
                 const struct life *lives, int moment, bool *seen, const bool *gathered)
{
    const struct stage_program *list = &program->stages[stage];
    int64_t sum = round_up(list->scratch_bytes, ARENA_ALIGNMENT_BYTES);
    *out = (struct stage_memory){ .peak_bytes = list->arena_bytes, .peak_instr = moment, .peak_layer = -1 };
    out->bytes[MEMORY_WORKSPACE] = sum;
    if (list->instr_count > 0)
        out->peak_layer = list->instrs[moment].layer;
    for (int at = of->first[stage]; at < of->first[stage + 1]; at++) {
        int b = of->buffer[at];
        const struct buffer *buffer = &program->buffers[b];
        struct life life = alive(&lives[b]);
        if (buffer->host || (!buffer->persistent && (moment < life.since || moment > life.held)))
            continue;
        out->bytes[kind_of(program, buffer, gathered[b])] += taken_bytes(buffer);
        out->bytes[MEMORY_GRADIENTS] += layout_copy_bytes(program, buffer);
        sum += taken_bytes(buffer) + layout_copy_bytes(program, buffer);
        if (buffer->kind == BUFFER_VALUE && !buffer->persistent && buffer->micro >= 0 && !seen[buffer->micro]) {
            seen[buffer->micro] = true; /* the first of a micro-batch's activations */
            out->in_flight++;
        }
    }
    out->bytes[MEMORY_GAPS] = list->arena_bytes - sum;
}

bool contents_open(struct contents *out, const struct program *program, struct error *err)
{
    *out = (struct contents){ .program = program };
    size_t buffers = (size_t)program->buffer_count + 1;
    out->lives = arena_alloc(&out->arena, buffers, sizeof *out->lives);
    out->gathered = arena_alloc(&out->arena, buffers, sizeof *out->gathered);
    return (out->lives && out->gathered && by_stage_build(&out->of, &out->arena, program)) || fail_memory(err);
}

bool contents_find(struct stage_memory *out, struct contents *contents, int stage, struct error *err)
{
    const struct program *program = contents->program;
    int64_t *change = calloc((size_t)program->stages[stage].instr_count + 2, sizeof *change);
    bool *seen = calloc((size_t)program->plan->micro_batch_count + 1, sizeof *seen);
    bool good = (change && seen) || fail_memory(err);
    good = good && lives_find_stage(program, stage, &contents->of, contents->lives, err);
    if (good) {
        mark_gathered(program, stage, &contents->of, contents->gathered);
        hand_over(program, stage, contents->lives);
        fill(out, program, stage, &contents->of, contents->lives,
             fullest_moment(program, stage, &contents->of, contents->lives, change), seen, contents->gathered);
    }
    free(change);
    free(seen);
    return good;
}

void contents_promise(struct stage_memory *memory, int64_t peak_bytes)
{
    memory->bytes[MEMORY_GAPS] += peak_bytes - memory->peak_bytes;
    memory->peak_bytes = peak_bytes;
}

void contents_close(struct contents *contents)
{
    arena_free(&contents->arena);
}
