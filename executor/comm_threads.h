/* Ranks as threads of one process: the receiver copies straight from the sender's buffer. */
#ifndef CLEAVE_EXECUTOR_COMM_THREADS_H
#define CLEAVE_EXECUTOR_COMM_THREADS_H
#include "executor/transport.h"

/* Fills out[0 .. rank_count), the ends of one hub. Each is closed on its own, by any thread, when nobody exchanges on
 * it any more; the last one frees the hub. Every exchange is a rendezvous. A failure leaves nothing behind. */
bool comm_threads_open(struct transport *out, int rank_count, struct error *err);
#endif
