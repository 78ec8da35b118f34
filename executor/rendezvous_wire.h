/* What travels between a process and the rendezvous: frames of a head and a body. */
#ifndef CLEAVE_EXECUTOR_RENDEZVOUS_WIRE_H
#define CLEAVE_EXECUTOR_RENDEZVOUS_WIRE_H
#include "executor/rendezvous.h"

enum frame_kind {
    FRAME_PUT = 1, /* key, value; answered by DONE or REFUSED */
    FRAME_GET,     /* key; answered by DONE with the value, when there is one */
    FRAME_DONE,
    FRAME_REFUSED,  /* int32_t: the rank that told it before; -1: there is no memory */
    FRAME_BEAT,     /* to the server: struct beat; answered by VIEW */
    FRAME_VIEW,     /* to a process: struct view_head, struct status_line[] */
    FRAME_ABORT,    /* both ways */
    FRAME_FAREWELL, /* both ways: whoever says it leaves in order */
    FRAME_NO_MEMORY /* to a process: for what comes next; the connection ends */
};
struct frame {
    uint32_t kind, serial; /* of the request, repeated in its answer */
    uint32_t key_bytes, value_bytes;
};
struct beat {
    int32_t failed; /* rank, -1 */
    int32_t reserved;
    struct status_line line;
};
struct view_head {
    int32_t failed;
    uint32_t line_count;
    uint64_t progress; /* of all ranks */
};
/* The largest body that a process may send. */
enum { REQUEST_BYTES = RENDEZVOUS_KEY_BYTES + RENDEZVOUS_VALUE_BYTES };

/* Tells whether a head that came from a process makes sense. */
bool frame_is_request(const struct frame *frame);
/* Or from the server, in a job of so many ranks. */
bool frame_is_answer(const struct frame *frame, int rank_count);

/* ---- the server: a thread in rank 0's process ---- */
struct rendezvous_server;
/* Takes the listening socket. silence_ns: INT64_MAX: for ever. */
bool rendezvous_server_open(struct rendezvous_server **out, int listener, int rank_count, const char *token,
                            int64_t silence_ns, struct error *err);
/* Bids all farewell and waits a moment until they have heard it. Accepts NULL. */
void rendezvous_server_close(struct rendezvous_server *server);
#endif
