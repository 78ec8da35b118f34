/* The text form of a program: one line per buffer and instruction. It holds all of the program: a reader of the tests
 * (tests/program_parse.h) reads it back. */
#ifndef CLEAVE_FORMATS_PROGRAM_TEXT_H
#define CLEAVE_FORMATS_PROGRAM_TEXT_H
#include "base/text.h"
#include "planner/program/program.h"

void program_print(const struct program *program, struct text *out);
#endif
