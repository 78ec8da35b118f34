/* Random numbers that a seed repeats. */
#ifndef CLEAVE_TESTS_RANDOM_NUMBERS_H
#define CLEAVE_TESTS_RANDOM_NUMBERS_H
#include "base/num.h"

static inline uint64_t random_next(uint64_t *state)
{
    return mix64((*state)++);
}

static inline int64_t random_below(uint64_t *state, int64_t bound)
{
    return (int64_t)(random_next(state) % (uint64_t)bound);
}

/* The same with other numbers: the state moves first. */
static inline uint64_t draw(uint64_t *state, uint64_t below)
{
    return mix64(++*state) % below;
}
#endif
