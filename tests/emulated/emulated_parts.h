/* What the emulated*.c files of a GPU share. Nobody else includes this. */
#ifndef CLEAVE_TESTS_EMULATED_PARTS_H
#define CLEAVE_TESTS_EMULATED_PARTS_H
#include "tests/emulated/emulated.h"
#include "tests/emulated/emulated_watch.h"
#include <pthread.h>

struct kept {
    struct kept *next;
};
/* What was allocated, beside it, so that sanitizers see both ends of the memory itself. */
struct block_in_use {
    struct block_in_use *next;
    void *memory;
    size_t bytes;
};
struct emulated {
    int threads;
    int most_waiting;      /* tasks of a stream; 0: any number */
    pthread_mutex_t mutex; /* of all below */
    struct kept *kept;
    struct block_in_use *blocks;
    int64_t used_bytes; /* blocks and kept */
    int64_t kept_bytes;
    struct emulated_graph *capture; /* what is queued goes there; NULL: it runs */
    uint64_t graphs;                /* that were begun */
    struct emulated_watch watch;
};

/* ---- events ---- */
struct event {
    bool timed;
    pthread_mutex_t mutex;
    pthread_cond_t done_changed;
    int64_t recorded, done; /* records queued, and reached */
    int64_t time_ns;        /* of the last one reached */
    uint64_t capture;       /* in which graph its last record is, by number; 0: in none */
    int node;               /* there */
};

/* ---- streams ---- */
enum task_kind { TASK_COPY, TASK_FILL, TASK_LAUNCH, TASK_RECORD, TASK_WAIT, TASK_CALL, TASK_GRAPH };
struct task {
    enum task_kind kind;
    struct task *next;
    void *to;
    const void *from;
    size_t bytes;
    int byte;
    enum gpu_kernel kernel;
    int64_t teams;
    struct gpu_work work;
    struct event *event;
    int64_t number;        /* which record of it */
    struct stream *stream; /* of a kept one: where it was queued */
    void (*function)(void *context);
    void (*forget)(void *context); /* when it will not be called any more; NULL: nobody needs to hear */
    void *context;
    struct emulated_graph *graph;
};
struct stream {
    pthread_t thread;
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    struct task *first, **end;
    int waiting; /* tasks */
    bool busy, closing;
    struct emulated *gpu;
    uint64_t capture; /* the graph that it is in, by number, or was in last */
    int node;         /* its last one there */
};

/* Does what a stream does in the task's turn. */
void emulated_run_task(const struct stream *stream, const struct task *task);
/* Queues a copy of the task, or keeps it for a graph. */
bool emulated_queue(void *stream, const struct task *task, struct error *err);

/* ---- graphs ---- */
bool emulated_is_capturing(struct emulated *gpu);
/* Takes the task over where the GPU captures. */
bool emulated_capture(struct stream *stream, struct task *task);
/* Under a capture nobody may ask about what it holds: CUDA gives up the whole graph. which: its number. */
void emulated_capture_spoil(struct emulated *gpu, uint64_t which, const char *what);
bool emulated_begin_capture(void *self, void *stream, struct error *err);
bool emulated_end_capture(void *self, void *stream, void **graph, struct error *err);
bool emulated_replay(void *self, void *stream, void *graph, struct error *err);
void emulated_close_graph(void *self, void *graph);
/* Runs its tasks, one after another. */
void emulated_graph_run(struct emulated_graph *graph);
#endif
