/* A program on a device without buffering, where a transfer ends when all its sides have come: what stalls on no such
 * device stalls on none that has its lanes. */
#ifndef CLEAVE_PROGRAM_RENDEZVOUS_H
#define CLEAVE_PROGRAM_RENDEZVOUS_H
#include "planner/program/pairing.h"

/* Runs one step of all stages. later: it is not the first of a run, whose opening stands done. order: NULL, or
 * [stage][instr], how many instructions had ended before this one when each stage computes one in the time of
 * another's. Who runs a stage's transfers in it, one at a time, never stalls: all that one needs has ended before. */
bool rendezvous_run(const struct program *program, const struct pairing *pairing, bool later, int *const *order,
                    struct error *err);
#endif
