#include "planner/search/space_choice.h"
#include <string.h>

const char *const space_choice_names[SPACE_CHOICES + 1] = {
    [SPACE_PP] = "pp",
    [SPACE_TP] = "tp",
    [SPACE_DP] = "dp",
    [SPACE_MICRO] = "micro-batch",
    [SPACE_ZERO] = "zero",
    [SPACE_RECOMPUTE] = "recompute",
    [SPACE_SCHEDULE] = "schedule",
    [SPACE_PREFETCH] = "prefetch",
    [SPACE_SP] = "sp",
};

struct allowed *space_allowed(struct space *space, enum space_choice choice)
{
    struct allowed *const members[SPACE_CHOICES] = {
        [SPACE_PP] = &space->pipeline,
        [SPACE_TP] = &space->tensor,
        [SPACE_DP] = &space->data,
        [SPACE_MICRO] = &space->micro,
        [SPACE_ZERO] = &space->zero,
        [SPACE_RECOMPUTE] = &space->recompute,
        [SPACE_SCHEDULE] = &space->schedule,
        [SPACE_PREFETCH] = &space->prefetch,
        [SPACE_SP] = &space->sequence_parallel,
    };
    return members[choice];
}

static struct allowed free_choice(const struct space *space, enum space_choice choice)
{
    struct space all = space_default(space->batch, space->sequence, space->dtype);
    return *space_allowed(&all, choice);
}

bool space_is_default(const struct space *space, enum space_choice choice)
{
    struct space copy = *space;
    const struct allowed *own = space_allowed(&copy, choice);
    struct allowed all = free_choice(space, choice);
    return own->count == all.count && !memcmp(own->values, all.values, (size_t)all.count * sizeof all.values[0]);
}

void space_lift(struct space *space, enum space_choice choice)
{
    *space_allowed(space, choice) = free_choice(space, choice);
}
