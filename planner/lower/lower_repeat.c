/* A pass of a chunk for one micro-batch is that of an earlier one with other buffers, and copying it costs a tenth of
 * lowering it. One pass of each kind is noted with all that it found and left: the versions of the values that its
 * segments touch, and how far the gradients of the stage's weights are. Another pass that finds the same copies its
 * instructions; what it found differently, like the first micro-batch that defines a gradient or the last that reduces
 * it, is lowered. What opens and closes a pass, messages above all, is not part of it. */
#include "base/num.h"
#include "planner/lower/lower_emit.h"
#include <string.h>

enum { MOST_NOTED = 4 }; /* passes of a kind that are noted before the stage is given up */

/* A version that was there before, as the pass found and left it. */
struct met {
    int buffer;
    struct buffer found, left;
    bool found_live, left_live;
};
struct repeat {
    int noted;    /* passes so far */
    bool is_open; /* one is being noted */
    bool is_known;
    int micro, use_count;
    int first_instr, first_buffer, first_pair, first_operand; /* in the program */
    int instr_count, buffer_count, pair_count, operand_count; /* that it made */
    struct buffer *buffers;                                   /* (buffer_count) as it left them */
    struct version_note *notes;                               /* (buffer_count) likewise */
    int *values, value_count;                                 /* that its segments touch */
    bool *touches;                                            /* (values of the graph) */
    int (*met_count)[2], (*head)[2];                          /* (value_count) by [gradient]: versions, the newest */
    struct met *met;                                          /* by value, then gradient, the newest first */
    struct weight_part *parts;                                /* (parts of the stage) as it found them */
    int *contributed;                                         /* (parts) passes that it took from `left` */
};

static struct repeat *repeat_of(const struct lowering *l, const struct action *action)
{
    return &l->repeats[(int)action->kind * PLAN_MAX_CHUNKS + action->chunk];
}

bool repeat_open(struct lowering *l)
{
    bool ahead = false; /* gathers for the next pass would stand in this one */
    for (int i = 0; i < l->weights.part_count && l->plan->prefetch > 0; i++)
        ahead = ahead || l->weights.of[l->weights.parts[i].weight].zero >= 3;
    l->repeats = NULL;
    if (schedules[l->plan->schedule]->asynchronous || ahead || l->here.micro_count < 3)
        return true;
    l->repeats = arena_alloc(&l->growing, (ACTION_BACKWARD_WEIGHT + 1) * PLAN_MAX_CHUNKS, sizeof *l->repeats);
    return l->repeats || lower_memory(l);
}

static bool nothing_waits(const struct lowering *l)
{
    bool none = l->weights.foreign_count == 0;
    for (int i = 0; i < MAX_BUCKETS; i++)
        none = none && l->weights.buckets[i].count == 0;
    return none;
}

static bool same_part(const struct weight_part *a, const struct weight_part *b)
{
    return a->full == b->full && a->full_defined == b->full_defined && a->gradient_defined == b->gradient_defined;
}

/* ---- noting ---- */
static void add_values(struct repeat *r, const struct operand *operands, int count)
{
    for (int i = 0; i < count; i++) {
        if (!r->touches[operands[i].id])
            r->values[r->value_count++] = operands[i].id;
        r->touches[operands[i].id] = true;
    }
}

static bool list_values(struct lowering *l, struct repeat *r, const struct segment_range *chunk)
{
    size_t most = 2 * MAX_OPERANDS * (size_t)(chunk->end - chunk->first);
    r->touches = arena_alloc(&l->growing, (size_t)l->graph->value_count, sizeof *r->touches);
    r->values = arena_alloc(&l->growing, most, sizeof *r->values);
    r->met_count = arena_alloc(&l->growing, most, sizeof *r->met_count);
    r->head = arena_alloc(&l->growing, most, sizeof *r->head);
    bool good = r->touches && r->values && r->met_count && r->head;
    for (int s = chunk->first; s < chunk->end && good; s++) {
        add_values(r, l->graph->segments[s].in, l->graph->segments[s].in_count);
        add_values(r, l->graph->segments[s].out, l->graph->segments[s].out_count);
    }
    return good;
}

static bool list_met(struct lowering *l, struct repeat *r)
{
    int count = 0;
    for (int pass = 0; pass < 2; pass++) {
        if (pass == 1 && !(r->met = arena_alloc(&l->growing, (size_t)count, sizeof *r->met)))
            return false;
        count = 0;
        for (int v = 0; v < r->value_count; v++)
            for (int gradient = 0; gradient < 2; gradient++) {
                int before = count;
                for (int b = lower_first_version(l, gradient, r->values[v], r->micro); b >= 0;
                     b = note_of(l, b)->next) {
                    if (pass == 1)
                        r->met[count] = (struct met){ b, *buffer_at(l, b), *buffer_at(l, b), note_of(l, b)->live, 0 };
                    count++;
                }
                r->met_count[v][gradient] = count - before;
            }
    }
    return true;
}

void repeat_note(struct lowering *l, const struct action *action)
{
    struct repeat *r = l->repeats && !l->failed ? repeat_of(l, action) : NULL;
    if (!r || r->noted == MOST_NOTED || !nothing_waits(l))
        return;
    *r = (struct repeat){ .noted = r->noted + 1,
                          .is_open = true,
                          .micro = action->micro,
                          .use_count = l->weights.use_count,
                          .first_instr = l->program->stages[l->stage].instr_count,
                          .first_buffer = l->program->buffer_count,
                          .first_pair = l->program->pair_count,
                          .first_operand = l->program->operand_count };
    size_t parts = (size_t)l->weights.part_count;
    r->parts = arena_alloc(&l->growing, parts, sizeof *r->parts);
    r->contributed = arena_alloc(&l->growing, parts, sizeof *r->contributed);
    if (!r->parts || !r->contributed || !list_values(l, r, &l->here.chunks[action->chunk]) || !list_met(l, r)) {
        lower_memory(l);
        return;
    }
    if (parts > 0)
        memcpy(r->parts, l->weights.parts, parts * sizeof *r->parts);
}

enum { MET = -2 };

/* Buffers that are not of a micro-batch stay what they are; of others the pass may touch what it met or made. */
static bool is_known(const struct lowering *l, const struct repeat *r, int buffer)
{
    if (!is_index(buffer, r->first_buffer))
        return true;
    return buffer >= l->made.first_buffer && (buffer_at(l, buffer)->micro < 0 || note_of(l, buffer)->as == MET);
}

static bool can_be_repeated(const struct lowering *l, const struct repeat *r)
{
    const struct program *program = l->program;
    const struct stage_program *stage = &program->stages[l->stage];
    bool good = nothing_waits(l) && r->use_count == l->weights.use_count;
    for (int i = 0; i < r->buffer_count && good; i++) {
        const struct buffer *made = &r->buffers[i];
        good = (made->kind != BUFFER_VALUE && made->kind != BUFFER_VALUE_GRADIENT) || r->touches[made->id];
    }
    for (int i = 0; i < l->weights.part_count && good; i++)
        good = same_part(&r->parts[i], &l->weights.parts[i]);
    for (int i = r->first_instr; i < stage->instr_count && good; i++)
        good = stage->instrs[i].micro == r->micro && stage->instrs[i].tag < 0;
    for (int i = r->first_pair; i < program->pair_count && good; i++)
        good = is_known(l, r, program->pairs[i].source) && is_known(l, r, program->pairs[i].destination);
    for (int i = r->first_operand; i < program->operand_count && good; i++)
        good = is_known(l, r, program->operands[i]);
    return good;
}

void repeat_end(struct lowering *l, const struct action *action)
{
    struct repeat *r = l->repeats && !l->failed ? repeat_of(l, action) : NULL;
    if (!r || !r->is_open)
        return;
    int count = 0;
    r->is_open = false;
    for (int v = 0; v < r->value_count; v++)
        for (int gradient = 0; gradient < 2; gradient++) {
            r->head[v][gradient] = lower_first_version(l, gradient, r->values[v], r->micro);
            for (int end = count + r->met_count[v][gradient]; count < end; count++) {
                struct met *met = &r->met[count];
                met->left = *buffer_at(l, met->buffer);
                met->left_live = note_of(l, met->buffer)->live;
                note_of(l, met->buffer)->as = MET;
            }
        }
    r->instr_count = l->program->stages[l->stage].instr_count - r->first_instr;
    r->buffer_count = l->program->buffer_count - r->first_buffer;
    r->pair_count = l->program->pair_count - r->first_pair;
    r->operand_count = l->program->operand_count - r->first_operand;
    size_t made = (size_t)r->buffer_count;
    r->buffers = arena_alloc(&l->growing, made, sizeof *r->buffers);
    r->notes = arena_alloc(&l->growing, made, sizeof *r->notes);
    if (!r->buffers || !r->notes) {
        lower_memory(l);
        return;
    }
    for (int i = 0; i < r->buffer_count; i++) {
        r->buffers[i] = *buffer_at(l, r->first_buffer + i);
        r->notes[i] = *note_of(l, r->first_buffer + i);
    }
    for (int i = 0; i < l->weights.part_count; i++)
        r->contributed[i] = r->parts[i].left - l->weights.parts[i].left;
    r->is_known = can_be_repeated(l, r);
}

/* ---- repeating ---- */
/* True when the micro-batch's versions are those that were met, of which each learns as what it comes again. */
static bool meets_the_same(struct lowering *l, const struct repeat *r, int micro)
{
    const struct met *met = r->met;
    for (int v = 0; v < r->value_count; v++)
        for (int gradient = 0; gradient < 2; gradient++) {
            int b = lower_first_version(l, gradient, r->values[v], micro);
            for (const struct met *end = met + r->met_count[v][gradient]; met < end; met++) {
                struct buffer found = met->found;
                found.micro = micro;
                if (b < 0 || note_of(l, b)->live != met->found_live || memcmp(&found, buffer_at(l, b), sizeof found))
                    return false;
                note_of(l, met->buffer)->as = b;
                b = note_of(l, b)->next;
            }
            if (b >= 0)
                return false;
        }
    return true;
}

static bool finds_the_same(struct lowering *l, const struct repeat *r, int micro)
{
    bool same = r->is_known && nothing_waits(l) && r->use_count == l->weights.use_count;
    for (int i = 0; i < l->weights.part_count && same; i++)
        same = same_part(&r->parts[i], &l->weights.parts[i]) &&
               (r->contributed[i] == 0 || l->weights.parts[i].left > r->contributed[i]);
    return same && meets_the_same(l, r, micro);
}

/* Gives the buffer in place of one of the pass that was noted; first: of those that are made now. */
static int instead_of(const struct lowering *l, const struct repeat *r, int buffer, int first)
{
    if (buffer < 0)
        return buffer;
    return buffer >= r->first_buffer ? buffer - r->first_buffer + first : note_of(l, buffer)->as;
}

bool repeat_pass(struct lowering *l, const struct action *action)
{
    struct repeat *r = l->repeats && !l->failed ? repeat_of(l, action) : NULL;
    struct program *program = l->program;
    struct stage_program *stage = &program->stages[l->stage];
    int micro = action->micro, first = program->buffer_count, pair = program->pair_count,
        operand = program->operand_count;
    if (!r || !finds_the_same(l, r, micro) ||
        !lower_room(l, r->instr_count, r->buffer_count, r->pair_count, r->operand_count) ||
        !lower_grow(l, &program->arena, (void **)&stage->repeated, stage->repeated_count, &l->made.repeated_capacity,
                    sizeof *stage->repeated))
        return false;
    stage->repeated[stage->repeated_count++] = (struct repeated){ stage->instr_count, r->instr_count, r->first_instr };
    for (int i = 0; i < r->instr_count; i++) {
        struct instr *instr = &stage->instrs[stage->instr_count++];
        *instr = stage->instrs[r->first_instr + i];
        instr->micro = micro;
        if (instr->op == OP_COMPUTE)
            instr->operand_first += operand - r->first_operand;
        else
            instr->pair_first += pair - r->first_pair;
    }
    for (int i = 0; i < r->pair_count; i++) {
        const struct pair *noted = &program->pairs[r->first_pair + i];
        program->pairs[pair + i] =
            (struct pair){ instead_of(l, r, noted->source, first), instead_of(l, r, noted->destination, first) };
    }
    for (int i = 0; i < r->operand_count; i++)
        program->operands[operand + i] = instead_of(l, r, program->operands[r->first_operand + i], first);
    program->pair_count += r->pair_count;
    program->operand_count += r->operand_count;
    program->buffer_count += r->buffer_count;
    for (int i = 0; i < r->buffer_count; i++) {
        struct buffer *made = buffer_at(l, first + i);
        *made = r->buffers[i];
        made->micro = made->micro < 0 ? made->micro : micro;
        *note_of(l, first + i) = (struct version_note){ .next = instead_of(l, r, r->notes[i].next, first),
                                                        .as = first + i,
                                                        .live = r->notes[i].live };
    }
    const struct met *met = r->met;
    for (int v = 0; v < r->value_count; v++)
        for (int gradient = 0; gradient < 2; gradient++) {
            for (const struct met *end = met + r->met_count[v][gradient]; met < end; met++) {
                int b = note_of(l, met->buffer)->as;
                *buffer_at(l, b) = met->left;
                buffer_at(l, b)->micro = micro;
                note_of(l, b)->live = met->left_live;
            }
            *lower_version_head(l, gradient, r->values[v], micro) = instead_of(l, r, r->head[v][gradient], first);
        }
    for (int i = 0; i < l->weights.part_count; i++)
        l->weights.parts[i].left -= r->contributed[i];
    return true;
}
