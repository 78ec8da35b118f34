/* A space that the search may widen where nothing fits, but for what the user has named. */
#ifndef CLEAVE_CLI_WIDENING_H
#define CLEAVE_CLI_WIDENING_H
#include "base/json.h"
#include "cli/space_options.h"
#include "planner/search/widen.h"

/* The space, and of what may be widened all that the target, if there is one, can be told: but for choices that --fix
 * or --space name. */
bool widening_widest(struct space *widest, struct inputs *in, const struct space *space,
                     const struct space_options *options, struct error *err);
/* Says by what the space became wider, if it did, and how the user would name it; where nothing fits there either,
 * that.
 */
void widening_print(FILE *out, const struct widening *widening, bool fits);
/* The choices (bits) by which the plan file's search became wider: the names in its member "widened". What it does not
 * name well is left out. search: NULL: none. */
uint64_t widening_read(const struct json *search);
/* "loss-chunks, offload". */
void widening_list(struct text *out, uint64_t choices);
#endif
