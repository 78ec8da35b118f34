/* The pace of a loop whose progress bar tqdm prints, as transformers' Trainer has one:
 *  10%|#         | 10/100 [03:24<30:36, 20.41s/it]
 * Its rate is smoothed, and its time whole seconds: what passes between counts that lie far enough apart is exact. */
#ifndef CLEAVE_CLI_PROGRESS_BAR_H
#define CLEAVE_CLI_PROGRESS_BAR_H
#include "base/arena.h"
#include <stdbool.h>
#include <stdint.h>

struct progress_point {
    int64_t done, total, elapsed_s;
};
struct progress_bars {
    struct progress_point *points; /* (count) of all bars, in their order */
    int count, capacity;
};
/* Takes the bar at the line's beginning, if there is one; those with a description are of other loops. False: no
 * memory. */
bool progress_bars_read(struct progress_bars *bars, struct arena *arena, const char *line);
struct progress_pace {
    int steps;     /* that were done; 0: there is no bar */
    int windows;   /* that the step is the median of; 0: it is the mean from the beginning */
    double step_s; /* 0: not known */
};
/* Tells the pace of the bar that took longest: loops of evaluations lie within that of training. False: no memory. */
bool progress_bars_pace(struct progress_pace *out, const struct progress_bars *bars, struct arena *arena);
#endif
