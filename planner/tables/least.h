/* What the strategies of a configuration cost at least, in time and in memory, from a few programs. */
#ifndef CLEAVE_TABLES_LEAST_H
#define CLEAVE_TABLES_LEAST_H
#include "planner/tables/ahead.h"

/* Gives a table of the configuration's strategies, whose numbers are no larger than those of its whole table, as far as
 * the closed form counts them: what lacks memory by it, or has no shorter plan, need not be priced. The more is known
 * of configurations that differ in their prefetch alone, the larger they are. *out is NULL where there is none, or
 * where the whole table is known. */
bool least_table(struct workbench *bench, const struct config *config, const struct price_table **out,
                 struct error *err);
/* Gives the bytes of one strategy alone, the thriftiest by the least table: where a plan of it has room, the
 * configuration does not lack memory. *out is NULL where lowering refuses it. */
bool least_thrifty(struct workbench *bench, const struct config *config, const struct price_table *least,
                   const struct price_table **out, struct error *err);
/* Adds what least_table() would price, or what its whole table would where that is none. */
void least_ahead(struct ahead *ahead, const struct config *config);
#endif
