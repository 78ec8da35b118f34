#include "planner/program/loss_walk.h"
#include "planner/program/recipe.h"

/* ---- where ---- */
/* The loss's segments end the graph; in front of them stands the product that makes what they read, or its cap. */
static bool find_segments(const struct graph *graph, struct loss_walk *walk)
{
    int end = graph->segment_count, loss = graph->loss_value < 0 ? -1 : graph->values[graph->loss_value].producer;
    if (loss < 0 || loss != end - 1)
        return false;
    int product = loss - 1;
    while (product >= 0 && !kernel_facts[graph->segments[product].kernel].multiplies)
        product--;
    if (product < 0)
        return false;
    int made = product + (graph->segments[product + 1].kernel == KERNEL_SOFT_CAP); /* the logits, capped or not */
    int logits = graph->segments[made].out[0].id;
    *walk = (struct loss_walk){ .first = product, .end = end };
    return graph->segments[made + 1].in[0].id == logits && graph_needs_gradient(graph, logits);
}

static bool in_range(struct layer_range range, int layer)
{
    return layer >= range.first && layer < range.first + range.count;
}

/* True when every chunk of every stage holds both of the layers or none. */
static bool one_place(const struct plan *plan, int first, int second)
{
    for (int stage = 0; stage < plan->stage_count; stage++)
        for (int chunk = 0; chunk < plan->chunk_count; chunk++) {
            struct layer_range range = plan_stage_chunk(plan, stage, chunk);
            if (in_range(range, first) != in_range(range, second))
                return false;
        }
    return true;
}

/* ---- along what ---- */
static bool splits(const struct segment *segment, const struct assignment *assignment, int atom, enum axis_tag tag)
{
    int axis = assignment->axis[atom];
    return axis >= 0 && segment->axes[axis].tag == tag;
}

/* True when ranks that split the tag's axis for the product do so for all segments. The other way round sequences must
 * agree too; tokens that only the loss shares out can be left whole. */
static bool split_alike(const struct graph *graph, const struct plan *plan, const struct assignment *assignments,
                        const struct loss_walk *walk, enum axis_tag tag)
{
    const struct segment *product = &graph->segments[walk->first];
    const int *size = plan->stages[plan_stage_of_layer(plan, product->layer)].atom;
    for (int s = walk->first; s < walk->end; s++)
        for (int atom = 0; atom < MAX_ATOMS; atom++) {
            bool of_product = splits(product, &assignments[walk->first], atom, tag),
                 here = splits(&graph->segments[s], &assignments[s], atom, tag);
            if (size[atom] > 1 && of_product != here && (of_product || tag == TAG_BATCH))
                return false;
        }
    return true;
}

/* Gives what a rank has of the tag's axis of the product; 1: it cannot be walked. */
static int64_t extent_of(const struct graph *graph, const struct plan *plan, const struct assignment *assignments,
                         const struct loss_walk *walk, enum axis_tag tag)
{
    const struct segment *product = &graph->segments[walk->first];
    const int *size = plan->stages[plan_stage_of_layer(plan, product->layer)].atom;
    for (int s = walk->first; s < walk->end; s++) {
        int axis = segment_axis(&graph->segments[s], tag);
        if (axis < 0 || graph->segments[s].axes[axis].grain > 1)
            return 1;
    }
    if (!split_alike(graph, plan, assignments, walk, tag))
        return 1;
    int64_t extent = recipe_axis_extent(plan, &product->axes[segment_axis(product, tag)]);
    for (int atom = 0; atom < MAX_ATOMS; atom++)
        extent /= splits(product, &assignments[walk->first], atom, tag) ? size[atom] : 1;
    return extent;
}

struct loss_walk loss_walk_of(const struct graph *graph, const struct plan *plan, const struct assignment *assignments)
{
    struct loss_walk walk = { 0 };
    if (plan->loss_chunks < 2 || schedules[plan->schedule]->asynchronous || !find_segments(graph, &walk) ||
        !one_place(plan, graph->segments[walk.first].layer, graph->segments[walk.end - 1].layer))
        return walk;
    int64_t sequences = extent_of(graph, plan, assignments, &walk, TAG_BATCH),
            tokens = extent_of(graph, plan, assignments, &walk, TAG_SEQUENCE);
    for (walk.rounds = plan->loss_chunks; walk.rounds > 1; walk.rounds--) {
        walk.tag = sequences % walk.rounds == 0 ? TAG_BATCH : TAG_SEQUENCE;
        if (walk.tag == TAG_BATCH || tokens % walk.rounds == 0)
            break;
    }
    return walk;
}

void loss_walk_assign(const struct graph *graph, const struct plan *plan, struct assignment *assignments)
{
    struct loss_walk walk = loss_walk_of(graph, plan, assignments);
    for (int s = walk.first; s < walk.end && walk.rounds > 1; s++) {
        const struct segment *segment = &graph->segments[s];
        for (int atom = 0; atom < MAX_ATOMS; atom++)
            if (walk.tag == TAG_SEQUENCE && splits(segment, &assignments[s], atom, TAG_SEQUENCE) &&
                !splits(&graph->segments[walk.first], &assignments[walk.first], atom, TAG_SEQUENCE))
                assignments[s].axis[atom] = AXIS_UNSPLIT;
        assignments[s].slice_axis = (int8_t)segment_axis(segment, walk.tag);
        assignments[s].slices = (int16_t)walk.rounds;
    }
}

int loss_walk_dim(const struct graph *graph, const struct assignment *assignments, int value)
{
    const struct value *v = &graph->values[value];
    if (v->producer < 0)
        return -1;
    const struct segment *maker = &graph->segments[v->producer];
    const struct assignment *assignment = &assignments[v->producer];
    for (int i = 0; i < maker->out_count; i++)
        if (maker->out[i].id == value && segment_is_walked(maker, assignment))
            return recipe_sliced_dim(assignment, &maker->out[i], v->dim_count);
    return -1;
}
