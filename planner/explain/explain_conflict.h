/* Why nothing fits: which constraints exclude each other, and the smallest change of each kind that would do. */
#ifndef CLEAVE_EXPLAIN_EXPLAIN_CONFLICT_H
#define CLEAVE_EXPLAIN_EXPLAIN_CONFLICT_H
#include "planner/explain/explain.h"
#include "planner/space/choice.h"

/* The user's restrictions come first: they are the first to be left out, and named only where they matter. */
enum constraint {
    CONSTRAINT_CHOICE, /* + enum space_choice: a restriction by --fix, --space or --schedule */
    CONSTRAINT_NODE = CONSTRAINT_CHOICE + CHOICE_COUNT, /* tensor ranks inside a node */
    CONSTRAINT_BATCH,                                   /* the batch, which data ranks must divide */
    CONSTRAINT_DEVICES,                                 /* their number, all used */
    CONSTRAINT_MEMORY,                                  /* of a device */
    CONSTRAINT_COUNT
};
_Static_assert(CONSTRAINT_COUNT <= 64, "sets of constraints have 64 bits");
const char *constraint_name(enum constraint constraint);

/**
 * Filters by deletion: of the constraints in `all` (bit i), which exclude each other, leaves out one after the other,
 * lowest bit first, as long as the rest still has no solution. What remains is irreducible: without any one of it there
 * is a solution (Chinneck and Dravnieks 1991, "Locating minimal infeasible constraint sets in linear programs").
 * has_solution(self, set): where fewer constraints have none, more must not have one. Fails when has_solution does.
 */
bool filter_irreducible(uint64_t all, bool (*has_solution)(void *self, uint64_t set, bool *out, struct error *err),
                        void *self, uint64_t *out, struct error *err);

struct change {
    const char *name;           /* "memory per device", "devices", "batch", "sequence", or "--fix" and the choice */
    enum constraint constraint; /* CONSTRAINT_COUNT: the sequence, which is nobody's constraint */
    bool found;
    int64_t now, value;           /* bytes, devices, sequences or tokens, where the change has a size. Bytes: of a
                                     device of the type that lacks most; of others as many times what is usable */
    double times;                 /* so many, of memory; else 0 */
    const struct explained *plan; /* that fits then; NULL: none was found */
};
/* Gives what a device of a type has in all then, that has and can use so much now. */
int64_t change_bytes(const struct change *change, int64_t all_bytes, int64_t usable_bytes);
enum { MAX_CHANGES = CHOICE_COUNT + 4 };
struct conflict {
    bool exists;                            /* false: there is a plan after all */
    bool irreducible;                       /* false: time limit or cancellation ended the filter */
    uint64_t set;                           /* bit i: enum constraint */
    int64_t available_bytes, missing_bytes; /* on a device of the nearest plan's fullest stage; missing 0: unknown */
    bool of_hosts;                          /* it is its host's memory that is missing */
    int stage;                              /* that one; -1: unknown */
    int type_count;
    struct shortage types[MAX_TYPES]; /* (type_count) of that plan; 0: unknown */
    int change_count;
    struct change changes[MAX_CHANGES];
};
/**
 * Finds the conflict in the explainer's space and facts. Where memory is tight, only the thriftiest values that the
 * user allows are tried first, then all. Constraints are relaxed like this: memory a thousandfold; devices to any of
 * 1/64 to 64 times the nodes, and to 1, 2, 3, 5 and 7 times what the named degrees need; the batch to any of itself,
 * the next below and above that have a configuration, the least, one sequence, and multiples of the devices; the node
 * to the whole cluster. The changes are found by bisection or halving, each with everything else held: memory to 1 %,
 * devices to whole nodes up to 64 times, or fewer of them where degrees do not divide those that there are, the batch
 * to what has a configuration and the sequence downwards, each restriction of a choice lifted.
 */
bool explain_conflict(struct explainer *e, struct conflict *out, struct error *err);
#endif
