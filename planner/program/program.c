#include "base/num.h"
#include "planner/program/program.h"
#include <stdlib.h>
#include <string.h>

void program_free(struct program *program)
{
    if (!program)
        return;
    free(program->buffers);
    free(program->pairs);
    free(program->operands);
    arena_free(&program->arena);
    free(program);
}

size_t program_bytes(const struct program *program)
{
    return arena_bytes(&program->arena) + (size_t)program->buffer_count * sizeof *program->buffers +
           (size_t)program->pair_count * sizeof *program->pairs +
           (size_t)program->operand_count * sizeof *program->operands;
}

#define NO_ROLE                                                                                                        \
    {                                                                                                                  \
        -1, -1, -1, -1, -1                                                                                             \
    }
const struct operand_table program_no_operands = { { NO_ROLE, NO_ROLE, NO_ROLE, NO_ROLE, NO_ROLE, NO_ROLE } };
_Static_assert(ROLE_COUNT == 6 && MAX_OPERANDS == 5, "`program_no_operands` lists all slots");

int instr_pack(struct instr *instr, const struct operand_table *table, int first, int *out)
{
    const int *buffers = &table->buffer[0][0];
    uint32_t there = 0;
    int count = 0;
    for (int slot = 0; slot < OPERAND_SLOTS; slot++) /* without a branch: nobody can foretell them */
        there |= (uint32_t)(buffers[slot] != -1) << slot;
    instr->operand_first = first;
    instr->operands = there;
    for (; there; there &= there - 1)
        out[count++] = buffers[__builtin_ctz(there)];
    return count;
}

bool buffer_alike(const struct buffer *a, const struct buffer *b)
{
    struct buffer moved = *a;
    moved.micro = b->micro;
    moved.persistent = b->persistent;
    moved.version = b->version;
    moved.version_count = b->version_count;
    moved.wraps = b->wraps;
    moved.offset = b->offset;
    return !memcmp(&moved, b, sizeof moved);
}

bool instr_alike(const struct instr *a, const struct instr *b)
{
    struct instr moved = *a;
    moved.micro = b->micro;
    moved.layer = b->layer;
    moved.tag = b->tag;
    moved.pair_first = b->pair_first;
    moved.wait_first = b->wait_first;
    moved.wait_count = b->wait_count;
    return !memcmp(&moved, b, sizeof moved);
}

int64_t program_instrs(const struct program *program)
{
    int64_t count = 0;
    for (int s = 0; s < program->stage_count; s++)
        count += program->stages[s].instr_count;
    return count;
}

int program_opening_count(const struct stage_program *stage)
{
    int count = 0;
    while (count < stage->instr_count && stage->instrs[count].part == STEP_OPENING)
        count++;
    return count;
}

bool program_index(struct program *program, struct error *err)
{
    int micro_count = program->plan->micro_batch_count;
    program->loss_buffers = arena_alloc(&program->arena, (size_t)program->stage_count, sizeof(int *));
    if (!program->loss_buffers)
        return fail_memory(err);
    for (int i = 0; i < program->buffer_count; i++) {
        const struct buffer *buffer = &program->buffers[i];
        bool loss = buffer->kind == BUFFER_VALUE && buffer->id == program->graph->loss_value && buffer->persistent;
        if (!loss || !is_index(buffer->micro, micro_count))
            continue;
        int **row = &program->loss_buffers[buffer->stage];
        if (!*row) {
            if (!(*row = arena_alloc(&program->arena, (size_t)micro_count, sizeof **row)))
                return fail_memory(err);
            memset(*row, -1, (size_t)micro_count * sizeof **row);
        }
        (*row)[buffer->micro] = i;
    }
    return true;
}
