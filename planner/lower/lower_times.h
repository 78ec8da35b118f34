/* The common order of messages where values skip stages (lower_times.c). */
#ifndef CLEAVE_LOWER_LOWER_TIMES_H
#define CLEAVE_LOWER_LOWER_TIMES_H
#include "planner/lower/lower_parts.h"

/* Finds out whether messages have to be ordered, and how. */
bool lower_times(struct lowering *l);
/* Place of the action of a stage that reads a message of the kind. */
int message_place(const struct lowering *l, enum message_kind kind, int stage, int micro);
#endif
