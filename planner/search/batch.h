/* The batch that makes the most of the devices: of several, the one with the most sequences per second. */
#ifndef CLEAVE_SEARCH_BATCH_H
#define CLEAVE_SEARCH_BATCH_H
#include "planner/estimate/effort.h"
#include "planner/search/search.h"

struct batch_try {
    int64_t batch, step_ns; /* step_ns 0: nothing fits */
};
struct batch_choice {
    int try_count;
    struct batch_try tries[BATCH_TRIES]; /* in the order in which they were tried */
    int best;                            /* -1: none */
    int64_t batch;                       /* the best's; of none that of which the result says what is missing */
    bool settled; /* doubling brought less than 1/200 twice; else time or the largest allowed batch ended the search */
    bool ended;   /* by time limit or cancellation: others were not tried, or one of them not to the end */
};
double batch_rate(const struct batch_try *tried); /* sequences per second */
/**
 * Searches for each batch as search_run() does: the odd part of the device count, times that of micro-batches that
 * options->space names, doubled until the space takes it and it is about an eighth of the device count, then while
 * doubling helps, at most `most` sequences; then three quarters and one and a half of the best. Batches that the space
 * does not take are passed over. Of batches within 1/1000 of the best the smallest is taken. options->space.batch is
 * ignored; a time limit is for all searches together, and ends them with the best so far. *out is the best batch's
 * result, the caller's. Where no batch has a plan it is that of the fewest sequences tried, and says as search_run()
 * what is missing; where none has a configuration, its `why` is about all of them. Fails as search_run().
 */
bool search_batch(struct search_result **out, struct batch_choice *choice, const struct model *model,
                  const struct facts *facts, const struct search_options *options, int64_t most, struct error *err);
#endif
