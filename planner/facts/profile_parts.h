/* What the profile*.c files share. Nobody else includes this. */
#ifndef CLEAVE_FACTS_PROFILE_PARTS_H
#define CLEAVE_FACTS_PROFILE_PARTS_H
#include "planner/facts/profile.h"

/* Empty, with factors of 1; NULL: out of memory. */
struct profile *profile_new(void);
#endif
