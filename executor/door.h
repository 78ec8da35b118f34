/* The listening side of the handshake: strangers wait at the door, each in its own place, until they have shown that
 * they know the token; the owner's thread polls. Whoever knocks is looked at at once: where all places, or those that
 * one address may have, are taken, the visitor leaves that has said nothing for longest, and only where that one has
 * not had the time that an answer takes, who knocks is turned away and may knock again. So strangers, however many and
 * however slow, delay a process of the job, and do nothing else. */
#ifndef CLEAVE_EXECUTOR_DOOR_H
#define CLEAVE_EXECUTOR_DOOR_H
#include "executor/handshake.h"
#include <poll.h>

enum { DOOR_PLACES = 128, DOOR_PLACES_OF_ONE = 96, DOOR_POLLS = DOOR_PLACES + 1 };
struct door;
struct door_owner {
    void *self;
    enum verdict (*judge)(void *self, const struct hello *hello); /* of one who knows the token */
    void (*admit)(void *self, const struct hello *hello, int fd); /* who was welcome; takes the descriptor */
};
/* Takes the listening descriptor, whether it succeeds or not. The token is borrowed. */
bool door_open(struct door **out, int listener, const char *token, const struct door_owner *owner, struct error *err);
void door_close(struct door *door); /* accepts NULL */
/* What to poll for: writes at most DOOR_POLLS, returns how many. */
int door_polls(const struct door *door, struct pollfd *out);
/* Returns the milliseconds until someone at the door must be sent away; -1: nobody is there. */
int door_timeout_ms(const struct door *door);
/* After polling; fds as door_polls() wrote them. */
void door_serve(struct door *door, const struct pollfd *fds, int count);
#endif
