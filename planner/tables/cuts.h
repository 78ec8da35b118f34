/* What a value takes over the cuts of a configuration. */
#ifndef CLEAVE_TABLES_CUTS_H
#define CLEAVE_TABLES_CUTS_H
#include "planner/tables/workbench.h"

/* Puts into *table the mean over all cuts between neighbouring stages in place of what the first one takes: some lie
 * within a node, some do not. Made once. */
bool cuts_table(struct workbench *bench, const struct config *config, const struct price_table **table,
                struct error *err);
#endif
