/* Inside lowering: what lower*.c and convert.c share. Stages are lowered one after another; everything is made on
 * demand, so what communicates, what is computed again and what stays alive follow from who asks for which version. */
#ifndef CLEAVE_LOWER_LOWER_PARTS_H
#define CLEAVE_LOWER_LOWER_PARTS_H
#include "planner/program/clock.h"
#include "planner/program/recipe.h"

/* Where in the program something is asked for. */
struct site {
    enum phase phase;
    bool again; /* recomputation */
    bool late;  /* forward work of the backward action */
    int layer, micro;
};

/* ---- conversions (convert.c) ---- */
enum { MAX_CONVERSIONS = 8 };
struct conversion {
    enum op op;
    unsigned atoms;
    struct layout to;
};
/**
 * The chain of collectives from one layout of a tensor to another on the mesh of a stage: reduce and cut first, gather
 * last; where single steps do not fit (nesting order, divisibility) one redistribution. extent: of each dim, before any
 * split. Returns the number of steps, 0 for equal layouts, -1 when there is no way (replicated to partial).
 */
int conversion_path(const int atom_size[MAX_ATOMS], const int64_t extent[MAX_DIMS], int dim_count,
                    const struct layout *from, const struct layout *to, struct conversion out[MAX_CONVERSIONS]);
/* Relative price of a chain, for choosing a source: 0 when nothing moves between ranks. */
int conversion_price(const struct conversion *path, int count);

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
    bool offload;         /* its state lies in host memory */
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
    uint64_t key;
    int send_pair, receive_pair; /* -1: not yet */
};
struct pending {
    enum message_kind kind;
    int id, number, peer, buffer;
    enum step_part part;
    struct site site;
}; /* a SEND not yet emitted */
struct crossing {
    int value, stage, chunk;
}; /* a value that another stage reads or makes; of replicas the first; the chunk that makes it here, or reads it first
    */
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
/* The loss in chunks: the walked segments, of the graph; the chunk at hand; inputs of the first segment whose gradient
 * holds nothing but what this walk has written. */
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
    int buffer_capacity, note_capacity, pair_capacity, operand_capacity, instr_capacity;
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
    int count, at; /* at: the one at hand */
    int gathered;  /* those whose weights have been asked for */
};
struct lowering_messages {
    struct pending *pending;
    int pending_count, pending_capacity;
    bool ordered;         /* values skip stages: messages follow the common order of all actions */
    int *place[2];        /* [backward](stage * micro_count + micro): place of the action in it, if ordered */
    struct message *list; /* these two on the heap */
    int count, capacity, *slots, slot_count;
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

/* ---- lower_emit.c ---- */
bool lower_memory(struct lowering *l); /* notes that memory is short; false */
/* Makes room for one more in an array of the arena; false after a failure. */
bool lower_grow(struct lowering *l, struct arena *arena, void **array, int count, int *capacity, size_t size);
struct instr *emit(struct lowering *l, enum op op, enum lane lane, const struct site *site);
struct instr *emit_pair(struct lowering *l, enum op op, enum lane lane, const struct site *site, int source,
                        int destination);
int add_pair(struct lowering *l, int source, int destination);
/* Makes room for so many of the stage more; false after a failure. */
bool lower_room(struct lowering *l, int instrs, int buffers, int pairs, int operands);
void set_operands(struct lowering *l, struct instr *instr, const struct operand_table *table);
/* Adds a buffer; sizes follow from it. */
int add_buffer(struct lowering *l, struct buffer buffer);
/* A buffer with the source's tensor and data type in another layout, of the given kind; its first version. */
int add_buffer_like(struct lowering *l, int source, const struct layout *layout, enum buffer_kind kind);
/* No value has a version any more: the stage is done. */
void forget_versions(struct lowering *l);
/* Versions of values: a new one (not live yet), the live one of a layout or -1. */
int add_version(struct lowering *l, bool gradient, int value, int micro, const struct layout *layout);
int find_version(const struct lowering *l, bool gradient, int value, int micro, const struct layout *layout);
int *version_head(const struct lowering *l, bool gradient, int value, int micro);
static inline int first_version(const struct lowering *l, bool gradient, int value, int micro)
{
    return *version_head(l, gradient, value, micro); /* live or not; walk on by note_of()->next */
}
void set_live(struct lowering *l, int buffer, bool live);
/* The lane of collectives over the atoms in a layer. Weights and their gradients travel on the data-parallel lane where
 * a dimension shards, whatever it does to values: nothing that computes waits for them in order. */
enum lane atom_lane(const struct lowering *l, int layer, unsigned atoms, bool weight);
/* Steps on the way to a layout; returns the buffer that holds it, of the kind. consume: an all-reduce may happen in the
 * source. */
int convert_buffer(struct lowering *l, int source, const struct layout *to, enum buffer_kind kind, bool consume,
                   const struct site *site);
int path_between(const struct lowering *l, int source, const struct layout *to,
                 struct conversion path[MAX_CONVERSIONS]);
/* Both ends of a message meet by what it carries (number: the micro-batch). Sends wait in a queue until the receives
 * that may be posted beside them are emitted: a receive later in the list could be given the bytes of what is being
 * sent, and two stages that exchange messages would then wait for each other. */
void queue_send(struct lowering *l, enum message_kind kind, int id, int number, int peer, int buffer,
                const struct site *site);
void emit_receive(struct lowering *l, enum message_kind kind, int id, int number, int peer, int buffer,
                  const struct site *site);
void emit_sends(struct lowering *l);
/* Where messages are ordered: those that are read before the action at `place`. */
void emit_sends_before(struct lowering *l, int place);
bool messages_close(struct lowering *l);

/* ---- lower_times.c ---- */
/* Finds out whether messages have to be ordered, and how. */
bool lower_times(struct lowering *l);
/* Place of the action of a stage that reads a message of the kind. */
int message_place(const struct lowering *l, enum message_kind kind, int stage, int micro);

/* ---- lower_arrivals.c ---- */
/* The stage that runs the layer for the copy at hand; of replicas that take turns the first. */
int stage_at_hand(const struct lowering *l, int layer);
/* Of a stage's replicas that take turns, the one that has the micro-batch. */
int peer_of(const struct lowering *l, int stage, int micro);
bool list_arrivals(struct lowering *l);
/* The receives that are due before the stage's action of that number. */
void post_arrivals(struct lowering *l, int action);
/* The buffer into which an entering value, or the gradient of a leaving one, was or is now received; not live yet. */
int arrived(struct lowering *l, bool gradient, int index, int micro);

/* ---- lower_values.c ---- */
bool made_here(const struct lowering *l, int value);
/* The chunk of the stage at hand that runs the segment for the copy at hand, -1: another stage does. */
int chunk_of(const struct lowering *l, int segment);
/* Where the value enters this stage: its producer's layouts here, or those in which a received one lands. */
struct layout_pair base_layouts(const struct lowering *l, int value);
/* The layouts in which it crosses to other stages: sums are complete. */
struct layout_pair sent_layouts(const struct lowering *l, int value);
/* True when the value is read outside its layer. */
bool value_leaves(const struct lowering *l, int value);
/* The live buffer of a version, made if need be: loaded, converted, or computed. */
int materialize(struct lowering *l, int value, const struct layout *layout, const struct site *site);
void forward_segment(struct lowering *l, int segment, const struct site *site);
/* Recomputation is this: versions are forgotten after the forward pass and asked for again by the backward pass. */
void forget_values(struct lowering *l, const struct action *action);
void find_recomputed(struct lowering *l);
/* Room for the next round of a ring: the operand's block one step further. */
int ring_buffer(struct lowering *l, int buffer, int round, int atom, enum buffer_kind kind);

/* ---- lower_backward.c ---- */
/* All gradient versions of a value into its base version; -1 when there is none. */
int settle(struct lowering *l, int value, const struct site *site);
bool has_input_phase(const struct lowering *l, int segment);
bool has_weight_phase(const struct lowering *l, int segment);
void backward_segment(struct lowering *l, int segment, int micro, bool input, bool weight);
/* lower_values.c: whether what the segment makes would be forgotten before the walk, which alone reads it: then the
 * walk begins with it. */
bool is_put_off(const struct lowering *l, int segment);

/* ---- lower_walk.c ---- */
/* Whether the segment is run chunk by chunk, by the backward action. */
bool is_walked(const struct lowering *l, int segment);
void find_walk(struct lowering *l); /* once assignments are there */
/* All chunks of the loss for a micro-batch, while the layer of the product is visited. */
void walk_loss(struct lowering *l, int micro);

/* ---- lower_weights.c ---- */
void collect_weights(struct lowering *l);
/* Sums a part's gradient over the atoms that do not shard: each rank gets the sum, or a server does. */
void reduce_unsharded(struct lowering *l, int number, const struct site *site);
/* After an update that another one follows: gradients begin anew. */
void renew_gradients(struct lowering *l);
/* The buffer of a part's version, counted from the newest at the beginning of the step. */
int part_version(const struct weight_part *part, int version);
/* The layout in which the optimizer reads the gradient of a weight whose storage follows this use. */
struct layout reduced_layout(const struct lowering *l, int segment, int index);
/* The buffer that a segment's weight operand reads in a round. */
int use_weight(struct lowering *l, int segment, int index, int round, const struct site *site);
void release_parts(struct lowering *l); /* a sliced operator gathers, uses and frees one slice at a time */
void release_visit(struct lowering *l); /* gathered weights end with the visit that they were gathered for, or stay */
void gather_ahead(struct lowering *l);  /* the weights of the next visits, plan->prefetch layers ahead */
/* The buffer that BWD_WEIGHT writes; *define: it holds nothing yet. */
int weight_gradient(struct lowering *l, int segment, int index, int round, const struct site *site, bool *define);
/* After BWD_WEIGHT's last round on that buffer: reductions that are due now. */
void weight_contributed(struct lowering *l, int segment, int index, int round, const struct site *site);

/* ---- lower_steady.c: asynchronous schedules ---- */
/* Turns to the action: its part of the step, its version of the weights. The part ahead makes its values anew, in the
 * buffers that the opening made. */
void steady_begin(struct lowering *l, const struct action *action);
/* Behind the opening, and behind the whole list: receives what the next forward pass reads, so that no message crosses
 * the border of a step. */
void steady_receive(struct lowering *l, enum step_part part);
/* The buffer that was so received; -1: it is to be received now. */
int steady_received(const struct lowering *l, int index, int micro);
/* The opening's buffer instead of a new one, its description renewed; -1: none. Notes those that the opening makes. */
int steady_reuse(struct lowering *l, const struct buffer *buffer);
void steady_note(struct lowering *l, int buffer);
/* Micro-batches of the next step have numbers of their own in messages. */
int steady_number(const struct lowering *l, int micro);

/* ---- lower_step.c ---- */
/* Queues a transfer that may be fused with others of its kind; at 0 bucket_bytes it is emitted at once. */
void bucket_add(struct lowering *l, enum op op, unsigned atoms, enum lane lane, bool accumulate,
                const struct site *site, int source, int destination);
void bucket_flush(struct lowering *l, bool step); /* all that wait; without step those of this layer's passes alone */
/* The update of all weights; micro: of the micro-batch, -1 of the step. */
void lower_step(struct lowering *l, int micro);

/* ---- lower_offload.c ---- */
/* Behind the walk: what backward reads much later of the stage's values goes to the host's arena and comes back. */
void offload_activations(struct lowering *l);
/* The optimizer's state of a part comes from the host; returns the buffer that holds it, -1: it stays on the device. */
int fetch_state(struct lowering *l, int number, int micro);
void return_state(struct lowering *l, int number, int fetched, int micro);
#endif
