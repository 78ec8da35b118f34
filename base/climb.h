/* Uphill on a grid of integers. */
#ifndef CLEAVE_CLIMB_H
#define CLEAVE_CLIMB_H
#include <stdint.h>

enum { CLIMB_MOST_AXES = 4 };
struct climb {
    int axes;
    int most[CLIMB_MOST_AXES];   /* each axis runs from 0 to this */
    int at[CLIMB_MOST_AXES];     /* where to begin; then where it ended */
    int stride[CLIMB_MOST_AXES]; /* first steps along the axis; halved when none leads up */
    int64_t (*value)(const void *self, const int *at);
    const void *self;
};
/* The value where no step of one along an axis leads up any more: of a concave function near its top. Deterministic. */
int64_t climb_up(struct climb *climb);
#endif
