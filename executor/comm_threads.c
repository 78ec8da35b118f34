/* One mailbox per (receiver, lane). Whoever comes first hangs its half of a message, which lies on its own stack, into
 * the mailbox and sleeps; whoever comes second copies the bytes and wakes it. So of two ranks one sleeps, once, and a
 * message wakes nobody else. Nothing is buffered and nothing is allocated after opening. */
#define _POSIX_C_SOURCE 200809L
#include "executor/comm_threads.h"
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

/* One exchange. It holds one share while its caller looks, and one for each half that hangs. Who gives the last share
 * back wakes the caller, unless that is the caller. */
struct call {
    atomic_int shares;
    sem_t ended;
};
enum outcome { OUTCOME_ABORTED, OUTCOME_MOVED, OUTCOME_REFUSED }; /* refused: the sizes differ */
/* What one rank sends to, or wants from, another. Out of its mailbox it belongs to whoever took it out. */
struct half {
    int from;
    const void *send; /* of the half that sends */
    void *receive;    /* of the other */
    size_t bytes, other_bytes;
    enum outcome outcome;
    struct call *call;
    struct half *next;
};
struct mailbox {
    pthread_mutex_t mutex;
    struct half *posts; /* at most one of each sender */
    struct half *want;  /* the receiver's, or NULL */
};
struct hub {
    int rank_count;
    atomic_int open_count;
    atomic_bool aborted;
    struct mailbox *mailboxes; /* (rank, lane) */
};
struct end {
    struct hub *hub;
    int rank;
};

static struct mailbox *mailbox_of(struct hub *hub, int rank, enum lane lane)
{
    return &hub->mailboxes[rank * LANE_COUNT + (int)lane];
}

/* ---- a call and its halves ---- */
/* The half dies as soon as its share is back. */
static void give_back(struct call *call)
{
    if (atomic_fetch_sub(&call->shares, 1) == 1)
        sem_post(&call->ended);
}

static void await(struct call *call)
{
    if (atomic_fetch_sub(&call->shares, 1) != 1)
        while (sem_wait(&call->ended) != 0) /* a signal came */
            continue;
}

static void move(struct half *receive, struct half *send)
{
    bool fits = send->bytes == receive->bytes;
    if (fits && send->bytes > 0)
        memcpy(receive->receive, send->send, send->bytes);
    send->outcome = receive->outcome = fits ? OUTCOME_MOVED : OUTCOME_REFUSED;
    send->other_bytes = receive->bytes, receive->other_bytes = send->bytes;
}

/* ---- the mailbox, under its mutex ---- */
static struct half *take_post(struct mailbox *box, int from)
{
    struct half **at = &box->posts;
    while (*at && (*at)->from != from)
        at = &(*at)->next;
    struct half *post = *at;
    if (post)
        *at = post->next;
    return post;
}

static struct half *take_want(struct mailbox *box, int from)
{
    struct half *want = box->want;
    if (!want || want->from != from)
        return NULL;
    box->want = NULL;
    return want;
}

/* Moves the bytes if the other half hangs there, else hangs this one; of an aborted run neither. */
static void put(struct hub *hub, struct mailbox *box, struct half *half, bool sends)
{
    pthread_mutex_lock(&box->mutex);
    struct half *other = sends ? take_want(box, half->from) : take_post(box, half->from);
    if (!other && !atomic_load(&hub->aborted)) {
        struct half **place = sends ? &box->posts : &box->want;
        half->next = *place;
        *place = half;
        atomic_fetch_add(&half->call->shares, 1);
    }
    pthread_mutex_unlock(&box->mutex);
    if (!other)
        return;
    move(sends ? other : half, sends ? half : other);
    give_back(other->call);
}

static bool arrived(const struct half *half, bool sends, struct error *err)
{
    switch (half->outcome) {
    case OUTCOME_MOVED:
        return true;
    case OUTCOME_ABORTED:
        return fail_kind(err, ERROR_ENVIRONMENT,
                         "transport threads: the run was aborted while this rank waited for another");
    case OUTCOME_REFUSED:
        return sends
                   ? fail_kind(err, ERROR_ENVIRONMENT,
                               "transport threads: the receiver expected %zu bytes, not the %zu sent",
                               half->other_bytes, half->bytes)
                   : fail_kind(err, ERROR_ENVIRONMENT, "transport threads: expected %zu bytes from rank %d, found %zu",
                               half->bytes, half->from, half->other_bytes);
    }
    return false;
}

static bool exchange(void *self, enum lane lane, int to, const void *send, size_t send_bytes, int from, void *receive,
                     size_t receive_bytes, struct error *err)
{
    struct end *end = self;
    struct call call = { .shares = 1 };
    struct half out = { .from = end->rank, .send = send, .bytes = send_bytes, .call = &call };
    struct half in = { .from = from, .receive = receive, .bytes = receive_bytes, .call = &call };
    sem_init(&call.ended, 0, 0);
    if (to >= 0)
        put(end->hub, mailbox_of(end->hub, to, lane), &out, true);
    if (from >= 0)
        put(end->hub, mailbox_of(end->hub, end->rank, lane), &in, false);
    await(&call);
    sem_destroy(&call.ended);
    bool received = from < 0 || arrived(&in, false, err);
    return (to < 0 || arrived(&out, true, err)) && received;
}

/* ---- aborting ---- */
/* Whoever hangs something later sees the flag. What is being copied ends as if nothing had happened. */
static void abort_hub(void *self)
{
    struct hub *hub = ((struct end *)self)->hub;
    atomic_store(&hub->aborted, true);
    for (int i = 0; i < hub->rank_count * LANE_COUNT; i++) {
        struct mailbox *box = &hub->mailboxes[i];
        pthread_mutex_lock(&box->mutex);
        struct half *posts = box->posts, *want = box->want;
        box->posts = box->want = NULL;
        pthread_mutex_unlock(&box->mutex);
        for (struct half *next; posts; posts = next) {
            next = posts->next;
            give_back(posts->call);
        }
        if (want)
            give_back(want->call);
    }
}

static bool aborted(void *self)
{
    return atomic_load(&((struct end *)self)->hub->aborted);
}

static void hub_free(struct hub *hub)
{
    for (int i = 0; i < hub->rank_count * LANE_COUNT; i++)
        pthread_mutex_destroy(&hub->mailboxes[i].mutex);
    free(hub->mailboxes);
    free(hub);
}

static void close_end(void *self)
{
    struct end *end = self;
    if (atomic_fetch_sub(&end->hub->open_count, 1) == 1)
        hub_free(end->hub);
    free(end);
}

static struct hub *hub_new(int rank_count)
{
    struct hub *hub = calloc(1, sizeof *hub);
    if (!hub)
        return NULL;
    hub->mailboxes = calloc((size_t)rank_count * LANE_COUNT, sizeof *hub->mailboxes);
    if (!hub->mailboxes) {
        free(hub);
        return NULL;
    }
    hub->rank_count = rank_count;
    for (int i = 0; i < rank_count * LANE_COUNT; i++)
        pthread_mutex_init(&hub->mailboxes[i].mutex, NULL);
    return hub;
}

bool comm_threads_open(struct transport *out, int rank_count, struct error *err)
{
    struct hub *hub = hub_new(rank_count);
    int made = 0;
    while (hub && made < rank_count) {
        struct end *end = calloc(1, sizeof *end);
        if (!end)
            break;
        *end = (struct end){ .hub = hub, .rank = made };
        out[made] = (struct transport){ .name = "threads",
                                        .rank = made,
                                        .rank_count = rank_count,
                                        .self = end,
                                        .exchange = exchange,
                                        .abort = abort_hub,
                                        .aborted = aborted,
                                        .close = close_end };
        atomic_fetch_add(&hub->open_count, 1);
        made++;
    }
    if (hub && made == rank_count)
        return true;
    for (int i = 0; i < made; i++)
        free(out[i].self);
    if (hub)
        hub_free(hub);
    return fail_kind(err, ERROR_ENVIRONMENT, "transport threads: no memory for %d ranks", rank_count);
}
