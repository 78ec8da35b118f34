#include "base/num.h"
#include "planner/program/by_stage.h"

static bool has_stage(const struct program *program, int buffer)
{
    return is_index(program->buffers[buffer].stage, program->stage_count);
}

bool by_stage_build(struct by_stage *out, struct arena *arena, const struct program *program)
{
    int *first = arena_alloc(arena, (size_t)program->stage_count + 2, sizeof *first);
    int *buffer = arena_alloc(arena, (size_t)program->buffer_count + 1, sizeof *buffer);
    if (!first || !buffer)
        return false;
    for (int b = 0; b < program->buffer_count; b++)
        if (has_stage(program, b))
            first[program->buffers[b].stage + 2]++;
    for (int s = 0; s < program->stage_count; s++)
        first[s + 2] += first[s + 1];
    for (int b = 0; b < program->buffer_count; b++)
        if (has_stage(program, b)) /* first[s + 1] grows from where stage s begins to where it ends */
            buffer[first[program->buffers[b].stage + 1]++] = b;
    *out = (struct by_stage){ first, buffer };
    return true;
}
