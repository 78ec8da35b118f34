/* What the walk of a pipeline is about: its pieces, what they exchange, and the order of passes and messages. */
#ifndef CLEAVE_ESTIMATE_PIPELINE_PARTS_H
#define CLEAVE_ESTIMATE_PIPELINE_PARTS_H
#include "base/arena.h"
#include "planner/program/schedule.h"
#include "planner/estimate/pipeline.h"
#include "planner/estimate/pipeline_order.h"

enum { PASS_KINDS = ACTION_BACKWARD_WEIGHT + 1 };
/* The values that one piece makes and another reads; of replicas that take turns the first ones stand for all. */
struct link {
    int maker, reader;
    int made, read;           /* places of the last layer that makes one, and of the first that reads one */
    int made_rank, read_rank; /* when the maker hands them on, and the reader their gradients, among its links */
    int64_t ns[2];            /* [backward] how long they take to get there, and the gradients to get back */
};
/* A chunk of a stage; pieces are numbered in the order of layers, copy after copy. */
struct piece {
    struct layer_range layers;
    int stage, copy;
    int *links[2]; /* [0]: (link_count[0]) that it makes, by readers; [1]: that it reads, from the last maker on */
    int link_count[2];
};
struct pipeline {
    const struct plan *plan;
    const struct layer_price **price[2]; /* [copy, or the only one] (layers) by place in the plan's order */
    const struct price_table *table;
    const struct facts *facts;
    int ahead, micro_batches, piece_count, link_count, link_capacity;
    int further; /* micro-batches that the step has beside those that are walked */
    int *turns;  /* (stages) */
    struct piece *pieces;
    struct link *links;
};
/* A pass, or a message that takes its sender's lane out and its receiver's lane in. */
struct event {
    int number;    /* the pass's piece; of a message 2 * link + backward */
    int at;        /* which end of all the pass's is; the end that the message's receive waits for; 0: the beginning */
    int stage, to; /* that acts or sends; that receives, -1: a pass */
    unsigned micro : 28, kind : 3, last : 1; /* kind of pass, and the piece's last that makes gradients of weights */
};
/* All passes and messages of a walk, in an order in which each comes behind what it waits for. It follows from the
 * schedule and from who sends to whom, and from no duration. */
struct pipeline_order {
    struct pipeline_order *next;
    struct arena arena;
    int64_t *key; /* (words) what it follows from */
    size_t words;
    uint64_t hash;        /* of the key */
    struct event *events; /* (event_count) */
    int event_count;
    int *first_end; /* (stages + 1) numbers of the stages' first passes among all ends */
    int *passes;    /* (pieces, PASS_KINDS) how many there are */
    bool kept;      /* on a shelf */
};

/* Gives the number of pieces of one copy of the model. */
static inline int pipeline_copied(const struct pipeline *p)
{
    return p->piece_count / plan_copies(p->plan);
}

/* pipeline_open.c: fills in all of it but plan, table, facts, prices, ahead and micro-batches, in the arena. False when
 * out of memory. */
bool pipeline_open(struct pipeline *p, const struct chain *chain, struct arena *arena);

/* pipeline_order.c: takes the order off the shelf, which may be NULL, or makes it anew. The caller gives it back. */
bool pipeline_order_take(struct pipeline_order **out, struct pipeline_shelf *shelf, const struct pipeline *p,
                         const struct chain *chain, struct error *err);
void pipeline_order_give(struct pipeline_order *order); /* accepts NULL */

/* pipeline_exchange.c: raises the times at which each stage has all gradients, (stages). */
void pipeline_exchange(const struct pipeline *p, const struct chain *chain, int64_t *end_ns);
#endif
