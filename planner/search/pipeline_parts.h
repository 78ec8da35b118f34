/* What the walk of a pipeline is about: its pieces, what they exchange, and the clocks of its stages. */
#ifndef CLEAVE_SEARCH_PIPELINE_PARTS_H
#define CLEAVE_SEARCH_PIPELINE_PARTS_H
#include "base/arena.h"
#include "planner/program/schedule.h"
#include "planner/search/pipeline.h"

enum { MAX_AHEAD = 8 };

/* A layer's reductions: from when on there are gradients, and when the last one is there. holds: what is reduced has
 * bytes that are wanted again. */
struct pending {
    int64_t first_ns, last_ns, reduce_ns, tail_ns, end_ns;
    bool holds;
};
/* What waits to be sent. */
struct message {
    int from, to, micro;
    bool backward;
    int64_t ready_ns;
};
struct stage_clock {
    struct action *actions;
    int action_count, next;
    struct message *queue; /* in the order of sending */
    int queued, sent;
    int64_t sending_ns, receiving_ns;                               /* when these are free */
    int64_t before_ns;                                              /* the end of the action before the latest */
    int64_t compute_ns, lane_ns, send_forward_ns, send_backward_ns; /* when each is free */
    int64_t use_end[MAX_AHEAD + 1];                                 /* ring: ends of the latest uses */
    struct pending pending[MAX_AHEAD + 1];                          /* ring: not yet issued, by use */
    int64_t uses;
};
/* A chunk of a stage; they are numbered in the order of layers, copy after copy. */
struct piece {
    struct layer_range layers;
    int64_t *arrived[2]; /* [backward] (own micro-batches) the latest of what came */
    int *missing[2];     /* [backward] (own micro-batches) pieces from which something is still to come */
    int *others[2]; /* [backward] (other_count) to which something goes: later ones, earlier ones; first replicas */
    int other_count[2];
    int backwards_left;
    bool gathered; /* what stays for the step */
};
struct pipeline {
    const struct plan *plan;
    const struct layer_price **price[2]; /* [copy, or the only one] (layers) by place in the plan's order */
    const struct price_table *table;
    const struct facts *facts;
    int *values; /* (pieces, pieces): values that the first makes and the second reads; of replicas the first's */
    int64_t *message_ns; /* (pieces, pieces) how long they take to get there, and the gradients to get back */
    int ahead, micro_batches, piece_count;
    bool meets; /* sends wait for their receivers, in the order of both sides */
    int *turns; /* (stages) */
    struct piece *pieces;
    struct stage_clock *stages;
};

/* The first of the piece's replicas that take turns; the piece itself where none do. */
static inline int pipeline_first_replica(const struct pipeline *p, int piece)
{
    return p->plan->chunk_count > 1 ? piece : piece - p->plan->stages[piece].turn;
}

static inline int pipeline_replicas(const struct pipeline *p, int piece)
{
    return p->plan->chunk_count > 1 ? 1 : p->turns[piece];
}

/* Pieces of one copy of the model. */
static inline int pipeline_copied(const struct pipeline *p)
{
    return p->piece_count / plan_copies(p->plan);
}

static inline int pipeline_stage_of(const struct pipeline *p, int piece)
{
    return schedule_stage(schedules[p->plan->schedule], p->plan->stage_count, piece);
}

/* Fills all of it but plan, table, facts, prices, ahead and micro_batches, in the arena. False: out of memory. */
bool pipeline_open(struct pipeline *p, const struct chain *chain, struct arena *arena);
#endif
