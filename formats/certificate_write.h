/* What a search claims, as plan files have it. claim_read.h reads it back. */
#ifndef CLEAVE_FORMATS_CERTIFICATE_WRITE_H
#define CLEAVE_FORMATS_CERTIFICATE_WRITE_H
#include "planner/search/search.h"

/* The "search" and "certificate" members of plan files, with their keys: what was done, and what is claimed. space:
 * that was searched. */
void certificate_write(struct json_writer *w, const struct search_result *result, const struct space *space);
#endif
