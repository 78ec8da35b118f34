#include "executor/door.h"
#include "executor/socket.h"
#include "host/clock.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* A visitor may stay for the first while nobody needs its place, and has it to itself for the second: an answer takes
 * a round trip, and the time that a busy machine takes to run who answers. */
static const int64_t patience_ns = 5000000000, answer_ns = 50000000;
enum { SLICE_MS = 500, REST_NS = 1000000, KNOCKS_PER_ROUND = 256 };

struct visitor {
    int fd; /* -1: the place is free */
    int64_t since_ns;
    unsigned char origin[SOCKET_ORIGIN_BYTES];
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

static bool is_from(const struct visitor *visitor, const unsigned char *origin)
{
    return visitor->fd >= 0 && (!origin || memcmp(visitor->origin, origin, SOCKET_ORIGIN_BYTES) == 0);
}

/* How many visitors are of one origin (NULL: of any), and who of them came first. */
static int count_visitors(struct door *door, const unsigned char *origin, struct visitor **oldest)
{
    int count = 0;
    *oldest = NULL;
    for (struct visitor *v = door->visitors; v < door->visitors + DOOR_PLACES; v++) {
        if (!is_from(v, origin))
            continue;
        count++;
        if (!*oldest || v->since_ns < (*oldest)->since_ns)
            *oldest = v;
    }
    return count;
}

/* The oldest visitor of the origin that has the most places: who knocks most often makes room. */
static struct visitor *most_frequent(struct door *door)
{
    struct visitor *found = NULL;
    int most = 0;
    for (struct visitor *v = door->visitors; v < door->visitors + DOOR_PLACES; v++) {
        struct visitor *oldest = NULL;
        int count = v->fd >= 0 ? count_visitors(door, v->origin, &oldest) : 0;
        if (oldest && (count > most || (count == most && oldest->since_ns < found->since_ns)))
            most = count, found = oldest;
    }
    return found;
}

/* A free place, made free if need be; NULL: the visitor who would have to leave has only just come. */
static struct visitor *find_place(struct door *door, const unsigned char *origin)
{
    struct visitor *leaves, *place = door->visitors;
    while (place < door->visitors + DOOR_PLACES && place->fd >= 0)
        place++;
    bool is_full = place == door->visitors + DOOR_PLACES;
    if (count_visitors(door, origin, &leaves) < DOOR_PLACES_OF_ONE) {
        if (!is_full)
            return place;
        leaves = most_frequent(door);
    }
    if (clock_now_ns() - leaves->since_ns < answer_ns)
        return NULL;
    send_away(leaves);
    return leaves;
}

static void greet(struct door *door, int fd, const unsigned char *origin)
{
    struct visitor *visitor = find_place(door, origin);
    if (!visitor) {
        close(fd);
        return;
    }
    *visitor = (struct visitor){ .fd = fd, .since_ns = clock_now_ns() };
    memcpy(visitor->origin, origin, sizeof visitor->origin);
    /* so few bytes always find room in a new socket */
    if (!greeting_make(visitor->greeting) ||
        socket_write(fd, visitor->greeting, GREETING_BYTES, clock_now_ns(), -1) != SOCKET_DONE)
        send_away(visitor);
}

static void let_in(struct door *door)
{
    unsigned char origin[SOCKET_ORIGIN_BYTES];
    for (int i = 0; i < KNOCKS_PER_ROUND; i++) {
        int fd = socket_accept(door->listener, origin);
        if (fd >= 0) {
            greet(door, fd, origin);
            continue;
        }
        struct visitor *oldest;
        if (errno == EAGAIN || errno == EINTR || errno == ECONNABORTED)
            return;
        if (count_visitors(door, NULL, &oldest) > 0) /* no descriptors are left: one must come back */
            send_away(oldest);
        else
            clock_sleep_until_ns(clock_now_ns() + REST_NS);
        return;
    }
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

/* Who has answered is heard before anyone has to make room. */
void door_serve(struct door *door, const struct pollfd *fds, int count)
{
    bool knocks = false;
    for (int i = 0; i < count; i++) {
        knocks = knocks || (fds[i].fd == door->listener && fds[i].revents);
        for (int v = 0; v < DOOR_PLACES; v++)
            if (door->visitors[v].fd == fds[i].fd && fds[i].revents)
                listen_to(door, &door->visitors[v]);
    }
    if (knocks)
        let_in(door);
    int64_t now = clock_now_ns();
    for (int v = 0; v < DOOR_PLACES; v++)
        if (door->visitors[v].fd >= 0 && now - door->visitors[v].since_ns > patience_ns)
            send_away(&door->visitors[v]);
}
