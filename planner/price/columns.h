/* Columns of price tables: what every class of layers costs under one strategy, for one key. A book makes those it does
 * not know, on its workers at once, and keeps them: a table is put together from them, and who knows which tables will
 * be asked for may have their columns made together before. No answer depends on that. */
#ifndef CLEAVE_PRICE_COLUMNS_H
#define CLEAVE_PRICE_COLUMNS_H
#include "planner/price/price.h"
#include "planner/price/sample.h"

/* These are the kinds of prices.def. */
enum { OTHER, KEPT, LEAST, JUDGED };

/* Tells which of its prices are asked for. */
enum sample_part columns_part(const struct price_key *key);
/* Makes the columns of the orders that the book does not know. False where one could not be made, which says the error
 * of the first: all others were. */
bool columns_make(struct price_book *book, const struct price_order *orders, int count, struct error *err);
/* Fills in the strategy's column; false: the book does not know it, or no longer. */
bool columns_take(struct price_table *table, int strategy, const struct price_book *book, const struct price_key *key);
#endif
