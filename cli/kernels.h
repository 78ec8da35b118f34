/* `cleave run --kernels`: what the records of a rank's device say of overlap, for people and as JSON. */
#ifndef CLEAVE_CLI_KERNELS_H
#define CLEAVE_CLI_KERNELS_H
#include "cli/verb.h"
#include "planner/sim/timeline.h"

/* Of the rank that ended last; nothing where it has no records. */
bool kernels_print(const struct cli *cli, const struct program *program, const struct timeline *timeline,
                   struct error *err);
/* Appends ', "kernels": {...}' of a rank to an object that is being written; nothing where it has no records. */
bool kernels_json(const struct cli *cli, const struct program *program, const struct timeline *timeline, int rank_index,
                  struct error *err);
#endif
