#include "executor/door.h"
#include "executor/socket.h"
#include "host/clock.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static const int64_t patience_ns = 5000000000;
enum { SLICE_MS = 500, REST_NS = 1000000 };

struct visitor {
    int fd; /* -1: the place is free */
    int64_t since_ns;
    size_t got;
    unsigned char greeting[GREETING_BYTES], hello[HELLO_BYTES];
};
struct door {
    int listener;
    const char *token;
    struct door_owner owner;
    struct visitor visitors[DOOR_PLACES];
};

bool door_open(struct door **out, int listener, const char *token, const struct door_owner *owner, struct error *err)
{
    struct door *door = calloc(1, sizeof *door);
    if (!door) {
        close(listener);
        return fail_kind(err, ERROR_ENVIRONMENT, "out of memory");
    }
    *door = (struct door){ .listener = listener, .token = token, .owner = *owner };
    for (int i = 0; i < DOOR_PLACES; i++)
        door->visitors[i].fd = -1;
    *out = door;
    return true;
}

void door_close(struct door *door)
{
    if (!door)
        return;
    for (int i = 0; i < DOOR_PLACES; i++)
        if (door->visitors[i].fd >= 0)
            close(door->visitors[i].fd);
    close(door->listener);
    free(door);
}

int door_polls(const struct door *door, struct pollfd *out)
{
    int count = 0;
    for (int i = 0; i < DOOR_PLACES; i++)
        if (door->visitors[i].fd >= 0)
            out[count++] = (struct pollfd){ .fd = door->visitors[i].fd, .events = POLLIN };
    if (count < DOOR_PLACES) /* else the others wait in the system's queue */
        out[count++] = (struct pollfd){ .fd = door->listener, .events = POLLIN };
    return count;
}

int door_timeout_ms(const struct door *door)
{
    for (int i = 0; i < DOOR_PLACES; i++)
        if (door->visitors[i].fd >= 0)
            return SLICE_MS;
    return -1;
}

static void send_away(struct visitor *visitor)
{
    close(visitor->fd);
    visitor->fd = -1;
}

static void let_in(struct door *door)
{
    struct visitor *visitor = door->visitors;
    while (visitor < door->visitors + DOOR_PLACES && visitor->fd >= 0)
        visitor++;
    int fd = visitor < door->visitors + DOOR_PLACES ? socket_accept(door->listener) : -1;
    if (fd < 0) { /* gone again; or no descriptors are left, which lasts */
        clock_sleep_until_ns(clock_now_ns() + REST_NS);
        return;
    }
    *visitor = (struct visitor){ .fd = fd, .since_ns = clock_now_ns() };
    /* so few bytes always find room in a new socket */
    if (!greeting_make(visitor->greeting) ||
        socket_write(fd, visitor->greeting, GREETING_BYTES, clock_now_ns(), -1) != SOCKET_DONE)
        send_away(visitor);
}

static void answer(struct door *door, struct visitor *visitor)
{
    unsigned char bytes[VERDICT_BYTES];
    struct hello hello;
    enum verdict verdict = hello_check(&hello, visitor->hello, visitor->greeting, door->token);
    if (verdict == VERDICT_WELCOME)
        verdict = door->owner.judge(door->owner.self, &hello);
    verdict_make(bytes, verdict, visitor->hello, visitor->greeting, door->token);
    bool sent = socket_write(visitor->fd, bytes, sizeof bytes, clock_now_ns(), -1) == SOCKET_DONE;
    if (verdict != VERDICT_WELCOME || !sent) {
        send_away(visitor);
        return;
    }
    door->owner.admit(door->owner.self, &hello, visitor->fd);
    visitor->fd = -1;
}

static void listen_to(struct door *door, struct visitor *visitor)
{
    ssize_t got = recv(visitor->fd, visitor->hello + visitor->got, HELLO_BYTES - visitor->got, 0);
    if (got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR)) {
        send_away(visitor);
        return;
    }
    visitor->got += got > 0 ? (size_t)got : 0;
    if (visitor->got == HELLO_BYTES)
        answer(door, visitor);
}

void door_serve(struct door *door, const struct pollfd *fds, int count)
{
    int64_t now = clock_now_ns();
    for (int i = 0; i < count; i++) {
        if (fds[i].fd == door->listener && fds[i].revents) {
            let_in(door);
            continue;
        }
        for (int v = 0; v < DOOR_PLACES; v++)
            if (door->visitors[v].fd == fds[i].fd && fds[i].revents)
                listen_to(door, &door->visitors[v]);
    }
    for (int v = 0; v < DOOR_PLACES; v++)
        if (door->visitors[v].fd >= 0 && now - door->visitors[v].since_ns > patience_ns)
            send_away(&door->visitors[v]);
}
