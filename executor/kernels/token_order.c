#include "executor/kernels/token_order.h"
#include "base/num.h"

int64_t token_parts(const struct program *program)
{
    int64_t parts = 1;
    for (int s = 0; s < program->graph->segment_count; s++) {
        const struct segment *segment = &program->graph->segments[s];
        if (!segment->arguments.balanced)
            continue;
        const struct assignment *assignment = &program->assignments[s];
        const int *atom = program->plan->stages[plan_stage_of_layer(program->plan, segment->layer)].atom;
        int64_t own = 1;
        for (int i = 0; i < MAX_ATOMS; i++)
            if (assignment->axis[i] >= 0 && segment->axes[assignment->axis[i]].tag == TAG_SEQUENCE)
                own *= atom[i];
        parts = max_i64(parts, own);
    }
    return parts;
}

int64_t token_position(int64_t stored, int64_t size, int64_t parts)
{
    if (parts <= 1)
        return stored;
    int64_t block = size / (2 * parts), part = stored / (2 * block), within = stored % (2 * block);
    return within < block ? part * block + within : (2 * parts - 1 - part) * block + within - block;
}

int64_t token_run_end(int64_t stored, int64_t size, int64_t parts)
{
    int64_t block = parts > 1 ? size / (2 * parts) : size;
    return (stored / block + 1) * block;
}
