/* Where the program's own files are, and the mathematics library's settings. */
#ifndef CLEAVE_CLI_SETUP_H
#define CLEAVE_CLI_SETUP_H
#include "cli/verb.h"

struct setup {
    char *program, *data_dir, *module_dir;
};
/* Fills cli's paths: CLEAVE_DATA_DIR and CLEAVE_MODULE_DIR if set, the source and build tree when the executable lies
 * in one, else the installation that the executable belongs to. */
void setup_find(struct setup *setup, struct cli *cli);
void setup_free(struct setup *setup);
void setup_print_version(FILE *out);
/**
 * Makes the BLAS single-threaded and right for this CPU: ranks are the parallelism, and idle BLAS threads spin for a
 * while even when a verb multiplies nothing. OpenBLAS reads its settings when it is
 * loaded, so when they are missing the program replaces itself once by itself with them set. OPENBLAS_CORETYPE is set
 * only where OpenBLAS fell back to an older processor's kernels (host/blas_core.h); a value that the user has set stands.
 */
void setup_blas(const struct cli *cli);
#endif
