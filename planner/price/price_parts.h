/* What the price*.c share. */
#ifndef CLEAVE_PLANNER_SEARCH_PRICE_PARTS_H
#define CLEAVE_PLANNER_SEARCH_PRICE_PARTS_H
#include "planner/price/sample.h"

/* The sample of the key with one decision for all layers, of 1 stage or 2; the book keeps it. Its graph is book->graph.
 */
bool price_want_sample(struct sample **out, struct price_book *book, const struct price_key *key,
                       const struct plan_layer *layer, int stages, struct error *err);
/* Decides nothing but the dimensions of the atoms. */
struct plan_layer price_plain_layer(const int8_t *dims);
#endif
