#include "planner/program/access.h"
#include "planner/program/recipe.h"

int access_update_source(const struct program *program, const struct instr *instr)
{
    for (int k = 1; k < instr->pair_count; k++) {
        int source = program->pairs[instr->pair_first + k].source;
        if (program->buffers[source].kind == BUFFER_WEIGHT)
            return source;
    }
    return -1;
}

int access_update_state(const struct program *program, const struct instr *instr)
{
    for (int k = 1; k < instr->pair_count; k++) {
        int source = program->pairs[instr->pair_first + k].source;
        if (program->buffers[source].kind == BUFFER_STATE_USE)
            return source;
    }
    return -1;
}

int *access_place(struct program *program, struct instr *instr, int slot)
{
    if (instr->op == OP_COMPUTE)
        return &program->operands[instr_operand_place(instr, (enum role)(slot / MAX_OPERANDS), slot % MAX_OPERANDS)];
    struct pair *pair = &program->pairs[instr->pair_first + slot / 2];
    return slot % 2 ? &pair->destination : &pair->source;
}

bool access_renews(const struct program *program, const struct instr *instr, const struct access *access)
{
    const struct buffer *buffer = &program->buffers[access->buffer];
    if (!access->starts)
        return false;
    return instr->op != OP_COMPUTE || instr->round == 0 || buffer->part_count > 1 || buffer->ring_round > 0;
}

int access_input_over(const struct program *program, const struct instr *instr, int slot)
{
    int place = slot % MAX_OPERANDS, over = ROLE_IN * MAX_OPERANDS + place;
    if (slot / MAX_OPERANDS != ROLE_GRADIENT_IN || instr->segment < 0 ||
        !(kernel_facts[program->graph->segments[instr->segment].kernel].overwrites_in >> place & 1))
        return -1;
    int into = instr_operand(program, instr, ROLE_GRADIENT_IN, place),
        from = instr_operand(program, instr, ROLE_IN, place), uses = 0;
    if (into < 0 || from < 0 || !instr_defines(instr, ROLE_GRADIENT_IN, place))
        return -1;
    const struct buffer *a = &program->buffers[into], *b = &program->buffers[from];
    if (a->bytes != b->bytes || !layout_equal(&a->layout, &b->layout) || a->ring_round != b->ring_round ||
        a->part != b->part || a->part_count != b->part_count)
        return -1;
    for (int k = 0; k < count_bits(instr->operands); k++)
        uses += program->operands[instr->operand_first + k] == from;
    return uses == 1 ? over : -1;
}

bool buffer_outlives_step(const struct buffer *buffer)
{
    return buffer->kind == BUFFER_WEIGHT || buffer->kind == BUFFER_STATE;
}
