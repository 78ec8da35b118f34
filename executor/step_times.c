#include "executor/step_times.h"
#include <stdlib.h>

void step_times_add(struct step_times *times, int64_t ns)
{
    if (times->added++ % (times->stride_less_one + 1) != 0)
        return;
    times->ns[times->count++] = ns;
    if (times->count < STEP_TIMES_MOST)
        return;
    times->count /= 2; /* index i was added as number i x stride: the even ones lie on twice the stride */
    for (int i = 0; i < times->count; i++)
        times->ns[i] = times->ns[2 * i];
    times->stride_less_one = 2 * times->stride_less_one + 1;
}

static int compare_ns(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return x < y ? -1 : x > y;
}

int64_t step_times_median(struct step_times *times)
{
    qsort(times->ns, (size_t)times->count, sizeof *times->ns, compare_ns);
    return times->ns[times->count / 2];
}
