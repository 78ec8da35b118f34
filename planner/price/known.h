/* Prices that a book keeps beyond the search that asked for them (shelf.h). */
#ifndef CLEAVE_PRICE_KNOWN_H
#define CLEAVE_PRICE_KNOWN_H
#include "planner/price/price.h"

/* Fills in the strategy's column where the book knows it under its rates. */
bool price_known(struct price_table *table, int strategy, struct price_book *book, const struct price_key *key);
/* Keeps the strategy's column, where the book's rates have a number and there is memory. */
void price_know(struct price_book *book, const struct price_key *key, const struct price_table *table, int strategy);
#endif
