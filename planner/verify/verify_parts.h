/* The parts of verify_program(). Nobody else includes this. */
#ifndef CLEAVE_VERIFY_VERIFY_PARTS_H
#define CLEAVE_VERIFY_VERIFY_PARTS_H
#include "planner/program/pairing.h"

/* Puts "stage 1 (ranks 4 to 7) instr 12 (...): " before the message; always returns false. */
bool verify_fail(const struct program *program, int stage, int index, struct error *err, const char *format, ...)
    __attribute__((format(printf, 5, 6)));
/* Checks that every index is in its range, every operand of the kind for its place. All other parts rely on it. */
bool verify_structure(const struct program *program, struct error *err);
/* Checks that each piece of work is there exactly once, nothing is added twice, nothing is moved for nobody. */
bool verify_flow(const struct program *program, struct error *err);
/* Checks that who reads a sum finds it complete, or partial over the atoms that it asks for; weights end whole. */
bool verify_content(const struct program *program, struct error *err);
#endif
