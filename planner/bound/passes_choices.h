/* Of what layers a mix of inequalities is thought out (passes_mix.h): the kinds of layers that take most, each decided
 * in the few ways that no other undercuts. Only a proposal: bounds are worked out from all prices. */
#ifndef CLEAVE_SEARCH_PASSES_CHOICES_H
#define CLEAVE_SEARCH_PASSES_CHOICES_H
#include "planner/price/price.h"
#include "planner/cut/chain.h"
#include "planner/bound/passes_mix.h"

/* choice: (MIX_KINDS * MIX_CHOICES) of the caller's, into problem->choice; with it kinds, choices, unit_ns and lost.
 * problem->passes is known. table: of whole strategies. False: out of memory. */
bool passes_choose(struct mix_problem *problem, struct mix_choice *choice, const struct chain *chain,
                   const struct config *config, const struct price_table *table, int64_t capacity_bytes,
                   struct arena *arena);
#endif
