/* Ranks as processes that talk over TCP, on one or many hosts. */
#ifndef CLEAVE_EXECUTOR_COMM_TCP_H
#define CLEAVE_EXECUTOR_COMM_TCP_H
#include "executor/rendezvous.h"
#include "executor/transport.h"

/* One end. Returns when this rank has met rank 0 and has told where it listens; connections to other ranks are made
 * when they are first used. The meeting is copied. Ends of one process are closed from the last rank to the first. */
bool comm_tcp_open(struct transport *out, const struct meeting *meeting, struct error *err);
#endif
