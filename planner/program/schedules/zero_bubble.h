/* What the zero-bubble schedules share: 1f1b whose backward for weights comes later, where there would be idle time. */
#ifndef CLEAVE_PROGRAM_SCHEDULES_ZERO_BUBBLE_H
#define CLEAVE_PROGRAM_SCHEDULES_ZERO_BUBBLE_H
#include "planner/program/schedule.h"

/* Takes `warm` forwards, then backwards for inputs and forwards in turn; each micro-batch's backward for weights comes
 * after `late` further backwards for inputs, or where forwards have run out. */
static inline int zero_bubble_order(const struct schedule_place *place, int warm, int late, struct action *out)
{
    int micro_count = place->micro_count, forward = 0, weight = 0, count = 0;
    if (!out)
        return 3 * micro_count;
    for (; forward < micro_count && forward < warm; forward++)
        out[count++] = (struct action){ .kind = ACTION_FORWARD, .micro = forward };
    for (int backward = 0; backward < micro_count; backward++) {
        out[count++] = (struct action){ .kind = ACTION_BACKWARD_INPUT, .micro = backward };
        if (backward >= late || (forward == micro_count && backward < micro_count - 1))
            out[count++] = (struct action){ .kind = ACTION_BACKWARD_WEIGHT, .micro = weight++ };
        if (forward < micro_count)
            out[count++] = (struct action){ .kind = ACTION_FORWARD, .micro = forward++ };
    }
    while (weight < micro_count)
        out[count++] = (struct action){ .kind = ACTION_BACKWARD_WEIGHT, .micro = weight++ };
    return count;
}
#endif
