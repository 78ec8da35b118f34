/* One other rank after the other, each with the whole: the first rank's link is what they all wait for. */
#include "executor/collective_root.h"

static size_t destination_bytes(const struct collective *c, const struct instr *instr)
{
    size_t bytes = 0;
    for (int p = 0; p < instr->pair_count; p++)
        bytes += (size_t)c->program->buffers[c->program->pairs[instr->pair_first + p].destination].bytes;
    return bytes;
}

bool root_reduce(struct collective *c, const struct instr *instr, int count, int place, enum combine fold,
                 struct error *err)
{
    const size_t bytes = destination_bytes(c, instr);
    struct stream none = { 0 }, whole = stream_range(c, instr, 0, bytes);
    if (place > 0)
        return stream_transfer(c, instr->lane, c->members[0], &whole, -1, &none, COMBINE_COPY, err);
    for (int k = 1; k < count; k++) {
        whole = stream_range(c, instr, 0, bytes);
        if (!stream_transfer(c, instr->lane, -1, &none, c->members[k], &whole, fold, err))
            return false;
    }
    return true;
}

bool root_broadcast(struct collective *c, const struct instr *instr, int count, int place, struct error *err)
{
    const size_t bytes = destination_bytes(c, instr);
    struct stream none = { 0 }, whole = stream_range(c, instr, 0, bytes);
    if (place > 0)
        return stream_transfer(c, instr->lane, -1, &none, c->members[0], &whole, COMBINE_COPY, err);
    for (int k = 1; k < count; k++) {
        whole = stream_range(c, instr, 0, bytes);
        if (!stream_transfer(c, instr->lane, c->members[k], &whole, -1, &none, COMBINE_COPY, err))
            return false;
    }
    return true;
}
