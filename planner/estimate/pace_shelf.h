/* Paces that outlive the question for which they were lowered and laid out: a program depends on no facts, so who asks
 * about the same plans under many facts keeps a shelf of them. A pace is taken from it by one thread at a time; answers
 * do not depend on it. */
#ifndef CLEAVE_ESTIMATE_PACE_SHELF_H
#define CLEAVE_ESTIMATE_PACE_SHELF_H
#include "planner/estimate/pace.h"
#include <stdatomic.h>

/* PACE_ROOM_BYTES limits what all that stand on a shelf may take; beyond it the longest unused go. */
enum { PACE_PLACES = 16, PACE_ROOM_BYTES = 1 << 28 };
struct kept_pace {
    struct plan *plan; /* a copy */
    struct pace pace;
    uint64_t hash; /* of the plan */
    size_t bytes;  /* of its programs */
    int64_t used;  /* when it was given back, by count */
};
struct pace_shelf {
    atomic_flag busy; /* somebody takes or gives */
    int count;
    int64_t uses;
    struct kept_pace *places[PACE_PLACES];
};
void pace_shelf_open(struct pace_shelf *shelf);
void pace_shelf_close(struct pace_shelf *shelf);
/* Takes the pace of an equal plan off the shelf, or opens it: pace_open(). The caller gives it back. */
bool pace_take(struct kept_pace **out, struct pace_shelf *shelf, const struct model *model, const struct plan *plan,
               struct error *err);
/* Takes kept over, which may be NULL; without a shelf it is freed. */
void pace_give(struct pace_shelf *shelf, struct kept_pace *kept);
#endif
