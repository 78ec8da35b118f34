/* The loss in chunks (lower_walk.c). */
#ifndef CLEAVE_LOWER_LOWER_WALK_H
#define CLEAVE_LOWER_LOWER_WALK_H
#include "planner/lower/lower_parts.h"

/* Whether the segment is run chunk by chunk, by the backward action. */
bool lower_is_walked(const struct lowering *l, int segment);
void lower_find_walk(struct lowering *l); /* once assignments are there */
/* All chunks of the loss for a micro-batch, while the layer of the product is visited. */
void walk_loss(struct lowering *l, int micro);
#endif
