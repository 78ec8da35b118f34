/* The room of verification: whether a program may run.
 *
 * It answers with the first reason against it: ill-formed instructions (verify_structure.c), work left out or done
 * twice and content that never came to be (verify_flow.c, verify_content.c), overlapping lives and missing waits, and
 * stalls, by running the program's one interpreter (verify.c).
 *
 * It uses program/ and of layout/ the lifetimes and orders of accesses; nothing that made the program: what lowering
 * got wrong is not excused by lowering's own rules.
 * Tested by tests/test_verify.c, which changes programs and expects refusal, and by fuzz/fuzz_program.c. */
#ifndef CLEAVE_VERIFY_VERIFY_H
#define CLEAVE_VERIFY_VERIFY_H
#include "planner/program/program.h"

/**
 * Refuses what could hang or read garbage: unpaired sends, an issue order that differs between members of a group,
 * waits on later instructions, reads before the first definition, use after the end of a lifetime, overlapping live
 * buffers, and (by running machine_step with rendezvous semantics, no buffering) a stall, with its cycle. Messages name
 * rank, instruction and reason.
 */
bool verify_program(const struct program *program, struct error *err);
#endif
