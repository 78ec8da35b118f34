#include "planner/program/geometry.h"
#include "planner/program/recipe.h"

bool program_resize(struct program *program, const struct graph *graph, const struct plan *plan, const int *buffers,
                    int buffer_count)
{
    program->graph = graph;
    program->plan = plan;
    for (int i = 0; i < buffer_count; i++) {
        struct buffer *buffer = &program->buffers[buffers[i]];
        int64_t elements = buffer_elements(program, buffer);
        if (elements == buffer->elements)
            continue;
        if (buffer->is_weight && !layout_atoms(&buffer->layout, LAYOUT_FLAT))
            return false;
        buffer->bytes = buffer->bytes / buffer->elements * elements;
        buffer->elements = elements;
    }
    return true;
}
