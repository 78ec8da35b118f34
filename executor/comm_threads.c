/* One mailbox per (receiver, lane). A sender hangs a post, which lies on its own stack, into the receiver's mailbox and
 * sleeps until the receiver has copied the bytes; nothing is buffered and nothing is allocated after opening. */
#define _POSIX_C_SOURCE 200809L
#include "executor/comm_threads.h"
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

enum post_state { POST_WAITING, POST_COPYING, POST_TAKEN };
struct post {
    int from;
    const void *data;
    size_t bytes;
    enum post_state state;
    bool refused;         /* the receiver expected another size */
    pthread_cond_t moved; /* waits on the mailbox's mutex */
    struct post *next;
};
struct mailbox {
    pthread_mutex_t mutex;
    pthread_cond_t arrived;
    struct post *posts; /* in order of arrival */
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

static bool aborted(struct error *err)
{
    return fail_kind(err, ERROR_ENVIRONMENT,
                     "transport threads: the run was aborted while this rank waited for another");
}

static void unlink_post(struct mailbox *box, const struct post *post)
{
    for (struct post **at = &box->posts; *at; at = &(*at)->next)
        if (*at == post) {
            *at = post->next;
            return;
        }
}

static void hang_post(struct mailbox *box, struct post *post)
{
    pthread_mutex_lock(&box->mutex);
    struct post **at = &box->posts;
    while (*at)
        at = &(*at)->next;
    *at = post;
    pthread_cond_broadcast(&box->arrived);
    pthread_mutex_unlock(&box->mutex);
}

/* Sleeps until the post was copied. A post that is being copied is never given up: the receiver still reads its bytes.
 */
static bool wait_taken(struct hub *hub, struct mailbox *box, struct post *post, struct error *err)
{
    pthread_mutex_lock(&box->mutex);
    while (post->state == POST_COPYING || (post->state == POST_WAITING && !atomic_load(&hub->aborted)))
        pthread_cond_wait(&post->moved, &box->mutex);
    bool taken = post->state == POST_TAKEN;
    if (!taken)
        unlink_post(box, post);
    pthread_mutex_unlock(&box->mutex);
    pthread_cond_destroy(&post->moved);
    if (!taken)
        return aborted(err);
    if (post->refused)
        return fail_kind(err, ERROR_BUG,
                         "transport threads: the receiver expected another size than the %zu bytes sent", post->bytes);
    return true;
}

static struct post *find_post(struct mailbox *box, int from)
{
    struct post *post = box->posts;
    while (post && post->from != from)
        post = post->next;
    return post;
}

static bool take(struct hub *hub, struct mailbox *box, int from, void *receive, size_t bytes, struct error *err)
{
    pthread_mutex_lock(&box->mutex);
    struct post *post;
    while (!(post = find_post(box, from)) && !atomic_load(&hub->aborted))
        pthread_cond_wait(&box->arrived, &box->mutex);
    if (!post) {
        pthread_mutex_unlock(&box->mutex);
        return aborted(err);
    }
    unlink_post(box, post);
    post->state = POST_COPYING;
    pthread_mutex_unlock(&box->mutex);

    size_t sent = post->bytes;
    if (sent == bytes && bytes > 0)
        memcpy(receive, post->data, bytes);

    pthread_mutex_lock(&box->mutex);
    post->refused = sent != bytes;
    post->state = POST_TAKEN;
    pthread_cond_signal(&post->moved); /* under the mutex: the post dies as soon as its sender gets it */
    pthread_mutex_unlock(&box->mutex);
    return sent == bytes || fail_kind(err, ERROR_BUG, "transport threads: expected %zu bytes from rank %d, found %zu",
                                      bytes, from, sent);
}

static bool exchange(void *self, enum lane lane, int to, const void *send, size_t send_bytes, int from, void *receive,
                     size_t receive_bytes, struct error *err)
{
    struct end *end = self;
    struct hub *hub = end->hub;
    struct post post = { .from = end->rank, .data = send, .bytes = send_bytes, .moved = PTHREAD_COND_INITIALIZER };
    struct mailbox *theirs = to >= 0 ? mailbox_of(hub, to, lane) : NULL;
    if (theirs)
        hang_post(theirs, &post);
    bool ok = from < 0 || take(hub, mailbox_of(hub, end->rank, lane), from, receive, receive_bytes, err);
    if (theirs && !wait_taken(hub, theirs, &post, err))
        ok = false;
    return ok;
}

static void abort_hub(void *self)
{
    struct hub *hub = ((struct end *)self)->hub;
    atomic_store(&hub->aborted, true);
    for (int i = 0; i < hub->rank_count * LANE_COUNT; i++) {
        struct mailbox *box = &hub->mailboxes[i];
        pthread_mutex_lock(&box->mutex);
        pthread_cond_broadcast(&box->arrived);
        for (struct post *post = box->posts; post; post = post->next)
            pthread_cond_broadcast(&post->moved);
        pthread_mutex_unlock(&box->mutex);
    }
}

static void hub_free(struct hub *hub)
{
    for (int i = 0; i < hub->rank_count * LANE_COUNT; i++) {
        pthread_cond_destroy(&hub->mailboxes[i].arrived);
        pthread_mutex_destroy(&hub->mailboxes[i].mutex);
    }
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
    for (int i = 0; i < rank_count * LANE_COUNT; i++) {
        pthread_mutex_init(&hub->mailboxes[i].mutex, NULL);
        pthread_cond_init(&hub->mailboxes[i].arrived, NULL);
    }
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
