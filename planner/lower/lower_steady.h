/* Asynchronous schedules (lower_steady.c). */
#ifndef CLEAVE_LOWER_LOWER_STEADY_H
#define CLEAVE_LOWER_LOWER_STEADY_H
#include "planner/lower/lower_parts.h"

/* Turns to the action: its part of the step, its version of the weights. The part ahead makes its values anew, in the
 * buffers that the opening made. */
void steady_begin(struct lowering *l, const struct action *action);
/* Behind the opening, and behind the whole list: receives what the next forward pass reads, so that no message crosses
 * the border of a step. */
void steady_receive(struct lowering *l, enum step_part part);
/* The buffer that was so received; -1: it is to be received now. */
int steady_received(const struct lowering *l, int index, int micro);
/* The opening's buffer instead of a new one, its description renewed; -1: none. Notes those that the opening makes. */
int steady_reuse(struct lowering *l, const struct buffer *buffer);
void steady_note(struct lowering *l, int buffer);
/* Micro-batches of the next step have numbers of their own in messages. */
int steady_number(const struct lowering *l, int micro);
#endif
