/* Plans that a test names by one value for each choice. */
#ifndef CLEAVE_TESTS_FIXED_CHOICES_H
#define CLEAVE_TESTS_FIXED_CHOICES_H
#include "planner/search/baseline.h"

/* Below 0: as usual. */
union fixed {
    int64_t value[CHOICE_COUNT];
    struct {
#define CHOICE(id, member, ...) int64_t member;
#include "planner/space/choices.def"
#undef CHOICE
    };
};

static inline union fixed fixed_none(void)
{
    union fixed fixed;
    for (int choice = 0; choice < CHOICE_COUNT; choice++)
        fixed.value[choice] = -1;
    return fixed;
}

/* As baseline_plan(); the space gives the batch and all that is not fixed and has one value. */
static inline bool fixed_choices_plan(struct plan **out, const union fixed *fixed, const struct space *space,
                                      const struct model *model, const struct facts *facts, struct error *err)
{
    struct space own = *space;
    for (int choice = 0; choice < CHOICE_COUNT; choice++)
        if (fixed->value[choice] >= 0)
            own.range[choice] = allowed_only(fixed->value[choice]);
    return baseline_plan(out, &own, false, model, facts, err);
}
#endif
