#include "planner/program/schedule.h"
#include "base/arena.h"
#include <string.h>

#define SCHEDULE(symbol) extern const struct schedule schedule_##symbol;
#include "planner/program/schedules/schedules.def"
#undef SCHEDULE

const struct schedule *const schedules[] = {
#define SCHEDULE(symbol) &schedule_##symbol,
#include "planner/program/schedules/schedules.def"
#undef SCHEDULE
    NULL,
};

int schedule_find(const char *name)
{
    for (int i = 0; schedules[i]; i++) {
        if (!strcmp(schedules[i]->name, name))
            return i;
    }
    return -1;
}

int schedule_in_flight(const struct schedule *schedule, int stages, int stage, int micro_count, int extra_in_flight)
{
    struct arena arena = { 0 };
    int count = schedule->order(stages, stage, micro_count, extra_in_flight, NULL);
    struct action *actions = arena_alloc(&arena, (size_t)count, sizeof *actions);
    int alive = 0, most = 0;
    if (!actions)
        return micro_count; /* the safe side: no schedule holds more */
    schedule->order(stages, stage, micro_count, extra_in_flight, actions);
    for (int i = 0; i < count; i++) {
        alive += actions[i].kind == ACTION_FORWARD;
        alive -= actions[i].kind == ACTION_BACKWARD || actions[i].kind == ACTION_BACKWARD_INPUT;
        most = alive > most ? alive : most;
    }
    arena_free(&arena);
    return most;
}
