/* Steps whose middle repeats. A step of many micro-batches is full for most of its time: every stage does for the next
 * ones what it did for the last ones, so much later. Where that is seen in the simulation of a shorter step, it says
 * what longer ones take, to the nanosecond. */
#ifndef CLEAVE_SIM_PERIOD_H
#define CLEAVE_SIM_PERIOD_H
#include "planner/sim/simulate.h"

/**
 * A period is there if every stage's list and timeline can be cut at one moment, so that what comes before the cut
 * repeats what comes before that, `ns` earlier: the same instructions for other micro-batches, waits and partners at
 * the same distance, and all other waits long fulfilled. Then a step with one more period in the cut, and all that
 * follows `ns` later, starts every instruction as soon as it can: it is what simulating the longer program gives.
 */
struct period {
    int micro_batches; /* the step may have this many more again and again; 0: none was found ... */
    int64_t ns;        /* ... and is so much longer for each of them; 0: not with the waits of any layout */
    int64_t breakdown_ns[TIME_KIND_COUNT]; /* of ns, on the rank that ends last */
    bool exact; /* with any layout steps take what they take without one; else the waits of all layouts at once make */
    int64_t step_slack_ns, slack_ns; /* the step, and each period of it, so much longer */
};
enum { PERIOD_LONGEST = 3 }; /* units of those that are looked for */
/**
 * Looks for the shortest period of which left_out micro-batches are a multiple, and which is one itself of `unit`, what
 * the schedule and replicas that take turns want. *timeline is the step as if no bytes were used twice; beside it that
 * is simulated in which everything waits for bytes that any layout might let it wait for: both must have the period.
 * The program must be lowered and not laid out; its lifetimes are split, and it gets all those waits. Not of
 * asynchronous schedules. *timeline is the caller's. Fails when the program stalls without them, or for want of memory.
 */
bool period_prove(struct period *out, struct timeline **timeline, const struct durations *durations,
                  struct program *program, int left_out, int unit, struct error *err);
#endif
