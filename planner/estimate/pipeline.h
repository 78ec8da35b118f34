/* A plan on a virtual clock, layer by layer instead of instruction by instruction: fast enough to rank many plans at
 * their full number of micro-batches. Durations are the search's prices; the order of forwards and backwards is the
 * schedule's own. Per stage a compute clock and a dp lane: gathers run `prefetch` uses ahead, reductions queue behind
 * gathers issued before them, the last reductions overlap the last backward; a send takes its lane and the
 * time of the links at its cut. A value goes to every stage that reads it, and the gradients come back the same ways.
 * Where each piece hands on to the next of its copy alone, a transfer also waits for its receiver's turn. Stages that
 * share a weight exchange its gradient at the end. */
#ifndef CLEAVE_ESTIMATE_PIPELINE_H
#define CLEAVE_ESTIMATE_PIPELINE_H
#include "planner/cut/partition.h"

struct pipeline_shelf;
/* Gives the ns of one step of the plan with micro_batches micro-batches. Of many, some are walked, and the others take
 * what those in the middle do: full pipelines repeat (tests/test_walk.c holds that against the whole walk). The walk of
 * a step that is found to take below_ns or longer ends there: *out is then from below_ns on, and no more than the step
 * takes. INT64_MAX: all is walked. table prices the plan's strategies: a layer whose strategy it does not have fails.
 * facts: the links between any two stages; NULL: each message takes what the table says of the first two. shelf: may be
 * NULL. */
bool pipeline_step_ns(int64_t *out, const struct plan *plan, const struct chain *chain, const struct price_table *table,
                      const struct facts *facts, struct pipeline_shelf *shelf, int micro_batches, int64_t below_ns,
                      struct error *err);
#endif
