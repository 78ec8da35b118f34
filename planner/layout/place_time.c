/* Places items as an allocator would, which gives bytes and takes them back as time passes. */
#include "planner/layout/place_work.h"
#include "base/num.h"
#include <string.h>

static void drop_gap(struct place_work *w, int gap)
{
    memmove(&w->gaps[gap], &w->gaps[gap + 1], (size_t)(--w->gap_count - gap) * sizeof *w->gaps);
}

/* Gives back the bytes of an item whose life is over: they join the gaps beside them, or the top sinks. */
static void give_back(struct place_work *w, int64_t low, int64_t high)
{
    int next; /* the first gap that begins there or behind it */
    if (low == high)
        return;
    BISECT(next, w->gap_count, at, w->gaps[at].low < low);
    if (next > 0 && w->gaps[next - 1].high == low) {
        low = w->gaps[--next].low;
        drop_gap(w, next);
    }
    if (next < w->gap_count && w->gaps[next].low == high) {
        high = w->gaps[next].high;
        drop_gap(w, next);
    }
    if (high == w->top) {
        w->top = low;
        return;
    }
    memmove(&w->gaps[next + 1], &w->gaps[next], (size_t)(w->gap_count++ - next) * sizeof *w->gaps);
    w->gaps[next] = (struct gap){ low, high };
}

/* Takes bytes from the tightest gap, with `lowest` from the first; else from the top. */
static int64_t take_bytes(struct place_work *w, int64_t bytes, bool lowest)
{
    int best = -1;
    int64_t least = INT64_MAX;
    for (int i = 0; i < w->gap_count && least > bytes; i++) {
        int64_t size = w->gaps[i].high - w->gaps[i].low;
        if (size < bytes || size >= least)
            continue;
        best = i;
        least = lowest ? bytes : size;
    }
    int64_t offset = best >= 0 ? w->gaps[best].low : w->top;
    if (best < 0)
        w->top += bytes;
    else if ((w->gaps[best].low += bytes) == w->gaps[best].high)
        drop_gap(w, best);
    return offset;
}

/* Places as an allocator would: items come in the order of their first use and leave after their last. */
int64_t place_in_time(struct place_work *w, bool lowest)
{
    int64_t total = 0;
    int end = 0;
    w->gap_count = 0;
    w->top = 0;
    for (int i = 0; i < w->count; i++) {
        int item = w->order[i].item;
        for (; w->items[w->ends[end]].last < w->items[item].first; end++)
            give_back(w, w->offset[w->ends[end]], w->offset[w->ends[end]] + w->items[w->ends[end]].bytes);
        w->offset[item] = take_bytes(w, w->items[item].bytes, lowest);
        total = max_i64(total, w->top);
    }
    return total;
}
