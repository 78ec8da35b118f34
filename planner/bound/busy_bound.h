/* The room of the bound: what no plan undercuts in simulation. It uses price/, cut/ (chains) and program/ (schedules);
 * tested by tests/test_space.c against every plan of small spaces, and worked out anew by check/check_busy.h.
 *
 * A bound of the simulated step that holds for every schedule, cut and strategy of one configuration: kernels alone,
 * since their lane runs one after the other whatever else happens.
 *
 * Stage k cannot begin before the first micro-batch has come to its first layer, then runs the kernels of all m; after
 * its last kernel by input the gradient still has to go down to the first layer:
 *
 *   T >= head_k + m (F_k + I_k + W_k)
 *   T >= head_k + m (F_k + I_k) + drain_k       also where weights' gradients (W) come later
 *   T >= head_k + m (F_k + I_k + W_k) + drain_k - (the W of one layer for each stage up to k, without the first)
 *                                               where each layer's W follows its I: chains, schedules that do not split
 *
 * Where steps run into each other (asynchronous schedules) nobody pays for filling and draining: T >= m (F_k + I_k +
 * W_k). Communication, memory, recomputation and the optimizer are left out. With chunks only head and drain of the
 * first chunk count, and the mean over stages; where chunks are copies of the model, of the one that lies further
 * forward. Of models with branches too the mean counts, with the least head that any order allows behind so many
 * layers. Where stages have several meshes, only that: of G meshes one is busy for m (F + I + W) / G, summed over all
 * layers.
 */
#ifndef CLEAVE_BOUND_BUSY_BOUND_H
#define CLEAVE_BOUND_BUSY_BOUND_H
#include "planner/cut/partition.h"
#include "planner/space/space.h"

struct busy;
struct busy_problem {
    const struct chain *chain;
    const struct price_table *table; /* one for bounds is enough */
    int stages, chunks;              /* stages: meshes where stages may have several */
    int64_t micro_batches;
    bool splits, asynchronous, copies; /* of the schedule */
    bool several;                      /* stages may have several meshes */
};
struct busy_problem busy_problem_of(const struct chain *chain, const struct config *config,
                                    const struct price_table *table);
/**
 * Gives *out, below which no plan of the configuration is simulated; at least below_ns where that is known of it
 * (INT64_MAX: as much as can be said). known: what problems of one chain know of its layers, for the next of the same
 * table; may be NULL. Fails only for want of memory.
 */
bool busy_bound(int64_t *out, const struct busy_problem *problem, int64_t below_ns, struct busy *known,
                struct error *err);
struct busy *busy_new(void);    /* NULL: out of memory */
void busy_free(struct busy *b); /* accepts NULL */
/* Bounds one cut of a chain without branches, first_layer (stages); stages may be empty. One chunk. */
bool busy_bound_of_cut(int64_t *out, const struct busy_problem *problem, const int *first_layer, struct error *err);
#endif
