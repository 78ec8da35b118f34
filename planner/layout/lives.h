/* Splits buffers so that each has one lifetime, and finds from when until when its bytes are its own. */
#ifndef CLEAVE_LAYOUT_LIVES_H
#define CLEAVE_LAYOUT_LIVES_H
#include "planner/program/by_stage.h"
#include "planner/program/program.h"

/**
 * Gives every later lifetime of a buffer a buffer of its own: what is forgotten and recomputed, or gathered again, need
 * not come back to the same bytes. Only buffers that do not persist are split, where an instruction renews their whole
 * content after the last read. New buffers stand at the end of program->buffers and differ from the original by nothing
 * but their index. Instructions get pairs of their own. The program must pair (pairing_build). On failure the program
 * is unusable.
 */
bool lives_split(struct program *program, struct error *err);

/* The instructions of a buffer's stage that touch it first and last, on whatever lane, -1 none; its bytes are its own
 * from `since`, at most first, to held, at least last. */
struct life {
    int first, last, since, held;
};
/**
 * Finds lifetimes in program order, lives (buffer_count) of all buffers. What a data-parallel transfer reads, or a copy
 * of activations to the host, is held until the compute lane has left the next layer as well: were the bytes given away
 * at once, the next layer's gradients would wait for the transfer of this one's, and nothing would run beside it. So at
 * most one layer's buffers are held beyond their use, and compute waits only for a transfer that is a whole layer
 * behind. What a stage sends is held until it has left the next pass, since on a slow link that takes longer than a
 * layer: there is one value more than what is under way. Where exchanges of experts' tokens run beside the other pass,
 * what they read is held until somebody waits for them. What a tensor-, context- or expert-parallel transfer writes has
 * its bytes since the transfer may begin, behind what it waits for and what is before it in its lane, and so runs
 * beside the computation that stands in between; what a stage receives, since the compute lane began the pass before.
 * Fails for want of memory.
 */
bool lives_find(const struct program *program, struct life *lives, struct error *err);
/* Finds those of one stage's buffers alone. */
bool lives_find_stage(const struct program *program, int stage, const struct by_stage *of, struct life *lives,
                      struct error *err);
/* True when two instructions that follow each other in the compute lane are of a layer, one way, of a micro-batch. */
bool lives_same_visit(const struct instr *a, const struct instr *b);
/* True when the next step reads the buffer, under another name: the life of the opening's buffer goes on behind it. */
bool lives_wrap(const struct program *program, const struct life *lives, int buffer);
/* Gives the buffer whose bytes the one in the slot of instruction index takes over, since the one ends where the other
 * begins and the instruction may work in place; -1 where none. Else a reduced gradient, or the gradient of the logits
 * beside these, would be there twice. */
int lives_taken_over(const struct program *program, const struct life *lives, int stage, int index, int slot);
#endif
