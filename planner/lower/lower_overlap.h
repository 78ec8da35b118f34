/* Passes that take turns, so that the computations of one hide the exchanges of the other (lower_overlap.c). */
#ifndef CLEAVE_LOWER_LOWER_OVERLAP_H
#define CLEAVE_LOWER_LOWER_OVERLAP_H
#include "planner/lower/lower_parts.h"

/* Reorders the stage's list, once all passes are in it, where the framework does so (struct keeping). */
void overlap_experts(struct lowering *l);
#endif
