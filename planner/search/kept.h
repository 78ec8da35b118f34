/* What a step keeps, however it is shared out. */
#ifndef CLEAVE_SEARCH_KEPT_H
#define CLEAVE_SEARCH_KEPT_H
#include "planner/search/search.h"

/* Sets *out to whether weights, the optimizer's states and the accumulators of gradients, which all live at the end of
 * backward, each kept once, are more than all devices have, and where the space has offloading their hosts: then no
 * plan of it fits, whatever the batch and the sequence. Fails for want of memory. */
bool search_is_hopeless(bool *out, const struct model *model, const struct facts *facts, const struct space *space,
                        struct error *err);
/* Sets *out to whether the optimizer's states, each kept once, take a fifth of all devices' memory: then plans pay for
 * it, by recomputation, gathered weights or higher degrees. */
bool search_has_large_states(bool *out, const struct model *model, const struct facts *facts, const struct space *space,
                             struct error *err);
#endif
