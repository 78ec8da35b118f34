/* Collectives on top of a transport's exchange, written once: blocks in global coordinates, a fixed order of reduction,
 * so that every transport gives bitwise equal results. Nothing is allocated while a step runs. */
#ifndef CLEAVE_EXECUTOR_COLLECTIVE_H
#define CLEAVE_EXECUTOR_COLLECTIVE_H
#include "executor/transport.h"
#include "planner/program/program.h"

/* One message carries at most this much; longer transfers are cut into messages of exactly this size and a rest. */
enum { COLLECTIVE_MESSAGE_BYTES = 512 * 1024 };

/* What one lane of one rank needs. Owned by the rank; used by one thread at a time. */
struct collective;
/* arena: of the rank, borrowed, as is the transport (NULL where only collective_local() is called). */
bool collective_new(struct collective **out, const struct program *program, int rank, unsigned char *arena,
                    const struct transport *transport, struct error *err);
void collective_free(struct collective *collective); /* accepts NULL */
/* Before a step: so many updates of each weight were made, by which the versions of weights have changed places. */
void collective_begin_step(struct collective *collective, int64_t updates);

/**
 * Runs an instruction that moves data between ranks: the collectives, SEND, RECEIVE, NORM_REDUCE. All members of its
 * group call it in an order that is the same on all of them. With muted, nothing moves between ranks (the oracle's
 * mutations): every rank acts as if it were alone in its group, a SEND sends nothing, a RECEIVE leaves zeros.
 */
bool collective_run(struct collective *collective, const struct instr *instr, bool muted, struct error *err);
/* SLICE and ADD: the same conversion without a group. Cannot fail. */
void collective_local(struct collective *collective, const struct instr *instr);
#endif
