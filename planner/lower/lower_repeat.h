/* Passes that are copied from one that found the same (lower_repeat.c). */
#ifndef CLEAVE_LOWER_LOWER_REPEAT_H
#define CLEAVE_LOWER_LOWER_REPEAT_H
#include "planner/lower/lower_parts.h"

bool repeat_open(struct lowering *l); /* once the stage's weights are there; false: memory is short */
/* The inside of a pass, all its layers: copied from one that found the same; false: it is to be lowered, and noted from
 * repeat_note() to repeat_end(). */
bool repeat_pass(struct lowering *l, const struct action *action);
void repeat_note(struct lowering *l, const struct action *action);
void repeat_end(struct lowering *l, const struct action *action);
#endif
