#include "planner/program/program.h"
#include <stdlib.h>
#include <string.h>

void program_free(struct program *program)
{
    if (!program)
        return;
    free(program->buffers);
    free(program->pairs);
    arena_free(&program->arena);
    free(program);
}

size_t program_bytes(const struct program *program)
{
    return arena_bytes(&program->arena) + (size_t)program->buffer_count * sizeof *program->buffers +
           (size_t)program->pair_count * sizeof *program->pairs;
}

int64_t program_instrs(const struct program *program)
{
    int64_t count = 0;
    for (int s = 0; s < program->stage_count; s++)
        count += program->stages[s].instr_count;
    return count;
}

int stage_opening_count(const struct stage_program *stage)
{
    int count = 0;
    while (count < stage->instr_count && stage->instrs[count].part == STEP_OPENING)
        count++;
    return count;
}

bool program_index(struct program *program, struct error *err)
{
    int micro_count = program->plan->micro_batch_count;
    size_t count = (size_t)program->stage_count * (size_t)micro_count;
    program->loss_buffers = arena_alloc(&program->arena, count, sizeof *program->loss_buffers);
    if (!program->loss_buffers)
        return fail_kind(err, ERROR_ENVIRONMENT, "out of memory while looking for the loss of a program");
    memset(program->loss_buffers, -1, count * sizeof *program->loss_buffers);
    for (int i = 0; i < program->buffer_count; i++) {
        const struct buffer *buffer = &program->buffers[i];
        bool loss = buffer->kind == BUFFER_VALUE && buffer->id == program->graph->loss_value && buffer->persistent;
        if (loss && buffer->micro >= 0 && buffer->micro < micro_count)
            program->loss_buffers[buffer->stage * micro_count + buffer->micro] = i;
    }
    return true;
}
