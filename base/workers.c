#include "base/workers.h"
#include "base/num.h"
#include <stdatomic.h>

int workers_at_once(const struct workers *workers)
{
    return workers->each ? (int)min_i64(max_i64(workers->threads, 1), WORKERS_MOST_AT_ONCE) : 1;
}

void workers_each(const struct workers *workers, int count, void (*body)(void *context, int index), void *context)
{
    if (workers->each && count > 1)
        workers->each(workers->self, count, body, context);
    else
        for (int i = 0; i < count; i++)
            body(context, i);
}

struct share {
    atomic_int next;
    int count;
    void (*body)(void *context, int index, int lane);
    void *context;
};

static void take_pieces(void *given, int lane)
{
    struct share *share = given;
    for (int i = atomic_fetch_add(&share->next, 1); i < share->count; i = atomic_fetch_add(&share->next, 1))
        share->body(share->context, i, lane);
}

void workers_share(const struct workers *workers, int count, void (*body)(void *context, int index, int lane),
                   void *context)
{
    struct share share = { .count = count, .body = body, .context = context };
    atomic_init(&share.next, 0);
    workers_each(workers, (int)min_i64(workers_at_once(workers), count), take_pieces, &share);
}
