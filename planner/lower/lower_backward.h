/* Backward passes of segments (lower_backward.c). */
#ifndef CLEAVE_LOWER_LOWER_BACKWARD_H
#define CLEAVE_LOWER_LOWER_BACKWARD_H
#include "planner/lower/lower_parts.h"

/* All gradient versions of a value into its base version; -1 when there is none. */
int lower_settle(struct lowering *l, int value, const struct site *site);
bool lower_has_input_phase(const struct lowering *l, int segment);
bool lower_has_weight_phase(const struct lowering *l, int segment);
void backward_segment(struct lowering *l, int segment, int micro, bool input, bool weight);
#endif
