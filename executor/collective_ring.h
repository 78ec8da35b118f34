/* Rings of the collectives: count members, this rank at `place` among them. */
#ifndef CLEAVE_EXECUTOR_COLLECTIVE_RING_H
#define CLEAVE_EXECUTOR_COLLECTIVE_RING_H
#include "executor/collective_stream.h"

/* Works in place on the destinations, which hold this rank's terms. */
bool ring_all_reduce(struct collective *c, const struct instr *instr, int count, int place, enum combine fold,
                     struct error *err);
/* Tells whether all members want what each holds another shard of (gather); or each another shard of what all hold
 * terms of.
 */
bool ring_fits(const struct collective *c, const struct instr *instr, bool gather);
/* Both after each destination got this rank's own part. */
bool ring_all_gather(struct collective *c, const struct instr *instr, int count, int place, struct error *err);
bool ring_reduce_scatter(struct collective *c, const struct instr *instr, int count, int place, enum combine fold,
                         struct error *err);
#endif
