/* Versions of what computes and talks here, for the provenance of measurements. */
#ifndef CLEAVE_CLI_SOFTWARE_H
#define CLEAVE_CLI_SOFTWARE_H
#include "base/text.h"

/* "gcc 12.2.0": what this program was compiled with. */
const char *software_compiler(void);
/* The library of the processor's products as it names itself, and its kernels; or why there is none. Opens it. */
void software_matmuls(struct text *out);
/* What the MPI library says of itself, in one line; or why there is none. Starts nothing. */
void software_mpi(struct text *out, const char *module_dir);
#endif
