/* Which buffers an instruction touches, and how: the one reading that lifetimes, waits and proofs share. */
#ifndef CLEAVE_PROGRAM_ACCESS_H
#define CLEAVE_PROGRAM_ACCESS_H
#include "planner/program/program.h"

struct access {
    int buffer, slot;
    bool reads, writes;
    bool starts; /* the old content is dead: overwritten, not accumulated */
};

/* Counts slots of an instruction, of which some are empty. */
static inline int access_slots(const struct instr *instr)
{
    return instr->op == OP_COMPUTE ? ROLE_COUNT * MAX_OPERANDS : 2 * instr->pair_count;
}
/* Gives the version of the weight from which an UPDATE makes the next one; -1: it is updated in place. */
int access_update_source(const struct program *program, const struct instr *instr);
/* Gives access_at() of an instruction that has pairs. */
static inline bool access_of_pair(const struct program *program, const struct instr *instr, int slot,
                                  struct access *out)
{
    const struct pair *pair = &program->pairs[instr->pair_first + slot / 2];
    const struct op_info *op = &op_info[instr->op];
    if (slot % 2 == 0) {
        *out = (struct access){ .buffer = pair->source, .slot = slot, .reads = true };
        return op->reads_source && pair->source >= 0;
    }
    if (!op->writes_destination || pair->destination < 0)
        return false;
    bool adds = instr->accumulate || instr->op == OP_NORM ||
                (instr->op == OP_UPDATE && access_update_source(program, instr) < 0);
    bool reads = adds || (op->reads_source && pair->source == pair->destination);
    *out = (struct access){ pair->destination, slot, reads, true, !reads };
    return true;
}
/* Gives access_at() of a COMPUTE. */
static inline bool access_of_operand(const struct program *program, const struct instr *instr, int slot,
                                     struct access *out)
{
    enum role role = (enum role)(slot / MAX_OPERANDS);
    int place = slot % MAX_OPERANDS, buffer = instr_operand(program, instr, role, place);
    bool writes = role_written(instr->phase, role);
    bool starts = writes && ((instr->define >> place & 1) || (instr->first && role == ROLE_OUT));
    *out = (struct access){ buffer, slot, !starts, writes, starts };
    return buffer >= 0;
}
/* Gives the access in a slot; false when the slot is empty. The peer's buffer of a SEND or RECEIVE is not touched here.
 * A NORM adds to its destination and an UPDATE in place changes its own, so both read it; the optimizer's state, which
 * only UPDATE touches, is not listed. */
static inline bool access_at(const struct program *program, const struct instr *instr, int slot, struct access *out)
{
    return instr->op == OP_COMPUTE ? access_of_operand(program, instr, slot, out)
                                   : access_of_pair(program, instr, slot, out);
}
/* Walks all accesses of an instruction, in the order of their slots: for (struct access_walk walk =
 * access_walk(program, instr); access_next(&walk, &access);) Whole passes over a program do little else, so what the
 * operands have in common is found once. */
struct access_walk {
    const struct program *program;
    const struct instr *instr;
    uint32_t left, writes, starts; /* COMPUTE: masks of slots */
    const int *operand;            /* of the first slot that is left */
    int slot;                      /* others: the next one */
};
__attribute__((always_inline)) static inline struct access_walk access_walk(const struct program *program,
                                                                            const struct instr *instr)
{
    struct access_walk walk = { .program = program, .instr = instr };
    if (instr->op == OP_COMPUTE) {
        enum role role = phase_writes(instr->phase);
        bool anew = instr->first && role == ROLE_OUT;
        walk.left = instr->operands;
        walk.writes = ((UINT32_C(1) << MAX_OPERANDS) - 1) << (int)role * MAX_OPERANDS;
        walk.starts = anew ? walk.writes : walk.writes & (uint32_t)instr->define << (int)role * MAX_OPERANDS;
        walk.operand = &program->operands[instr->operand_first];
    }
    return walk;
}
__attribute__((always_inline)) static inline bool access_next(struct access_walk *walk, struct access *out)
{
    if (walk->instr->op != OP_COMPUTE) {
        while (walk->slot < 2 * walk->instr->pair_count)
            if (access_of_pair(walk->program, walk->instr, walk->slot++, out))
                return true;
        return false;
    }
    while (walk->left) {
        uint32_t slot = walk->left & -walk->left;
        bool starts = walk->starts & slot;
        walk->left &= walk->left - 1;
        *out = (struct access){ *walk->operand++, __builtin_ctz(slot), !starts, walk->writes & slot, starts };
        if (out->buffer >= 0)
            return true;
    }
    return false;
}
/* True when the start gives the whole buffer a new content, so that bytes may have served others since its last use. A
 * later round of a time split writes its part beside those of earlier rounds. */
bool access_renews(const struct program *program, const struct instr *instr, const struct access *access);
/* Gives the slot of the input over which a backward pass by input may write its gradient, if only it is that; or -1. */
int access_input_over(const struct program *program, const struct instr *instr, int slot);
/* Gives, of a slot that is written, the slot of the same instruction whose very bytes it may be written over (equal
 * offsets), since nothing there is read afterwards; -1: none. */
static inline int access_over(const struct program *program, const struct instr *instr, int slot)
{
    if (instr->op == OP_COMPUTE)
        return instr->phase == PHASE_BACKWARD_INPUT ? access_input_over(program, instr, slot) : -1;
    if (slot % 2 == 0 || instr->accumulate)
        return -1;
    int into = program->pairs[instr->pair_first + slot / 2].destination;
    bool part = instr->op == OP_REDUCE_SCATTER && into >= 0 && program->buffers[into].in_place;
    return instr->op == OP_ALL_REDUCE || part ? slot - 1 : -1;
}
/* Gives the place at which the instruction names the buffer of a slot, to be renamed. The slot must not be empty. */
int *access_place(struct program *program, struct instr *instr, int slot);
/* Gives the fetched state that an UPDATE works on; -1: it is the state beside its gradient. */
int access_update_state(const struct program *program, const struct instr *instr);
/* True when the content is there before the step begins. */
bool buffer_outlives_step(const struct buffer *buffer);
#endif
