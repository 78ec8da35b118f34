/* What degrees a model's operators can be shared out in. */
#include "base/num.h"
#include "planner/space/space.h"

/* Gives the axis that tensor parallelism would split, or -1. */
static int tensor_axis(const struct segment *segment)
{
    for (int i = 0; i < segment->axis_count; i++)
        if (segment->axes[i].tag == TAG_HEAD || segment->axes[i].tag == TAG_FFN)
            return i;
    return -1;
}

/* Gives the first heavy operator that so many ranks cannot share, or NULL. splits: there is any that they can. */
static const struct segment *find_unshared(const struct graph *graph, int tensor, bool *splits)
{
    int64_t heads = 0;
    for (int s = 0; s < graph->segment_count; s++) {
        const struct kernel_facts *facts = &kernel_facts[graph->segments[s].kernel];
        int axis = facts->attends || facts->scans ? tensor_axis(&graph->segments[s]) : -1;
        heads = axis >= 0 ? max_i64(heads, graph->segments[s].axes[axis].size) : heads;
    }
    for (int s = 0; s < graph->segment_count; s++) {
        const struct segment *segment = &graph->segments[s];
        const struct kernel_facts *facts = &kernel_facts[segment->kernel];
        int axis = facts->multiplies || facts->attends ? tensor_axis(segment) : -1;
        if (axis < 0)
            continue;
        int64_t size = segment->axes[axis].size;
        bool replicated = segment->axes[axis].tag == TAG_HEAD && size < heads && tensor % size == 0;
        if (size % tensor != 0 && !replicated)
            return segment;
        *splits = true;
    }
    return NULL;
}

bool legal_tensor(const struct graph *graph, int tensor)
{
    bool splits = tensor == 1;
    return !find_unshared(graph, tensor, &splits) && splits;
}

bool legal_tensor_obstacle(const struct graph *graph, int tensor, struct obstacle *out)
{
    bool splits = false;
    const struct segment *segment = find_unshared(graph, tensor, &splits);
    if (!segment)
        return false;
    const struct axis *axis = &segment->axes[tensor_axis(segment)];
    *out = (struct obstacle){ segment->layer, axis->tag, axis->size };
    return true;
}

bool legal_context(const struct graph *graph, const struct mesh *mesh)
{
    for (int s = 0; s < graph->segment_count; s++) {
        const struct segment *segment = &graph->segments[s];
        int64_t left[MAX_AXES];
        const struct kernel_facts *facts = &kernel_facts[segment->kernel];
        if (!facts->multiplies && !facts->scans && segment->kernel != KERNEL_ATTENTION &&
            segment->kernel != KERNEL_SINK_ATTENTION)
            continue;
        for (int i = 0; i < segment->axis_count; i++)
            left[i] = segment->axes[i].size;
        for (int atom = mesh->atom_count - 1; atom >= 0; atom--) {
            const struct dimension *dimension = dimensions[mesh->dim[atom]];
            int axis = mesh->size[atom] > 1 ? dimension_axis(dimension, segment, mesh->size[atom], left) : 0;
            if (mesh->size[atom] > 1 && axis < 0 && dimension->lane == LANE_CP)
                return false;
            if (mesh->size[atom] > 1 && axis >= 0)
                left[axis] /= mesh->size[atom];
        }
    }
    return true;
}

int64_t legal_most_experts(const struct graph *graph)
{
    int64_t most = 0;
    for (int s = 0; s < graph->segment_count; s++)
        for (int i = 0; i < graph->segments[s].axis_count; i++) {
            const struct axis *axis = &graph->segments[s].axes[i];
            if (axis->tag == TAG_EXPERT)
                most = common_divisor(most, axis->size);
        }
    return most ? most : 1;
}
