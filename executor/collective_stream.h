/* All that one rank sends to another in one instruction, as one stream of bytes. Pieces that are not contiguous are
 * packed into a staging buffer, message by message; both sides cut the stream at the same places, whatever their
 * layouts. */
#ifndef CLEAVE_EXECUTOR_COLLECTIVE_STREAM_H
#define CLEAVE_EXECUTOR_COLLECTIVE_STREAM_H
#include "executor/collective_piece.h"

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
/* Bytes of the next message. */
size_t stream_message_bytes(const struct stream *s);
void stream_pack(struct stream *s, unsigned char *staging, size_t bytes);
void stream_unpack(struct stream *s, const unsigned char *staging, size_t bytes, enum combine combine);
/* Adds the stream's next bytes to what lies in staging. */
void stream_fold(struct stream *s, unsigned char *staging, size_t bytes, enum combine fold);
/* Sends one stream (to < 0: none) while another arrives (from < 0: none). Both may be empty. */
bool stream_transfer(struct collective *c, enum lane lane, int to, struct stream *send, int from,
                     struct stream *receive, enum combine combine, struct error *err);
#endif
