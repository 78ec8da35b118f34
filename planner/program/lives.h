/* One lifetime, one buffer. */
#ifndef CLEAVE_PROGRAM_LIVES_H
#define CLEAVE_PROGRAM_LIVES_H
#include "planner/program/program.h"

/**
 * Gives every later lifetime of a buffer a buffer of its own: what is forgotten and recomputed, or gathered again, need
 * not come back to the same bytes. Only buffers that do not persist are split, where an instruction renews their whole
 * content after the last read. New buffers stand at the end of program->buffers and differ from the original by nothing
 * but their index. Instructions get pairs of their own. The program must pair (pairing_build). On failure the program
 * is unusable.
 */
bool program_split_lives(struct program *program, struct error *err);
#endif
