/* TCP sockets that never block and can be woken: every wait also watches a `wake` descriptor (an eventfd; -1: none) and
 * a deadline (clock_now_ns(); INT64_MAX: none). All are close-on-exec and without Nagle's delay. */
#ifndef CLEAVE_EXECUTOR_SOCKET_H
#define CLEAVE_EXECUTOR_SOCKET_H
#include "base/error.h"
#include <stddef.h>
#include <stdint.h>

enum { SOCKET_HOST_BYTES = 256, SOCKET_ORIGIN_BYTES = 16 };
enum socket_end { SOCKET_DONE, SOCKET_CLOSED, SOCKET_WOKEN, SOCKET_LATE };
const char *socket_end_text(enum socket_end end);

/* Listens on the one address that the name stands for; port 0: any free one. -1: err says why. */
int socket_listen(const char *host, int port, struct error *err);
/* Tells whether a descriptor that was handed down is a socket that listens. */
bool socket_is_listening(int fd);
/* Tries again while nobody listens, until the deadline. -1: err says why. */
int socket_connect(const char *host, int port, int64_t deadline_ns, int wake, struct error *err);
/* Waits the moment between two attempts. False: the deadline or the wake came first. */
bool socket_rest(int64_t deadline_ns, int wake);
/* The next connection that waits, or -1 and errno. origin: who can be told from whom by address: all of IPv4, of IPv6
 * the network of 64 bits, of whose addresses one machine may have any number. */
int socket_accept(int listener, unsigned char origin[SOCKET_ORIGIN_BYTES]);
/* Exactly so many bytes. */
enum socket_end socket_read(int fd, void *data, size_t bytes, int64_t deadline_ns, int wake);
enum socket_end socket_write(int fd, const void *data, size_t bytes, int64_t deadline_ns, int wake);
/* The numeric address and port of this side. */
bool socket_own_address(int fd, char host[SOCKET_HOST_BYTES], int *port);

/* The number-th of this host's IPv4 addresses in networks that are up, its own loopback left out. False: it has no so
 * many; out is then that of the loopback. */
bool socket_network_address(int number, char out[SOCKET_HOST_BYTES]);

/* Descriptors that wake: once one is raised, all waits on it end at once, from then on. */
int wake_new(void); /* -1: none left */
void wake_raise(int wake);
#endif
