/* Inside lowering: what lower*.c share, and what each of them does for the others where no header has its name. Stages
 * are lowered one after another; everything is made on demand, so what communicates, what is computed again and what
 * stays alive follow from who asks for which version. */
#ifndef CLEAVE_LOWER_LOWER_PARTS_H
#define CLEAVE_LOWER_LOWER_PARTS_H
#include "base/memo.h"
#include "planner/program/clock.h"
#include "planner/program/recipe.h"

/* What says where in the program something is asked for. */
struct site {
    enum phase phase;
    bool again; /* recomputation */
    bool late;  /* forward work of the backward action */
    int layer, micro;
};

/* ---- state ---- */
struct version_note {
    int next, as;
    bool live;
}; /* by buffer: next version of the same (value, micro-batch); the buffer in its place where a pass is repeated */

/* A weight on the stage at hand. Its first use there gives the layouts of storage. */
struct stage_weight {
    int segment, index;                   /* of the first use; segment -1: not on this stage */
    int contributions;                    /* backward passes of one micro-batch that write its gradient */
    int part_count, part_dim, first_part; /* first_part: into lowering.weights.parts */
    int zero;
    unsigned shard, rest; /* atoms over which ZeRO shards; other atoms on which the gradient is partial */
    unsigned server;      /* further ones: their first rank takes the sum and updates */
};
struct weight_part {
    int weight;
    int stored, gradient; /* buffers; gradient -1: frozen; of several versions the first */
    int version_count;
    int full; /* the unreduced gradient where it is not the gradient itself; -1: none now */
    bool full_defined, gradient_defined;
    int left; /* contributions until the last reduction */
};
struct weight_use {
    int weight, part, buffer, visit;
    bool kept; /* until the end of the step */
    struct layout layout;
}; /* a gathered weight that lives now */
struct foreign {
    int part, layer, buffer;
    bool defined;
}; /* gradient of a use whose layout is not the first use's */
struct bucket {
    enum op op;
    unsigned atoms;
    enum lane lane;
    bool accumulate;
    struct site site;
    int64_t bytes;
    int count, capacity;
    struct pair *pairs;
};
enum { MAX_BUCKETS = 8, MAX_HOLDERS = 256 }; /* stages that may share a weight */
enum message_kind { MESSAGE_VALUE, MESSAGE_GRADIENT, MESSAGE_WEIGHT };
struct message {
    int send_pair, receive_pair; /* -1: not yet */
};
struct pending {
    enum message_kind kind;
    int id, number, peer, buffer;
    enum step_part part;
    struct site site;
}; /* a SEND not yet emitted */
struct crossing {
    int value, stage, chunk, arrived;
}; /* a value that another stage reads or makes; of replicas the first; the chunk that makes it here, or reads it first;
      the buffer of its gradient for the pass at hand */
/* What the layers of one action made stands in the stage's list: [first, end). */
struct pass_made {
    struct action action;
    int first, end;
};
struct visit {
    struct action action;
    int layer;
    bool opens, closes;
    int number;
}; /* one layer in one action; its first, its last; the action's number on the stage */
enum recomputed { RECOMPUTED_NEVER, RECOMPUTED_FOR_INPUT, RECOMPUTED_FOR_WEIGHT }; /* by which half of backward first */
struct segment_range {
    int first, end;
};
struct arrival {
    struct clock_message sent; /* by rank the value: a pass sends them in this order */
    int index, micro;
    bool gradient;
}; /* a message to the stage at hand; index into entering, of gradients into leaving */

/* What the graph and its recipes say, whatever the stage. */
struct lowering_known {
    struct segment_recipe *recipes; /* by segment */
    int *reader_head, *reader_next; /* readers of a value: slots segment * MAX_OPERANDS + input, ascending */
    int *use_count;                 /* by weight: uses in the whole graph */
    int *use_head, *use_next;       /* uses of a weight: slots like those of readers */
    uint8_t *recomputed;            /* by segment: enum recomputed, who asks for its outputs again */
};
/* Of the loss in chunks, the walked segments, of the graph; the chunk at hand; inputs of the first segment whose
 * gradient holds nothing but what this walk has written. */
struct lowering_walk {
    int first, end, round;
    unsigned defines;
};
/* The stage at hand. */
struct lowering_here {
    int position;                                 /* its number; of replicas that take turns that of the first */
    int copies, copy;                             /* of the model; that of the micro-batch at hand */
    int micro_count;                              /* micro-batches that it runs */
    struct segment_range chunks[PLAN_MAX_CHUNKS]; /* its segments, by chunk */
    int chunk_count;
};
/* Buffers and instructions while they grow. */
struct lowering_made {
    int *version_head[2];       /* [gradient][value * micro_count + micro] */
    int first_buffer;           /* the stage's own, behind those of the stages before it */
    struct version_note *notes; /* by buffer - first_buffer; on the heap, as the program's buffers while they grow */
    struct instr *instrs;       /* of the stage at hand, likewise; the room serves all stages */
    int buffer_capacity, note_capacity, pair_capacity, operand_capacity, instr_capacity, repeated_capacity;
    struct instr spare; /* written to after a failure */
};
struct lowering_weights {
    struct stage_weight *of; /* by weight */
    int *list, count;        /* those on the stage */
    struct weight_part *parts;
    int part_count, part_capacity;
    struct weight_use *uses; /* that live now */
    int use_count, use_capacity;
    struct foreign *foreign;
    int foreign_count, foreign_capacity;
    struct bucket buckets[MAX_BUCKETS];
    int *reduced; /* parts in the order of their last reduction */
    int reduced_count, reduced_capacity;
};
/* What comes from other stages and goes there. */
struct lowering_crossings {
    struct crossing *entering, *leaving; /* sorted by value, then stage */
    int entering_count, leaving_count;
    struct clock clock;       /* stages NULL: receives are posted when an action begins */
    struct arrival *arrivals; /* in the order in which they are posted */
    int arrival_count, posted_count;
    int *received; /* buffers of arrivals, [(entering, then leaving) * micro_count + micro] */
};
/* Asynchronous schedules. */
struct lowering_steady {
    enum step_part part;                         /* of the action at hand */
    int version;                                 /* of the weights that the action uses, counted as in struct buffer */
    int *opened;                                 /* buffers that the opening made, in order */
    int opened_count, opened_capacity, reopened; /* reopened: how many of them the part ahead has made anew */
    int *ahead_of;                               /* by entering: received for the first micro-batch after the opening */
};
struct lowering_visits {
    struct visit *list;
    struct pass_made *made;
    int made_count;
    int count, at; /* at: the one at hand */
    int gathered;  /* those whose weights have been asked for */
};
struct lowering_messages {
    struct pending *pending;
    int pending_count, pending_capacity;
    bool ordered;         /* values skip stages: messages follow the common order of all actions */
    int *place[2];        /* [backward](stage * micro_count + micro): place of the action in it, if ordered */
    struct message *list; /* on the heap */
    int count, capacity;
    struct memo tags; /* by kind, both stages, what and of which micro-batch: the number in the list */
};

struct lowering {
    struct program *program;
    const struct graph *graph;
    const struct plan *plan;
    struct error *err;
    struct arena scratch;
    struct arena growing; /* of the stage at hand: its visits, arrivals and noted passes */
    bool failed;
    bool in_place; /* all-reduces of values happen in their buffer; not while partial sums may be wanted later */
    int micro_count;
    int stage; /* the stage at hand */
    struct lowering_known known;
    struct lowering_here here;
    struct lowering_walk walk;
    struct lowering_made made;
    struct lowering_weights weights;
    struct lowering_crossings crossings;
    struct lowering_steady steady;
    struct lowering_visits visits;
    struct lowering_messages messages;
    struct repeat *repeats; /* of the stage at hand, by kind of action and chunk; NULL: none */
};

static inline struct buffer *buffer_at(const struct lowering *l, int buffer)
{
    return &l->program->buffers[buffer];
}
static inline struct version_note *note_of(const struct lowering *l, int buffer)
{
    return &l->made.notes[buffer - l->made.first_buffer];
}
static inline struct segment_recipe *recipe_of(const struct lowering *l, int segment)
{
    return &l->known.recipes[segment];
}
static inline const struct assignment *assignment_of(const struct lowering *l, int segment)
{
    return &l->program->assignments[segment];
}

/* ---- when receives are posted (lower_arrivals.c) ---- */
/* Gives the stage that runs the layer for the copy at hand; of replicas that take turns the first. */
int lower_stage_at_hand(const struct lowering *l, int layer);
/* Gives the one of a stage's replicas that has the micro-batch, where they take turns. */
int lower_peer_of(const struct lowering *l, int stage, int micro);
bool lower_list_arrivals(struct lowering *l);
/* Posts the receives that are due before the stage's action of that number. */
void lower_post_arrivals(struct lowering *l, int action);
/* Gives the buffer where an entering value, or a leaving one's gradient, was or is now received; not live yet. */
int lower_arrived(struct lowering *l, bool gradient, int index, int micro);

/* ---- the common order of messages where values skip stages (lower_times.c) ---- */
/* Finds out whether messages have to be ordered, and how. */
bool lower_times(struct lowering *l);
bool lower_run_clock(struct lowering *l); /* where receives are posted early (lower.c) */
/* Gives the place of the action of a stage that reads a message of the kind. */
int message_place(const struct lowering *l, enum message_kind kind, int stage, int micro);

/* ---- passes that are copied from one that found the same (lower_repeat.c) ---- */
bool repeat_open(struct lowering *l); /* once the stage's weights are there; false: memory is short */
/* Copies the inside of a pass, all its layers, from one that found the same; false: it is to be lowered, and noted from
 * repeat_note() to repeat_end(). */
bool repeat_pass(struct lowering *l, const struct action *action);
void repeat_note(struct lowering *l, const struct action *action);
void repeat_end(struct lowering *l, const struct action *action);

/* ---- asynchronous schedules (lower_steady.c) ---- */
/* Turns to the action: its part of the step, its version of the weights. The part ahead makes its values anew, in the
 * buffers that the opening made. */
void steady_begin(struct lowering *l, const struct action *action);
/* Receives, behind the opening and behind the whole list, what the next forward pass reads, so that no message crosses
 * the border of a step. */
void steady_receive(struct lowering *l, enum step_part part);
/* Gives the buffer that was so received; -1: it is to be received now. */
int steady_received(const struct lowering *l, int index, int micro);
/* Gives the opening's buffer instead of a new one, described anew; -1: none. Notes those that the opening makes. */
int steady_reuse(struct lowering *l, const struct buffer *buffer);
void steady_note(struct lowering *l, int buffer);
/* Gives the number of a micro-batch in messages: those of the next step have numbers of their own. */
int steady_number(const struct lowering *l, int micro);

/* ---- backward passes of segments (lower_backward.c) ---- */
/* Settles all gradient versions of a value into its base version; -1 when there is none. */
int lower_settle(struct lowering *l, int value, const struct site *site);
bool lower_has_input_phase(const struct lowering *l, int segment);
bool lower_has_weight_phase(const struct lowering *l, int segment);
void backward_segment(struct lowering *l, int segment, int micro, bool input, bool weight);

/* ---- the loss in chunks (lower_walk.c) ---- */
/* True when the segment is run chunk by chunk, by the backward action. */
bool lower_is_walked(const struct lowering *l, int segment);
void lower_find_walk(struct lowering *l); /* once assignments are there */
/* Walks all chunks of the loss for a micro-batch, while the layer of the product is visited. */
void walk_loss(struct lowering *l, int micro);

/* ---- buckets, and the update at the end of a step (lower_step.c) ---- */
/* Queues a transfer that may be fused with others of its kind; at 0 bucket_bytes it is emitted at once. */
void bucket_add(struct lowering *l, enum op op, unsigned atoms, enum lane lane, bool accumulate,
                const struct site *site, int source, int destination);
void bucket_flush(struct lowering *l, bool step); /* all that wait; without step those of this layer's passes alone */
/* Emits the update of all weights; micro: of the micro-batch, -1 of the step. */
void lower_step(struct lowering *l, int micro);

/* ---- what lies in the host's memory between uses (lower_offload.c) ---- */
/* Sends, behind the walk, those of the stage's values to the host that backward reads much later, and back; fetches
 * weights that lie there for each visit that reads them, and returns them from the update. */
void offload_between_uses(struct lowering *l);
/* Fetches the optimizer's state of a part from the host; returns its buffer, -1: it stays on the device. */
int lower_fetch_state(struct lowering *l, int number, int micro);
void lower_return_state(struct lowering *l, int number, int fetched, int micro);

/* ---- passes that take turns (lower_overlap.c) ---- */
/* Where the framework does so (struct keeping), reorders the stage's list, once all passes are in it, so that the
 * computations of one pass hide the exchanges of the other. */
void overlap_experts(struct lowering *l);

/* ---- which instructions of other lanes each one waits for (waits.c) ---- */
/* Finds the waits of the finished list of the stage at hand. */
bool waits_find(struct lowering *l);
#endif
