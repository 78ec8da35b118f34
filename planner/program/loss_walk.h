/* The loss in chunks of tokens: the segments from the logits' product to the loss are run one chunk after another, each
 * forward and backward, by the backward action. So one chunk of logits lives at a time, and none is computed twice. The
 * loss is a sum over tokens, the gradient of the product's weight too: both are added up from chunk to chunk; that of
 * the product's input is written chunk beside chunk. (Hsu et al. 2024, Liger Kernel, where the forward pass makes the
 * gradients of a chunk.)
 *
 * It is a split in time of the sequences, or of each one's tokens, as slices are of an axis of weights. */
#ifndef CLEAVE_PROGRAM_LOSS_WALK_H
#define CLEAVE_PROGRAM_LOSS_WALK_H
#include "planner/program/program.h"

struct loss_walk {
    int first, end;    /* segments; the first is the product */
    enum axis_tag tag; /* TAG_BATCH, TAG_SEQUENCE */
    int rounds;        /* chunks; below 2: none, and the rest means nothing */
};
/**
 * How the plan walks the loss: in the most chunks up to plan->loss_chunks that divide a rank's sequences of a
 * micro-batch, else the tokens of each. None where product and loss are not in one chunk of one stage, nothing there is
 * trained, or the schedule is asynchronous, whose backward pass may see other weights.
 *
 * assignments   by segment; the atoms' axes of those from the product on are read
 */
struct loss_walk loss_walk_of(const struct graph *graph, const struct plan *plan, const struct assignment *assignments);
/* Enters it into the assignments. Ranks that share out a sequence for the loss alone leave it whole where that is what
 * is walked: the chunks of the one and of the other would be different tokens. */
void loss_walk_assign(const struct graph *graph, const struct plan *plan, struct assignment *assignments);

/* True when the segment is one of those. */
static inline bool segment_is_walked(const struct segment *segment, const struct assignment *assignment)
{
    enum axis_tag tag = assignment->slice_axis < 0 ? TAG_NONE : segment->axes[assignment->slice_axis].tag;
    return tag == TAG_BATCH || tag == TAG_SEQUENCE;
}
/* Gives the dim of a value of such a segment along which its chunks lie; -1: it is not divided. */
int loss_walk_dim(const struct graph *graph, const struct assignment *assignments, int value);
#endif
