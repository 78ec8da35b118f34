/* Configurations over several types of devices: each stage is priced on the types that it lives on. */
#ifndef CLEAVE_TABLES_TYPES_H
#define CLEAVE_TABLES_TYPES_H
#include "planner/tables/workbench.h"

/* workbench_open() and workbench_close() call these; nothing is to do where the cluster has one type. */
bool types_open(struct workbench *bench, struct error *err);
void types_close(struct workbench *bench);
/* Prices a stage of the configuration's mesh on these types (bit t for type t); *out NULL when lowering refuses it. */
bool types_stage_table(struct workbench *bench, const struct config *config, unsigned types, bool bound_only,
                       const struct price_table **out, struct error *err);
/* Gives the least of all types' bounds, number by number; *out is NULL where lowering refuses it. */
bool types_least_table(struct workbench *bench, const struct config *config, const struct price_table **out,
                       struct error *err);
/* Gives the configuration's table, with one for each stage where there are several types, or where units of links hold
 * parts of stages; *out is NULL where lowering refuses it. */
bool types_table(struct workbench *bench, const struct config *config, bool bound_only, const struct price_table **out,
                 struct error *err);
#endif
