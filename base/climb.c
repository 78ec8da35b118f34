#include "base/climb.h"
#include <stdbool.h>

static bool climb_along(struct climb *c, int axis, int by, int64_t *best)
{
    int before = c->at[axis], to = before + by;
    if (by == 0 || to < 0 || to > c->most[axis])
        return false;
    c->at[axis] = to;
    int64_t value = c->value(c->self, c->at);
    if (value > *best) {
        *best = value;
        return true;
    }
    c->at[axis] = before;
    return false;
}

static bool halve_strides(struct climb *c)
{
    bool any = false;
    for (int i = 0; i < c->axes; i++) {
        any = any || c->stride[i] > 1;
        c->stride[i] = c->stride[i] > 1 ? c->stride[i] / 2 : 1;
    }
    return any;
}

int64_t climb_up(struct climb *c)
{
    int64_t best = c->value(c->self, c->at);
    do {
        for (bool higher = true; higher;) {
            higher = false;
            for (int i = 0; i < c->axes; i++)
                higher = climb_along(c, i, c->stride[i], &best) || climb_along(c, i, -c->stride[i], &best) || higher;
        }
    } while (halve_strides(c));
    return best;
}
