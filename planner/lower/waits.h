/* Which instructions of other lanes each one waits for. */
#ifndef CLEAVE_LOWER_WAITS_H
#define CLEAVE_LOWER_WAITS_H
#include "planner/lower/lower_parts.h"

/* Of the finished list of the stage at hand. */
bool waits_find(struct lowering *l);
#endif
