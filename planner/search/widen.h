/* Where nothing fits, the space is widened by as little as lets a plan fit; where the optimizer's states take much of
 * all memory, by these on hosts. */
#ifndef CLEAVE_SEARCH_WIDEN_H
#define CLEAVE_SEARCH_WIDEN_H
#include "planner/search/search.h"

struct widening {
    struct space space; /* that the answer is about */
    uint64_t taken;     /* choices (bits, enum space_choice) by which it is wider than the one given; 0: by none */
    int64_t without_ns; /* the step of the shortest plan without these; 0: nothing fits */
};
/* Searches options->space in the caller's way; it may choose options->space.batch. Fails as search_run(), or with
 * ERROR_INFEASIBLE where it has no answer that speaks of what is nearest. */
typedef bool widening_search(void *self, struct search_options *options, struct search_result **out, struct error *err);
/**
 * Searches options->space; where nothing fits there, the space with some of the choices of planner/space/wider.h as in
 * `widest`, the rest of which is that space again: as few choices as let a thrifty plan fit, the first to be left out
 * those that change most about a run, and without any one of these nothing was found. Where nothing fits with all of
 * them, the answer speaks of the widest space. Where a plan fits, but states are large
 * (search_has_large_states()) or what the closed form finds a fifth shorter did not, those may lie on hosts, and it is
 * replaced by one that is at least a tenth shorter. The time limit is for all searches together. Fails as they do.
 */
bool search_widened(struct search_result **out, struct widening *widening, const struct model *model,
                    const struct facts *facts, const struct search_options *options, const struct space *widest,
                    widening_search *search, void *self, struct error *err);
#endif
