/* Collectives through the group's first rank: count members, this rank at `place` among them. */
#ifndef CLEAVE_EXECUTOR_COLLECTIVE_ROOT_H
#define CLEAVE_EXECUTOR_COLLECTIVE_ROOT_H
#include "executor/collective_stream.h"

/* Works in place on the destinations, which hold each rank's terms: afterwards those of the first rank hold the sum,
 * added in the order of members; those of others stay as they were. */
bool root_reduce(struct collective *c, const struct instr *instr, int count, int place, enum combine fold,
                 struct error *err);
/* Works in place on the destinations: all get what the first rank's hold. */
bool root_broadcast(struct collective *c, const struct instr *instr, int count, int place, struct error *err);
#endif
