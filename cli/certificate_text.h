/* What a search has proven, as people read it. */
#ifndef CLEAVE_CLI_CERTIFICATE_TEXT_H
#define CLEAVE_CLI_CERTIFICATE_TEXT_H
#include "cli/verb.h"
#include "planner/pool/answer.h"

/* The proof by the formula and what it is about, and the bound by kernels, to cli->out. */
void print_certificate(const struct cli *cli, const struct certificate *certificate);
#endif
