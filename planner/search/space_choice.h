/* The choices that a space can restrict, by the names that users type. */
#ifndef CLEAVE_SEARCH_SPACE_CHOICE_H
#define CLEAVE_SEARCH_SPACE_CHOICE_H
#include "planner/search/space.h"

enum space_choice {
    SPACE_PP,
    SPACE_TP,
    SPACE_DP,
    SPACE_MICRO,
    SPACE_ZERO,
    SPACE_RECOMPUTE,
    SPACE_SCHEDULE,
    SPACE_PREFETCH,
    SPACE_SP,
    SPACE_CHOICES
};
extern const char *const space_choice_names[SPACE_CHOICES + 1]; /* NULL-terminated */
struct allowed *space_allowed(struct space *space, enum space_choice choice);
/* Whether the choice is free as in space_default(). */
bool space_is_default(const struct space *space, enum space_choice choice);
/* Makes it so. */
void space_lift(struct space *space, enum space_choice choice);
#endif
