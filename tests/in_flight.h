/* What is in flight by the order of a stage's actions, whatever closed form its schedule has. */
#ifndef CLEAVE_TESTS_IN_FLIGHT_H
#define CLEAVE_TESTS_IN_FLIGHT_H
#include "planner/program/schedule.h"
#include "tests/check.h"
#include <stdlib.h>

/* Gives the largest prefix of forwards minus backwards by input: micro-batches, times chunks, whose activations are
 * alive at once. */
static inline int in_flight_by_order(const struct schedule *schedule, const struct schedule_place *place)
{
    size_t most = schedule->asynchronous ? (size_t)schedule->order(place, NULL)
                                         : 3 * (size_t)(place->micro_count * place->chunks);
    struct action *actions = calloc(most + 1, sizeof *actions);
    ck_assert_ptr_nonnull(actions);
    int count = schedule->order(place, actions), alive = 0, largest = 0;
    for (int i = 0; i < count; i++) {
        alive += actions[i].kind == ACTION_FORWARD;
        alive -= actions[i].kind == ACTION_BACKWARD || actions[i].kind == ACTION_BACKWARD_INPUT;
        largest = alive > largest ? alive : largest;
    }
    free(actions);
    return largest;
}
#endif
