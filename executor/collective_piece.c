/* Flat shards (ZeRO) are compared in coordinates of the flattened local block, all others in those of the whole value.
 */
#include "executor/collective_piece.h"

bool piece_is_flat(const struct buffer *buffer, int atom_count)
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
    if (piece_is_flat(buffer, program->plan->atom_count)) {
        int index, count;
        geometry_flat_piece(program, buffer, local_rank, &index, &count);
        int64_t held = buffer_holds(buffer), low = index * held;
        range.low[0] = min_i64(low, whole);
        range.count[0] = whole - range.low[0] < held ? whole - range.low[0] : held;
    }
    return range;
}

size_t piece_element_bytes(const struct buffer *buffer)
{
    return buffer->element_bytes;
}

unsigned char *piece_data(const struct collective *c, const struct buffer *buffer)
{
    return c->arena + buffer_version_at(buffer, c->updates)->offset;
}

/* Tells whether the sender's copy counts for the receiver, atom by atom: other shards are fetched, partial sums that
 * end here are added up, and of equal copies each receiver takes the one on its own coordinate. */
static bool contributes(const struct collective *c, unsigned atoms, const struct buffer *source,
                        const struct buffer *destination, int sender, int receiver)
{
    const struct plan *plan = c->program->plan;
    for (int a = 0; a < plan->atom_count; a++) {
        uint8_t kind = source->layout.kind[a];
        bool fetched = kind == LAYOUT_SHARDED || kind == LAYOUT_FLAT ||
                       (kind == LAYOUT_PARTIAL && destination->layout.kind[a] != LAYOUT_PARTIAL);
        if (!(fetched && (atoms >> a & 1)) &&
            plan_atom_coordinate(plan, c->stage, sender, a) != plan_atom_coordinate(plan, c->stage, receiver, a))
            return false;
    }
    return true;
}
bool piece_in_place(const struct instr *instr, const struct pair *pair)
{
    return instr->op == OP_ALL_GATHER && pair->source == pair->destination;
}

static bool renewed_piece(const struct collective *c, const struct instr *instr, const struct buffer *buffer,
                          int sender, const struct block *whole, struct block *part)
{
    struct buffer shard = *buffer;
    for (int a = 0; a < MAX_ATOMS; a++)
        if (instr->atoms >> a & 1)
            shard.layout.kind[a] = LAYOUT_FLAT;
    shard.bytes /= geometry_group_size(c->program->plan, c->stage, instr->atoms);
    struct block range = holding(c->program, &shard, sender, true);
    return block_intersect(whole, &range, part);
}

size_t piece_bytes(const struct piece *piece)
{
    return (size_t)block_elements(&piece->part) * piece->element_bytes;
}

bool piece_find(const struct collective *c, const struct instr *instr, const struct pair *pair, int sender,
                int receiver, bool sending, struct piece *out)
{
    const struct program *program = c->program;
    const struct buffer *source = &program->buffers[pair->source];
    const struct buffer *destination = &program->buffers[pair->destination];
    const struct buffer *mine = sending ? source : destination;
    int me = sending ? sender : receiver;
    bool flat =
        piece_is_flat(source, program->plan->atom_count) || piece_is_flat(destination, program->plan->atom_count);
    struct block part, held = holding(program, mine, me, flat);
    if (piece_in_place(instr, pair)) {
        held = holding(program, destination, receiver, true);
        if (!renewed_piece(c, instr, destination, sender, &held, &part))
            return false;
    } else if (instr->op == OP_SHIFT) {
        part = held;
    } else if (instr->op == OP_SEND || instr->op == OP_RECEIVE) {
        if (!geometry_transfer_block(program, pair, sender, receiver, &part))
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
    *out = (struct piece){ piece_data(c, mine), piece_element_bytes(mine), held, part };
    return piece_bytes(out) > 0;
}

bool piece_between(const struct collective *c, const struct instr *instr, const struct pair *pair, int sender,
                   int receiver, bool sending, struct cursor *out)
{
    struct piece piece;
    if (!piece_find(c, instr, pair, sender, receiver, sending, &piece))
        return false;
    *out = cursor_over(piece.data, piece.element_bytes, &piece.held, &piece.part);
    return true;
}

enum combine piece_fold(const struct instr *instr)
{
    return instr->fold == FOLD_MAX ? COMBINE_MAXIMUM : COMBINE_ADD;
}

void piece_begin(const struct collective *c, const struct instr *instr, bool sums, bool own, enum combine fold,
                 const struct piece_worker *worker)
{
    for (int p = 0; p < instr->pair_count; p++) {
        const struct pair *pair = &c->program->pairs[instr->pair_first + p];
        const struct buffer *destination = &c->program->buffers[pair->destination];
        if (piece_in_place(instr, pair))
            continue;
        struct piece to, from;
        bool has = own && piece_find(c, instr, pair, c->local_rank, c->local_rank, true, &from);
        bool covers = has && piece_bytes(&from) == (size_t)destination->bytes;
        if (!instr->accumulate && !covers && (sums || piece_is_flat(destination, c->program->plan->atom_count)))
            worker->clear(worker->context, piece_data(c, destination), (size_t)destination->bytes,
                          piece_element_bytes(destination), fold);
        if (!has || !piece_find(c, instr, pair, c->local_rank, c->local_rank, false, &to))
            continue;
        bool define = !instr->accumulate && (covers || !sums);
        worker->combine(worker->context, &to, &from, define ? COMBINE_COPY : fold);
    }
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

struct conversion conversion_of(const struct collective *c, const struct instr *instr)
{
    bool sums = false, copies = false;
    for (int p = 0; p < instr->pair_count; p++) {
        const struct pair *pair = &c->program->pairs[instr->pair_first + p];
        sums |= sums_up(c->program, pair, instr->atoms);
        for (int a = 0; a < c->program->plan->atom_count; a++)
            copies |=
                (instr->atoms >> a & 1) && c->program->buffers[pair->destination].layout.kind[a] == LAYOUT_REPLICATED;
    }
    return (struct conversion){ sums, sums && copies };
}
