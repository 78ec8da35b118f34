/* Transfers whose silence is not noticed, and why. */
#ifndef CLEAVE_TESTS_UNNOTICEABLE_H
#define CLEAVE_TESTS_UNNOTICEABLE_H
#include "tests/oracle_reference.h"

enum reason {
    REASON_UNKNOWN,
    REASON_ZEROS,
    REASON_TOO_FINE,
    REASON_ONE_RANK,
    REASON_POSITIONS,
    REASON_LABELS,
    REASON_POINTS,
    REASON_OWN_PART,
    REASON_AGAIN,
    REASON_COUNT
};
extern const char *const reason_names[REASON_COUNT];

/* Of weights whose gradient is zero. */
bool moves_nothing_but_zeros(const struct reference *reference, const struct program *program,
                             const struct instr *instr);
/* Of a transfer whose silence was not noticed. That it moves zeros, the reference says. That it is too fine in fp32 is
 * said only if some bit of a loss or gradient changes without it. All other reasons are read from the plan, and hold
 * only if no bit of any rank's losses and gradients changes. */
enum reason unnoticed_reason(const struct reference *reference, const struct program *program, int stage, int index);
#endif
