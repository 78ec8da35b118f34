/* What the walk of a pipeline is about: its pieces, what they exchange, and the clocks of its stages. */
#ifndef CLEAVE_ESTIMATE_PIPELINE_PARTS_H
#define CLEAVE_ESTIMATE_PIPELINE_PARTS_H
#include "base/arena.h"
#include "planner/program/schedule.h"
#include "planner/estimate/pipeline.h"

enum { MAX_AHEAD = 8 };

/* A layer's reductions: from when on there are gradients, and when the last one is there. holds: what is reduced has
 * bytes that are wanted again. */
struct pending {
    int64_t first_ns, last_ns, reduce_ns, tail_ns, end_ns;
    bool holds;
};
/* Between pieces of two stages. The micro-batch is numbered among the receiver's own. */
struct message {
    int from, to, micro;
    bool backward;
    bool done;
};
/* What waits to be sent. */
struct sending {
    struct message message;
    int64_t ready_ns, ns;
};
struct arrival {
    struct message message;
    int action;   /* before which its receive is posted */
    int64_t time; /* by which such receives are ordered, where not by the actions that read them (clock.h) */
    int stage;    /* the sender's: by which those of one time are */
    int order;    /* among those that one pass sends */
};
struct stage_walk {
    struct action *actions;
    int64_t *end_ns; /* (action_count) of actions, as far as they were walked */
    int action_count, next;
    struct sending *queue; /* in the order of sending */
    int queued, sent;
    struct arrival *arrivals; /* in the order of receives */
    int arrival_count, received;
    int64_t sending_ns, receiving_ns;      /* when these are free */
    int64_t compute_ns, lane_ns;           /* when each is free */
    int64_t use_end[MAX_AHEAD + 1];        /* ring: ends of the latest uses */
    struct pending pending[MAX_AHEAD + 1]; /* ring: not yet issued, by use */
    int64_t uses, last_exchange;           /* last_exchange: the latest use with reductions; below 0: none had any */
    int64_t left_ns;                       /* of compute, in actions that are still to come and after them */
    bool gathers;                          /* some layer's weights are gathered */
};
/* A chunk of a stage; they are numbered in the order of layers, copy after copy. */
struct piece {
    struct layer_range layers;
    int *others[2]; /* [backward] (other_count) to which something goes: later ones, earlier ones; first replicas */
    int other_count[2];
    int64_t *arrived[2]; /* [backward] (other_count[!backward], own micro-batches) when it came from each */
    int *missing[2];     /* [backward] (own micro-batches) pieces from which something is still to come */
    int own_micros;
    int backwards_left;
    bool gathered; /* what stays for the step */
    bool reduces;  /* gradients of some layer in each backward pass */
};
enum { PASS_KINDS = ACTION_BACKWARD_WEIGHT + 1 };
struct pipeline {
    const struct plan *plan;
    const struct layer_price **price[2]; /* [copy, or the only one] (layers) by place in the plan's order */
    int64_t *work_ns[2][PASS_KINDS];     /* (layers + 1) compute of the layers before each place, by kind of pass */
    const struct price_table *table;
    const struct facts *facts;
    int *values; /* (pieces, pieces): values that the first makes and the second reads; of replicas the first's */
    int64_t *message_ns; /* (pieces, pieces) how long they take to get there, and the gradients to get back */
    int *made, *read;    /* (pieces, pieces) places of the last layer that makes one, and of the first that reads one */
    bool *makes, *reads; /* (layers) by place: whether it is such a layer */
    int ahead, micro_batches, piece_count;
    int further;                   /* micro-batches that the step has beside those that are walked */
    int64_t below_ns, too_long_ns; /* too_long_ns: 0, or no less than below_ns, and the step takes no less */
    bool skips; /* some value goes to a stage that is not the next: its sends stand where they are read (lower_times.c)
                 */
    bool early; /* receives are posted in the order of a clock (planner/lower/lower_arrivals.c) */
    int *turns; /* (stages) */
    struct piece *pieces;
    struct stage_walk *stages;
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

/* pipeline_arrivals.c: what each stage receives, in which order. False: out of memory, unless *err says more. */
bool pipeline_list_arrivals(struct pipeline *p, const struct chain *chain, struct arena *arena, struct error *err);
/* What the stage waits for and others have ready arrives; true: something did. */
bool pipeline_receive(struct pipeline *p, int stage);
/* Where stages wait for each other, lowering has another order: what the stage would send first arrives. */
bool pipeline_send_anyhow(struct pipeline *p, int stage);

/* Of two pieces of one copy, in the order of layers. */
static inline int pipeline_pair(const struct pipeline *p, int one, int other)
{
    return one < other ? one * p->piece_count + other : other * p->piece_count + one;
}

/* Where in `arrived` is what the piece gets from another, a first replica. */
static inline int64_t *pipeline_arrived(const struct piece *piece, int from, int micro, bool backward)
{
    int at = 0;
    while (piece->others[!backward][at] != from)
        at++;
    return &piece->arrived[backward][at * piece->own_micros + micro];
}

/* pipeline_exchange.c: raises when each stage has all gradients, (stages). */
void pipeline_exchange(const struct pipeline *p, const struct chain *chain, int64_t *end_ns);

static inline int pipeline_piece_of(const struct pipeline *p, int stage, const struct action *action)
{
    return schedule_piece(schedules[p->plan->schedule], p->plan->stage_count, stage, action->chunk);
}

/* Fills all of it but plan, table, facts, prices, ahead and micro_batches, in the arena. False: out of memory, unless
 * *err says more.
 */
bool pipeline_open(struct pipeline *p, const struct chain *chain, struct arena *arena, struct error *err);
#endif
