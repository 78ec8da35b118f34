/* What the files of the collectives share. */
#ifndef CLEAVE_EXECUTOR_COLLECTIVE_PARTS_H
#define CLEAVE_EXECUTOR_COLLECTIVE_PARTS_H
#include "executor/collective.h"
#include "executor/stream.h"

struct collective {
    const struct program *program;
    const struct transport *transport;
    unsigned char *arena;
    int stage, rank, local_rank, first_rank, rank_count;
    int *members; /* global ranks; room for all */
    unsigned char *send_staging, *receive_staging;
    struct stream *streams; /* room for one per rank */
};

/* All that one rank sends to another in one instruction. */
enum stream_kind { STREAM_PIECES, STREAM_RANGE };
struct stream {
    const struct collective *c;
    const struct instr *instr;
    enum stream_kind kind;
    int sender, receiver; /* PIECES: local ranks */
    bool sending;
    size_t skip, range_left; /* RANGE: bytes of the concatenated destinations to pass over, and to deliver */
    int pair;                /* the next one */
    struct cursor cursor;
    size_t left;
};

/* The pieces that go from sender to receiver (local ranks), as this rank, one of the two, has them in memory. */
struct stream stream_pieces(const struct collective *c, const struct instr *instr, int sender, int receiver,
                            bool sending);
/* Bytes [low, high) of the concatenated destinations. */
struct stream stream_range(const struct collective *c, const struct instr *instr, size_t low, size_t high);
/* Of the next message. */
size_t stream_message_bytes(const struct stream *s);
void stream_pack(struct stream *s, unsigned char *staging, size_t bytes);
void stream_unpack(struct stream *s, const unsigned char *staging, size_t bytes, enum combine combine);
/* Adds the stream's next bytes to what lies in staging. */
void stream_fold(struct stream *s, unsigned char *staging, size_t bytes, enum combine fold);
/* Sends one stream (to < 0: none) while another arrives (from < 0: none). Both may be empty. */
bool stream_transfer(struct collective *c, enum lane lane, int to, struct stream *send, int from,
                     struct stream *receive, enum combine combine, struct error *err);
size_t collective_element_bytes(const struct buffer *buffer);
/* An all-gather within one buffer: each member of the group has renewed its equal piece of the flattened whole. */
bool collective_in_place(const struct instr *instr, const struct pair *pair);

/* ---- rings (collective_ring.c): count members, this rank at `place` among them ---- */
/* In place on the destinations, which hold this rank's terms. */
bool ring_all_reduce(struct collective *c, const struct instr *instr, int count, int place, enum combine fold,
                     struct error *err);
/* Whether all members want what each holds another shard of (gather); or each another shard of what all hold terms of. */
bool ring_fits(const struct collective *c, const struct instr *instr, bool gather);
/* Both after each destination got this rank's own part. */
bool ring_all_gather(struct collective *c, const struct instr *instr, int count, int place, struct error *err);
bool ring_reduce_scatter(struct collective *c, const struct instr *instr, int count, int place, enum combine fold,
                         struct error *err);
#endif
