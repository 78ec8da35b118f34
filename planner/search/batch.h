/* The batch that makes the most of the devices: of several, the one with the most sequences per second. */
#ifndef CLEAVE_SEARCH_BATCH_H
#define CLEAVE_SEARCH_BATCH_H
#include "planner/search/search.h"

enum { BATCH_TRIES = 32 };
struct batch_try {
    int64_t batch, step_ns; /* step_ns 0: nothing fits, or no configuration divides it */
};
struct batch_choice {
    int try_count;
    struct batch_try tries[BATCH_TRIES]; /* in the order in which they were tried */
    int best;                            /* -1: none */
    bool settled; /* twice and four times the best bring no 1/200 more; else the largest allowed batch ended the search
                   */
};
double batch_rate(const struct batch_try *tried); /* sequences per second */
/**
 * Searches for each batch as search_run() does: powers of two times an eighth of the device count's, while they help,
 * at most `most` sequences; then three quarters and one and a half of the best. Of batches within 1/1000 of each other
 * the smaller is taken. options->space.batch is ignored; a time limit is for all searches together. *out is the best
 * batch's result, the caller's; fails when no batch has a plan.
 */
bool search_batch(struct search_result **out, struct batch_choice *choice, const struct model *model,
                  const struct facts *facts, const struct search_options *options, int64_t most, struct error *err);
#endif
