/* The durations of a run's steps in bounded memory. */
#ifndef CLEAVE_EXECUTOR_STEP_TIMES_H
#define CLEAVE_EXECUTOR_STEP_TIMES_H
#include <stdint.h>

enum { STEP_TIMES_MOST = 4096 };
/* Every stride-th duration that was added, the first one among them. The stride begins with 1 and doubles whenever the
 * array is full: fewer than STEP_TIMES_MOST durations are all kept, and of more an even sample of at least half as
 * many. Starts zeroed. */
struct step_times {
    int64_t added, stride_less_one;
    int count;
    int64_t ns[STEP_TIMES_MOST]; /* (count) */
};
void step_times_add(struct step_times *times, int64_t ns);
/* Returns the median of the kept durations, of two in the middle the longer one. There is at least one. Sorts them: the
 * last call. */
int64_t step_times_median(struct step_times *times);
#endif
