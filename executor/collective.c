/* Every collective but the rings (collective_ring.c) and those of one rank (collective_root.c) is one exchange of
 * pieces: what a sender holds and a receiver wants, intersected in global coordinates (collective_piece.c), sent as
 * streams (collective_stream.c). */
#include "executor/collective_ring.h"
#include "executor/collective_root.h"
#include <stdlib.h>
#include <string.h>

/* ---- the local part of a conversion ---- */
static void clear(const struct collective *c, const struct buffer *buffer, enum combine combine)
{
    combine_start(piece_data(c, buffer), (size_t)buffer->bytes, piece_element_bytes(buffer), combine);
}

static void clear_here(void *context, void *data, size_t bytes, size_t element_bytes, enum combine combine)
{
    (void)context;
    combine_start(data, bytes, element_bytes, combine);
}

static void combine_here(void *context, const struct piece *to, const struct piece *from, enum combine combine)
{
    struct cursor destination = cursor_over(to->data, to->element_bytes, &to->held, &to->part);
    struct cursor source = cursor_over(from->data, from->element_bytes, &from->held, &from->part);
    (void)context;
    combine_cursors(&destination, &source, to->element_bytes, combine);
}

static const struct piece_worker worker_here = { .clear = clear_here, .combine = combine_here };

void collective_local(struct collective *c, const struct instr *instr)
{
    piece_begin(c, instr, false, true, piece_fold(instr), &worker_here);
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
    int count = geometry_group_members(c->program->plan, c->stage, instr->atoms, c->local_rank, c->members, place);
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
    enum combine fold = piece_fold(instr);
    const struct conversion conversion = conversion_of(c, instr);
    bool sums = conversion.sums, one_order = conversion.one_order && count > 1;
    piece_begin(c, instr, sums || count == 1, !one_order, fold, &worker_here);
    enum combine combine = sums || instr->accumulate ? fold : COMBINE_COPY;
    if (count > 2 && instr->op == OP_ALL_GATHER && !instr->accumulate && ring_fits(c, instr, true))
        return ring_all_gather(c, instr, count, place, err);
    if (count > 2 && instr->op == OP_REDUCE_SCATTER && ring_fits(c, instr, false))
        return ring_reduce_scatter(c, instr, count, place, fold, err);
    return one_order ? spread_pieces(c, instr, count, place, combine, err)
                     : exchange_pieces(c, instr, count, place, combine, err);
}

/* What a transfer then changes in place. */
static void copy_to_destinations(struct collective *c, const struct instr *instr)
{
    for (int p = 0; p < instr->pair_count; p++) {
        const struct pair *pair = &c->program->pairs[instr->pair_first + p];
        const struct buffer *source = &c->program->buffers[pair->source];
        if (pair->source != pair->destination)
            memmove(piece_data(c, &c->program->buffers[pair->destination]), piece_data(c, source),
                    (size_t)source->bytes);
    }
}

static bool all_reduce(struct collective *c, const struct instr *instr, int count, int place, struct error *err)
{
    enum combine fold = piece_fold(instr);
    bool in_place = true;
    for (int p = 0; p < instr->pair_count; p++) {
        const struct pair *pair = &c->program->pairs[instr->pair_first + p];
        in_place &= pair->source == pair->destination;
    }
    if (!in_place && instr->accumulate)
        return convert(c, instr, count, place, err);
    copy_to_destinations(c, instr);
    return count < 2 || ring_all_reduce(c, instr, count, place, fold, err);
}

static bool one_rank(struct collective *c, const struct instr *instr, int count, int place, struct error *err)
{
    copy_to_destinations(c, instr);
    if (count < 2)
        return true;
    return instr->op == OP_REDUCE ? root_reduce(c, instr, count, place, piece_fold(instr), err)
                                  : root_broadcast(c, instr, count, place, err);
}

static bool shift(struct collective *c, const struct instr *instr, int count, int place, struct error *err)
{
    int to = c->members[(place + 1) % count], from = c->members[(place + count - 1) % count];
    if (count == 1) {
        for (int p = 0; p < instr->pair_count; p++) {
            const struct pair *pair = &c->program->pairs[instr->pair_first + p];
            const struct buffer *source = &c->program->buffers[pair->source];
            combine_bytes(piece_data(c, &c->program->buffers[pair->destination]), piece_data(c, source),
                          (size_t)source->bytes, piece_element_bytes(source),
                          instr->accumulate ? COMBINE_ADD : COMBINE_COPY);
        }
        return true;
    }
    struct stream send = stream_pieces(c, instr, c->local_rank, to - c->first_rank, true);
    struct stream receive = stream_pieces(c, instr, from - c->first_rank, c->local_rank, false);
    return stream_transfer(c, instr->lane, to, &send, from, &receive, instr->accumulate ? COMBINE_ADD : COMBINE_COPY,
                           err);
}

/* ---- between stages: both directions use the send lane's channel ---- */
static bool send_to_stage(struct collective *c, const struct instr *instr, struct error *err)
{
    const struct plan *plan = c->program->plan;
    struct stream none = { 0 };
    for (int r = 0; r < plan_stage_rank_count(plan, instr->peer_stage); r++) {
        struct stream stream = stream_pieces(c, instr, c->local_rank, r, true);
        int to = plan->stages[instr->peer_stage].first_rank + r;
        if (!stream_transfer(c, LANE_SEND, to, &stream, -1, &none, COMBINE_COPY, err))
            return false;
    }
    return true;
}

static bool receive_from_stage(struct collective *c, const struct instr *instr, struct error *err)
{
    const struct plan *plan = c->program->plan;
    struct stream none = { 0 };
    for (int r = 0; r < plan_stage_rank_count(plan, instr->peer_stage); r++) {
        struct stream stream = stream_pieces(c, instr, r, c->local_rank, false);
        int from = plan->stages[instr->peer_stage].first_rank + r;
        if (!stream_transfer(c, LANE_SEND, -1, &none, from, &stream, instr->accumulate ? COMBINE_ADD : COMBINE_COPY,
                             err))
            return false;
    }
    return true;
}

/* A muted rank sends nothing and receives zeros. */
static bool message(struct collective *c, const struct instr *instr, bool muted, struct error *err)
{
    if (!muted)
        return instr->op == OP_SEND ? send_to_stage(c, instr, err) : receive_from_stage(c, instr, err);
    for (int p = 0; p < instr->pair_count && instr->op == OP_RECEIVE && !instr->accumulate; p++)
        clear(c, &c->program->buffers[c->program->pairs[instr->pair_first + p].destination], COMBINE_ADD);
    return true;
}

static bool run(struct collective *c, const struct instr *instr, bool muted, struct error *err)
{
    int place = 0, count = 1;
    if (muted)
        c->members[0] = c->rank;
    else if (op_info[instr->op].collective)
        count = group_of(c, instr, &place);
    switch (op_info[instr->op].traffic) {
    case TRAFFIC_REDUCE:
        return all_reduce(c, instr, count, place, err);
    case TRAFFIC_ROOT:
        return one_rank(c, instr, count, place, err);
    case TRAFFIC_RING:
    case TRAFFIC_EXCHANGE:
        return convert(c, instr, count, place, err);
    case TRAFFIC_SHIFT:
        return shift(c, instr, count, place, err);
    case TRAFFIC_MESSAGE:
        return message(c, instr, muted, err);
    case TRAFFIC_KERNEL:
    case TRAFFIC_LOCAL:
    case TRAFFIC_HOST:
        break;
    }
    return fail_kind(err, ERROR_BUG, "instruction %s moves nothing between ranks", op_info[instr->op].name);
}

bool collective_run(struct collective *c, const struct instr *instr, bool muted, struct error *err)
{
    bool ok = run(c, instr, muted, err);
    if (ok && c->transport->settle)
        c->transport->settle(c->transport->self, instr->lane);
    return ok;
}

/* ---- life ---- */
bool collective_new(struct collective **out, const struct program *program, int rank, unsigned char *arena,
                    const struct transport *transport, struct error *err)
{
    struct collective *c = calloc(1, sizeof *c);
    if (c) {
        int stage = plan_stage_of_rank(program->plan, rank);
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

void collective_begin_step(struct collective *c, int64_t updates)
{
    c->updates = updates;
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
