/* A program on a device without buffering, where a transfer ends when all its sides have come: what stalls on no such
 * device stalls on none that has its lanes. */
#ifndef CLEAVE_PROGRAM_RENDEZVOUS_H
#define CLEAVE_PROGRAM_RENDEZVOUS_H
#include "planner/program/pairing.h"

/* One step of all stages. later: not the first of a run, whose opening stands done. order: NULL, or [stage][instr], how
 * many instructions had ended before this one when each stage computes one in the time of another's. Who runs the
 * transfers of a stage in this order, one at a time, never stalls either: all that one needs has ended before it. */
bool rendezvous_run(const struct program *program, const struct pairing *pairing, bool later, int *const *order,
                    struct error *err);
#endif
