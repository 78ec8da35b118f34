/* The room of layout: which bytes of its stage's arena each buffer gets.
 *
 * It answers how many bytes a stage takes and where each buffer lies: lifetimes in program order (lives.h), offsets so
 * that what lives at the same time does not overlap (place.h), and the waits that bytes need which change their owner
 * across lanes (order.h).
 *
 * It uses program/ alone: any program can be laid out, whoever made it.
 * Tested by tests/test_layout.c (no two lives overlap; bounds on packing), and by verify/, which refuses what is
 * placed wrongly or waits too little. */
#ifndef CLEAVE_LAYOUT_LAYOUT_H
#define CLEAVE_LAYOUT_LAYOUT_H
#include "planner/program/program.h"

/* Gives buffers offsets from lifetimes in program order; adds the waits that reuse of arena bytes needs and drops those
 * that others imply. A buffer that is defined anew after it was read (recomputed, gathered again) becomes several, one
 * per lifetime, at the end of buffers; source and destination of an ALL_REDUCE may get the same bytes. buffer.bytes
 * must be set. */
bool layout_program(struct program *program, struct error *err);
/* fits: it is asked before anything is placed, while the stages' arenas are the fewest bytes that they could have,
 * whatever the offsets, so that what cannot fit is soon known; NULL: nobody asks. enough_bytes: (stages) of an arena
 * that has no more no better offsets are looked for, where it is near the fewest bytes; NULL: as few as are soon found.
 * brief: the search for offsets is soon over, for whoever compares many plans. */
struct layout_ask {
    bool (*fits)(void *self, const struct program *program);
    void *self;
    const int64_t *enough_bytes;
    bool brief;
};
/* Lays out a program whose lifetimes are split already (lives.h), unless it is told not to fit: *placed says. ask,
 * placed: may be NULL. */
bool layout_place_and_order(struct program *program, const struct layout_ask *ask, bool *placed, struct error *err);
/* Gives the offsets alone, likewise, for whoever asks for bytes. */
bool layout_place(struct program *program, const struct layout_ask *ask, bool *placed, struct error *err);
/* Finds only these fewest bytes of such a program. */
bool layout_bound_bytes(struct program *program, struct error *err);
/* Adds the waits alone, and more than any layout makes: as if every buffer took over bytes of all that were given away
 * before. The lifetimes must be split. Such a step takes no less time than with any layout. */
bool layout_wait_for_bytes(struct program *program, struct error *err);
/* Counts what a framework keeps beside a buffer of weights or state (struct keeping): copies of gradients. */
int64_t layout_copy_bytes(const struct program *program, const struct buffer *buffer);
/* Counts the elements of workspace that one COMPUTE needs. */
int64_t layout_scratch_elements(const struct program *program, int stage, const struct instr *instr);
#endif
