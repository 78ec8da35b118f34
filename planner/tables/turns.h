/* Prices of stages whose replicas take turns: a table for each number of replicas. */
#ifndef CLEAVE_TABLES_TURNS_H
#define CLEAVE_TABLES_TURNS_H
#include "planner/tables/workbench.h"

/* Gives the table of a configuration whose replicas take turns, with one for each number of them that its stages may
 * have, made once; for bounds without these. *out is NULL where lowering refuses it. */
bool turns_table(struct workbench *bench, const struct config *config, bool bound_only, const struct price_table **out,
                 struct error *err);
/* Gives in-flight micro-batches of a replica (meshes + 1, turns) by how many meshes there are from its stage on, itself
 * among them, and its stage's number of replicas; in the arena. NULL when out of memory. */
int *turns_in_flight(struct arena *arena, const struct config *config);
#endif
