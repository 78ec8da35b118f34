/* In which order passes and messages of a walk come does not depend on what they take, so plans of one schedule whose
 * stages exchange alike share it. Whoever walks many plans of one chain keeps a shelf of such orders; several threads
 * may use it, and no step depends on it. */
#ifndef CLEAVE_ESTIMATE_PIPELINE_ORDER_H
#define CLEAVE_ESTIMATE_PIPELINE_ORDER_H
#include <stdatomic.h>

enum { SHELF_LISTS = 64 };
struct pipeline_order;
/* An empty shelf is all zeros. */
struct pipeline_shelf {
    _Atomic(struct pipeline_order *) orders[SHELF_LISTS]; /* by hash */
    atomic_size_t bytes;
    _Atomic(int *) work; /* (layers) that the chain's graph has; NULL: nobody has asked yet */
};
void pipeline_shelf_close(struct pipeline_shelf *shelf);
#endif
