/* One rank of a run: its arena, its place in the program, its channels. */
#ifndef CLEAVE_EXECUTOR_RANK_H
#define CLEAVE_EXECUTOR_RANK_H
#include "executor/collective.h"
#include "executor/device.h"
#include "executor/kernel.h"
#include "executor/run_options.h"
#include "planner/program/geometry.h"

struct rank {
    const struct program *program;
    const struct run_options *options;
    const struct transport *transport;
    int rank, stage, local_rank;
    unsigned char *arena; /* arena_bytes, aligned to 64; the host's copy where the device has memory of its own */
    int64_t arena_bytes;
    int64_t token_parts;       /* of the order in which tokens are stored (executor/kernels/token_order.h) */
    unsigned char *host_arena; /* host_bytes, aligned to 64: what is offloaded */
    int64_t host_bytes;
    int64_t step;                               /* from 0 */
    struct collective *collectives[LANE_COUNT]; /* NULL where the lane is not in use */
    int scalar;                                 /* the squared norm's buffer, -1 */
    double squared_norm; /* of the step's gradient, 0 without clipping; written by the compute lane */
    int64_t choices,
        dropped;       /* of experts by this rank's tokens in all steps, and those that found no slot; likewise */
    int64_t updates;   /* of each weight that this run's steps before this one have made */
    double *loss_part; /* (buffer_count): this step's share of the loss by loss buffer */
    struct rank_activity activity; /* of the last step, where its device recorded it; the list is the rank's */
    void *device_state;            /* of a device with memory of its own, else NULL */
};

/* Allocates all that the steps need and sets weights and state to their initial values. */
bool rank_new(struct rank **out, const struct program *program, const struct transport *transport,
              const struct run_options *options, struct error *err);
void rank_free(struct rank *rank); /* accepts NULL */
/* A device calls this that puts the host's arena elsewhere. */
void rank_free_host(struct rank *rank);
/* Before a step: forgets the losses of the last one. */
void rank_begin_step(struct rank *rank, int64_t step);
/* This rank's share of the step's loss; the sum over all ranks is the loss. */
double rank_loss(const struct rank *rank);
/* Bytes that were written since the arena was poisoned, and of the host's arena; all of it without poison. */
int64_t rank_touched_bytes(const struct rank *rank);
int64_t rank_touched_host_bytes(const struct rank *rank);

/* Returns where the buffer lies now, in the arena or in the host's: the versions of a weight have changed places with
 * every update. */
unsigned char *rank_data(const struct rank *rank, int buffer);
/* True for the weights and states that outlive a step; of a weight's versions, between steps, for the newest. */
bool rank_holds(const struct rank *rank, int buffer);
/* What the rank holds of a buffer, as a range of the flattened local block: [first, first + count). */
void rank_flat_range(const struct rank *rank, int buffer, int64_t *first, int64_t *count);

/* ---- what devices need to run an instruction ---- */
/* Operands as they lie in an arena (the rank's, or a device's); without scratch. */
struct kernel_call rank_call(const struct rank *rank, const struct instr *instr, unsigned char *arena);
/* Tells whether the buffer (-1: none) is the loss that this COMPUTE writes for the first time. */
bool rank_is_loss(const struct rank *rank, const struct instr *instr, int buffer);
/* Writes what a LOAD gives the buffer. */
bool rank_load(const struct rank *rank, const struct instr *load, int buffer, void *out, struct error *err);
/* The buffer that holds the optimizer's state while an UPDATE runs; -1: there is none. */
int rank_state(const struct rank *rank, const struct instr *update);
bool rank_clips(const struct rank *rank);
/* Returns the options for an UPDATE of a weight in this step; gradient_scale 1. */
struct adamw rank_adamw(const struct rank *rank, const struct weight *weight, const struct instr *update);
#endif
