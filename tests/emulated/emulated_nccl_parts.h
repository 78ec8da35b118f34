/* What the emulated_nccl*.c files share. Nobody else includes this. */
#ifndef CLEAVE_TESTS_EMULATED_NCCL_PARTS_H
#define CLEAVE_TESTS_EMULATED_NCCL_PARTS_H
#include "base/text.h"
#include "executor/gpu/gpu.h"
#include "tests/emulated/emulated_nccl.h"
#include <pthread.h>

enum { MISUSE_BYTES = 256, MOST_CALLS = 4096, MOST_SPLITS = 64, MOST_LENT = 16 };
/* ---- what ranks share ---- */
/* A collective that members are at, by its number among those of the communicator. */
struct meeting_point {
    int64_t number;
    int come, gone;
    struct comm_call *calls; /* (count) by place */
    bool done;
    struct meeting_point *next;
};
struct message { /* posted by its sender, until it is taken */
    int from, to;
    int64_t number; /* among those from one place to another */
    const void *data;
    size_t bytes;
    bool taken;
    struct message *next;
};
struct group {
    struct emulated_nccl *shared;
    int left;                 /* members that have */
    int count, split, colour; /* split: which one made it; -1: the world */
    struct meeting_point *points;
    struct message *messages;
    unsigned char *connected;     /* (from, to) bit 0: the sender has called once, bit 1: the receiver */
    int called[COMM_RECEIVE + 1]; /* by kind of collective: members that have called one */
    struct group *next;
};
struct lent {
    const unsigned char *memory;
    size_t bytes;
};
struct handle { /* a rank's communicator */
    struct lent lent[MOST_LENT];
    int lent_count;
    struct group *group;
    int place;
    bool aborted, was_busy;
    int kept;                      /* calls that graphs hold */
    bool failed, stays;            /* a call of it did, or stays in progress: nothing more runs on it */
    int64_t collectives;           /* queued so far */
    int64_t *sent, *received;      /* (count) by peer */
    bool called[COMM_RECEIVE + 1]; /* by kind of collective */
    /* of the world: the split under way */
    int split_count;
    void **out;
    struct handle *next; /* of those that were aborted */
};
struct request {
    int colour, key;
};
struct emulated_nccl {
    int rank_count, joined;
    pthread_mutex_t mutex; /* of everything */
    pthread_cond_t changed;
    struct group *groups;
    struct request *requests;     /* (split, rank) */
    int asked[MOST_SPLITS];       /* by how many ranks */
    struct rank_table *ranks;     /* (rank) */
    int broken_rank, broken_call; /* -1: none; a call of this rank, by its number */
    enum call_fate fate;          /* of it */
    const char *broken;           /* the function that it was; NULL: it has not come yet */
    bool released;                /* nothing hangs any more */
    char misuse[MISUSE_BYTES];
};
struct rank_table {
    struct emulated_nccl *shared;
    struct gpu gpu;             /* name NULL: none */
    struct lent own[MOST_LENT]; /* allocated here, bytes 0: released */
    int own_count;
    int rank;
    bool grouping, failed; /* failed: a call of the group did */
    pthread_t grouper;
    int call_count, made; /* of the group; of all */
    int open;             /* communicators that were neither left nor aborted */
    struct queued {
        struct handle *handle;
        void *stream;
        struct comm_call call;
        int64_t number;
    } * calls; /* (MOST_CALLS) of the group that is being made */
    struct text order;
    struct handle *aborted;
};
/* One group of calls on one stream. */
struct batch {
    int count;
    bool never_ends; /* before it is aborted */
    bool kept;       /* in a graph: it may run more than once */
    struct queued *calls;
};

/* The first misuse counts. */
void emulated_nccl_note(struct emulated_nccl *shared, const char *what);
/* Run a struct batch, and free it; for a stream to call. */
void emulated_nccl_run(void *batch);
void emulated_nccl_forget(void *batch);
/* The place of a call among those of its communicator. */
int64_t emulated_nccl_number(struct handle *h, const struct comm_call *call);
void emulated_nccl_drop(struct group *group, struct meeting_point *point);
#endif
