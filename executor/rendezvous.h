/* Where the processes of a job meet: rank 0 listens at one address, all connect to it and show that they know the job's
 * token. Over that connection goes a store of small values, the ranks' status, and an abort of all. */
#ifndef CLEAVE_EXECUTOR_RENDEZVOUS_H
#define CLEAVE_EXECUTOR_RENDEZVOUS_H
#include "base/error.h"
#include "executor/handshake.h"
#include "executor/socket.h"
#include "executor/status.h"

enum { RENDEZVOUS_KEY_BYTES = 64, RENDEZVOUS_VALUE_BYTES = 4096, MEETING_PATH_BYTES = 1024 };
/* How a process finds the others of its job. */
struct meeting {
    int rank, rank_count;
    char host[SOCKET_HOST_BYTES]; /* of rank 0, which listens on this address alone */
    int port;
    int listener;                      /* on rank 0: a socket that listens there already, or -1 */
    char token[TOKEN_BYTES];           /* never sent, never empty */
    char host_name[STATUS_HOST_BYTES]; /* of this process, for messages and for the check of where ranks are */
    char file[MEETING_PATH_BYTES];     /* on rank 0: what tells the others where (meeting_file.h), removed when the
                                          rendezvous is closed; empty: none */
    double timeout_s; /* for meeting, and three quarters of it of silence until a process counts as lost; 0: for ever */
};
struct rendezvous;
/**
 * Returns when this process has met rank 0 (not all have met then). The meeting is copied. on_abort: another process
 * has called rendezvous_abort() or was lost; called once, by the rendezvous' own thread, after a watched status page
 * had a second to say more; may be NULL.
 */
bool rendezvous_open(struct rendezvous **out, const struct meeting *meeting, void (*on_abort)(void *context),
                     void *context, struct error *err);
/* Says goodbye: after that the process is missed by nobody. Accepts NULL. */
void rendezvous_close(struct rendezvous *rendezvous);

/* Any thread. A key is set once; setting it again to other bytes fails. */
bool rendezvous_put(struct rendezvous *rendezvous, const char *key, const void *value, size_t bytes, struct error *err);
/* Waits until some rank has put the key, at most the meeting's timeout. *bytes: of the value, at most capacity. */
bool rendezvous_get(struct rendezvous *rendezvous, const char *key, void *value, size_t capacity, size_t *bytes,
                    struct error *err);
/* Ends the wait of all processes for each other. */
void rendezvous_abort(struct rendezvous *rendezvous);
/* The page's line of this rank goes to the other processes from now on, and theirs come to the page, a few times a
 * second, at once when a rank fails or is lost. NULL: no longer; the page is not touched after that. */
void rendezvous_watch(struct rendezvous *rendezvous, struct status *status);

const struct meeting *rendezvous_meeting(const struct rendezvous *rendezvous);
/* The numeric address of this process in the network that joins it with rank 0. */
const char *rendezvous_own_address(const struct rendezvous *rendezvous);
#endif
