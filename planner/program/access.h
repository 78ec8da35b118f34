/* Which buffers an instruction touches, and how: the one reading of operands and pairs that lifetimes, waits and proofs
 * share. */
#ifndef CLEAVE_PROGRAM_ACCESS_H
#define CLEAVE_PROGRAM_ACCESS_H
#include "planner/program/program.h"

struct access {
    int buffer;
    bool reads, writes;
    bool starts; /* the old content is dead: overwritten, not accumulated */
};

/* Slots of an instruction; some are empty. */
static inline int access_slots(const struct instr *instr)
{
    return instr->op == OP_COMPUTE ? ROLE_COUNT * MAX_OPERANDS : 2 * instr->pair_count;
}
/* Of an UPDATE: the version of the weight that the next one is made from, -1: it is updated in place. */
int update_source(const struct program *program, const struct instr *instr);
/* access_at() of an instruction that has pairs. */
static inline bool access_of_pair(const struct program *program, const struct instr *instr, int slot,
                                  struct access *out)
{
    const struct pair *pair = &program->pairs[instr->pair_first + slot / 2];
    const struct op_info *op = &op_info[instr->op];
    if (slot % 2 == 0) {
        *out = (struct access){ .buffer = pair->source, .reads = true };
        return op->reads_source && pair->source >= 0;
    }
    if (!op->writes_destination || pair->destination < 0)
        return false;
    bool adds =
        instr->accumulate || instr->op == OP_NORM || (instr->op == OP_UPDATE && update_source(program, instr) < 0);
    bool reads = adds || (op->reads_source && pair->source == pair->destination);
    *out = (struct access){ .buffer = pair->destination, .reads = reads, .writes = true, .starts = !reads };
    return true;
}
/* The same of a COMPUTE. */
static inline bool access_of_operand(const struct program *program, const struct instr *instr, int slot,
                                     struct access *out)
{
    enum role role = (enum role)(slot / MAX_OPERANDS);
    int place = slot % MAX_OPERANDS, buffer = instr_operand(program, instr, role, place);
    bool writes = role_written(instr->phase, role);
    bool starts = writes && ((instr->define >> place & 1) || (instr->first && role == ROLE_OUT));
    *out = (struct access){ .buffer = buffer, .reads = !starts, .writes = writes, .starts = starts };
    return buffer >= 0;
}
/* The access in a slot; false when the slot is empty. The peer's buffer of a SEND or RECEIVE is not touched here. A
 * NORM adds to its destination and an UPDATE in place changes its own, so both read it; the optimizer's state, which
 * only UPDATE touches, is not listed. */
static inline bool access_at(const struct program *program, const struct instr *instr, int slot, struct access *out)
{
    return instr->op == OP_COMPUTE ? access_of_operand(program, instr, slot, out)
                                   : access_of_pair(program, instr, slot, out);
}
/* The access in the first slot behind `slot` that is not empty, and that slot; -1: there is none. Before the first slot
 * is -1. */
static inline int access_after(const struct program *program, const struct instr *instr, int slot, struct access *out)
{
    if (instr->op != OP_COMPUTE) {
        for (slot++; slot < 2 * instr->pair_count; slot++)
            if (access_of_pair(program, instr, slot, out))
                return slot;
        return -1;
    }
    for (uint32_t left = instr->operands & (uint32_t)(UINT64_MAX << (slot + 1)); left; left &= left - 1)
        if (access_of_operand(program, instr, __builtin_ctz(left), out))
            return __builtin_ctz(left);
    return -1;
}
/* True when the start gives the whole buffer a new content, so that bytes may have served others since its last use. A
 * later round of a time split writes its part beside those of earlier rounds. */
bool access_renews(const struct program *program, const struct instr *instr, const struct access *access);
/* Of a slot that is written: the slot of the same instruction whose very bytes it may be written over (equal offsets),
 * since nothing there is read afterwards; -1: none. */
int access_over(const struct program *program, const struct instr *instr, int slot);
/* Where the buffer of a slot stands in the instruction, to be renamed. The slot must not be empty. */
int *access_place(struct program *program, struct instr *instr, int slot);
/* Of an UPDATE: the fetched state that it works on, -1: the state beside its gradient. */
int update_state(const struct program *program, const struct instr *instr);
/* True when the content is there before the step begins. */
bool buffer_outlives_step(const struct buffer *buffer);
#endif
