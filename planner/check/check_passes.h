/* Whether a claimed bound of the simulated step holds by the order of passes (what is bounded and why:
 * planner/bound/passes_bound.h). Which inequalities to add up is proposed by the search's code; that they are true,
 * and what they say, is worked out anew here, from the schedule's order. */
#ifndef CLEAVE_CHECK_PASSES_H
#define CLEAVE_CHECK_PASSES_H
#include "planner/cut/partition.h"
#include "planner/bound/passes_book.h"

/* A configuration with its table of whole strategies. */
struct passes_of {
    const struct config *config;
    const struct price_table *table;
};
/* Of configurations of which lanes_bound() can be said. like: in whose prices inequalities are looked for, the
 * configuration's own or those of another with the same passes, whose inequalities are true of it as well. book: zeroed
 * before the first one. Fails only for want of memory, or when GLPK does. */
bool passes_hold(bool *holds, struct passes_book *book, const struct chain *chain, const struct passes_of *own,
                 const struct passes_of *like, int64_t capacity_bytes, int64_t bound_ns, struct error *err);
/* For it, and for tests: whether the mix, whatever it is, is one of true inequalities and proves the bound. */
bool passes_mix_proves(bool *proves, const struct passes_mix *mix, const struct chain *chain,
                       const struct config *config, const struct price_table *table, int64_t capacity_bytes,
                       int64_t bound_ns, struct error *err);
#endif
