/* The weights that a run begins with. */
#ifndef CLEAVE_EXECUTOR_INITIAL_H
#define CLEAVE_EXECUTOR_INITIAL_H
#include "executor/rank.h"

/* Sets the rank's weights, and what ones of 16 bits are rounded from, to their initial values; states of a poisoned
 * arena to 0. */
bool initial_weights(struct rank *rank, struct error *err);
#endif
