/* What verbs print with --json beside files that are read again: the fields of these objects, for `cleave schema`. */
#ifndef CLEAVE_CLI_OUTPUTS_H
#define CLEAVE_CLI_OUTPUTS_H
#include "base/json.h"
extern const struct json_format output_formats[];
#endif
