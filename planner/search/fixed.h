/* The plan of a space that leaves one configuration: for estimates. */
#ifndef CLEAVE_SEARCH_FIXED_H
#define CLEAVE_SEARCH_FIXED_H
#include "planner/search/search.h"

/**
 * Each choice of options->space has one value, and each rule for layers; what is free is as usual, and
 * stages are balanced (baseline_plan()). reversed: the pipeline begins on the cluster's last ranks. Turns may
 * have several values: which stage has which of them, the cut, and which of the cluster's ends comes first is then what
 * a search decides, with all else fixed. Fails like both; where a choice has several values, with its key.
 */
bool fixed_plan(struct plan **out, const struct search_options *options, bool reversed, const struct model *model,
                const struct facts *facts, struct error *err);
#endif
