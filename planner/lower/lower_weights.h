/* Weights: gathered, reduced, sharded (lower_weights.c). */
#ifndef CLEAVE_LOWER_LOWER_WEIGHTS_H
#define CLEAVE_LOWER_LOWER_WEIGHTS_H
#include "planner/lower/lower_parts.h"

void lower_collect_weights(struct lowering *l);
/* Sums a part's gradient over the atoms that do not shard: each rank gets the sum, or a server does. */
void lower_reduce_unsharded(struct lowering *l, int number, const struct site *site);
/* Lets gradients begin anew after an update that another one follows. */
void lower_renew_gradients(struct lowering *l);
/* Gives the buffer of a part's version, counted from the newest at the beginning of the step. */
int lower_part_version(const struct weight_part *part, int version);
/* Gives the layout in which the optimizer reads the gradient of a weight whose storage follows this use. */
struct layout lower_reduced_layout(const struct lowering *l, int segment, int index);
/* Gives the buffer that a segment's weight operand reads in a round. */
int lower_use_weight(struct lowering *l, int segment, int index, int round, const struct site *site);
/* Releases gathered weights, which end with the visit that they were gathered for, or stay; parts: those of a sliced
 * operator, which gathers, uses and frees one slice at a time. */
void lower_release(struct lowering *l, bool parts);
void lower_gather_ahead(struct lowering *l); /* the weights of the next visits, plan->prefetch layers ahead */
/* Gives the buffer that BWD_WEIGHT writes; *define: it holds nothing yet. */
int weight_gradient(struct lowering *l, int segment, int index, int round, const struct site *site, bool *define);
/* Emits the reductions that are due after BWD_WEIGHT's last round on that buffer. */
void weight_contributed(struct lowering *l, int segment, int index, int round, const struct site *site);
#endif
