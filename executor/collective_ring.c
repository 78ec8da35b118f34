/* Rings: every member talks to its two neighbours only, so that a link between nodes carries every shard once and not
 * once for each member behind it (Patarasuk & Yuan 2009, section 3). */
#include "executor/collective_ring.h"

/* Chunked ring: n-1 steps add up, n-1 steps spread (Patarasuk & Yuan 2009, section 3). In place on the destinations,
 * which are one long vector, so that a bucket of gradients is one transfer. Each chunk is summed on one rank: all end
 * with equal bits. */
bool ring_all_reduce(struct collective *c, const struct instr *instr, int count, int place, enum combine fold,
                     struct error *err)
{
    size_t bytes = 0;
    for (int p = 0; p < instr->pair_count; p++)
        bytes += (size_t)c->program->buffers[c->program->pairs[instr->pair_first + p].destination].bytes;
    size_t element = piece_element_bytes(&c->program->buffers[c->program->pairs[instr->pair_first].destination]);
    size_t elements = bytes / element, n = (size_t)count, at = (size_t)place;
    int next = c->members[(place + 1) % count], before = c->members[(place + count - 1) % count];
    for (size_t step = 0; step < 2 * (n - 1); step++) {
        bool spread = step >= n - 1;
        size_t out = (at + 2 * n - step) % n, in = (out + n - 1) % n;
        struct stream send = stream_range(c, instr, elements * out / n * element, elements * (out + 1) / n * element);
        struct stream receive = stream_range(c, instr, elements * in / n * element, elements * (in + 1) / n * element);
        if (!stream_transfer(c, instr->lane, next, &send, before, &receive, spread ? COMBINE_COPY : fold, err))
            return false;
    }
    return true;
}

static bool is_shard(uint8_t kind)
{
    return kind == LAYOUT_SHARDED || kind == LAYOUT_FLAT;
}

/* Tells whether all members want what each holds another shard of; or, scattering, each another shard of what all hold
 * terms of. */
bool ring_fits(const struct collective *c, const struct instr *instr, bool gather)
{
    for (int p = 0; p < instr->pair_count; p++) {
        const struct pair *pair = &c->program->pairs[instr->pair_first + p];
        const struct layout *from = &c->program->buffers[pair->source].layout;
        const struct layout *to = &c->program->buffers[pair->destination].layout;
        for (int a = 0; a < c->program->plan->atom_count; a++) {
            bool fits = gather ? is_shard(from->kind[a]) && to->kind[a] == LAYOUT_REPLICATED
                               : from->kind[a] == LAYOUT_PARTIAL && is_shard(to->kind[a]);
            if ((instr->atoms >> a & 1) && !fits && !piece_in_place(instr, pair))
                return false;
        }
    }
    return true;
}

/* n-1 steps: each passes on what came last, so that a link between nodes carries every shard once and not once for each
 * member behind it. */
bool ring_all_gather(struct collective *c, const struct instr *instr, int count, int place, struct error *err)
{
    int next = c->members[(place + 1) % count], before = c->members[(place + count - 1) % count];
    for (int step = 0; step < count - 1; step++) {
        int out = c->members[(place + count - step) % count], in = c->members[(place + 2 * count - step - 1) % count];
        struct stream send = stream_pieces(c, instr, out - c->first_rank, c->local_rank, false);
        struct stream receive = stream_pieces(c, instr, in - c->first_rank, c->local_rank, false);
        if (!stream_transfer(c, instr->lane, next, &send, before, &receive, COMBINE_COPY, err))
            return false;
    }
    return true;
}

/* One message of every shard once around: the partial sum of a shard begins at its owner's next, and each member adds
 * its own term on the way; the owner, whose destination holds its term, adds it last. */
static bool ring_sum_message(struct collective *c, const struct instr *instr, int count, int place, struct stream *sum,
                             enum combine fold, struct error *err)
{
    const struct transport *t = c->transport;
    int next = c->members[(place + 1) % count], before = c->members[(place + count - 1) % count];
    size_t out_bytes = stream_message_bytes(&c->streams[(place + count - 1) % count]);
    for (int step = 0; step < count - 1; step++) {
        bool last = step == count - 2;
        struct stream *own = &c->streams[(place + 2 * count - 1 - step) % count];
        size_t in_bytes = stream_message_bytes(last ? sum : &c->streams[(place + 2 * count - 2 - step) % count]);
        if (step == 0)
            stream_pack(own, c->send_staging, out_bytes);
        else
            stream_fold(own, c->send_staging, out_bytes, fold);
        transport_next(t, instr->lane, true, true);
        if ((out_bytes > 0 || in_bytes > 0) &&
            !t->exchange(t->self, instr->lane, out_bytes > 0 ? next : -1, c->send_staging, out_bytes,
                         in_bytes > 0 ? before : -1, c->receive_staging, in_bytes, err))
            return false;
        if (last)
            stream_unpack(sum, c->receive_staging, in_bytes, fold);
        unsigned char *came = c->receive_staging;
        c->receive_staging = c->send_staging, c->send_staging = came;
        out_bytes = in_bytes;
    }
    return true;
}

bool ring_reduce_scatter(struct collective *c, const struct instr *instr, int count, int place, enum combine fold,
                         struct error *err)
{
    size_t most = 0;
    for (int i = 0; i < count; i++) {
        c->streams[i] = stream_pieces(c, instr, c->local_rank, c->members[i] - c->first_rank, true);
        most = c->streams[i].left > most ? c->streams[i].left : most;
    }
    struct stream sum = stream_pieces(c, instr, c->local_rank, c->local_rank, false);
    for (size_t done = 0; done < most; done += COLLECTIVE_MESSAGE_BYTES)
        if (!ring_sum_message(c, instr, count, place, &sum, fold, err))
            return false;
    return true;
}
