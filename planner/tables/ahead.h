/* Tables that are about to be asked for: what they are priced by is priced at once, on the bench's workers, before each
 * is put together. No answer depends on it, so that it may guess. */
#ifndef CLEAVE_TABLES_AHEAD_H
#define CLEAVE_TABLES_AHEAD_H
#include "planner/tables/workbench.h"

enum { AHEAD_MOST = 256 };
struct ahead {
    struct workbench *bench; /* borrowed */
    struct arena scratch;
    struct memo seen; /* keys of the orders */
    struct price_order orders[AHEAD_MOST];
    int count;
};
/* Sets *out to an empty list. False where the bench has no workers, for which it would be of use. */
bool ahead_open(struct ahead *out, struct workbench *bench);
/* Adds what workbench_table() would price for the configuration. Where there is no memory, or no place, it is left. */
void ahead_table(struct ahead *ahead, const struct config *config, bool bound_only);
/* Adds the pricing of strategies for a key, on devices of the type, for a table of the kind. */
void ahead_add(struct ahead *ahead, enum made_table made, const struct price_key *key,
               const struct strategy *strategies, int count);
/* Prices what was added, and closes the list. */
void ahead_price(struct ahead *ahead);
#endif
