/* NCCL as the executor needs it: communicators, calls on the streams of a struct gpu, their failures. One
 * implementation is NVIDIA's library, which the CUDA module opens (cuda_nccl.c); another moves bytes between emulated
 * GPUs, for tests (tests/emulated). */
#ifndef CLEAVE_EXECUTOR_GPU_NCCL_H
#define CLEAVE_EXECUTOR_GPU_NCCL_H
#include "base/error.h"
#include <stddef.h>

enum { COMM_ID_BYTES = 128, COMM_NO_COLOUR = -1 };
enum comm_type { COMM_BYTE, COMM_REAL, COMM_BF16 };
enum comm_sum { COMM_SUM, COMM_MAX };
enum comm_kind {
    COMM_ALL_REDUCE,     /* count elements of each member */
    COMM_ALL_GATHER,     /* count elements of each member, in their order */
    COMM_REDUCE_SCATTER, /* count elements for each member, in their order */
    COMM_REDUCE,         /* to the first member */
    COMM_BROADCAST,      /* from the first member */
    COMM_SEND,           /* to the member `peer` */
    COMM_RECEIVE         /* from the member `peer` */
};
static inline const char *comm_kind_name(enum comm_kind kind)
{
    static const char *const names[] = { "all-reduce", "all-gather", "reduce-scatter", "reduce",
                                         "broadcast",  "send",       "receive" };
    return names[kind];
}
struct comm_call {
    enum comm_kind kind;
    enum comm_type type;
    enum comm_sum sum;
    const void *from; /* of SEND and all collectives */
    void *to;         /* of RECEIVE and all collectives; may be the member's own part of `from`, or the reverse */
    size_t count;
    int peer;
};
enum comm_state { COMM_READY, COMM_BUSY, COMM_FAILED };

/* Calls about one communicator come from one thread at a time, but for abort, after which no other comes. */
struct nccl {
    const char *name; /* "NCCL 2.28.9" */
    void *self;
    /* Is called on one rank, which tells the id to the others. */
    bool (*make_id)(void *self, unsigned char id[COMM_ID_BYTES], struct error *err);
    /* Begins to join the communicator of all ranks, on the device of the GPU that this table came with; BUSY until all
     * have come. */
    void *(*join)(void *self, const unsigned char id[COMM_ID_BYTES], int rank, int count, struct error *err);
    /* Begins to split off communicators of equal colour, members ordered by key; all members of `comm` call it in the
     * same order. *out, which must stay in place, is valid when `comm` is READY again; NULL for COMM_NO_COLOUR. */
    bool (*split)(void *self, void *comm, int colour, int key, void **out, struct error *err);
    /* FAILED: err says why. What was called is under way on its stream once READY. */
    enum comm_state (*state)(void *self, void *comm, struct error *err);
    /* Memory of the device that may be lent: others reach it where it lies. NULL: the GPU's own serves, and so it does
     * where devices cannot do that. */
    void *(*allocate)(void *self, size_t bytes, struct error *err);
    void (*release)(void *self, void *memory);
    /* Memory that calls will name: all of it, on all ranks, or none. Without effect where the library gains nothing by
     * it. */
    void (*lend)(void *self, void *comm, void *memory, size_t bytes);
    /* Calls between begin and end belong together: none of them waits for another. One that failed is followed by end
     * as well: what a thread does about communicators inside a group, abort too, is put off until then. On a stream
     * that is being captured they are kept, once the communicator is READY, and all members keep the same ones. */
    bool (*begin)(void *self, struct error *err);
    bool (*call)(void *self, void *comm, void *stream, const struct comm_call *call, struct error *err);
    bool (*end)(void *self, struct error *err);
    /* Ends what is under way on this rank, whatever the others do, and the communicators: all that the rank has, in one
     * call, since giving back one's memory may wait for kernels of another. let_go (NULL: there are none) gives up the
     * graphs that hold calls: it is called when what runs was told to end, and what is given back waits for it. */
    void (*abort)(void *self, void *const *comms, int count, void (*let_go)(void *context), void *context);
    /* All that was called has ended, and no graph holds a call; waits until all members leave. */
    void (*leave)(void *self, void *comm);
    void (*close)(void *self);
};

/* Tells whether the rank at this place of its host may have a GPU for itself, where its process sees so many. Who sees
 * one was perhaps shown that one alone (CUDA_VISIBLE_DEVICES, Slurm's --gpus-per-task) and takes it, whatever its
 * place; that two have the same is then NCCL's to say, in these words. */
#define NCCL_SAME_GPU "Duplicate GPU"
static inline bool nccl_may_have_own_gpu(int place, int device_count)
{
    return device_count == 1 || place < device_count;
}

/* What the GPU's module exports beside GPU_MODULE_SYMBOL; absent: built without NCCL's header. gpu: opened by the same
 * module. lanes: so many communicators may be at work at once. multiprocessors: that each may take; 0: as NCCL likes,
 * where all find room. */
struct gpu;
#define NCCL_MODULE_SYMBOL "cleave_nccl_open"
typedef bool nccl_module_open(struct nccl *out, const struct gpu *gpu, int lanes, int multiprocessors,
                              struct error *err);
#endif
