#include "executor/collective_stream.h"
#include <string.h>

static bool stream_open_next(struct stream *s)
{
    while (s->pair < s->instr->pair_count) {
        const struct program *program = s->c->program;
        const struct pair *pair = &program->pairs[s->instr->pair_first + s->pair++];
        if (s->kind == STREAM_PIECES) {
            if (piece_between(s->c, s->instr, pair, s->sender, s->receiver, s->sending, &s->cursor))
                return true;
            continue;
        }
        const struct buffer *buffer = &program->buffers[pair->destination];
        size_t bytes = (size_t)buffer->bytes;
        if (s->skip >= bytes) {
            s->skip -= bytes;
            continue;
        }
        size_t here = bytes - s->skip < s->range_left ? bytes - s->skip : s->range_left;
        s->cursor = cursor_linear(piece_data(s->c, buffer) + s->skip, here);
        s->skip = 0;
        s->range_left -= here;
        if (here > 0)
            return true;
    }
    return false;
}

struct stream stream_pieces(const struct collective *c, const struct instr *instr, int sender, int receiver,
                            bool sending)
{
    struct stream s = {
        .c = c, .instr = instr, .kind = STREAM_PIECES, .sender = sender, .receiver = receiver, .sending = sending
    };
    struct cursor cursor;
    for (int p = 0; p < instr->pair_count; p++)
        if (piece_between(c, instr, &c->program->pairs[instr->pair_first + p], sender, receiver, sending, &cursor))
            s.left += cursor.left;
    return s;
}

struct stream stream_range(const struct collective *c, const struct instr *instr, size_t low, size_t high)
{
    return (struct stream){
        .c = c, .instr = instr, .kind = STREAM_RANGE, .skip = low, .range_left = high - low, .left = high - low
    };
}

static size_t stream_take(struct stream *s, size_t max, unsigned char **out)
{
    if (s->cursor.left == 0 && !stream_open_next(s))
        return 0;
    size_t bytes = cursor_take(&s->cursor, max, out);
    s->left -= bytes;
    return bytes;
}

/* The next `bytes` of the stream where they lie, or NULL when they are not contiguous; the stream then stands where it
 * stood. */
static unsigned char *stream_take_whole(struct stream *s, size_t bytes)
{
    unsigned char *at;
    struct stream before = *s;
    if (stream_take(s, bytes, &at) == bytes)
        return at;
    *s = before;
    return NULL;
}

static size_t stream_element_bytes(const struct stream *s)
{
    return piece_element_bytes(&s->c->program->buffers[s->c->program->pairs[s->instr->pair_first].destination]);
}

void stream_pack(struct stream *s, unsigned char *staging, size_t bytes)
{
    unsigned char *at;
    for (size_t done = 0, got; done < bytes && (got = stream_take(s, bytes - done, &at)) > 0; done += got)
        memcpy(staging + done, at, got);
}

void stream_unpack(struct stream *s, const unsigned char *staging, size_t bytes, enum combine combine)
{
    size_t element = stream_element_bytes(s);
    unsigned char *at;
    for (size_t done = 0, got; done < bytes && (got = stream_take(s, bytes - done, &at)) > 0; done += got)
        combine_bytes(at, staging + done, got, element, combine);
}

void stream_fold(struct stream *s, unsigned char *staging, size_t bytes, enum combine fold)
{
    size_t element = stream_element_bytes(s);
    unsigned char *at;
    for (size_t done = 0, got; done < bytes && (got = stream_take(s, bytes - done, &at)) > 0; done += got)
        combine_bytes(staging + done, at, got, element, fold);
}

size_t stream_message_bytes(const struct stream *s)
{
    return s->left < COLLECTIVE_MESSAGE_BYTES ? s->left : COLLECTIVE_MESSAGE_BYTES;
}

bool stream_transfer(struct collective *c, enum lane lane, int to, struct stream *send, int from,
                     struct stream *receive, enum combine combine, struct error *err)
{
    transport_next(c->transport, lane, to >= 0, from >= 0);
    while ((to >= 0 && send->left > 0) || (from >= 0 && receive->left > 0)) {
        size_t out_bytes = to >= 0 ? stream_message_bytes(send) : 0,
               in_bytes = from >= 0 ? stream_message_bytes(receive) : 0;
        unsigned char *out = NULL, *in = NULL;
        if (out_bytes > 0 && !(out = stream_take_whole(send, out_bytes)))
            stream_pack(send, out = c->send_staging, out_bytes);
        if (in_bytes > 0 && combine == COMBINE_COPY)
            in = stream_take_whole(receive, in_bytes);
        bool staged = !in;
        if (staged)
            in = c->receive_staging;
        if (!c->transport->exchange(c->transport->self, lane, out_bytes > 0 ? to : -1, out, out_bytes,
                                    in_bytes > 0 ? from : -1, in, in_bytes, err))
            return false;
        if (staged && in_bytes > 0)
            stream_unpack(receive, in, in_bytes, combine);
    }
    return true;
}
