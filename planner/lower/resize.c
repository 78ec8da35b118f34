#include "planner/lower/lower.h"
#include "planner/program/geometry.h"
#include "planner/program/loss_walk.h"
#include "planner/program/recipe.h"

/* True when the chunks of the loss are as many, and of the same axis. */
static bool walks_alike(const struct program *program, const struct graph *graph, const struct plan *plan)
{
    struct loss_walk walk = loss_walk_of(graph, plan, program->assignments);
    int last = graph->segment_count - 1;
    const struct assignment *own = &program->assignments[last];
    bool walked = segment_is_walked(&graph->segments[last], own);
    if (walk.rounds < 2 || !walked)
        return walk.rounds < 2 && !walked;
    return own->slices == walk.rounds && graph->segments[last].axes[own->slice_axis].tag == walk.tag;
}

bool resize_program(struct program *program, const struct graph *graph, const struct plan *plan, const int *buffers,
                    int buffer_count)
{
    program->graph = graph;
    program->plan = plan;
    if (!walks_alike(program, graph, plan))
        return false;
    for (int i = 0; i < buffer_count; i++) {
        struct buffer *buffer = &program->buffers[buffers[i]];
        int64_t bytes = buffer_bytes_of(program, buffer, buffer_elements(program, buffer));
        if (bytes == buffer->bytes)
            continue;
        if (buffer->is_weight && !layout_atoms(&buffer->layout, LAYOUT_FLAT))
            return false;
        buffer->bytes = bytes;
    }
    return true;
}
