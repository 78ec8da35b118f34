/* A plan for those whose time ends before the judge has said anything (early.c). */
#ifndef CLEAVE_POOL_EARLY_H
#define CLEAVE_POOL_EARLY_H
#include "planner/pool/run.h"

/* Simulates, where time is limited and no incumbent is there, the one of the candidates that the walk finds shortest,
 * if it is shorter than the early plan so far by one part in EARLY_GAIN_SHARE. */
bool early_judge(struct run *run);
/* Puts the early plan into the result's list, if it is among the best there. */
void early_hand_out(struct run *run);
/* True when time is over and the result has a plan; the early plan has joined it then. */
bool early_ends(struct run *run);
void early_drop(struct run *run);
#endif
