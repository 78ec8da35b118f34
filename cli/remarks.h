/* What a reader of a plan should know of it that no number says. */
#ifndef CLEAVE_CLI_REMARKS_H
#define CLEAVE_CLI_REMARKS_H
#include "cli/inputs.h"

/* A line for each: key and value heads that several tensor ranks hold alike, stages without any repeated block. graph:
 * the plan's. */
void remarks_print(FILE *out, const struct model *model, const struct graph *graph, const struct plan *plan);
#endif
