/* The passes of a schedule's order as a graph: each begins when the one before it on its stage has ended, and when the
 * stage before or behind has handed it what it works on. */
#ifndef CLEAVE_SEARCH_PASSES_H
#define CLEAVE_SEARCH_PASSES_H
#include "base/arena.h"
#include "planner/space/space.h"

struct pass {
    enum action_kind kind;
    int stage, piece, micro; /* piece: of the model, whichever copy */
    int before;              /* the one before it on its stage; -1: it is the first */
    int from;                /* the one of another piece that hands it its input; -1: none */
};
struct passes {
    int stages, pieces, count;
    int *first;        /* (stages + 1) into pass: stage by stage, each in its order */
    struct pass *pass; /* (count) */
    int *sorted;       /* (count) each behind those that it waits for */
};
/* In the arena. Of synchronous schedules, one mesh for each stage. False: out of memory. */
bool passes_list(struct passes *out, const struct config *config, struct arena *arena);
/* How many there are. */
int64_t passes_count(const struct config *config);

/* By input, of whole backward passes too; and by weight. */
static inline bool pass_is_input(const struct pass *pass)
{
    return pass->kind == ACTION_BACKWARD || pass->kind == ACTION_BACKWARD_INPUT;
}
static inline bool pass_is_weight(const struct pass *pass)
{
    return pass->kind == ACTION_BACKWARD || pass->kind == ACTION_BACKWARD_WEIGHT;
}
#endif
