/* When receives are posted (lower_arrivals.c). */
#ifndef CLEAVE_LOWER_LOWER_ARRIVALS_H
#define CLEAVE_LOWER_LOWER_ARRIVALS_H
#include "planner/lower/lower_parts.h"

/* The stage that runs the layer for the copy at hand; of replicas that take turns the first. */
int lower_stage_at_hand(const struct lowering *l, int layer);
/* Of a stage's replicas that take turns, the one that has the micro-batch. */
int lower_peer_of(const struct lowering *l, int stage, int micro);
bool lower_list_arrivals(struct lowering *l);
/* The receives that are due before the stage's action of that number. */
void lower_post_arrivals(struct lowering *l, int action);
/* The buffer into which an entering value, or the gradient of a leaving one, was or is now received; not live yet. */
int lower_arrived(struct lowering *l, bool gradient, int index, int micro);
#endif
