/* Beside each price how far such prices were off. */
#ifndef CLEAVE_CLI_ACCURACY_NOTE_H
#define CLEAVE_CLI_ACCURACY_NOTE_H
#include "cli/inputs.h"

/* The prediction of the inputs' job gets its accuracy, from the catalogue's file, from the calibrations that were given
 * or, of cleave itself, from the profile. Strings are in the inputs' arena. */
bool accuracy_note(struct prediction *prediction, struct inputs *in, enum dtype dtype, struct error *err);
#endif
