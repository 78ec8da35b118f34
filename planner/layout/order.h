/* Who must wait for whom inside a stage. One walk over the instruction list finds every pair of accesses that must not
 * swap: the write before its reader, the reader before the next writer, the last user of bytes before their next owner.
 * Layout answers it by adding waits, verify by refusing. */
#ifndef CLEAVE_LAYOUT_ORDER_H
#define CLEAVE_LAYOUT_ORDER_H
#include "planner/program/access.h"

enum hazard_kind {
    HAZARD_READ_EARLY,  /* reads what another lane may not have written yet */
    HAZARD_WRITE_EARLY, /* writes what another lane may still read or write */
    HAZARD_REUSE_EARLY, /* writes over bytes of `other` that another lane may still use */
    HAZARD_UNDEFINED,   /* reads a buffer that nobody defined; earlier is -1 */
    HAZARD_OVERWRITTEN, /* reads a buffer after `other` took its bytes at `earlier` */
    HAZARD_PERSISTENT,  /* writes over bytes of a buffer that lives over the step, or of the workspace (other -1) */
};
struct hazard {
    enum hazard_kind kind;
    int stage, earlier, later, buffer, other;
};

enum order_answer { ORDER_IGNORE, ORDER_WAIT, ORDER_STOP };
/**
 * Walks the lists of all stages. Of several hazards of one instruction with one lane only the latest is reported; what
 * a wait already orders through others is none. Answers: IGNORE, WAIT (the walk goes on as if `later` waited for
 * `earlier`), STOP. Addresses count where buffers have offsets. Waits must be of the stage and lie before their
 * instruction. False: memory is short, or the answer was STOP (err untouched then).
 */
bool order_walk(const struct program *program, enum order_answer (*hazard)(void *self, const struct hazard *hazard),
                void *self, struct error *err);
#endif
