/* What space.c, space_schedules.c and space_turns.c share: a list of configurations in the making. */
#ifndef CLEAVE_SPACE_SPACE_PARTS_H
#define CLEAVE_SPACE_SPACE_PARTS_H
#include "planner/space/space.h"

enum { SPACE_MEMO = 4096 };
/* What context_legal() said of a mesh: many configurations have the same, and each time it walks the whole model. */
struct known_context {
    struct mesh mesh; /* without atoms: of none yet */
    bool legal;
};
struct listing {
    const struct space *space;
    const struct graph *graph;
    const struct cluster *cluster;
    bool beside;        /* of schedules that the closed form does not bound, beside others (space_configs_beside()) */
    bool keeps;         /* else the configurations are only counted */
    struct config *out; /* (count) */
    int count, capacity;
    int64_t expert_most;
    int64_t batch_below, batch_above; /* the nearest that degrees so far would divide; 0, INT64_MAX: none */
    int order_ranks, order_count;     /* of the cluster's groups for stages of so many ranks; 0: none are known yet */
    struct group_order orders[MOST_GROUP_ORDERS];
    struct known_context context[SPACE_MEMO]; /* by hash; the latest of those that share a place */
    struct arena *arena;                      /* of out */
    const struct space_stop *stop;            /* NULL: never */
    int asked;                                /* how often it might have been */
    bool ended;                               /* it was time, and the list is not whole */
    bool out_of_memory;
};

/* ---- space.c ---- */

/* Whether the listing ends here, whole or not: asked wherever it may take long to come back. */
bool space_listing_ends(struct listing *l);
/* With every micro-batch that the degrees and the space allow. */
void space_add_micro_batches(struct listing *l, struct config config, const struct degrees *d);
/* Whether the space has the data degree and it divides the batch. Which batches near it it would divide is noted. */
bool space_shares_batch(struct listing *l, int data);
/* With every dimension that the degrees may stand for, and all that follows. */
void space_add_variants(struct listing *l, const struct config *config, struct degrees d);

/* ---- space_schedules.c ---- */

/* Choices that make no difference are listed once: one stage has no schedule, one data-parallel rank gathers nothing.
 */
void space_add_schedules(struct listing *l, struct config config);
/* Whether the space has pipelines that the closed form bounds. */
bool space_has_bounded(const struct space *space);

/* ---- space_turns.c ---- */

/* Whether the search knows stages of several meshes under it: synchronous, with one chunk for each stage. */
bool space_takes_turns(int schedule);
/* Configurations whose stages have several meshes; ranks: what tensor and context parallelism leave. */
void space_add_turns(struct listing *l, int ranks, struct degrees d);
/* Sets the numbers of meshes that a stage of the configuration may have, of which no replica is without a micro-batch.
 * False: it has no more than one, or some meshes are left even when there are no more stages than layers, or than are
 * given. */
bool space_set_turns(struct listing *l, struct config *config);
/* The schedules whose stages can have several meshes. */
bool space_check_turns(const struct space *space, struct error *err);
#endif
