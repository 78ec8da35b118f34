#define _GNU_SOURCE
#include "host/parallel.h"
#include <stdatomic.h>

struct work {
    atomic_int next;
    int count;
    void (*body)(void *context, int index);
    void *context;
};

static void *take_pieces(void *given)
{
    struct work *work = given;
    for (int i = atomic_fetch_add(&work->next, 1); i < work->count; i = atomic_fetch_add(&work->next, 1))
        work->body(work->context, i);
    return NULL;
}

void parallel_for(int jobs, int count, void (*body)(void *context, int index), void *context)
{
    struct work work = { .count = count, .body = body, .context = context };
    pthread_t threads[PARALLEL_MOST_JOBS];
    int started = 0, wanted = jobs < count ? jobs : count;
    atomic_init(&work.next, 0);
    while (started < wanted - 1 && started < PARALLEL_MOST_JOBS &&
           pthread_create(&threads[started], NULL, take_pieces, &work) == 0)
        started++;
    take_pieces(&work);
    for (int i = 0; i < started; i++)
        pthread_join(threads[i], NULL);
}

bool thread_start(pthread_t *out, void *(*body)(void *), void *argument, const char *work, struct error *err)
{
    return pthread_create(out, NULL, body, argument) == 0 ||
           fail_kind(err, ERROR_ENVIRONMENT, "cannot start a thread for %s: out of memory, or of threads", work);
}
