/* Which communicators the ranks of a program need: one for each group of each lane, one from each stage to each that it
 * sends to, one of all ranks for the norm. A function of the program alone, so that all ranks make the same list. */
#ifndef CLEAVE_EXECUTOR_GPU_CHANNELS_H
#define CLEAVE_EXECUTOR_GPU_CHANNELS_H
#include "planner/program/program.h"

/* What tells channels of equal members apart, beside a group's lane. */
enum { CHANNEL_NORM = LANE_COUNT, CHANNEL_MESSAGES };
struct channel {
    int purpose;      /* enum lane of a group, or one of the above */
    int count;        /* members, at least 2 */
    int *members;     /* global ranks in their order; of messages the senders first */
    int sender_count; /* of messages, else 0 */
    int round;        /* channels of one round have no member in common */
};
struct channels {
    int count, capacity, round_count;
    struct channel *list;
};
bool channels_of(struct channels *out, const struct program *program, struct error *err);
void channels_free(struct channels *channels);
/* The channel of an instruction of this rank; -1: it needs none (it moves nothing, or its group is the rank alone). */
int channels_find(const struct channels *channels, const struct program *program, int rank, const struct instr *instr);
/* The rank's place among the members, -1. */
int channel_place(const struct channel *channel, int rank);
#endif
