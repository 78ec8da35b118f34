/* How a strategy becomes layouts. For each (segment, mesh atom) one axis is split; the forward and gradient layout of
 * every operand follow by transposition: what carries the axis is sharded both ways; an input or weight that lacks it
 * is replicated forward and its gradient is partial; an output that lacks it is partial and its gradient replicated.
 * Nothing here knows a layer kind or the name of a dimension. */
#ifndef CLEAVE_PROGRAM_RECIPE_H
#define CLEAVE_PROGRAM_RECIPE_H
#include "planner/program/program.h"

struct layout_pair {
    struct layout forward, gradient;
};
/* The layouts of one segment's operands on the stage of its layer. */
struct segment_recipe {
    struct layout_pair in[MAX_OPERANDS], out[MAX_OPERANDS], weight[MAX_OPERANDS];
};

/* Gives the place of an atom in the nesting of those that split one axis; the smallest is the outermost. Heads are cut
 * by inner atoms first, all other axes by outer atoms first, so that tensor groups stay neighbours for both. */
int recipe_split_order(enum axis_tag tag, int atom);
/* Gives the extent of an axis, or of a value's dim, in one micro-batch. */
int64_t recipe_axis_extent(const struct plan *plan, const struct axis *axis);
int64_t recipe_value_extent(const struct plan *plan, const struct value *value, int dim);

/* Finds the axes that each atom splits in segments first to end - 1; out is indexed by segment. Producers outside the
 * range count as whole, never as partial sums. Of the whole graph it finds the loss's walk (loss_walk.h) as well. */
void recipe_assign(const struct graph *graph, const struct plan *plan, int first, int end, struct assignment *out);
/* Gives layouts of all operands of a segment whose assignment is known. */
void recipe_layouts(const struct graph *graph, const struct plan *plan, const struct assignment *assignment,
                    int segment, struct segment_recipe *out);

bool layout_equal(const struct layout *a, const struct layout *b);
/* Gives the mask of the atoms on which the layout is of the kind. */
unsigned layout_atoms(const struct layout *layout, enum layout_kind kind);

/* Gives the dim of an operand along which the segment is sliced in time, or -1. */
int recipe_sliced_dim(const struct assignment *assignment, const struct operand *operand, int dim_count);
/* Rounds in which the segment runs: of its ring, its slices, or 1. */
int recipe_segment_rounds(const struct plan *plan, const struct graph *graph, const struct assignment *assignment,
                          int segment);
/* True when the operand rotates along the segment's ring. */
bool recipe_operand_streams(const struct segment *segment, const struct assignment *assignment,
                            const struct operand *operand);
#endif
