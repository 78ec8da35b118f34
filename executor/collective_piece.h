/* The lowest part of the collectives: which piece of a buffer one rank has for another, and where it lies. */
#ifndef CLEAVE_EXECUTOR_COLLECTIVE_PIECE_H
#define CLEAVE_EXECUTOR_COLLECTIVE_PIECE_H
#include "executor/collective.h"
#include "executor/stream.h"

/* What one lane of one rank works with. */
struct collective {
    const struct program *program;
    const struct transport *transport;
    unsigned char *arena;
    int64_t updates; /* of each weight before this step */
    int stage, rank, local_rank, first_rank;
    int *members; /* global ranks of the group; room for all */
    unsigned char *send_staging, *receive_staging;
    struct stream *streams; /* (collective_stream.h) room for one per rank */
};

size_t piece_element_bytes(const struct buffer *buffer);
unsigned char *piece_data(const struct collective *c, const struct buffer *buffer);
bool piece_is_flat(const struct buffer *buffer, int atom_count);
/* An all-gather within one buffer: each member of the group has renewed its equal piece of the flattened whole. */
bool piece_in_place(const struct instr *instr, const struct pair *pair);
/* A piece of a buffer: `part` of the block `held`, which lies at data. */
struct piece {
    unsigned char *data;
    size_t element_bytes;
    struct block held, part;
};
size_t piece_bytes(const struct piece *piece);
/* The piece of this pair that goes from sender to receiver (local ranks; of different stages for SEND and RECEIVE), as
 * this rank, one of the two, has it in memory. False: nothing. */
bool piece_find(const struct collective *c, const struct instr *instr, const struct pair *pair, int sender,
                int receiver, bool sending, struct piece *out);
/* Gives the same piece as a cursor over its elements. */
bool piece_between(const struct collective *c, const struct instr *instr, const struct pair *pair, int sender,
                   int receiver, bool sending, struct cursor *out);

/* A worker does the local part of a conversion, in memory of whatever kind. */
struct piece_worker {
    void *context;
    void (*clear)(void *context, void *data, size_t bytes, size_t element_bytes, enum combine combine);
    void (*combine)(void *context, const struct piece *to, const struct piece *from, enum combine combine);
};
/* Destinations begin with this rank's own contribution. sums: others' will be added, so that what it does not cover
 * starts anew; own: false: nothing of one's own yet. */
void piece_begin(const struct collective *c, const struct instr *instr, bool sums, bool own, enum combine fold,
                 const struct piece_worker *worker);
/* What a conversion between layouts does, as a whole. */
struct conversion {
    bool sums;      /* terms of several ranks meet */
    bool one_order; /* and several ranks get copies of the sum: all add in one order, so that bits are equal */
};
struct conversion conversion_of(const struct collective *c, const struct instr *instr);
/* What reductions of the instruction do with elements that meet. */
enum combine piece_fold(const struct instr *instr);
#endif
