/* The process' side: one thread reads all that rank 0 says, sends the status, and wakes who waits for an answer. */
#define _POSIX_C_SOURCE 200809L
#include "base/num.h"
#include "executor/rendezvous.h"
#include "executor/rendezvous_wire.h"
#include "host/clock.h"
#include "host/parallel.h"
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { BEAT_MS = 250, WHO_BYTES = SOCKET_HOST_BYTES + 64 };
/* A page that is watched says more than an abort can: its watchdog gets this long. */
static const int64_t explain_ns = 1000000000, write_ns = 10000000000, farewell_ns = 1000000000;

/* One call of put or get; lies on the caller's stack until it is answered. */
struct request {
    uint32_t serial;
    bool answered, refused;
    int32_t teller; /* of a refused value: who told it before */
    void *out;      /* NULL: no value is wanted */
    size_t capacity, bytes;
    struct request *next;
};
struct rendezvous {
    struct meeting meeting;
    struct rendezvous_server *server; /* in rank 0's process */
    pthread_t thread;
    bool running;
    int fd, wake;
    char own_address[SOCKET_HOST_BYTES], who[WHO_BYTES];
    void (*on_abort)(void *context);
    void *context;
    int64_t silence_ns, heard_ns, abort_at_ns; /* of the thread */
    struct view_head head;
    struct status_line *lines; /* (rank_count) of the last view; of the thread */

    pthread_mutex_t status_mutex; /* held while the page is used */
    struct status *status;

    pthread_mutex_t write_mutex; /* a frame is written whole */

    pthread_mutex_t mutex; /* the rest */
    pthread_cond_t changed;
    bool closing, gone, aborted, short_of_memory;
    uint32_t serial;
    struct request *requests;
};

const struct meeting *rendezvous_meeting(const struct rendezvous *r)
{
    return &r->meeting;
}

const char *rendezvous_own_address(const struct rendezvous *r)
{
    return r->own_address;
}

bool frame_is_answer(const struct frame *f, int rank_count)
{
    switch ((enum frame_kind)f->kind) {
    case FRAME_DONE:
        return f->key_bytes == 0 && f->value_bytes <= RENDEZVOUS_VALUE_BYTES;
    case FRAME_VIEW:
        return f->key_bytes == 0 &&
               (f->value_bytes == sizeof(struct view_head) ||
                f->value_bytes == sizeof(struct view_head) + (size_t)rank_count * sizeof(struct status_line));
    case FRAME_REFUSED:
        return f->key_bytes == 0 && f->value_bytes == sizeof(int32_t);
    case FRAME_ABORT:
    case FRAME_FAREWELL:
    case FRAME_NO_MEMORY:
        return f->key_bytes == 0 && f->value_bytes == 0;
    case FRAME_PUT:
    case FRAME_GET:
    case FRAME_BEAT:
        break;
    }
    return false;
}

/* ---- saying ---- */
static bool say(struct rendezvous *r, const struct frame *frame, const void *key, const void *value)
{
    unsigned char bytes[sizeof *frame + REQUEST_BYTES];
    memcpy(bytes, frame, sizeof *frame);
    if (frame->key_bytes > 0)
        memcpy(bytes + sizeof *frame, key, frame->key_bytes);
    if (frame->value_bytes > 0)
        memcpy(bytes + sizeof *frame + frame->key_bytes, value, frame->value_bytes);
    pthread_mutex_lock(&r->write_mutex);
    bool said = socket_write(r->fd, bytes, sizeof *frame + frame->key_bytes + frame->value_bytes,
                             clock_now_ns() + write_ns, -1) == SOCKET_DONE;
    pthread_mutex_unlock(&r->write_mutex);
    return said;
}

/* Under the status mutex. */
static void say_beat(struct rendezvous *r)
{
    struct beat beat = { .failed = -1, .line = { .rank = r->meeting.rank, .state = RANK_ABSENT } };
    if (r->status) {
        status_export(r->status, r->meeting.rank, &beat.line);
        beat.failed = status_failed_rank(r->status);
    }
    memcpy(beat.line.host, r->meeting.host_name, sizeof beat.line.host);
    say(r, &(struct frame){ .kind = FRAME_BEAT, .value_bytes = sizeof beat }, NULL, &beat);
}

static void beat(struct rendezvous *r)
{
    pthread_mutex_lock(&r->status_mutex);
    say_beat(r);
    pthread_mutex_unlock(&r->status_mutex);
}

void rendezvous_watch(struct rendezvous *r, struct status *status)
{
    pthread_mutex_lock(&r->status_mutex);
    if (!status)
        say_beat(r); /* the last word of the page: it has left, or failed */
    r->status = status;
    if (status)
        say_beat(r);
    pthread_mutex_unlock(&r->status_mutex);
}

void rendezvous_abort(struct rendezvous *r)
{
    beat(r); /* who failed goes before that all must end */
    say(r, &(struct frame){ .kind = FRAME_ABORT }, NULL, NULL);
}

/* ---- hearing ---- */
static void schedule_abort(struct rendezvous *r)
{
    pthread_mutex_lock(&r->status_mutex);
    bool watched = r->status != NULL;
    pthread_mutex_unlock(&r->status_mutex);
    if (r->abort_at_ns == INT64_MAX)
        r->abort_at_ns = clock_now_ns() + (watched ? explain_ns : 0);
}

static void import_view(struct rendezvous *r)
{
    pthread_mutex_lock(&r->status_mutex);
    if (r->status) {
        status_import_progress(r->status, r->head.progress);
        for (uint32_t i = 0; i < r->head.line_count; i++)
            if (r->lines[i].rank == (int32_t)i)
                status_import(r->status, &r->lines[i]);
        if (is_index(r->head.failed, r->meeting.rank_count))
            status_set_failed(r->status, r->head.failed);
    }
    pthread_mutex_unlock(&r->status_mutex);
}

/* Nobody can be reached any more. how: LEFT with a farewell, else LOST or SILENT. */
static void end_of_talk(struct rendezvous *r, enum rank_state how)
{
    pthread_mutex_lock(&r->mutex);
    r->gone = true;
    pthread_cond_broadcast(&r->changed);
    pthread_mutex_unlock(&r->mutex);
    if (how == RANK_LEFT)
        return;
    pthread_mutex_lock(&r->status_mutex);
    r->lines[0].state = (int32_t)how; /* with what it said last, if it did */
    r->lines[0].rank = 0;
    if (r->status)
        status_import(r->status, &r->lines[0]);
    pthread_mutex_unlock(&r->status_mutex);
    schedule_abort(r);
}

static bool hear_bytes(struct rendezvous *r, void *out, size_t bytes)
{
    return bytes == 0 || socket_read(r->fd, out, bytes, clock_now_ns() + write_ns, -1) == SOCKET_DONE;
}

static bool hear_view(struct rendezvous *r, size_t bytes)
{
    size_t lines = bytes - sizeof r->head;
    if (!hear_bytes(r, &r->head, sizeof r->head) || r->head.line_count * sizeof *r->lines != lines ||
        !hear_bytes(r, r->lines, lines))
        return false;
    import_view(r);
    return true;
}

static bool hear_answer(struct rendezvous *r, const struct frame *frame)
{
    unsigned char answer[RENDEZVOUS_VALUE_BYTES];
    if (!hear_bytes(r, answer, frame->value_bytes))
        return false;
    pthread_mutex_lock(&r->mutex);
    struct request *q = r->requests;
    while (q && q->serial != frame->serial)
        q = q->next;
    if (q) { /* else it was given up */
        q->bytes = frame->value_bytes;
        q->refused = frame->kind == FRAME_REFUSED;
        if (q->refused)
            memcpy(&q->teller, answer, sizeof q->teller);
        else if (q->out && q->bytes <= q->capacity)
            memcpy(q->out, answer, q->bytes);
        q->answered = true;
        pthread_cond_broadcast(&r->changed);
    }
    pthread_mutex_unlock(&r->mutex);
    return true;
}

/* One frame. False: the connection is of no use any more. */
static bool hear(struct rendezvous *r, bool *farewell)
{
    struct frame frame;
    if (!hear_bytes(r, &frame, sizeof frame) || !frame_is_answer(&frame, r->meeting.rank_count))
        return false;
    r->heard_ns = clock_now_ns();
    switch ((enum frame_kind)frame.kind) {
    case FRAME_DONE:
    case FRAME_REFUSED:
        return hear_answer(r, &frame);
    case FRAME_VIEW:
        return hear_view(r, frame.value_bytes);
    case FRAME_ABORT:
        schedule_abort(r);
        return true;
    case FRAME_NO_MEMORY:
        pthread_mutex_lock(&r->mutex);
        r->short_of_memory = true;
        pthread_mutex_unlock(&r->mutex);
        return false;
    case FRAME_FAREWELL:
    case FRAME_PUT: /* these three are no answers, as was seen above */
    case FRAME_GET:
    case FRAME_BEAT:
        break;
    }
    *farewell = frame.kind == FRAME_FAREWELL;
    return false;
}

static bool is_closing(struct rendezvous *r)
{
    pthread_mutex_lock(&r->mutex);
    bool closing = r->closing;
    pthread_mutex_unlock(&r->mutex);
    return closing;
}

static void *rendezvous_main(void *argument)
{
    struct rendezvous *r = argument;
    bool talking = true, farewell = false;
    int64_t next_beat_ns = clock_now_ns();
    while (!is_closing(r)) {
        struct pollfd fds[2] = { { .fd = r->wake, .events = POLLIN },
                                 { .fd = talking ? r->fd : -1, .events = POLLIN } };
        poll(fds, 2, BEAT_MS);
        int64_t now = clock_now_ns();
        bool lost = talking && fds[1].revents && !hear(r, &farewell);
        if (lost || (talking && now - r->heard_ns > r->silence_ns)) {
            talking = false;
            shutdown(r->fd, SHUT_RDWR);
            end_of_talk(r, farewell ? RANK_LEFT : lost ? RANK_LOST : RANK_SILENT);
        }
        if (talking && now >= next_beat_ns) {
            beat(r);
            next_beat_ns = now + (int64_t)BEAT_MS * 1000000;
        }
        if (now >= r->abort_at_ns) {
            r->abort_at_ns = INT64_MAX - 1; /* once */
            pthread_mutex_lock(&r->mutex);
            r->gone = r->aborted = true;
            pthread_cond_broadcast(&r->changed);
            pthread_mutex_unlock(&r->mutex);
            if (r->on_abort)
                r->on_abort(r->context);
        }
    }
    return NULL;
}

/* ---- requests ---- */
static bool gone(const struct rendezvous *r, struct error *err)
{
    if (r->aborted)
        return fail_kind(err, ERROR_ENVIRONMENT, "rank %d: the job was aborted", r->meeting.rank);
    if (r->short_of_memory)
        return fail_kind(err, ERROR_ENVIRONMENT, "rank %d: %s has no memory for what it must tell", r->meeting.rank,
                         r->who);
    return fail_kind(err, ERROR_ENVIRONMENT, "rank %d: %s has closed the connection", r->meeting.rank, r->who);
}

static struct timespec until(double seconds)
{
    struct timespec at;
    clock_gettime(CLOCK_MONOTONIC, &at);
    at.tv_sec += (time_t)seconds;
    at.tv_nsec += (long)((seconds - (double)(time_t)seconds) * 1e9);
    at.tv_sec += at.tv_nsec / 1000000000;
    at.tv_nsec %= 1000000000;
    return at;
}

/* Under the mutex. */
static bool wait_answer(struct rendezvous *r, const struct request *q, const char *key, struct error *err)
{
    double timeout_s = r->meeting.timeout_s;
    struct timespec end = until(timeout_s);
    int late = 0;
    while (!q->answered && !r->gone && !late) {
        if (timeout_s > 0)
            late = pthread_cond_timedwait(&r->changed, &r->mutex, &end);
        else
            pthread_cond_wait(&r->changed, &r->mutex);
    }
    if (q->answered)
        return true;
    if (r->gone)
        return gone(r, err);
    return fail_kind(err, ERROR_ENVIRONMENT, "rank %d: nobody has told '%s' within %g s: has every rank started?",
                     r->meeting.rank, key, timeout_s);
}

static void link_request(struct rendezvous *r, struct request *q)
{
    pthread_mutex_lock(&r->mutex);
    q->serial = ++r->serial;
    q->next = r->requests;
    r->requests = q;
    pthread_mutex_unlock(&r->mutex);
}

/* Under the mutex. */
static void unlink_request(struct rendezvous *r, const struct request *q)
{
    struct request **at = &r->requests;
    while (*at != q)
        at = &(*at)->next;
    *at = q->next;
}

static bool request(struct rendezvous *r, enum frame_kind kind, const char *key, const void *value, size_t bytes,
                    struct request *q, struct error *err)
{
    if (strlen(key) == 0 || strlen(key) > RENDEZVOUS_KEY_BYTES || bytes > RENDEZVOUS_VALUE_BYTES)
        return fail_kind(err, ERROR_BUG, "rendezvous: the key '%s' or its %zu bytes are too long", key, bytes);
    link_request(r, q);
    const struct frame frame = {
        .kind = (uint32_t)kind, .serial = q->serial, .key_bytes = (uint32_t)strlen(key), .value_bytes = (uint32_t)bytes
    };
    if (!say(r, &frame, key, value))
        shutdown(r->fd, SHUT_RDWR); /* what has come already is heard first: it may tell why */
    pthread_mutex_lock(&r->mutex);
    bool ok = wait_answer(r, q, key, err);
    unlink_request(r, q);
    pthread_mutex_unlock(&r->mutex);
    if (ok && q->refused && q->teller < 0)
        ok = fail_kind(err, ERROR_ENVIRONMENT, "rank %d: rank 0 has no memory for '%s'", r->meeting.rank, key);
    else if (ok && q->refused)
        ok = fail_kind(err, ERROR_BUG, "rank %d: '%s' was told before by rank %d, and otherwise", r->meeting.rank, key,
                       q->teller);
    return ok && (!q->out || q->bytes <= q->capacity ||
                  fail_kind(err, ERROR_BUG, "rank %d: '%s' has %zu bytes, expected at most %zu", r->meeting.rank, key,
                            q->bytes, q->capacity));
}

bool rendezvous_put(struct rendezvous *r, const char *key, const void *value, size_t bytes, struct error *err)
{
    struct request q = { 0 };
    return request(r, FRAME_PUT, key, value, bytes, &q, err);
}

bool rendezvous_get(struct rendezvous *r, const char *key, void *value, size_t capacity, size_t *bytes,
                    struct error *err)
{
    struct request q = { .out = value, .capacity = capacity };
    if (!request(r, FRAME_GET, key, NULL, 0, &q, err))
        return false;
    *bytes = q.bytes;
    return true;
}

/* ---- life ---- */
static bool listen_here(struct rendezvous *r, struct error *err)
{
    const struct meeting *m = &r->meeting;
    int listener = m->listener >= 0 ? m->listener : socket_listen(m->host, m->port, err);
    if (listener < 0)
        return error_within(err, "rank 0, which must listen where all meet (MASTER_ADDR, MASTER_PORT)");
    return rendezvous_server_open(&r->server, listener, m->rank_count, r->meeting.token, r->silence_ns, err);
}

static bool join(struct rendezvous *r, struct error *err)
{
    const struct meeting *m = &r->meeting;
    int64_t deadline_ns = m->timeout_s > 0 ? clock_now_ns() + (int64_t)(m->timeout_s * 1e9) : INT64_MAX;
    const struct hello hello = { .purpose = PURPOSE_RENDEZVOUS,
                                 .rank = (uint32_t)m->rank,
                                 .rank_count = (uint32_t)m->rank_count };
    int port;
    r->fd = handshake_meet(m->host, m->port, &hello, m->token, deadline_ns, -1, r->who, err);
    if (r->fd < 0 && err && err->kind == ERROR_ENVIRONMENT)
        return error_within(err, "rank %d on host %s: rank 0 was not met within %g s", m->rank, m->host_name,
                            m->timeout_s);
    if (r->fd < 0)
        return error_within(err, "rank %d on host %s", m->rank, m->host_name);
    return socket_own_address(r->fd, r->own_address, &port) ||
           fail_kind(err, ERROR_ENVIRONMENT, "rank %d: the system does not tell its own address", m->rank);
}

static void start_locks(struct rendezvous *r)
{
    pthread_condattr_t clock;
    pthread_condattr_init(&clock);
    pthread_condattr_setclock(&clock, CLOCK_MONOTONIC);
    pthread_cond_init(&r->changed, &clock);
    pthread_condattr_destroy(&clock);
    pthread_mutex_init(&r->mutex, NULL);
    pthread_mutex_init(&r->status_mutex, NULL);
    pthread_mutex_init(&r->write_mutex, NULL);
}

bool rendezvous_open(struct rendezvous **out, const struct meeting *meeting, void (*on_abort)(void *context),
                     void *context, struct error *err)
{
    struct rendezvous *r = calloc(1, sizeof *r);
    if (!r)
        return fail_kind(err, ERROR_ENVIRONMENT, "no memory for the rendezvous");
    *r = (struct rendezvous){
        .meeting = *meeting, .fd = -1, .wake = wake_new(), .on_abort = on_abort, .context = context
    };
    r->abort_at_ns = INT64_MAX;
    /* Before anyone misses progress, which would say less: who is not heard of makes none. */
    r->silence_ns = meeting->timeout_s > 0 ? (int64_t)(meeting->timeout_s * 0.75e9) : INT64_MAX;
    snprintf(r->who, sizeof r->who, "rank 0 at %s port %d", meeting->host, meeting->port);
    start_locks(r);
    r->lines = calloc((size_t)meeting->rank_count, sizeof *r->lines);
    bool ok = (r->lines && r->wake >= 0) || fail_kind(err, ERROR_ENVIRONMENT, "no memory for the rendezvous");
    ok = ok && (meeting->rank > 0 || listen_here(r, err)) && join(r, err);
    r->heard_ns = clock_now_ns();
    r->running = ok = ok && thread_start(&r->thread, rendezvous_main, r, "the rendezvous", err);
    if (!ok) {
        rendezvous_close(r);
        return false;
    }
    *out = r;
    return true;
}

/* Waits a moment for the other side to close: a connection that is closed while words are on their way can lose some.
 */
static void say_farewell(struct rendezvous *r)
{
    char waste;
    int64_t deadline_ns = clock_now_ns() + farewell_ns;
    say(r, &(struct frame){ .kind = FRAME_FAREWELL }, NULL, NULL);
    shutdown(r->fd, SHUT_WR);
    while (socket_read(r->fd, &waste, 1, deadline_ns, -1) == SOCKET_DONE)
        continue;
}

void rendezvous_close(struct rendezvous *r)
{
    if (!r)
        return;
    if (r->running) {
        pthread_mutex_lock(&r->mutex);
        r->closing = true;
        pthread_mutex_unlock(&r->mutex);
        wake_raise(r->wake);
        pthread_join(r->thread, NULL);
        say_farewell(r);
    }
    if (r->meeting.file[0])
        unlink(r->meeting.file);
    if (r->fd >= 0)
        close(r->fd);
    rendezvous_server_close(r->server);
    if (r->wake >= 0)
        close(r->wake);
    pthread_cond_destroy(&r->changed);
    pthread_mutex_destroy(&r->mutex);
    pthread_mutex_destroy(&r->status_mutex);
    pthread_mutex_destroy(&r->write_mutex);
    free(r->lines);
    free(r);
}
