/* One connection per pair of ranks and lane, made when it is first used: of the two, the higher rank connects, the
 * lower one's acceptor thread takes it in. So the order of a connection is the order of the lane, a message that nobody
 * waits for stays in the system's buffers, and no lane waits behind another. A lane's own thread moves the bytes,
 * straight from and into its buffers, and sleeps in poll() meanwhile. Nothing is allocated after opening. */
#define _GNU_SOURCE
#include "executor/comm_tcp.h"
#include "executor/door.h"
#include "executor/rendezvous.h"
#include "executor/socket.h"
#include "host/clock.h"
#include "host/parallel.h"
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

enum { ADDRESS_BYTES = SOCKET_HOST_BYTES + STATUS_HOST_BYTES + 16, WHO_BYTES = 64 + ADDRESS_BYTES };
/* When a neighbour is gone, the watchdog learns why a moment later and says it better. */
static const int64_t reason_ns = 2000000000;

enum channel_state { CHANNEL_NONE, CHANNEL_OPENING, CHANNEL_OPEN, CHANNEL_BROKEN };
struct channel {
    enum channel_state state;
    int fd; /* -1 */
};
struct end {
    int rank, rank_count, wake; /* wake: raised for good by an abort */
    struct rendezvous *rendezvous;
    struct door *door;
    int door_wake;
    pthread_t acceptor;
    bool accepting;
    pthread_mutex_t mutex; /* of the channels' states */
    pthread_cond_t opened;
    bool aborted, closing;
    struct channel *channels; /* (rank, lane) */
};

/* What a rank tells the others. */
struct place {
    char host[SOCKET_HOST_BYTES];
    char host_name[STATUS_HOST_BYTES];
    int32_t port;
};

static bool aborted(struct error *err)
{
    return fail_kind(err, ERROR_ENVIRONMENT, "transport tcp: the run was aborted while this rank waited for another");
}

/* A neighbour is gone: gives the watchdog time to say why. False: it has ended the run meanwhile. */
static bool reason_first(struct end *e, struct error *err)
{
    struct pollfd wake = { .fd = e->wake, .events = POLLIN };
    return poll(&wake, 1, (int)(reason_ns / 1000000)) <= 0 || aborted(err);
}

/* ---- the acceptor ---- */
static struct channel *channel_at(struct end *e, int peer, int lane)
{
    return &e->channels[peer * LANE_COUNT + lane];
}

static enum verdict judge(void *self, const struct hello *hello)
{
    struct end *e = self;
    if (hello->purpose != PURPOSE_CHANNEL || hello->lane >= LANE_COUNT)
        return VERDICT_PROTOCOL;
    if (hello->rank_count != (uint32_t)e->rank_count)
        return VERDICT_COUNT;
    if (hello->rank <= (uint32_t)e->rank || hello->rank >= hello->rank_count)
        return VERDICT_RANK;
    pthread_mutex_lock(&e->mutex);
    bool is_new = channel_at(e, (int)hello->rank, (int)hello->lane)->state == CHANNEL_NONE;
    pthread_mutex_unlock(&e->mutex);
    return is_new ? VERDICT_WELCOME : VERDICT_RANK;
}

static void admit(void *self, const struct hello *hello, int fd)
{
    struct end *e = self;
    pthread_mutex_lock(&e->mutex);
    *channel_at(e, (int)hello->rank, (int)hello->lane) = (struct channel){ .state = CHANNEL_OPEN, .fd = fd };
    pthread_cond_broadcast(&e->opened);
    pthread_mutex_unlock(&e->mutex);
}

static void *accept_main(void *argument)
{
    struct end *e = argument;
    struct pollfd fds[DOOR_POLLS + 1];
    for (;;) {
        fds[0] = (struct pollfd){ .fd = e->door_wake, .events = POLLIN };
        int count = door_polls(e->door, fds + 1);
        if (poll(fds, (nfds_t)count + 1, door_timeout_ms(e->door)) < 0 && errno != EINTR)
            return NULL;
        if (fds[0].revents)
            return NULL;
        door_serve(e->door, fds + 1, count);
    }
}

/* ---- opening a channel ---- */
static void place_key(char key[RENDEZVOUS_KEY_BYTES], int rank)
{
    snprintf(key, RENDEZVOUS_KEY_BYTES, "place/%d", rank);
}

static bool find_place(struct end *e, int peer, struct place *out, struct error *err)
{
    char key[RENDEZVOUS_KEY_BYTES];
    size_t bytes;
    place_key(key, peer);
    if (!rendezvous_get(e->rendezvous, key, out, sizeof *out, &bytes, err))
        return false;
    out->host[SOCKET_HOST_BYTES - 1] = out->host_name[STATUS_HOST_BYTES - 1] = '\0';
    return bytes == sizeof *out || fail_kind(err, ERROR_BUG, "transport tcp: '%s' has %zu bytes", key, bytes);
}

static int connect_to(struct end *e, int peer, int lane, struct error *err)
{
    const struct meeting *m = rendezvous_meeting(e->rendezvous);
    struct place place;
    char who[WHO_BYTES];
    if (!find_place(e, peer, &place, err))
        return -1;
    int64_t deadline_ns = m->timeout_s > 0 ? clock_now_ns() + (int64_t)(m->timeout_s * 1e9) : INT64_MAX;
    snprintf(who, sizeof who, "rank %d on host %s at %s port %d", peer, place.host_name, place.host, place.port);
    const struct hello hello = { .purpose = PURPOSE_CHANNEL,
                                 .rank = (uint32_t)e->rank,
                                 .rank_count = (uint32_t)e->rank_count,
                                 .lane = (uint32_t)lane };
    int fd = handshake_meet(place.host, place.port, &hello, m->token, deadline_ns, e->wake, who, err);
    if (fd < 0)
        error_within(err, "transport tcp: rank %d on host %s", peer, place.host_name);
    return fd;
}

/* Connects if that is this side's part and nobody has begun. The caller does not hold the mutex. */
static bool begin_channel(struct end *e, int peer, int lane, struct error *err)
{
    struct channel *c = channel_at(e, peer, lane);
    if (peer < 0 || peer > e->rank)
        return true;
    pthread_mutex_lock(&e->mutex);
    bool mine = c->state == CHANNEL_NONE;
    if (mine)
        c->state = CHANNEL_OPENING;
    pthread_mutex_unlock(&e->mutex);
    if (!mine)
        return true;
    int fd = connect_to(e, peer, lane, err);
    pthread_mutex_lock(&e->mutex);
    *c = (struct channel){ .state = fd >= 0 ? CHANNEL_OPEN : CHANNEL_BROKEN, .fd = fd };
    pthread_cond_broadcast(&e->opened);
    pthread_mutex_unlock(&e->mutex);
    if (fd < 0)
        reason_first(e, NULL);
    return fd >= 0;
}

/* Its descriptor, once it is open; -1: the run has ended. */
static int await_channel(struct end *e, int peer, int lane, struct error *err)
{
    struct channel *c = channel_at(e, peer, lane);
    pthread_mutex_lock(&e->mutex);
    while (!e->aborted && (c->state == CHANNEL_NONE || c->state == CHANNEL_OPENING))
        pthread_cond_wait(&e->opened, &e->mutex);
    int fd = c->state == CHANNEL_OPEN && !e->aborted ? c->fd : -1;
    bool broken = c->state == CHANNEL_BROKEN;
    pthread_mutex_unlock(&e->mutex);
    if (broken && reason_first(e, err))
        fail_kind(err, ERROR_ENVIRONMENT, "transport tcp: the connection to rank %d had failed before", peer);
    else if (fd < 0 && !broken)
        aborted(err);
    return fd;
}

/* ---- moving ---- */
/* A message on its way: 8 bytes that say how many follow, then these. */
struct flow {
    int fd, peer;
    uint64_t head;
    char *data;
    size_t bytes, done; /* done counts the head, too */
};
static const size_t head_bytes = sizeof(uint64_t);

static bool is_open(const struct flow *f)
{
    return f->peer >= 0 && f->done < head_bytes + f->bytes;
}

/* What is left of head and data, for one call of the system. */
static struct msghdr rest_of(struct flow *f, struct iovec parts[2])
{
    size_t head_left = f->done < head_bytes ? head_bytes - f->done : 0, at = head_left ? 0 : f->done - head_bytes;
    parts[0] = (struct iovec){ (char *)&f->head + (head_bytes - head_left), head_left };
    parts[1] = (struct iovec){ f->data ? f->data + at : NULL, f->bytes - at };
    return (struct msghdr){ .msg_iov = parts, .msg_iovlen = 2 };
}

/* True: something moved. *gone: the other side is not there any more. */
static bool push(struct flow *f, bool *gone)
{
    struct iovec parts[2];
    struct msghdr message = rest_of(f, parts);
    ssize_t put = sendmsg(f->fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (put < 0) {
        *gone = errno != EAGAIN && errno != EINTR;
        return false;
    }
    f->done += (size_t)put;
    return true;
}

/* A message of another size than expected may bring bytes of the next one along: the run ends then anyway. */
static bool pull(struct flow *f, bool *gone)
{
    struct iovec parts[2];
    struct msghdr message = rest_of(f, parts);
    ssize_t got = recvmsg(f->fd, &message, MSG_DONTWAIT);
    if (got <= 0) {
        *gone = got == 0 || (errno != EAGAIN && errno != EINTR);
        return false;
    }
    f->done += (size_t)got;
    return true;
}

static void break_channel(struct end *e, int peer, int lane)
{
    pthread_mutex_lock(&e->mutex);
    channel_at(e, peer, lane)->state = CHANNEL_BROKEN; /* closed with the end: another thread may still look at it */
    pthread_mutex_unlock(&e->mutex);
}

static bool neighbour_gone(struct end *e, int peer, int lane, struct error *err)
{
    break_channel(e, peer, lane);
    return reason_first(e, err) &&
           fail_kind(err, ERROR_ENVIRONMENT, "transport tcp: rank %d has closed its connection to rank %d", peer,
                     e->rank);
}

static bool move(struct end *e, int lane, struct flow *out, struct flow *in, struct error *err)
{
    while (is_open(out) || is_open(in)) {
        bool out_gone = false, in_gone = false, moved = false;
        moved |= is_open(out) && push(out, &out_gone);
        moved |= is_open(in) && pull(in, &in_gone);
        if (out_gone || in_gone)
            return neighbour_gone(e, in_gone ? in->peer : out->peer, lane, err);
        if (in->peer >= 0 && in->done >= head_bytes && in->head != in->bytes) {
            break_channel(e, in->peer, lane);
            return fail_kind(err, ERROR_ENVIRONMENT, "transport tcp: expected %zu bytes from rank %d, found %llu",
                             in->bytes, in->peer, (unsigned long long)in->head);
        }
        if (moved)
            continue;
        struct pollfd fds[3] = { { .fd = e->wake, .events = POLLIN },
                                 { .fd = is_open(out) ? out->fd : -1, .events = POLLOUT },
                                 { .fd = is_open(in) ? in->fd : -1, .events = POLLIN } };
        if (poll(fds, 3, -1) > 0 && fds[0].revents)
            return aborted(err);
    }
    return true;
}

static bool exchange(void *self, enum lane lane, int to, const void *send, size_t send_bytes, int from, void *receive,
                     size_t receive_bytes, struct error *err)
{
    struct end *e = self;
    struct flow out = {
        .fd = -1, .peer = to, .head = send_bytes, .data = (char *)(uintptr_t)send, .bytes = send_bytes
    };
    struct flow in = { .fd = -1, .peer = from, .data = receive, .bytes = receive_bytes };
    /* first what this side begins, then what it waits for: so no ring of ranks waits for each other */
    if (!begin_channel(e, to, (int)lane, err) || !begin_channel(e, from, (int)lane, err))
        return false;
    if ((to >= 0 && (out.fd = await_channel(e, to, (int)lane, err)) < 0) ||
        (from >= 0 && (in.fd = await_channel(e, from, (int)lane, err)) < 0))
        return false;
    return move(e, (int)lane, &out, &in, err);
}

/* ---- ending ---- */
static void abort_here(void *self)
{
    struct end *e = self;
    pthread_mutex_lock(&e->mutex);
    e->aborted = true;
    pthread_cond_broadcast(&e->opened);
    pthread_mutex_unlock(&e->mutex);
    wake_raise(e->wake);
}

static void abort_all(void *self)
{
    struct end *e = self;
    abort_here(e);
    rendezvous_abort(e->rendezvous);
}

static bool was_aborted(void *self)
{
    struct end *e = self;
    pthread_mutex_lock(&e->mutex);
    bool is = e->aborted;
    pthread_mutex_unlock(&e->mutex);
    return is;
}

static void watch(void *self, struct status *status)
{
    struct end *e = self;
    rendezvous_watch(e->rendezvous, status);
}

static void close_end(void *self)
{
    struct end *e = self;
    if (e->accepting) {
        wake_raise(e->door_wake);
        pthread_join(e->acceptor, NULL);
    }
    rendezvous_close(e->rendezvous); /* its thread may call abort_here() until then */
    door_close(e->door);
    for (int i = 0; e->channels && i < e->rank_count * LANE_COUNT; i++)
        if (e->channels[i].fd >= 0)
            close(e->channels[i].fd);
    if (e->wake >= 0)
        close(e->wake);
    if (e->door_wake >= 0)
        close(e->door_wake);
    pthread_cond_destroy(&e->opened);
    pthread_mutex_destroy(&e->mutex);
    free(e->channels);
    free(e);
}

/* ---- beginning ---- */
static struct end *end_new(const struct meeting *meeting)
{
    struct end *e = calloc(1, sizeof *e);
    if (!e)
        return NULL;
    *e = (struct end){
        .rank = meeting->rank, .rank_count = meeting->rank_count, .wake = wake_new(), .door_wake = wake_new()
    };
    pthread_mutex_init(&e->mutex, NULL);
    pthread_cond_init(&e->opened, NULL);
    e->channels = calloc((size_t)meeting->rank_count * LANE_COUNT, sizeof *e->channels);
    for (int i = 0; e->channels && i < meeting->rank_count * LANE_COUNT; i++)
        e->channels[i].fd = -1;
    return e;
}

/* Listens on the address by which this process reached rank 0, and tells all. */
static bool take_place(struct end *e, struct error *err)
{
    const struct meeting *m = rendezvous_meeting(e->rendezvous);
    const struct door_owner owner = { .self = e, .judge = judge, .admit = admit };
    struct place place = { 0 };
    char key[RENDEZVOUS_KEY_BYTES];
    int listener = socket_listen(rendezvous_own_address(e->rendezvous), 0, err), port;
    if (listener < 0)
        return false;
    bool known = socket_own_address(listener, place.host, &port);
    if (!door_open(&e->door, listener, m->token, &owner, err))
        return false;
    if (!known)
        return fail_kind(err, ERROR_ENVIRONMENT, "transport tcp: the system does not tell this rank's address");
    place.port = port;
    memcpy(place.host_name, m->host_name, sizeof place.host_name);
    if (!thread_start(&e->acceptor, accept_main, e, "transport tcp", err))
        return false;
    e->accepting = true;
    place_key(key, e->rank);
    return rendezvous_put(e->rendezvous, key, &place, sizeof place, err);
}

bool comm_tcp_open(struct transport *out, const struct meeting *meeting, struct error *err)
{
    struct end *e = end_new(meeting);
    if (!e)
        return fail_kind(err, ERROR_ENVIRONMENT, "transport tcp: out of memory");
    bool ok = (e->channels && e->wake >= 0 && e->door_wake >= 0) ||
              fail_kind(err, ERROR_ENVIRONMENT, "transport tcp: out of memory or descriptors");
    ok = ok && rendezvous_open(&e->rendezvous, meeting, abort_here, e, err) && take_place(e, err);
    if (!ok) {
        close_end(e);
        return false;
    }
    *out = (struct transport){ .name = "tcp",
                               .rank = e->rank,
                               .rank_count = e->rank_count,
                               .self = e,
                               .rendezvous = e->rendezvous,
                               .exchange = exchange,
                               .abort = abort_all,
                               .aborted = was_aborted,
                               .close = close_end,
                               .watch = watch };
    return true;
}
