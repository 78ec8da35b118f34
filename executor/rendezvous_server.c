/* One thread, which polls: nothing here waits for one process. What cannot be sent at once is kept, up to a bound. */
#define _POSIX_C_SOURCE 200809L
#include "base/num.h"
#include "base/text.h"
#include "executor/door.h"
#include "executor/rendezvous_wire.h"
#include "host/clock.h"
#include "host/parallel.h"
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { TICK_MS = 250, KEPT_BYTES_MAX = 4 << 20, SMALL_JOB = 64, VALUES_MAX = 1 << 20, FAREWELL_MS = 1000 };
static const int64_t full_view_ns = 5000000000; /* between two views with all lines, in a large job */

struct stored {
    char *key; /* the bytes of the value lie behind it */
    void *data;
    size_t bytes;
    int teller;
    struct stored *next;
};
struct client {
    int fd; /* -1: not here */
    bool left;
    int64_t heard_ns, full_view_ns;
    size_t got;
    unsigned char in[sizeof(struct frame) + REQUEST_BYTES];
    struct text out; /* not sent yet */
};
/* A client asked for a value that is not there yet. */
struct wish {
    int rank;
    uint32_t serial;
    char key[RENDEZVOUS_KEY_BYTES + 1];
    struct wish *next;
};
struct rendezvous_server {
    pthread_t thread;
    int wake, rank_count;
    int64_t silence_ns;
    struct door *door;
    struct client **clients;    /* (rank_count) NULL: never came */
    struct client *next_client; /* for who is welcome next, so that there is memory for whoever is; NULL: none yet */
    struct status_line *lines;  /* (rank_count) */
    struct pollfd *polls;       /* (rank_count + DOOR_POLLS + 1) */
    struct stored *values;
    struct wish *wishes;
    int value_count, wish_count, failed;
    bool aborted;
};

bool frame_is_request(const struct frame *f)
{
    switch ((enum frame_kind)f->kind) {
    case FRAME_PUT:
        return f->key_bytes > 0 && f->key_bytes <= RENDEZVOUS_KEY_BYTES && f->value_bytes <= RENDEZVOUS_VALUE_BYTES;
    case FRAME_GET:
        return f->key_bytes > 0 && f->key_bytes <= RENDEZVOUS_KEY_BYTES && f->value_bytes == 0;
    case FRAME_BEAT:
        return f->key_bytes == 0 && f->value_bytes == sizeof(struct beat);
    case FRAME_ABORT:
    case FRAME_FAREWELL:
        return f->key_bytes == 0 && f->value_bytes == 0;
    case FRAME_DONE:
    case FRAME_REFUSED:
    case FRAME_VIEW:
    case FRAME_NO_MEMORY:
        break;
    }
    return false;
}

/* ---- sending ---- */
static void flush_out(struct rendezvous_server *s, int rank)
{
    struct client *c = s->clients[rank];
    size_t done = 0;
    while (c->fd >= 0 && done < c->out.length) {
        ssize_t put = send(c->fd, c->out.data + done, c->out.length - done, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (put < 0)
            break; /* a closed connection shows itself when it is read */
        done += (size_t)put;
    }
    if (done > 0) {
        memmove(c->out.data, c->out.data + done, c->out.length - done);
        c->out.length -= done;
    }
}

/* Keeps a frame, whose body is of two pieces, until it is sent: the whole of it, or, where memory is short, nothing. */
static void keep_frame(struct client *c, const struct frame *frame, const void *first, size_t first_bytes,
                       const void *second)
{
    const size_t whole = c->out.length;
    text_add_bytes(&c->out, (const char *)frame, sizeof *frame);
    text_add_bytes(&c->out, first, first_bytes);
    text_add_bytes(&c->out, second, frame->value_bytes - first_bytes);
    if (c->out.failed)
        c->out.length = whole;
}

static void send_frame(struct rendezvous_server *s, int rank, enum frame_kind kind, uint32_t serial, const void *body,
                       size_t bytes)
{
    struct client *c = s->clients[rank];
    const struct frame frame = { .kind = (uint32_t)kind, .serial = serial, .value_bytes = (uint32_t)bytes };
    if (!c || c->fd < 0 || c->out.length + bytes > KEPT_BYTES_MAX)
        return;
    keep_frame(c, &frame, body, bytes, NULL);
    flush_out(s, rank);
}

static void send_view(struct rendezvous_server *s, int rank, bool all)
{
    struct client *c = s->clients[rank];
    struct view_head head = { .failed = s->failed };
    int64_t now = clock_now_ns();
    if (!c || c->fd < 0)
        return;
    const size_t least = c->out.length + sizeof(struct frame) + sizeof head;
    all = all || s->rank_count <= SMALL_JOB || now - c->full_view_ns > full_view_ns;
    all = all && least + (size_t)s->rank_count * sizeof *s->lines <= KEPT_BYTES_MAX;
    if (least > KEPT_BYTES_MAX)
        return;
    if (all)
        c->full_view_ns = now, head.line_count = (uint32_t)s->rank_count;
    for (int r = 0; r < s->rank_count; r++)
        head.progress += s->lines[r].progress;
    size_t lines = head.line_count * sizeof *s->lines;
    const struct frame frame = { .kind = FRAME_VIEW, .value_bytes = (uint32_t)(sizeof head + lines) };
    keep_frame(c, &frame, &head, sizeof head, s->lines);
    flush_out(s, rank);
}

static void tell_all(struct rendezvous_server *s, bool abort)
{
    for (int r = 0; r < s->rank_count; r++) {
        send_view(s, r, true);
        if (abort)
            send_frame(s, r, FRAME_ABORT, 0, NULL, 0);
    }
}

static void hang_up(struct client *c)
{
    close(c->fd);
    c->fd = -1;
    c->out.length = 0;
}

/* The process is gone, or silent, and had not said farewell: the others cannot go on. */
static void lose(struct rendezvous_server *s, int rank, enum rank_state how)
{
    struct client *c = s->clients[rank];
    hang_up(c);
    if (c->left)
        return;
    s->lines[rank].rank = rank;
    s->lines[rank].state = (int32_t)how;
    s->aborted = true;
    tell_all(s, true);
}

/* ---- the store ---- */
static struct stored *find_value(const struct rendezvous_server *s, const char *key)
{
    struct stored *value = s->values;
    while (value && strcmp(value->key, key) != 0)
        value = value->next;
    return value;
}

static bool store(struct rendezvous_server *s, int teller, const char *key, const void *data, size_t bytes)
{
    struct stored *old = find_value(s, key);
    if (old)
        return old->bytes == bytes && (bytes == 0 || memcmp(old->data, data, bytes) == 0);
    size_t key_bytes = strlen(key) + 1;
    struct stored *value = s->value_count < VALUES_MAX ? malloc(sizeof *value + key_bytes + bytes) : NULL;
    if (!value)
        return false;
    *value = (struct stored){ .key = (char *)(value + 1), .bytes = bytes, .teller = teller, .next = s->values };
    value->data = value->key + key_bytes;
    memcpy(value->key, key, key_bytes);
    if (bytes > 0)
        memcpy(value->data, data, bytes);
    s->values = value;
    s->value_count++;
    return true;
}

/* Answers all who asked for the key, now that it has a value. */
static void grant_wishes(struct rendezvous_server *s, const struct stored *value)
{
    for (struct wish **at = &s->wishes; *at;) {
        struct wish *wish = *at;
        if (strcmp(wish->key, value->key) != 0) {
            at = &wish->next;
            continue;
        }
        *at = wish->next;
        s->wish_count--;
        send_frame(s, wish->rank, FRAME_DONE, wish->serial, value->data, value->bytes);
        free(wish);
    }
}

static void take_wish(struct rendezvous_server *s, int rank, uint32_t serial, const char *key)
{
    const struct stored *value = find_value(s, key);
    struct wish *wish = value || s->wish_count == VALUES_MAX ? NULL : malloc(sizeof *wish);
    if (wish) {
        *wish = (struct wish){ .rank = rank, .serial = serial, .next = s->wishes };
        memcpy(wish->key, key, sizeof wish->key);
        s->wishes = wish;
        s->wish_count++;
        return;
    }
    const int32_t nobody = -1;
    if (value)
        send_frame(s, rank, FRAME_DONE, serial, value->data, value->bytes);
    else
        send_frame(s, rank, FRAME_REFUSED, serial, &nobody, sizeof nobody);
}

/* ---- what comes in ---- */
static void take_beat(struct rendezvous_server *s, int rank, const struct beat *beat)
{
    s->lines[rank] = beat->line;
    s->lines[rank].rank = rank;
    s->lines[rank].host[STATUS_HOST_BYTES - 1] = '\0';
    bool news = is_index(beat->failed, s->rank_count) && s->failed < 0;
    if (news) {
        s->failed = beat->failed;
        tell_all(s, false);
    } else {
        send_view(s, rank, false);
    }
}

static void take_request(struct rendezvous_server *s, int rank, const struct frame *frame, const unsigned char *body)
{
    char key[RENDEZVOUS_KEY_BYTES + 1] = "";
    memcpy(key, body, frame->key_bytes);
    switch ((enum frame_kind)frame->kind) {
    case FRAME_PUT: {
        bool stored = store(s, rank, key, body + frame->key_bytes, frame->value_bytes);
        const struct stored *value = find_value(s, key);
        const int32_t teller = value ? value->teller : -1;
        send_frame(s, rank, stored ? FRAME_DONE : FRAME_REFUSED, frame->serial, &teller, stored ? 0 : sizeof teller);
        if (stored)
            grant_wishes(s, value);
        return;
    }
    case FRAME_GET:
        take_wish(s, rank, frame->serial, key);
        return;
    case FRAME_BEAT: {
        struct beat beat;
        memcpy(&beat, body, sizeof beat);
        take_beat(s, rank, &beat);
        return;
    }
    case FRAME_ABORT:
        if (!s->aborted) {
            s->aborted = true;
            tell_all(s, true);
        }
        return;
    case FRAME_FAREWELL:
    case FRAME_DONE: /* these four are no requests: take_frames() sends who says them away */
    case FRAME_REFUSED:
    case FRAME_VIEW:
    case FRAME_NO_MEMORY:
        s->clients[rank]->left |= frame->kind == FRAME_FAREWELL;
        return;
    }
}

/* Takes what is whole of what has come. False: nonsense. */
static bool take_frames(struct rendezvous_server *s, int rank)
{
    struct client *c = s->clients[rank];
    size_t at = 0;
    struct frame frame;
    while (c->fd >= 0 && c->got - at >= sizeof frame) {
        memcpy(&frame, c->in + at, sizeof frame);
        if (!frame_is_request(&frame))
            return false;
        size_t bytes = sizeof frame + frame.key_bytes + frame.value_bytes;
        if (c->got - at < bytes)
            break;
        take_request(s, rank, &frame, c->in + at + sizeof frame);
        at += bytes;
    }
    memmove(c->in, c->in + at, c->got - at);
    c->got -= at;
    return true;
}

static void listen_to(struct rendezvous_server *s, int rank)
{
    struct client *c = s->clients[rank];
    ssize_t got = recv(c->fd, c->in + c->got, sizeof c->in - c->got, MSG_DONTWAIT);
    if (got < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    c->got += got > 0 ? (size_t)got : 0;
    c->heard_ns = clock_now_ns();
    if (got <= 0)
        lose(s, rank, RANK_LOST);
    else if (!take_frames(s, rank))
        lose(s, rank, RANK_LYING);
}

/* ---- the door ---- */
static enum verdict judge(void *self, const struct hello *hello)
{
    struct rendezvous_server *s = self;
    if (hello->purpose != PURPOSE_RENDEZVOUS)
        return VERDICT_PROTOCOL;
    if (hello->rank_count != (uint32_t)s->rank_count)
        return VERDICT_COUNT;
    if (hello->rank >= hello->rank_count || s->clients[hello->rank])
        return VERDICT_RANK;
    if (!s->next_client)
        s->next_client = calloc(1, sizeof *s->next_client);
    return s->next_client ? VERDICT_WELCOME : VERDICT_MEMORY;
}

static void admit(void *self, const struct hello *hello, int fd)
{
    struct rendezvous_server *s = self;
    struct client *c = s->next_client;
    s->next_client = NULL;
    c->fd = fd;
    c->heard_ns = clock_now_ns();
    s->clients[hello->rank] = c;
    if (s->aborted)
        send_frame(s, (int)hello->rank, FRAME_ABORT, 0, NULL, 0);
}

/* ---- the thread ---- */
static int fill_polls(struct rendezvous_server *s, int *door_count)
{
    int count = 1;
    s->polls[0] = (struct pollfd){ .fd = s->wake, .events = POLLIN };
    *door_count = door_polls(s->door, s->polls + count);
    count += *door_count;
    for (int r = 0; r < s->rank_count; r++) {
        const struct client *c = s->clients[r];
        s->polls[count++] =
            (struct pollfd){ .fd = c ? c->fd : -1, .events = (short)(POLLIN | (c && c->out.length > 0 ? POLLOUT : 0)) };
    }
    return count;
}

static void look_for_silence(struct rendezvous_server *s)
{
    int64_t now = clock_now_ns();
    for (int r = 0; r < s->rank_count; r++)
        if (s->clients[r] && s->clients[r]->fd >= 0 && now - s->clients[r]->heard_ns > s->silence_ns)
            lose(s, r, RANK_SILENT);
}

/* One round; false: the owner wants to close. */
static bool serve(struct rendezvous_server *s)
{
    int door_count, count = fill_polls(s, &door_count);
    if (poll(s->polls, (nfds_t)count, TICK_MS) < 0 && errno != EINTR)
        return false;
    bool go_on = !s->polls[0].revents;
    struct pollfd *of_clients = s->polls + 1 + door_count;
    for (int r = 0; r < s->rank_count; r++) {
        struct client *c = s->clients[r];
        if (!c || c->fd < 0 || of_clients[r].fd != c->fd)
            continue;
        if (of_clients[r].revents & POLLOUT)
            flush_out(s, r);
        if (of_clients[r].revents & ~POLLOUT)
            listen_to(s, r);
        if (c->fd >= 0 && c->out.failed) {
            const struct frame frame = { .kind = FRAME_NO_MEMORY };
            flush_out(s, r);
            send(c->fd, &frame, c->out.length == 0 ? sizeof frame : 0, MSG_NOSIGNAL | MSG_DONTWAIT);
            lose(s, r, RANK_LOST);
        }
    }
    door_serve(s->door, s->polls + 1, door_count);
    if (s->silence_ns != INT64_MAX)
        look_for_silence(s);
    return go_on;
}

/* A connection that is closed before the other side has read everything can lose the last words. */
static void bid_farewell(struct rendezvous_server *s)
{
    int64_t until_ns = clock_now_ns() + (int64_t)FAREWELL_MS * 1000000;
    int here = 0;
    for (int r = 0; r < s->rank_count; r++) {
        send_frame(s, r, FRAME_FAREWELL, 0, NULL, 0);
        if (s->clients[r])
            s->clients[r]->left = true;
    }
    do {
        here = 0;
        int count = 0;
        for (int r = 0; r < s->rank_count; r++) {
            struct client *c = s->clients[r];
            if (!c || c->fd < 0)
                continue;
            flush_out(s, r);
            char waste[512];
            ssize_t got = recv(c->fd, waste, sizeof waste, MSG_DONTWAIT);
            if (got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR))
                hang_up(c);
            else
                here++, s->polls[count++] = (struct pollfd){ .fd = c->fd, .events = POLLIN };
        }
        if (here > 0)
            poll(s->polls, (nfds_t)count, TICK_MS);
    } while (here > 0 && clock_now_ns() < until_ns);
}

static void *server_main(void *argument)
{
    struct rendezvous_server *s = argument;
    while (serve(s))
        continue;
    bid_farewell(s);
    return NULL;
}

/* ---- life ---- */
static void server_free(struct rendezvous_server *s)
{
    for (int r = 0; s->clients && r < s->rank_count; r++) {
        if (!s->clients[r])
            continue;
        if (s->clients[r]->fd >= 0)
            close(s->clients[r]->fd);
        text_free(&s->clients[r]->out);
        free(s->clients[r]);
    }
    for (struct stored *value = s->values, *next; value; value = next) {
        next = value->next;
        free(value);
    }
    for (struct wish *wish = s->wishes, *next; wish; wish = next) {
        next = wish->next;
        free(wish);
    }
    free(s->next_client);
    door_close(s->door);
    if (s->wake >= 0)
        close(s->wake);
    free(s->clients);
    free(s->lines);
    free(s->polls);
    free(s);
}

bool rendezvous_server_open(struct rendezvous_server **out, int listener, int rank_count, const char *token,
                            int64_t silence_ns, struct error *err)
{
    struct rendezvous_server *s = calloc(1, sizeof *s);
    if (!s) {
        close(listener);
        return fail_kind(err, ERROR_ENVIRONMENT, "no memory for the rendezvous");
    }
    const struct door_owner owner = { .self = s, .judge = judge, .admit = admit };
    *s = (struct rendezvous_server){
        .wake = wake_new(), .rank_count = rank_count, .silence_ns = silence_ns, .failed = -1
    };
    s->clients = calloc((size_t)rank_count, sizeof(struct client *));
    s->lines = calloc((size_t)rank_count, sizeof *s->lines);
    s->polls = calloc((size_t)rank_count + DOOR_POLLS + 1, sizeof *s->polls);
    bool ok = door_open(&s->door, listener, token, &owner, err);
    if (ok && (!s->clients || !s->lines || !s->polls || s->wake < 0))
        ok = fail_kind(err, ERROR_ENVIRONMENT, "no memory for a rendezvous of %d ranks", rank_count);
    for (int r = 0; ok && r < rank_count; r++)
        s->lines[r].rank = r;
    if (!ok || !thread_start(&s->thread, server_main, s, "the rendezvous", err)) {
        server_free(s);
        return false;
    }
    *out = s;
    return true;
}

void rendezvous_server_close(struct rendezvous_server *s)
{
    if (!s)
        return;
    wake_raise(s->wake);
    pthread_join(s->thread, NULL);
    server_free(s);
}
