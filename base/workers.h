/* Pieces of work that do not depend on each other, on the threads that the caller of a pure part gives. What comes of
 * them must not depend on which thread does which, or when. */
#ifndef CLEAVE_BASE_WORKERS_H
#define CLEAVE_BASE_WORKERS_H

struct workers {
    void *self;
    /* Calls body(context, i) for i in 0..count-1, on any threads, and returns when all are done; NULL: there are no
     * others, and the caller's own does one after the other. */
    void (*each)(void *self, int count, void (*body)(void *context, int index), void *context);
    int threads; /* of each(); below 2: one */
};
enum { WORKERS_MOST_AT_ONCE = 16 };
/* Tells how many pieces are done at once: at least 1, at most WORKERS_MOST_AT_ONCE. */
int workers_at_once(const struct workers *workers);
/* Calls body(context, i) for i in 0..count-1. */
void workers_each(const struct workers *workers, int count, void (*body)(void *context, int index), void *context);
/* Calls body(context, i, lane) likewise: pieces of one lane, of 0..workers_at_once()-1, follow each other, so that they
 * may share memory of its own. */
void workers_share(const struct workers *workers, int count, void (*body)(void *context, int index, int lane),
                   void *context);
#endif
