/* What a search has proven, as people read it. */
#ifndef CLEAVE_CLI_CERTIFICATE_TEXT_H
#define CLEAVE_CLI_CERTIFICATE_TEXT_H
#include "cli/verb.h"
#include "planner/pool/answer.h"

/* The schedules that the formula is about, where so many configurations with others were tried beside it; empty: it is
 * about all. */
void certificate_bounded(struct text *out, int64_t unbounded);
/* The proof by the formula and what it is about, and the bound by kernels, to cli->out. */
void print_certificate(const struct cli *cli, const struct certificate *certificate);
#endif
