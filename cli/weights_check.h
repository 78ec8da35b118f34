/* A model held against the headers of its weights' files. */
#ifndef CLEAVE_CLI_WEIGHTS_CHECK_H
#define CLEAVE_CLI_WEIGHTS_CHECK_H
#include "cli/inputs.h"

/* path: a safetensors file, or the index (.json) of several that lie beside it. Only headers are read. Fails with the
 * first difference: of the blocks' parameters in order, then of the rest. */
bool weights_check(struct inputs *in, const struct graph *graph, const char *path, struct error *err);
#endif
