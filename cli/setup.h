/* Where the program's own files are. */
#ifndef CLEAVE_CLI_SETUP_H
#define CLEAVE_CLI_SETUP_H
#include "cli/verb.h"

struct setup {
    char *program, *data_dir, *module_dir;
};
/* Fills cli's paths: CLEAVE_DATA_DIR and CLEAVE_MODULE_DIR if set, the source and build tree when the executable lies
 * in one, else the installation that the executable belongs to. False: out of memory; setup_free() all the same. */
bool setup_find(struct setup *setup, struct cli *cli);
void setup_free(struct setup *setup);
void setup_print_version(FILE *out);
#endif
