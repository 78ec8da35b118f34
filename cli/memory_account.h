/* Where the bytes of a plan's fullest stage go, for people. */
#ifndef CLEAVE_CLI_MEMORY_ACCOUNT_H
#define CLEAVE_CLI_MEMORY_ACCOUNT_H
#include "cli/inputs.h"
#include "formats/plan_json.h"

/* A line for each kind, or the largest kinds on one line. */
void memory_account_print(const struct inputs *in, const struct prediction *prediction, bool whole);
/* That it does not fit, by how much, and what takes most. Returns false. */
bool memory_account_fail(const struct prediction *prediction, struct error *err);
#endif
