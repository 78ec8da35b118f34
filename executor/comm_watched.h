/* A watch over the ranks of other hosts, for transports whose library brings the ranks together but says nothing of
 * them: a rendezvous beside the transport, whose place and token travel through the transport itself. */
#ifndef CLEAVE_EXECUTOR_COMM_WATCHED_H
#define CLEAVE_EXECUTOR_COMM_WATCHED_H
#include "executor/rendezvous.h"
#include "executor/transport.h"

/**
 * Wraps this process's end in place; all ranks call it at once. Then ranks tell each other their status pages (watch),
 * and an abort reaches all. Of the meeting count host_name, timeout_s, and on rank 0 host: where it listens; empty: on
 * all its IPv4 addresses, of which every rank takes the first by which it gets through. A rank that cannot reach rank 0
 * leaves all as they were; on rank 0 *why then says what was tried, else it stays empty. Fails when the transport does.
 */
bool comm_watched_wrap(struct transport *transport, const struct meeting *meeting, struct error *why,
                       struct error *err);
#endif
