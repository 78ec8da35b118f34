#include "tests/emulated/emulated_watch.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void *emulated_watch_begin(struct emulated_watch *watch, void *const *streams, int64_t (*now_ns)(void))
{
    pthread_mutex_lock(&watch->mutex);
    memcpy(watch->stream, streams, sizeof watch->stream);
    watch->now_ns = now_ns;
    watch->on = true;
    pthread_mutex_unlock(&watch->mutex);
    return watch;
}

static int by_start(const void *a, const void *b)
{
    const struct activity *x = a, *y = b;
    return (x->start_ns > y->start_ns) - (x->start_ns < y->start_ns);
}

void emulated_watch_end(struct emulated_watch *watch, struct rank_activity *out)
{
    pthread_mutex_lock(&watch->mutex);
    if (out) {
        qsort(watch->list, (size_t)watch->count, sizeof *watch->list, by_start);
        *out = (struct rank_activity){ { .recorded = 1, .count = watch->count }, watch->list };
    } else {
        free(watch->list);
    }
    watch->list = NULL;
    watch->count = watch->room = 0;
    watch->on = false;
    pthread_mutex_unlock(&watch->mutex);
}

int64_t emulated_watch_time(struct emulated_watch *watch)
{
    pthread_mutex_lock(&watch->mutex);
    int64_t now_ns = watch->on ? watch->now_ns() : 0;
    pthread_mutex_unlock(&watch->mutex);
    return now_ns;
}

/* Under the mutex. */
static struct activity *next_place(struct emulated_watch *watch)
{
    if (watch->count == watch->room) {
        watch->room = 2 * watch->room + 64;
        watch->list = realloc(watch->list, (size_t)watch->room * sizeof *watch->list);
        if (!watch->list)
            abort(); /* a test without memory */
    }
    return &watch->list[watch->count++];
}

void emulated_watch_note(struct emulated_watch *watch, const void *stream, enum activity_kind kind, const char *name,
                         int64_t start_ns)
{
    pthread_mutex_lock(&watch->mutex);
    if (watch->on && start_ns > 0) {
        struct activity *a = next_place(watch);
        *a = (struct activity){ .start_ns = start_ns,
                                .finish_ns = watch->now_ns(),
                                .lane = ACTIVITY_ELSEWHERE,
                                .instr = -1,
                                .kind = (int32_t)kind };
        snprintf(a->name, sizeof a->name, "%s", name);
        for (int lane = 0; lane < LANE_COUNT; lane++)
            if (watch->stream[lane] == stream)
                a->lane = lane;
    }
    pthread_mutex_unlock(&watch->mutex);
}
