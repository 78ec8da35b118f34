#define _GNU_SOURCE
#include "host/parallel.h"
#include <signal.h>
#include <stdatomic.h>

/* Pieces that somebody wants done. */
struct work {
    atomic_int next;
    int count;
    void (*body)(void *context, int index);
    void *context;
    int seats, working; /* threads that may still join, and that have joined and not left */
    struct work *behind;
};

/* Threads that wait for work, as long as the process lives: a search hands out work a thousand times in half a second,
 * and to start threads each time takes a third of that. */
static struct pool {
    pthread_mutex_t lock;
    pthread_cond_t posted, left;
    struct work *first; /* of all that have seats */
    int threads, idle;
} pool = { PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, PTHREAD_COND_INITIALIZER, NULL, 0, 0 };

static void take_pieces(struct work *work)
{
    for (int i = atomic_fetch_add(&work->next, 1); i < work->count; i = atomic_fetch_add(&work->next, 1))
        work->body(work->context, i);
}

/* Takes the work off the list, on which nobody may join it any more. */
static void close_work(struct work *work)
{
    struct work **at = &pool.first;
    while (*at && *at != work)
        at = &(*at)->behind;
    if (*at)
        *at = work->behind;
}

static void *serve(void *unused)
{
    (void)unused;
    pthread_mutex_lock(&pool.lock);
    for (;;) {
        struct work *work = pool.first;
        if (!work) {
            pool.idle++;
            pthread_cond_wait(&pool.posted, &pool.lock);
            pool.idle--;
            continue;
        }
        work->working++;
        if (--work->seats == 0)
            close_work(work);
        pthread_mutex_unlock(&pool.lock);
        take_pieces(work);
        pthread_mutex_lock(&pool.lock);
        if (--work->working == 0)
            pthread_cond_broadcast(&pool.left);
    }
    return NULL;
}

/* Forgets threads that this process does not have, since it was forked. */
static void forget_threads(void)
{
    pool = (struct pool){ PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, PTHREAD_COND_INITIALIZER, NULL, 0, 0 };
}

/* Starts a thread of the pool; signals are for others. */
static bool start_server(void)
{
    static bool watches;
    sigset_t all, before;
    pthread_t thread;
    if (!watches && pthread_atfork(NULL, NULL, forget_threads) != 0)
        return false;
    watches = true;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    bool started = pthread_create(&thread, NULL, serve, NULL) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (started)
        pthread_detach(thread);
    return started;
}

void parallel_for(int jobs, int count, void (*body)(void *context, int index), void *context)
{
    struct work work = { .count = count, .body = body, .context = context, .seats = (jobs < count ? jobs : count) - 1 };
    atomic_init(&work.next, 0);
    if (work.seats <= 0) {
        take_pieces(&work);
        return;
    }
    pthread_mutex_lock(&pool.lock);
    for (int missing = work.seats - pool.idle; missing > 0 && pool.threads < PARALLEL_MOST_JOBS && start_server();
         missing--)
        pool.threads++;
    work.behind = pool.first;
    pool.first = &work;
    for (int i = 0; i < work.seats && i < pool.idle; i++)
        pthread_cond_signal(&pool.posted);
    pthread_mutex_unlock(&pool.lock);
    take_pieces(&work);
    pthread_mutex_lock(&pool.lock);
    close_work(&work);
    while (work.working > 0)
        pthread_cond_wait(&pool.left, &pool.lock);
    pthread_mutex_unlock(&pool.lock);
}

bool thread_start(pthread_t *out, void *(*body)(void *), void *argument, const char *work, struct error *err)
{
    return pthread_create(out, NULL, body, argument) == 0 ||
           fail_kind(err, ERROR_ENVIRONMENT, "cannot start a thread for %s: out of memory, or of threads", work);
}
