/* How bytes move between ranks. A transport moves messages between two ranks on a lane; collectives (collective.h) are
 * written once on top of it with a fixed reduction order, so every transport gives bitwise equal results. */
#ifndef CLEAVE_EXECUTOR_TRANSPORT_H
#define CLEAVE_EXECUTOR_TRANSPORT_H
#include "base/error.h"
#include "planner/plan/dim.h"
#include <stddef.h>

struct rendezvous;
struct status;
struct transport {
    const char *name;
    int rank, rank_count;
    void *self;
    bool of_devices; /* data of devices that have memory of their own go by a library of theirs: exchange() moves the
                        small values of a run alone */
    struct rendezvous *rendezvous; /* small values between processes; may be NULL: the transport has none */
    /* Sends send_bytes to rank `to` (-1: nothing) and receives exactly receive_bytes from rank `from` (-1: nothing),
     * both at once; returns when the receive has arrived and the send buffer may be reused. Messages of one (sender,
     * receiver, lane) arrive in order. Blocks or sleeps, never spins. Called by one thread per lane and direction.
     * False: a rank died, a timeout, or abort was called. */
    bool (*exchange)(void *self, enum lane lane, int to, const void *send, size_t send_bytes, int from, void *receive,
                     size_t receive_bytes, struct error *err);
    void (*abort)(
        void *self); /* wakes every blocked exchange, of all ranks if it can, with a failure; safe from any thread */
    /* Whether abort was called, here or by another rank, or another was lost. May be NULL: the transport does not know.
     */
    bool (*aborted)(void *self);
    void (*close)(void *self);
    /* While a page is given (NULL: no longer), other hosts hear of this rank and the page of theirs. May be NULL: the
     * transport has no way to tell. */
    void (*watch)(void *self, struct status *status);
    /* Of a transport that imitates another network; both may be NULL. next: what the lane sends (out) or receives (in)
     * from here on does not continue its last message. settle: the instruction is over; sleeps until all that the lane
     * got in exchanges both ways has arrived. Called by the thread that exchanges. */
    void (*next)(void *self, enum lane lane, bool out, bool in);
    void (*settle)(void *self, enum lane lane);
};
static inline void transport_next(const struct transport *transport, enum lane lane, bool out, bool in)
{
    if (transport->next)
        transport->next(transport->self, lane, out, in);
}
#endif
