/* Several plans instead of one: the best ones that differ in more than trifles. */
#ifndef CLEAVE_EXPLAIN_EXPLAIN_SEVERAL_H
#define CLEAVE_EXPLAIN_EXPLAIN_SEVERAL_H
#include "planner/explain/explain.h"

/**
 * Tells whether two plans of one model differ in more than trifles: degrees, micro-batch, schedule, or stage or
 * decisions of at least a third of the layers. Layers that are alike may swap their decisions, so what counts is how
 * many of each class decide what. graph: of the model, for its classes. *out is set; fails for want of memory.
 */
bool several_distinct(const struct graph *graph, const struct plan *a, const struct plan *b, bool *out,
                      struct error *err);

struct ranking {
    int count;
    struct search_plan *plans; /* shortest step first; each distinct from all before it */
    bool complete;             /* neither time limit nor cancellation ended it */
};
/**
 * Ranks the `wanted` shortest distinct plans that are known: those of `first`, the answer of the explainer's search,
 * from which they are taken; where these are too few, the best of searches with each number of stages, tensor degree
 * and micro-batch fixed in turn, until there are enough; the alternatives to the first (explain_alternatives()), and
 * what all these searches have simulated on their way. One of those may turn out shorter than the first. One alone is
 * the first's, and for more the explainer must have been started with it (explainer_start()). *out is to be freed:
 * ranking_free(). Fails for want of memory and for our bugs.
 */
bool ranking_build(struct ranking *out, struct search_result *first, struct explainer *e, int wanted,
                   struct error *err);
void ranking_free(struct ranking *ranking);
#endif
