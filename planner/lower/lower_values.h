/* Values on demand (lower_values.c). */
#ifndef CLEAVE_LOWER_LOWER_VALUES_H
#define CLEAVE_LOWER_LOWER_VALUES_H
#include "planner/lower/lower_parts.h"

bool lower_made_here(const struct lowering *l, int value);
/* Gives the chunk of the stage at hand that runs the segment for the copy at hand, -1: another stage does. */
int lower_chunk_of(const struct lowering *l, int segment);
/* Gives the layouts of the value's first version here: its producer's, or those of a received one; and of its gradient,
 * once all that add to it have. */
struct layout_pair lower_base_layouts(const struct lowering *l, int value);
/* Gives the layouts in which it crosses to or from other stages: sums are complete. */
struct layout_pair lower_sent_layouts(const struct lowering *l, int value);
/* Gives the live buffer of a version, made if need be: loaded, converted, or computed. */
int lower_materialize(struct lowering *l, int value, const struct layout *layout, const struct site *site);
void lower_forward_segment(struct lowering *l, int segment, const struct site *site);
/* Recomputation is this: versions are forgotten after the forward pass and asked for again by the backward pass. */
void lower_forget_values(struct lowering *l, const struct action *action);
/* Runs, before the layer's backward pass, the forward pass of its block, up to and with it, as far as that is due. */
void lower_forward_again(struct lowering *l, int layer, int micro);
/* True when the layer before it comes again with it, in the same chunk of this stage: both are of one block. */
bool lower_follows_in_block(const struct lowering *l, int layer);
void lower_find_recomputed(struct lowering *l);
/* Makes room for the next round of a ring: the operand's block one step further. */
int lower_ring_buffer(struct lowering *l, int buffer, int round, int atom, enum buffer_kind kind);
/* True when what the segment makes would be forgotten before the walk, which alone reads it, or what is put off as
 * well: then the walk begins with it. */
bool lower_is_put_off(const struct lowering *l, int segment);
#endif
