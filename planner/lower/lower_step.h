/* Buckets, and the update at the end of a step (lower_step.c). */
#ifndef CLEAVE_LOWER_LOWER_STEP_H
#define CLEAVE_LOWER_LOWER_STEP_H
#include "planner/lower/lower_parts.h"

/* Queues a transfer that may be fused with others of its kind; at 0 bucket_bytes it is emitted at once. */
void bucket_add(struct lowering *l, enum op op, unsigned atoms, enum lane lane, bool accumulate,
                const struct site *site, int source, int destination);
void bucket_flush(struct lowering *l, bool step); /* all that wait; without step those of this layer's passes alone */
/* The update of all weights; micro: of the micro-batch, -1 of the step. */
void lower_step(struct lowering *l, int micro);
#endif
