/* Constraints by name, and the deletion filter over sets of them. */
#include "planner/explain/explain_conflict.h"

const char *constraint_name(enum constraint constraint)
{
    if (constraint < CONSTRAINT_NODE)
        return choice_facts[constraint - CONSTRAINT_CHOICE].name;
    return constraint == CONSTRAINT_NODE      ? "node"
           : constraint == CONSTRAINT_BATCH   ? "batch"
           : constraint == CONSTRAINT_DEVICES ? "devices"
                                              : "memory";
}

bool filter_irreducible(uint64_t all, bool (*has_solution)(void *self, uint64_t set, bool *out, struct error *err),
                        void *self, uint64_t *out, struct error *err)
{
    uint64_t set = all;
    for (int i = 0; i < 64; i++) {
        uint64_t without = set & ~(UINT64_C(1) << i);
        bool solved = false;
        if (without == set)
            continue;
        if (!has_solution(self, without, &solved, err))
            return false;
        set = solved ? set : without;
    }
    *out = set;
    return true;
}
