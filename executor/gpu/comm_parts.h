/* What the comm*.c files share. Nobody else includes this. */
#ifndef CLEAVE_EXECUTOR_GPU_COMM_PARTS_H
#define CLEAVE_EXECUTOR_GPU_COMM_PARTS_H
#include "executor/gpu/channels.h"
#include "executor/gpu/device.h"
#include "executor/gpu/moves.h"
#include "executor/status.h"
#include <pthread.h>

struct gpu_comm {
    struct nccl nccl;
    struct channels channels;
    void *world;
    void **comm;         /* (channel_count + 1: room for the world at the end), NULL: this rank is no member */
    struct moves *moves; /* (instr_count) */
    int *turn;           /* (instr_count) place among the transfers */
    int *transfer;       /* (transfer_count) instruction, by turn */
    int transfer_count;
    void *last_call;                    /* event behind the last call of a graph; NULL: steps do not become graphs */
    bool has_last_call;                 /* of this step; of the lane that holds gpu_rank.keeping */
    unsigned char *staging[LANE_COUNT]; /* device memory */
    size_t staging_bytes[LANE_COUNT];

    pthread_mutex_t mutex; /* of all below, and of calls of the library, none of which waits */
    pthread_cond_t changed;
    int next; /* the transfer whose turn it is */
    int seen; /* transfers before it have ended on the device */
    int64_t step;
    int64_t told; /* of the progress that the status page was told of */
    bool ended, closing, watched;
    bool at_rest;       /* a step has ended well, and none has begun since */
    bool capturing;     /* nothing of the step runs, and the device may not be asked about its events */
    bool in_graph;      /* the step runs from a graph: what of it has ended is not known */
    struct error error; /* why it ended */
    pthread_t watcher;
};

static inline struct gpu_comm *comm_of(const struct rank *rank)
{
    return ((struct gpu_rank *)rank->device_state)->comm;
}

/* For the status page. instr: -1 before the first step. */
void gpu_comm_note_call(const struct rank *rank, int instr, enum library_call call, enum call_state state);
/* False where the communicators have ended: err says why. Under the mutex. */
bool gpu_comm_tell_why(const struct gpu_comm *c, struct error *err);
/* Until what was asked of the communicator is done. Under the mutex, which is free while this thread sleeps. */
bool gpu_comm_settle(const struct rank *rank, void *comm, struct error *err);
bool gpu_comm_start_watching(struct rank *rank, struct error *err);
#endif
