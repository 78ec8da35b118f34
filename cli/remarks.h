/* What a reader of a plan should know of it that no number says. */
#ifndef CLEAVE_CLI_REMARKS_H
#define CLEAVE_CLI_REMARKS_H
#include "cli/inputs.h"
#include "planner/estimate/estimate.h"

/* A line for each: a default dtype that is not bf16, key and value heads that several tensor ranks hold alike, a
 * vocabulary that slows the head down, a reserve below the devices' own, cards that are fuller than the slack of the
 * framework's allocator, stages without any repeated block, stages less even than they could be, an encoder that reads
 * more than is planned, what measured runs like it say of its step. in->graph: the plan's. False: out of memory. */
bool remarks_print(FILE *out, const struct inputs *in, const struct plan *plan, const struct prediction *prediction,
                   struct error *err);
/* The same as a member "remarks": an array of objects with a kind and a text. */
bool remarks_put(struct json_writer *w, const struct inputs *in, const struct plan *plan,
                 const struct prediction *prediction, struct error *err);
#endif
