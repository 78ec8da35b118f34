/* A shell's script with what it is given, as its user types it. */
#ifndef CLEAVE_CLI_CALLED_SCRIPT_H
#define CLEAVE_CLI_CALLED_SCRIPT_H
#include "base/arena.h"
#include "base/error.h"
#include <stdbool.h>

/* Reads [env] [NAME=VALUE ...] [bash] SCRIPT [ARGUMENT ...]: *path is that of the script, *before the same as shell
 * words to stand before its first line; both in the arena. *path is NULL where the launch is no such call. Fails where
 * a shell is called and no file that it names can be read. */
bool called_script(const char **path, const char **before, const char *launch, struct arena *arena, struct error *err);
#endif
