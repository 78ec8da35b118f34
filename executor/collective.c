/* Every collective but the ring all-reduce is one exchange of pieces: what a sender holds and a receiver wants,
 * intersected in global coordinates. Pieces that are not contiguous are packed into a fixed staging buffer, message by
 * message; the stream of bytes between two ranks is cut at the same places on both sides, whatever either side's
 * layout. */
#include "executor/collective_parts.h"
#include <stdlib.h>
#include <string.h>

/* ---- what a rank holds of a buffer ---- */
static bool is_flat(const struct buffer *buffer, int atom_count)
{
    for (int a = 0; a < atom_count; a++)
        if (buffer->layout.kind[a] == LAYOUT_FLAT)
            return true;
    return false;
}

/* Flat shards are held in coordinates of the flattened local block, without the padding at its end. */
static struct block holding(const struct program *program, const struct buffer *buffer, int local_rank, bool flat)
{
    struct block block = buffer_block(program, buffer, local_rank);
    if (!flat)
        return block;
    int64_t whole = block_elements(&block);
    struct block range = { .dim_count = 1, .count = { whole } };
    if (is_flat(buffer, program->plan->atom_count)) {
        int index, count;
        flat_piece(program, buffer, local_rank, &index, &count);
        int64_t low = index * buffer->elements;
        range.low[0] = low < whole ? low : whole;
        range.count[0] = whole - range.low[0] < buffer->elements ? whole - range.low[0] : buffer->elements;
    }
    return range;
}

size_t collective_element_bytes(const struct buffer *buffer)
{
    return buffer->elements > 0 ? (size_t)(buffer->bytes / buffer->elements) : 1;
}

static unsigned char *data_of(const struct collective *c, const struct buffer *buffer)
{
    return c->arena + buffer->offset;
}

/* Whether the sender's copy counts for the receiver, atom by atom: other shards are fetched, partial sums that end here
 * are added up, and of equal copies each receiver takes the one on its own coordinate. */
static bool contributes(const struct collective *c, unsigned atoms, const struct buffer *source,
                        const struct buffer *destination, int sender, int receiver)
{
    const struct plan *plan = c->program->plan;
    for (int a = 0; a < plan->atom_count; a++) {
        uint8_t kind = source->layout.kind[a];
        bool fetched = kind == LAYOUT_SHARDED || kind == LAYOUT_FLAT ||
                       (kind == LAYOUT_PARTIAL && destination->layout.kind[a] != LAYOUT_PARTIAL);
        if (!(fetched && (atoms >> a & 1)) &&
            atom_coordinate(plan, c->stage, sender, a) != atom_coordinate(plan, c->stage, receiver, a))
            return false;
    }
    return true;
}

static bool sums_up(const struct program *program, const struct pair *pair, unsigned atoms)
{
    const struct layout *source = &program->buffers[pair->source].layout;
    const struct layout *destination = &program->buffers[pair->destination].layout;
    for (int a = 0; a < program->plan->atom_count; a++)
        if ((atoms >> a & 1) && source->kind[a] == LAYOUT_PARTIAL && destination->kind[a] != LAYOUT_PARTIAL)
            return true;
    return false;
}

/* An all-gather within one buffer: each member of the group has renewed its equal piece of the flattened whole. */
bool collective_in_place(const struct instr *instr, const struct pair *pair)
{
    return instr->op == OP_ALL_GATHER && pair->source == pair->destination;
}

static bool renewed_piece(const struct collective *c, const struct instr *instr, const struct buffer *buffer,
                          int sender, const struct block *whole, struct block *part)
{
    struct buffer shard = *buffer;
    for (int a = 0; a < c->program->plan->atom_count; a++)
        if (instr->atoms >> a & 1)
            shard.layout.kind[a] = LAYOUT_FLAT;
    shard.elements /= group_size(c->program->plan, c->stage, instr->atoms);
    struct block range = holding(c->program, &shard, sender, true);
    return block_intersect(whole, &range, part);
}

/* The piece of this pair that goes from sender to receiver (local ranks; of different stages for SEND and RECEIVE), as
 * this rank, one of the two, has it in memory. False: nothing. */
static bool piece(const struct collective *c, const struct instr *instr, const struct pair *pair, int sender,
                  int receiver, bool sending, struct cursor *out)
{
    const struct program *program = c->program;
    const struct buffer *source = &program->buffers[pair->source];
    const struct buffer *destination = &program->buffers[pair->destination];
    const struct buffer *mine = sending ? source : destination;
    int me = sending ? sender : receiver;
    bool flat = is_flat(source, program->plan->atom_count) || is_flat(destination, program->plan->atom_count);
    struct block part, held = holding(program, mine, me, flat);
    if (collective_in_place(instr, pair)) {
        held = holding(program, destination, receiver, true);
        if (!renewed_piece(c, instr, destination, sender, &held, &part))
            return false;
    } else if (instr->op == OP_SHIFT) {
        part = held;
    } else if (instr->op == OP_SEND || instr->op == OP_RECEIVE) {
        if (!transfer_block(program, pair, sender, receiver, &part))
            return false;
        if (flat) {
            struct block theirs = holding(program, sending ? destination : source, sending ? receiver : sender, true);
            if (!block_intersect(&held, &theirs, &part))
                return false;
        }
    } else {
        struct block theirs =
            sending ? holding(program, destination, receiver, flat) : holding(program, source, sender, flat);
        if (!contributes(c, instr->atoms, source, destination, sender, receiver) ||
            !block_intersect(&held, &theirs, &part))
            return false;
    }
    *out = cursor_over(data_of(c, mine), collective_element_bytes(mine), &held, &part);
    return out->left > 0;
}

/* ---- streams: all that one rank sends to another in one instruction ---- */
static bool stream_open_next(struct stream *s)
{
    while (s->pair < s->instr->pair_count) {
        const struct program *program = s->c->program;
        const struct pair *pair = &program->pairs[s->instr->pair_first + s->pair++];
        if (s->kind == STREAM_PIECES) {
            if (piece(s->c, s->instr, pair, s->sender, s->receiver, s->sending, &s->cursor))
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
        s->cursor = cursor_linear(data_of(s->c, buffer) + s->skip, here);
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
        if (piece(c, instr, &c->program->pairs[instr->pair_first + p], sender, receiver, sending, &cursor))
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
    return collective_element_bytes(&s->c->program->buffers[s->c->program->pairs[s->instr->pair_first].destination]);
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

/* Adds the stream's next bytes to what lies in staging. */
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

/* Sends one stream (to < 0: none) while another arrives (from < 0: none). Both may be empty. */
bool stream_transfer(struct collective *c, enum lane lane, int to, struct stream *send, int from,
                     struct stream *receive, enum combine combine, struct error *err)
{
    while ((to >= 0 && send->left > 0) || (from >= 0 && receive->left > 0)) {
        size_t out_bytes = to >= 0 ? stream_message_bytes(send) : 0, in_bytes = from >= 0 ? stream_message_bytes(receive) : 0;
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

/* ---- the local part of a conversion ---- */
static void clear(const struct collective *c, const struct buffer *buffer, enum combine combine)
{
    combine_start(data_of(c, buffer), (size_t)buffer->bytes, collective_element_bytes(buffer), combine);
}

/* Destinations begin with this rank's own contribution. `sums`: others' will be added, so that what it does not cover
 * starts anew. */
static void begin(const struct collective *c, const struct instr *instr, bool sums, bool own, enum combine fold)
{
    for (int p = 0; p < instr->pair_count; p++) {
        const struct pair *pair = &c->program->pairs[instr->pair_first + p];
        const struct buffer *destination = &c->program->buffers[pair->destination];
        if (collective_in_place(instr, pair))
            continue;
        struct cursor to, from;
        bool has = own && piece(c, instr, pair, c->local_rank, c->local_rank, true, &from);
        bool covers = has && from.left == (size_t)destination->bytes;
        if (!instr->accumulate && !covers && (sums || is_flat(destination, c->program->plan->atom_count)))
            clear(c, destination, fold);
        if (!has || !piece(c, instr, pair, c->local_rank, c->local_rank, false, &to))
            continue;
        bool define = !instr->accumulate && (covers || !sums);
        combine_cursors(&to, &from, collective_element_bytes(destination), define ? COMBINE_COPY : fold);
    }
}

void collective_local(struct collective *c, const struct instr *instr)
{
    begin(c, instr, false, true, instr->fold == FOLD_MAX ? COMBINE_MAXIMUM : COMBINE_ADD);
}

/* ---- groups ---- */
static int group_of(struct collective *c, const struct instr *instr, int *place)
{
    if (instr->op == OP_NORM_REDUCE) {
        for (int r = 0; r < c->program->plan->rank_count; r++)
            c->members[r] = r;
        *place = c->rank;
        return c->program->plan->rank_count;
    }
    int count = group_members(c->program->plan, c->stage, instr->atoms, c->local_rank, c->members, place);
    for (int i = 0; i < count; i++)
        c->members[i] += c->first_rank;
    return count;
}

/* Each rank sends each other its piece, in n-1 rounds of one partner each way; sums are added in the order own, own -
 * 1, ... */
static bool exchange_pieces(struct collective *c, const struct instr *instr, int count, int place, enum combine combine,
                            struct error *err)
{
    for (int k = 1; k < count; k++) {
        int to = c->members[(place + k) % count], from = c->members[(place + count - k) % count];
        struct stream send = stream_pieces(c, instr, c->local_rank, to - c->first_rank, true);
        struct stream receive = stream_pieces(c, instr, from - c->first_rank, c->local_rank, false);
        if (!stream_transfer(c, instr->lane, to, &send, from, &receive, combine, err))
            return false;
    }
    return true;
}

static void add_own(struct collective *c, const struct instr *instr, enum combine combine)
{
    struct stream from = stream_pieces(c, instr, c->local_rank, c->local_rank, true);
    struct stream to = stream_pieces(c, instr, c->local_rank, c->local_rank, false);
    while (to.left > 0) {
        size_t bytes = stream_message_bytes(&to);
        stream_pack(&from, c->send_staging, bytes);
        stream_unpack(&to, c->send_staging, bytes, combine);
    }
}

/* One sender after the other, so that all receivers add in one order: copies of one sum must not differ in their bits.
 */
static bool spread_pieces(struct collective *c, const struct instr *instr, int count, int place, enum combine combine,
                          struct error *err)
{
    struct stream none = { 0 };
    for (int sender = 0; sender < count; sender++) {
        if (sender != place) {
            int from = c->members[sender];
            struct stream receive = stream_pieces(c, instr, from - c->first_rank, c->local_rank, false);
            if (!stream_transfer(c, instr->lane, -1, &none, from, &receive, combine, err))
                return false;
            continue;
        }
        add_own(c, instr, combine);
        for (int k = 0; k < count; k++) {
            int to = c->members[k];
            struct stream send = stream_pieces(c, instr, c->local_rank, to - c->first_rank, true);
            if (k != place && !stream_transfer(c, instr->lane, to, &send, -1, &none, combine, err))
                return false;
        }
    }
    return true;
}

static bool convert(struct collective *c, const struct instr *instr, int count, int place, struct error *err)
{
    bool sums = false, copies = false;
    enum combine fold = instr->fold == FOLD_MAX ? COMBINE_MAXIMUM : COMBINE_ADD;
    for (int p = 0; p < instr->pair_count; p++) {
        const struct pair *pair = &c->program->pairs[instr->pair_first + p];
        sums |= sums_up(c->program, pair, instr->atoms);
        for (int a = 0; a < c->program->plan->atom_count; a++)
            copies |=
                (instr->atoms >> a & 1) && c->program->buffers[pair->destination].layout.kind[a] == LAYOUT_REPLICATED;
    }
    bool one_order = sums && copies && count > 1;
    begin(c, instr, sums || count == 1, !one_order, fold);
    enum combine combine = sums || instr->accumulate ? fold : COMBINE_COPY;
    if (count > 2 && instr->op == OP_ALL_GATHER && !instr->accumulate && ring_fits(c, instr, true))
        return ring_all_gather(c, instr, count, place, err);
    if (count > 2 && instr->op == OP_REDUCE_SCATTER && ring_fits(c, instr, false))
        return ring_reduce_scatter(c, instr, count, place, fold, err);
    return one_order ? spread_pieces(c, instr, count, place, combine, err)
                     : exchange_pieces(c, instr, count, place, combine, err);
}

static bool all_reduce(struct collective *c, const struct instr *instr, int count, int place, struct error *err)
{
    enum combine fold = instr->fold == FOLD_MAX ? COMBINE_MAXIMUM : COMBINE_ADD;
    bool in_place = true;
    for (int p = 0; p < instr->pair_count; p++) {
        const struct pair *pair = &c->program->pairs[instr->pair_first + p];
        in_place &= pair->source == pair->destination;
    }
    if (!in_place && instr->accumulate)
        return convert(c, instr, count, place, err);
    if (!in_place)
        for (int p = 0; p < instr->pair_count; p++) {
            const struct pair *pair = &c->program->pairs[instr->pair_first + p];
            const struct buffer *source = &c->program->buffers[pair->source];
            memmove(data_of(c, &c->program->buffers[pair->destination]), data_of(c, source), (size_t)source->bytes);
        }
    return count < 2 || ring_all_reduce(c, instr, count, place, fold, err);
}

static bool shift(struct collective *c, const struct instr *instr, int count, int place, struct error *err)
{
    int to = c->members[(place + 1) % count], from = c->members[(place + count - 1) % count];
    if (count == 1) {
        for (int p = 0; p < instr->pair_count; p++) {
            const struct pair *pair = &c->program->pairs[instr->pair_first + p];
            const struct buffer *source = &c->program->buffers[pair->source];
            combine_bytes(data_of(c, &c->program->buffers[pair->destination]), data_of(c, source),
                          (size_t)source->bytes, collective_element_bytes(source), instr->accumulate ? COMBINE_ADD : COMBINE_COPY);
        }
        return true;
    }
    struct stream send = stream_pieces(c, instr, c->local_rank, to - c->first_rank, true);
    struct stream receive = stream_pieces(c, instr, from - c->first_rank, c->local_rank, false);
    return stream_transfer(c, instr->lane, to, &send, from, &receive, instr->accumulate ? COMBINE_ADD : COMBINE_COPY, err);
}

/* ---- between stages: both directions use the send lane's channel ---- */
static bool send(struct collective *c, const struct instr *instr, struct error *err)
{
    const struct plan *plan = c->program->plan;
    struct stream none = { 0 };
    for (int r = 0; r < stage_rank_count(plan, instr->peer_stage); r++) {
        struct stream stream = stream_pieces(c, instr, c->local_rank, r, true);
        int to = plan->stages[instr->peer_stage].first_rank + r;
        if (!stream_transfer(c, LANE_SEND, to, &stream, -1, &none, COMBINE_COPY, err))
            return false;
    }
    return true;
}

static bool receive(struct collective *c, const struct instr *instr, struct error *err)
{
    const struct plan *plan = c->program->plan;
    struct stream none = { 0 };
    for (int r = 0; r < stage_rank_count(plan, instr->peer_stage); r++) {
        struct stream stream = stream_pieces(c, instr, r, c->local_rank, false);
        int from = plan->stages[instr->peer_stage].first_rank + r;
        if (!stream_transfer(c, LANE_SEND, -1, &none, from, &stream, instr->accumulate ? COMBINE_ADD : COMBINE_COPY, err))
            return false;
    }
    return true;
}

static void receive_nothing(const struct collective *c, const struct instr *instr)
{
    for (int p = 0; p < instr->pair_count && !instr->accumulate; p++)
        clear(c, &c->program->buffers[c->program->pairs[instr->pair_first + p].destination], COMBINE_ADD);
}

bool collective_run(struct collective *c, const struct instr *instr, bool muted, struct error *err)
{
    int place = 0, count = 1;
    if (muted)
        c->members[0] = c->rank;
    else if (op_info[instr->op].collective)
        count = group_of(c, instr, &place);
    switch (instr->op) {
    case OP_ALL_REDUCE:
    case OP_NORM_REDUCE:
        return all_reduce(c, instr, count, place, err);
    case OP_ALL_GATHER:
    case OP_REDUCE_SCATTER:
    case OP_ALL_TO_ALL:
    case OP_REDISTRIBUTE:
        return convert(c, instr, count, place, err);
    case OP_SHIFT:
        return shift(c, instr, count, place, err);
    case OP_SEND:
        return muted || send(c, instr, err);
    case OP_RECEIVE:
        if (!muted)
            return receive(c, instr, err);
        receive_nothing(c, instr);
        return true;
    case OP_COMPUTE:
    case OP_LOAD:
    case OP_SEED:
    case OP_ZERO:
    case OP_SLICE:
    case OP_ADD:
    case OP_NORM:
    case OP_UPDATE:
    case OP_COUNT:
        break;
    }
    return fail_kind(err, ERROR_BUG, "instruction %s moves nothing between ranks", op_info[instr->op].name);
}

/* ---- life ---- */
bool collective_new(struct collective **out, const struct program *program, int rank, unsigned char *arena,
                    const struct transport *transport, struct error *err)
{
    struct collective *c = calloc(1, sizeof *c);
    if (c) {
        int stage = stage_of_rank(program->plan, rank);
        *c = (struct collective){ .program = program,
                                  .transport = transport,
                                  .arena = arena,
                                  .rank = rank,
                                  .stage = stage,
                                  .first_rank = program->plan->stages[stage].first_rank };
        c->local_rank = rank - c->first_rank;
        c->members = calloc((size_t)program->plan->rank_count, sizeof *c->members);
        c->streams = calloc((size_t)program->plan->rank_count, sizeof *c->streams);
        c->send_staging = malloc(COLLECTIVE_MESSAGE_BYTES);
        c->receive_staging = malloc(COLLECTIVE_MESSAGE_BYTES);
    }
    if (!c || !c->members || !c->streams || !c->send_staging || !c->receive_staging) {
        collective_free(c);
        return fail_kind(err, ERROR_ENVIRONMENT, "rank %d: no memory for a lane's staging buffers", rank);
    }
    *out = c;
    return true;
}

void collective_free(struct collective *c)
{
    if (!c)
        return;
    free(c->members);
    free(c->streams);
    free(c->send_staging);
    free(c->receive_staging);
    free(c);
}
