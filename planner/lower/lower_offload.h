/* What lies in the host's memory between uses (lower_offload.c). */
#ifndef CLEAVE_LOWER_LOWER_OFFLOAD_H
#define CLEAVE_LOWER_LOWER_OFFLOAD_H
#include "planner/lower/lower_parts.h"

/* Behind the walk: what backward reads much later of the stage's values goes to the host's arena and comes back. */
void offload_activations(struct lowering *l);
/* The optimizer's state of a part comes from the host; returns the buffer that holds it, -1: it stays on the device. */
int lower_fetch_state(struct lowering *l, int number, int micro);
void lower_return_state(struct lowering *l, int number, int fetched, int micro);
#endif
