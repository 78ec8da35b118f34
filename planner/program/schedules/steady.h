/* What the asynchronous schedules share: 1f1b that never drains. */
#ifndef CLEAVE_PROGRAM_SCHEDULES_STEADY_H
#define CLEAVE_PROGRAM_SCHEDULES_STEADY_H
#include "planner/program/schedule.h"

/* Counts forwards that a stage is ahead of its backwards: one per stage that lies behind it. */
static inline int steady_lead(const struct schedule_place *place)
{
    return place->ahead - 1;
}

/* Opens with the lead; then one forward and one backward come in turn, the last forwards for the next step. */
static inline int steady_order(const struct schedule_place *place, struct action *out)
{
    int lead = steady_lead(place), micro_count = place->micro_count, count = 0;
    if (!out)
        return lead + 2 * micro_count;
    for (int i = 0; i < lead; i++)
        out[count++] = (struct action){ .kind = ACTION_FORWARD, .micro = i, .part = STEP_OPENING };
    for (int backward = 0; backward < micro_count; backward++) {
        int forward = backward + lead;
        out[count++] = (struct action){ .kind = ACTION_FORWARD,
                                        .micro = forward % micro_count,
                                        .part = forward < micro_count ? STEP_OWN : STEP_AHEAD };
        out[count++] = (struct action){ .kind = ACTION_BACKWARD, .micro = backward };
    }
    return count;
}

static inline int steady_in_flight(const struct schedule_place *place)
{
    return place->ahead;
}

#define STEADY_PARTS .asynchronous = true, .legal = steady_legal, .order = steady_order, .in_flight = steady_in_flight
/* Refuses what no asynchronous schedule can do. */
bool steady_legal(const struct plan *plan, struct error *err);
#endif
