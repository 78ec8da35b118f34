#include "executor/gpu/moves.h"
#include "executor/collective_ring.h"
#include <stdlib.h>
#include <string.h>

enum { STAGING_ALIGNMENT = 256 };

struct maker {
    struct moves *out;
    const struct collective *c;
    const struct instr *instr;
    const struct channel *channel; /* NULL: alone */
    int count, place;              /* of the group */
    int *members;                  /* (count) local ranks of the group */
    enum combine fold;
    unsigned char *staging;
    bool ok;
};

/* ---- lists ---- */
static void add_local(struct maker *m, struct local_moves *list, struct local_move move)
{
    if (list->count == list->capacity) {
        int capacity = list->capacity ? 2 * list->capacity : 4;
        struct local_move *grown = realloc(list->list, (size_t)capacity * sizeof *grown);
        if (!grown) {
            m->ok = false;
            return;
        }
        list->list = grown, list->capacity = capacity;
    }
    list->list[list->count++] = move;
}

static void add_call(struct maker *m, struct comm_call call)
{
    struct moves *out = m->out;
    if (out->call_count == out->call_capacity) {
        int capacity = out->call_capacity ? 2 * out->call_capacity : 4;
        struct comm_call *grown = realloc(out->calls, (size_t)capacity * sizeof *grown);
        if (!grown) {
            m->ok = false;
            return;
        }
        out->calls = grown, out->call_capacity = capacity;
    }
    out->calls[out->call_count++] = call;
}

static unsigned char *stage(struct maker *m, size_t bytes)
{
    unsigned char *at = m->staging + m->out->staging_bytes;
    m->out->staging_bytes += (bytes + STAGING_ALIGNMENT - 1) / STAGING_ALIGNMENT * STAGING_ALIGNMENT;
    return at;
}

/* ---- pieces ---- */
bool piece_is_dense(const struct piece *piece, size_t *offset_bytes)
{
    int64_t stride = 1, at = 0;
    bool dense = true, whole = true; /* whole: all dims further in are taken entirely */
    for (int dim = piece->held.dim_count - 1; dim >= 0; dim--) {
        dense = dense && (whole || piece->part.count[dim] == 1);
        whole = whole && piece->part.count[dim] == piece->held.count[dim];
        at += (piece->part.low[dim] - piece->held.low[dim]) * stride;
        stride *= piece->held.count[dim];
    }
    *offset_bytes = (size_t)at * piece->element_bytes;
    return dense;
}

static struct piece linear(unsigned char *data, size_t bytes, size_t element_bytes)
{
    struct block whole = { .dim_count = 1, .count = { (int64_t)(bytes / element_bytes) } };
    return (struct piece){ data, element_bytes, whole, whole };
}

/* Returns the same piece, packed at data. */
static struct piece packed(const struct piece *piece, unsigned char *data)
{
    return (struct piece){ data, piece->element_bytes, piece->part, piece->part };
}

static struct piece elsewhere(struct piece piece, unsigned char *data)
{
    piece.data = data;
    return piece;
}

static const struct buffer *source_of(const struct maker *m, const struct pair *pair)
{
    return &m->c->program->buffers[pair->source];
}

static const struct buffer *destination_of(const struct maker *m, const struct pair *pair)
{
    return &m->c->program->buffers[pair->destination];
}

static size_t bytes_of(const struct buffer *buffer)
{
    return (size_t)buffer->bytes;
}

static enum comm_type type_of(const struct buffer *buffer)
{
    return piece_element_bytes(buffer) == 2 ? COMM_BF16 : COMM_REAL;
}

static enum comm_sum sum_of(const struct maker *m)
{
    return m->fold == COMBINE_MAXIMUM ? COMM_MAX : COMM_SUM;
}

/* ---- messages ---- */
static void send_piece(struct maker *m, const struct piece *piece, int peer)
{
    size_t offset;
    const unsigned char *from = piece->data;
    if (piece_is_dense(piece, &offset)) {
        from += offset;
    } else {
        struct piece slot = packed(piece, stage(m, piece_bytes(piece)));
        add_local(m, &m->out->before, (struct local_move){ .to = slot, .from = *piece, .how = COMBINE_COPY });
        from = slot.data;
    }
    add_call(m, (struct comm_call){ .kind = COMM_SEND, .from = from, .count = piece_bytes(piece), .peer = peer });
}

static void receive_piece(struct maker *m, const struct piece *piece, int peer, enum combine how)
{
    size_t offset;
    unsigned char *to = piece->data;
    if (how == COMBINE_COPY && piece_is_dense(piece, &offset)) {
        to += offset;
    } else {
        struct piece slot = packed(piece, stage(m, piece_bytes(piece)));
        add_local(m, &m->out->after, (struct local_move){ .to = *piece, .from = slot, .how = how });
        to = slot.data;
    }
    add_call(m, (struct comm_call){ .kind = COMM_RECEIVE, .to = to, .count = piece_bytes(piece), .peer = peer });
}

/* All that goes from one local rank to another, of which this rank is one; peer: the other's place in the channel. */
static void send_all(struct maker *m, int receiver, int peer)
{
    struct piece piece;
    for (int p = 0; p < m->instr->pair_count; p++)
        if (piece_find(m->c, m->instr, &m->c->program->pairs[m->instr->pair_first + p], m->c->local_rank, receiver,
                       true, &piece))
            send_piece(m, &piece, peer);
}

static void receive_all(struct maker *m, int sender, int peer, enum combine how)
{
    struct piece piece;
    for (int p = 0; p < m->instr->pair_count; p++)
        if (piece_find(m->c, m->instr, &m->c->program->pairs[m->instr->pair_first + p], sender, m->c->local_rank, false,
                       &piece))
            receive_piece(m, &piece, peer, how);
}

static void receive_nothing(struct maker *m)
{
    for (int p = 0; p < m->instr->pair_count && !m->instr->accumulate; p++) {
        const struct buffer *b = destination_of(m, &m->c->program->pairs[m->instr->pair_first + p]);
        add_local(m, &m->out->before,
                  (struct local_move){ .clear = true,
                                       .to = linear(piece_data(m->c, b), bytes_of(b), piece_element_bytes(b)),
                                       .how = COMBINE_ADD });
    }
}

/* ---- conversions piece by piece: those that no collective of NCCL does ---- */
static void note_clear(void *context, void *data, size_t bytes, size_t element_bytes, enum combine how)
{
    struct maker *m = context;
    add_local(m, &m->out->before,
              (struct local_move){ .clear = true, .to = linear(data, bytes, element_bytes), .how = how });
}

static void note_combine(void *context, const struct piece *to, const struct piece *from, enum combine how)
{
    struct maker *m = context;
    add_local(m, &m->out->before, (struct local_move){ .to = *to, .from = *from, .how = how });
}

static void add_own(struct maker *m, enum combine how)
{
    int me = m->c->local_rank;
    struct piece to, from;
    for (int p = 0; p < m->instr->pair_count; p++) {
        const struct pair *pair = &m->c->program->pairs[m->instr->pair_first + p];
        if (piece_find(m->c, m->instr, pair, me, me, true, &from) &&
            piece_find(m->c, m->instr, pair, me, me, false, &to))
            add_local(m, &m->out->after, (struct local_move){ .to = to, .from = from, .how = how });
    }
}

/* Additions are in the order of the host's collectives (collective.c): where several ranks get copies of a sum, by
 * sender on all of them; else own, own - 1, ... */
static void exchange(struct maker *m, const struct conversion *conversion)
{
    const struct piece_worker worker = { m, note_clear, note_combine };
    bool one_order = conversion->one_order && m->count > 1;
    enum combine how = conversion->sums || m->instr->accumulate ? m->fold : COMBINE_COPY;
    piece_begin(m->c, m->instr, conversion->sums || m->count == 1, !one_order, m->fold, &worker);
    for (int k = 1; k < m->count; k++)
        send_all(m, m->members[(m->place + k) % m->count], (m->place + k) % m->count);
    for (int k = one_order ? 0 : 1; k < m->count; k++) {
        int sender = one_order ? k : (m->place + m->count - k) % m->count;
        if (sender == m->place)
            add_own(m, how);
        else
            receive_all(m, m->members[sender], sender, how);
    }
}

/* ---- all-gather ---- */
struct shards {
    struct piece *pieces; /* (count) of the whole, by place */
    bool *present;
};

/* Tells whether the pieces are equal neighbours of `each` bytes from the beginning of the whole on. Where the whole is
 * padded the last ones are shorter, or nothing. */
static bool are_neighbours(const struct shards *shards, int count, size_t each, size_t whole)
{
    bool rest = false; /* what follows is padding */
    if (whole < each * (size_t)count)
        return false;
    for (int k = 0; k < count; k++) {
        size_t offset;
        if (shards->present[k] && (rest || !piece_is_dense(&shards->pieces[k], &offset) || offset != each * (size_t)k))
            return false;
        rest = rest || !shards->present[k] || piece_bytes(&shards->pieces[k]) < each;
    }
    return true;
}

/* Slots of the staging hold each member's source as it lies there. */
static void gather_staged(struct maker *m, const struct pair *pair, const struct shards *to, size_t each)
{
    int me = m->c->local_rank;
    const struct buffer *source = source_of(m, pair);
    unsigned char *slots = stage(m, each * (size_t)m->count), *from = piece_data(m->c, source);
    struct piece own;
    bool in_place = piece_in_place(m->instr, pair);
    if (in_place) {
        from = slots + each * (size_t)m->place;
        if (piece_find(m->c, m->instr, pair, me, me, true, &own))
            add_local(m, &m->out->before,
                      (struct local_move){ .to = packed(&own, from), .from = own, .how = COMBINE_COPY });
    }
    add_call(m, (struct comm_call){ .kind = COMM_ALL_GATHER, .from = from, .to = slots, .count = each });
    for (int k = 0; k < m->count; k++) {
        struct piece there;
        unsigned char *slot = slots + each * (size_t)k;
        if (!to->present[k] || (in_place && k == m->place) ||
            !piece_find(m->c, m->instr, pair, m->members[k], me, true, &there))
            continue;
        there = in_place ? packed(&there, slot) : elsewhere(there, slot);
        add_local(m, &m->out->after, (struct local_move){ .to = to->pieces[k], .from = there, .how = COMBINE_COPY });
    }
}

static void gather_pair(struct maker *m, const struct pair *pair, struct shards *to)
{
    const struct buffer *whole = destination_of(m, pair);
    bool in_place = piece_in_place(m->instr, pair);
    size_t each = in_place ? bytes_of(whole) / (size_t)m->count : bytes_of(source_of(m, pair));
    for (int k = 0; k < m->count; k++)
        to->present[k] = piece_find(m->c, m->instr, pair, m->members[k], m->c->local_rank, false, &to->pieces[k]);
    if (!are_neighbours(to, m->count, each, bytes_of(whole))) {
        gather_staged(m, pair, to, each);
        return;
    }
    unsigned char *data = piece_data(m->c, whole);
    const unsigned char *from = in_place ? data + each * (size_t)m->place : piece_data(m->c, source_of(m, pair));
    add_call(m, (struct comm_call){ .kind = COMM_ALL_GATHER, .from = from, .to = data, .count = each });
}

/* ---- reduce-scatter ---- */
/* Slots of the staging hold each member's terms as its destination will have them. */
static unsigned char *pack_terms(struct maker *m, const struct pair *pair, const struct shards *from, size_t each)
{
    unsigned char *slots = stage(m, each * (size_t)m->count);
    for (int k = 0; k < m->count; k++) {
        struct piece there;
        if (!from->present[k] || !piece_find(m->c, m->instr, pair, m->c->local_rank, m->members[k], false, &there))
            continue;
        there = elsewhere(there, slots + each * (size_t)k);
        add_local(m, &m->out->before, (struct local_move){ .to = there, .from = from->pieces[k], .how = COMBINE_COPY });
    }
    return slots;
}

static void scatter_pair(struct maker *m, const struct pair *pair, struct shards *from)
{
    const struct buffer *whole = source_of(m, pair), *shard = destination_of(m, pair);
    size_t each = bytes_of(shard), element = piece_element_bytes(shard);
    unsigned char *terms = piece_data(m->c, whole), *to = piece_data(m->c, shard);
    for (int k = 0; k < m->count; k++)
        from->present[k] = piece_find(m->c, m->instr, pair, m->c->local_rank, m->members[k], true, &from->pieces[k]);
    if (!are_neighbours(from, m->count, each, bytes_of(whole)))
        terms = pack_terms(m, pair, from, each);
    if (m->instr->accumulate) {
        to = stage(m, each);
        add_local(m, &m->out->after,
                  (struct local_move){ .to = linear(piece_data(m->c, shard), each, element),
                                       .from = linear(to, each, element),
                                       .how = m->fold });
    }
    add_call(m, (struct comm_call){ .kind = COMM_REDUCE_SCATTER,
                                    .type = type_of(shard),
                                    .sum = sum_of(m),
                                    .from = terms,
                                    .to = to,
                                    .count = each / element });
}

static void each_pair(struct maker *m, void (*one)(struct maker *m, const struct pair *pair, struct shards *shards))
{
    struct shards shards = { calloc((size_t)m->count, sizeof *shards.pieces),
                             calloc((size_t)m->count, sizeof *shards.present) };
    m->ok = m->ok && shards.pieces && shards.present;
    for (int p = 0; m->ok && p < m->instr->pair_count; p++)
        one(m, &m->c->program->pairs[m->instr->pair_first + p], &shards);
    free(shards.pieces);
    free(shards.present);
}

static void convert(struct maker *m)
{
    const struct conversion conversion = conversion_of(m->c, m->instr);
    bool grouped = m->count > 1;
    if (grouped && m->instr->op == OP_ALL_GATHER && !m->instr->accumulate && ring_fits(m->c, m->instr, true))
        each_pair(m, gather_pair);
    else if (grouped && m->instr->op == OP_REDUCE_SCATTER && ring_fits(m->c, m->instr, false))
        each_pair(m, scatter_pair);
    else
        exchange(m, &conversion);
}

/* ---- whole buffers ---- */
/* The sum is made apart and then added where `adds` says so. */
static void whole_pair(struct maker *m, const struct pair *pair, enum comm_kind kind)
{
    const struct buffer *source = source_of(m, pair), *destination = destination_of(m, pair);
    size_t bytes = bytes_of(destination), element = piece_element_bytes(destination);
    unsigned char *from = piece_data(m->c, source), *to = piece_data(m->c, destination);
    bool adds = m->instr->accumulate && kind == COMM_ALL_REDUCE && pair->source != pair->destination;
    if (m->count > 1) {
        unsigned char *result = adds ? stage(m, bytes) : to;
        add_call(m, (struct comm_call){ .kind = kind,
                                        .type = type_of(destination),
                                        .sum = sum_of(m),
                                        .from = from,
                                        .to = result,
                                        .count = bytes / element });
        from = result;
    }
    if (from != to)
        add_local(m, &m->out->after,
                  (struct local_move){ .to = linear(to, bytes, element),
                                       .from = linear(from, bytes, element),
                                       .how = adds ? m->fold : COMBINE_COPY });
}

static void whole(struct maker *m, enum comm_kind kind)
{
    for (int p = 0; p < m->instr->pair_count; p++)
        whole_pair(m, &m->c->program->pairs[m->instr->pair_first + p], kind);
}

static void shift(struct maker *m)
{
    int next = (m->place + 1) % m->count, before = (m->place + m->count - 1) % m->count;
    enum combine how = m->instr->accumulate ? COMBINE_ADD : COMBINE_COPY;
    if (m->count == 1) {
        add_own(m, how);
        return;
    }
    send_all(m, m->members[next], next);
    receive_all(m, m->members[before], before, how);
}

static void message(struct maker *m, bool alone)
{
    const int peers = plan_stage_rank_count(m->c->program->plan, m->instr->peer_stage);
    if (m->instr->op == OP_RECEIVE && alone)
        receive_nothing(m);
    for (int r = 0; r < peers && !alone; r++) {
        if (m->instr->op == OP_SEND)
            send_all(m, r, m->channel->sender_count + r);
        else
            receive_all(m, r, r, m->instr->accumulate ? COMBINE_ADD : COMBINE_COPY);
    }
}

/* ---- the instruction ---- */
static void make(struct maker *m, bool alone)
{
    switch (op_info[m->instr->op].traffic) {
    case TRAFFIC_REDUCE:
        whole(m, COMM_ALL_REDUCE);
        return;
    case TRAFFIC_ROOT:
        whole(m, m->instr->op == OP_REDUCE ? COMM_REDUCE : COMM_BROADCAST);
        return;
    case TRAFFIC_RING:
    case TRAFFIC_EXCHANGE:
        convert(m);
        return;
    case TRAFFIC_SHIFT:
        shift(m);
        return;
    case TRAFFIC_MESSAGE:
        message(m, alone);
        return;
    case TRAFFIC_KERNEL:
    case TRAFFIC_LOCAL:
    case TRAFFIC_HOST:
        break;
    }
    m->ok = false;
}

bool moves_of(struct moves *out, const struct collective *geometry, const struct channels *channels,
              const struct instr *instr, unsigned char *staging, bool alone, struct error *err)
{
    struct moves moves = { .channel = alone ? -1 : channels_find(channels, geometry->program, geometry->rank, instr) };
    struct maker m = { .out = &moves,
                       .c = geometry,
                       .instr = instr,
                       .count = 1,
                       .fold = piece_fold(instr),
                       .staging = staging,
                       .channel = moves.channel >= 0 ? &channels->list[moves.channel] : NULL,
                       .ok = true };
    int own = geometry->local_rank;
    m.members = &own;
    if (m.channel && op_info[instr->op].collective) {
        m.count = m.channel->count;
        m.place = channel_place(m.channel, geometry->rank);
        m.members = calloc((size_t)m.count, sizeof *m.members);
        for (int i = 0; m.members && i < m.count; i++)
            m.members[i] = m.channel->members[i] - geometry->first_rank;
    }
    bool message = instr_moves_data(instr) && !op_info[instr->op].collective;
    if (m.members && (m.channel || alone || !message))
        make(&m, alone);
    else
        m.ok = false;
    if (m.members != &own)
        free(m.members);
    if (!m.ok) {
        moves_free(&moves);
        return fail_kind(err, ERROR_ENVIRONMENT, "no memory for the moves of %s", op_info[instr->op].name);
    }
    *out = moves;
    return true;
}

void moves_free(struct moves *moves)
{
    free(moves->before.list);
    free(moves->after.list);
    free(moves->calls);
    *moves = (struct moves){ .channel = -1 };
}
