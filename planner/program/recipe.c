#include "planner/program/recipe.h"
#include "planner/program/loss_walk.h"
#include <string.h>

/* The dimension that slices split by: the same rule as for others, in time. */
static const struct dimension time_slices = {
    .name = "slices",
    .doc = "operators run piece by piece along an axis of their weights",
    .prefer = { { TAG_FFN, PREFER_IF_WEIGHT },
                { TAG_HEAD, PREFER_IF_WEIGHT },
                { TAG_VOCAB, PREFER_IF_WEIGHT },
                { TAG_EXPERT, PREFER_IF_WEIGHT } },
};

static const bool inner_atoms_first[TAG_COUNT] = { [TAG_HEAD] = true };

int recipe_split_order(enum axis_tag tag, int atom)
{
    return inner_atoms_first[tag] ? MAX_ATOMS - 1 - atom : atom;
}

int64_t recipe_axis_extent(const struct plan *plan, const struct axis *axis)
{
    return axis->tag == TAG_BATCH ? axis->size / plan->micro_batch_count : axis->size;
}

int64_t recipe_value_extent(const struct plan *plan, const struct value *value, int dim)
{
    return value->tag[dim] == TAG_BATCH ? value->size[dim] / plan->micro_batch_count : value->size[dim];
}

bool layout_equal(const struct layout *a, const struct layout *b)
{
    return memcmp(a, b, sizeof *a) == 0;
}

unsigned layout_atoms(const struct layout *layout, enum layout_kind kind)
{
    unsigned mask = 0;
    for (int i = 0; i < MAX_ATOMS; i++)
        mask |= (unsigned)(layout->kind[i] == kind) << i;
    return mask;
}

/* ---- which axis each atom splits ---- */
struct assigning {
    const struct graph *graph;
    const struct plan *plan;
    int first;
    struct assignment *out;
};
enum side { SIDE_IN, SIDE_OUT, SIDE_WEIGHT };

static struct layout_pair operand_layout(const struct graph *graph, const struct plan *plan,
                                         const struct assignment *assignment, int segment, enum side side, int index);

/* Does a linear input arrive as a partial sum over the atom? Then the sum may pass through the segment and be reduced
 * later. From another stage whole sums come. */
static bool partial_input(const struct assigning *a, int segment, int atom)
{
    const struct segment *s = &a->graph->segments[segment];
    for (int i = 0; i < s->in_count; i++) {
        int producer = a->graph->values[s->in[i].id].producer;
        if (!(kernel_facts[s->kernel].linear >> i & 1) || producer < a->first)
            continue;
        const struct segment *from = &a->graph->segments[producer];
        if (plan_stage_of_layer(a->plan, from->layer) != plan_stage_of_layer(a->plan, s->layer))
            continue;
        for (int o = 0; o < from->out_count; o++) {
            if (from->out[o].id == s->in[i].id)
                return operand_layout(a->graph, a->plan, a->out, producer, SIDE_OUT, o).forward.kind[atom] ==
                       LAYOUT_PARTIAL;
        }
    }
    return false;
}

static void assign_segment(const struct assigning *a, int segment)
{
    const struct segment *s = &a->graph->segments[segment];
    const struct plan_layer *layer = &a->plan->layers[s->layer];
    const int *atom_size = a->plan->stages[plan_stage_of_layer(a->plan, s->layer)].atom;
    struct assignment *out = &a->out[segment];
    int64_t left[MAX_AXES];
    for (int i = 0; i < s->axis_count; i++)
        left[i] = recipe_axis_extent(a->plan, &s->axes[i]);
    *out = (struct assignment){ .ring_atom = -1, .slice_axis = AXIS_UNSPLIT, .slices = 1 };
    memset(out->axis, AXIS_UNSPLIT, sizeof out->axis);
    for (int atom = MAX_ATOMS - 1; atom >= 0; atom--) {
        const struct dimension *dimension = dimensions[layer->dim[atom]];
        if (atom_size[atom] <= 1)
            continue;
        int axis = dimension_axis(dimension, s, atom_size[atom], left);
        if (dimension->defer && kernel_facts[s->kernel].linear && partial_input(a, segment, atom))
            axis = AXIS_PASS;
        out->axis[atom] = (int8_t)axis;
        if (axis >= 0)
            left[axis] /= atom_size[atom];
        /* the gradient of a weight would need its operands a second time around: keys are gathered instead */
        if (axis >= 0 && dimension->ring && segment_axis(s, TAG_KEY) >= 0 && s->weight_count == 0)
            out->ring_atom = (int8_t)atom;
    }
    /* Where heads of attention share keys, each slice would begin their gradients anew. */
    bool shared = kernel_facts[s->kernel].attends && s->arguments.kv_heads < s->axes[s->in[0].axis[2]].size;
    if (layer->slices <= 1 || out->ring_atom >= 0 || shared)
        return;
    out->slice_axis = (int8_t)dimension_axis(&time_slices, s, layer->slices, left);
    if (out->slice_axis >= 0)
        out->slices = layer->slices;
}

void recipe_assign(const struct graph *graph, const struct plan *plan, int first, int end, struct assignment *out)
{
    struct assigning a = { graph, plan, first, out };
    for (int i = first; i < end; i++)
        assign_segment(&a, i);
    if (first == 0 && end == graph->segment_count)
        loss_walk_assign(graph, plan, out);
}

/* ---- the transposition rule ---- */
/* Gives the dim of the operand that the atom splits: the one that follows the axis, or on a ring's atom the keys. */
static int split_dim(const struct segment *segment, const struct assignment *assignment, const struct operand *operand,
                     int dim_count, int atom)
{
    int found = -1;
    for (int dim = 0; dim < dim_count; dim++) {
        int axis = operand->axis[dim];
        if (axis < 0)
            continue;
        if (axis == assignment->axis[atom] || (assignment->ring_atom == atom && segment->axes[axis].tag == TAG_KEY))
            found = dim;
    }
    return found;
}

static void set_kinds(struct layout_pair *pair, int atom, enum layout_kind forward, enum layout_kind gradient)
{
    pair->forward.kind[atom] = (uint8_t)forward;
    pair->gradient.kind[atom] = (uint8_t)gradient;
}

/* Sets both kinds: replicated turns into partial on the way back, partial into replicated. */
static void set_whole(struct layout_pair *pair, int atom, bool sums)
{
    set_kinds(pair, atom, sums ? LAYOUT_PARTIAL : LAYOUT_REPLICATED, sums ? LAYOUT_REPLICATED : LAYOUT_PARTIAL);
}

static struct layout_pair operand_layout(const struct graph *graph, const struct plan *plan,
                                         const struct assignment *assignments, int segment, enum side side, int index)
{
    const struct segment *s = &graph->segments[segment];
    const struct assignment *assignment = &assignments[segment];
    const struct operand *operand = side == SIDE_IN    ? &s->in[index]
                                    : side == SIDE_OUT ? &s->out[index]
                                                       : &s->weight[index];
    const int *atom_size = plan->stages[plan_stage_of_layer(plan, s->layer)].atom;
    int dim_count = side == SIDE_WEIGHT ? graph->weights[operand->id].dim_count : graph->values[operand->id].dim_count;
    struct layout_pair pair;
    int64_t left[MAX_DIMS];
    memset(&pair, 0, sizeof pair); /* replicated both ways: what UNSPLIT means */
    for (int i = 0; i < dim_count; i++)
        left[i] = side == SIDE_WEIGHT ? graph->weights[operand->id].size[i]
                                      : recipe_value_extent(plan, &graph->values[operand->id], i);
    for (int order = 0; order < MAX_ATOMS; order++) {
        for (int atom = 0; atom < MAX_ATOMS; atom++) {
            int axis = assignment->axis[atom];
            if (axis ==
                AXIS_PASS) /* the partial sum goes through; what it is multiplied with gets a partial gradient */
                set_whole(&pair, atom,
                          side == SIDE_OUT || (side == SIDE_IN && (kernel_facts[s->kernel].linear >> index & 1)));
            if (axis < 0 || recipe_split_order(s->axes[axis].tag, atom) != order)
                continue;
            int dim = split_dim(s, assignment, operand, dim_count, atom);
            if (dim < 0 ||
                left[dim] % atom_size[atom] != 0) { /* absent; or used up, as key/value heads below the degree */
                set_whole(&pair, atom, side == SIDE_OUT);
                continue;
            }
            left[dim] /= atom_size[atom];
            set_kinds(&pair, atom, LAYOUT_SHARDED, LAYOUT_SHARDED);
            pair.forward.dim[atom] = pair.gradient.dim[atom] = (uint8_t)dim;
            pair.forward.order[atom] = pair.gradient.order[atom] = (uint8_t)order;
        }
    }
    return pair;
}

void recipe_layouts(const struct graph *graph, const struct plan *plan, const struct assignment *assignments,
                    int segment, struct segment_recipe *out)
{
    const struct segment *s = &graph->segments[segment];
    for (int i = 0; i < s->in_count; i++)
        out->in[i] = operand_layout(graph, plan, assignments, segment, SIDE_IN, i);
    for (int i = 0; i < s->out_count; i++)
        out->out[i] = operand_layout(graph, plan, assignments, segment, SIDE_OUT, i);
    for (int i = 0; i < s->weight_count; i++)
        out->weight[i] = operand_layout(graph, plan, assignments, segment, SIDE_WEIGHT, i);
}

int recipe_sliced_dim(const struct assignment *assignment, const struct operand *operand, int dim_count)
{
    return assignment->slice_axis >= 0 ? operand_dim(operand, dim_count, assignment->slice_axis) : -1;
}

int recipe_segment_rounds(const struct plan *plan, const struct graph *graph, const struct assignment *assignment,
                          int segment)
{
    if (assignment->ring_atom >= 0)
        return plan->stages[plan_stage_of_layer(plan, graph->segments[segment].layer)].atom[assignment->ring_atom];
    return assignment->slices;
}

bool recipe_operand_streams(const struct segment *segment, const struct assignment *assignment,
                            const struct operand *operand)
{
    for (int dim = 0; dim < MAX_DIMS && assignment->ring_atom >= 0; dim++) {
        if (operand->axis[dim] >= 0 && segment->axes[operand->axis[dim]].tag == TAG_KEY)
            return true;
    }
    return false;
}
