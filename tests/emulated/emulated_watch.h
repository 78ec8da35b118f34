/* Records of what the streams of an emulated GPU ran, for tests. */
#ifndef CLEAVE_TESTS_EMULATED_WATCH_H
#define CLEAVE_TESTS_EMULATED_WATCH_H
#include "planner/sim/activity.h"
#include <pthread.h>

/* One GPU's. */
struct emulated_watch {
    pthread_mutex_t mutex; /* of all below; the GPU's opener makes it */
    bool on;
    void *stream[LANE_COUNT];
    int64_t (*now_ns)(void);
    struct activity *list;
    int64_t count, room;
};
void *emulated_watch_begin(struct emulated_watch *watch, void *const *streams, int64_t (*now_ns)(void));
void emulated_watch_end(struct emulated_watch *watch, struct rank_activity *out); /* out NULL: forgets */
/* The time by its clock, while it is on; else 0. */
int64_t emulated_watch_time(struct emulated_watch *watch);
/* What ended now and began at start_ns (0: it was not on then). */
void emulated_watch_note(struct emulated_watch *watch, const void *stream, enum activity_kind kind, const char *name,
                         int64_t start_ns);
#endif
