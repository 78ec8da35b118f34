/* A rank on a GPU: instructions are queued on one stream per lane, waits are events, and the host waits for none of it
 * before the end of the step. Which GPU it is, a struct gpu says. */
#ifndef CLEAVE_EXECUTOR_GPU_DEVICE_H
#define CLEAVE_EXECUTOR_GPU_DEVICE_H
#include "executor/device.h"
#include "executor/gpu/gpu.h"
#include "executor/gpu/issue.h"
#include "executor/gpu/nccl.h"
#include "executor/gpu/update.h"
#include "executor/rank.h"
#include <pthread.h>
#include <stdatomic.h>

/* How a step reaches the device: instruction by instruction; the same, and kept; from what was kept. */
enum gpu_step_mode { GPU_STEP_QUEUED, GPU_STEP_CAPTURED, GPU_STEP_REPLAYED };
/* The UPDATEs of this rank, or its NORMs, by number. */
struct gpu_updates {
    int count;
    int *number;                     /* (instr_count) of the instruction, -1 */
    int *batch;                      /* (count) how many one launch makes from here on; 0: an earlier one */
    struct gpu_update *made, *table; /* (count) of the host and of the device */
    struct gpu_update_rates *host_rates,
        *rates; /* (count) pinned, and copied to the device in every step; of UPDATEs */
};

struct gpu_rank {
    struct gpu gpu;
    struct nccl nccl;            /* name NULL: the rank has none */
    unsigned char *arena;        /* of the device; offsets are the program's */
    void *stream[LANE_COUNT];    /* NULL where the lane is not in use */
    void **began, **done;        /* (instr_count) events of steps whose times are told */
    void **mark;                 /* (instr_count) those of all other steps' ends, NULL: nobody waits */
    bool told;                   /* times by instruction, of this step */
    void *origin, *spare;        /* events: at the begin of the step, and one to try again */
    int64_t origin_ns;           /* when that was by the host's clock */
    int64_t origin_error_ns;     /* at most so far from there */
    void **table;                /* (segment_count) device memory, shared by equal segments; NULL: none */
    double *parts;               /* (gpu_part_count()) device memory, for sums by several teams of the compute lane */
    struct collective *geometry; /* which pieces go where, in the device's arena; moves nothing */
    unsigned char *pinned;       /* the rank's host_arena, NULL: it needs none */
    unsigned char *host;         /* pinned: what steps read and write, slot by slot */
    int64_t host_bytes;
    int64_t *load_slot;                    /* (pair_count) of LOADs: offset in host, -1 */
    int64_t loss_slot;                     /* (buffer_count) reals from here on, then the squared norm */
    unsigned char *mirror[LANE_COUNT];     /* arena_bytes of host memory for transfers, touched where they go */
    struct collective *staged[LANE_COUNT]; /* the host's collectives over the mirror */
    int32_t *overflow;       /* device memory: choices without a slot in this step; NULL: may be left out */
    int64_t overflow_slot;   /* where the host reads them */
    enum gpu_step_mode mode; /* of this step */
    bool capturing, kept;    /* a step is being kept; one was */
    pthread_mutex_t graph_mutex;
    void *graph;             /* what was kept, NULL: nothing yet, or nothing any more; under graph_mutex */
    pthread_mutex_t keeping; /* held by the lane whose instruction is being kept */
    unsigned char *ahead;    /* (loss_slot) what LOADs of step ahead_step read, made while the device was busy */
    int64_t ahead_step;      /* -1: of none */
    void *joint[LANE_COUNT]; /* events that tie the streams of a graph together */
    bool keeps_steps;        /* as graphs */
    gpu_gate *gate;          /* of the host: gates up to this number are open; NULL: streams are not held */
    int32_t gates;           /* so many there were */
    bool holds;              /* in this step */
    int held_calls;          /* queued behind the last gate */
    struct gpu_updates updates, norms;
    int *partner; /* (instr_count) what may run at the instruction's place with it, -1 */
    bool *unread; /* (instr_count) of norms with a partner: nobody else reads the gradient of the input */
    int *next;    /* (instr_count) the product that runs with it, and then that one's; -1 */
    bool *fused;  /* (instr_count) ran with another one in this step; of the compute lane */
    int segment_count, instr_count;
    struct gpu_comm *comm;       /* what transfers go by; NULL: through the host */
    bool records;                /* what really runs in the last step is recorded */
    void *watch;                 /* while it is */
    atomic_int_least64_t queued; /* instructions, in all steps */
};

/* Functions of struct device for any GPU; a device of its own adds name, check and open. open: takes over the gpu, and
 * the library that gpu_comm_open() will use (NULL: none), also when it fails (close ends both). */
bool gpu_device_open(struct rank *rank, const struct gpu *gpu, const struct nccl *nccl, struct error *err);
void gpu_device_close(struct rank *rank);
bool gpu_device_check(const struct program *program, struct error *err);
bool gpu_device_upload(struct rank *rank, struct error *err);
bool gpu_device_download(struct rank *rank, struct error *err);
bool gpu_device_execute(struct rank *rank, const struct instr *instr, struct span *span, struct error *err);
bool gpu_device_transfer(struct rank *rank, const struct instr *instr, bool muted, struct span *span,
                         struct error *err);
bool gpu_device_begin_step(struct rank *rank, struct error *err);
bool gpu_device_finish_step(struct rank *rank, struct span *spans, struct error *err);
bool gpu_device_memory_beside_arena(struct rank *rank, struct memory_outside *out, struct error *err);
#define GPU_DEVICE_FUNCTIONS                                                                                           \
    .check = gpu_device_check, .execute = gpu_device_execute, .computes = true, .close = gpu_device_close,             \
    .upload = gpu_device_upload, .download = gpu_device_download, .transfer = gpu_device_transfer,                     \
    .begin_step = gpu_device_begin_step, .finish_step = gpu_device_finish_step,                                        \
    .memory_beside_arena = gpu_device_memory_beside_arena

/* ---- the parts ---- */
/* enum gpu_type of a buffer's elements. */
int gpu_buffer_type(const struct program *program, int buffer);
/* Makes the instruction's lane wait for what it waits for, and notes where it begins; and where it ends. */
bool gpu_queue_begin(struct rank *rank, const struct instr *instr, struct error *err);
bool gpu_queue_end(struct rank *rank, const struct instr *instr, struct error *err);
/* The event of this step behind an instruction that others or the host wait for. */
void *gpu_end_event(const struct gpu_rank *g, int index);
/* Memory that calls of NCCL name. NULL: err says why. */
void *gpu_allocate_lent(struct gpu_rank *g, size_t bytes, struct error *err);
void gpu_release_lent(struct gpu_rank *g, void *memory);
/* Returns where the buffer lies, in the device's arena or the host's. */
void *gpu_place(const struct rank *rank, int buffer);
/* Updates of weights, and the norm of gradients: executor/gpu/update.c. open: when the arena is there. */
bool gpu_update_open(struct rank *rank, struct error *err);
void gpu_update_close(struct gpu_rank *g);
/* Computes for the host what updates of the step that begins multiply by, and queues its copy to the device. */
void gpu_update_fill_rates(struct rank *rank);
bool gpu_update_copy_rates(struct rank *rank, struct error *err);
bool gpu_update_run(struct rank *rank, const struct instr *instr, struct error *err);
bool gpu_update_norm(struct rank *rank, const struct instr *instr, struct error *err);
/* Divides the time of each launch among its updates, by their elements. */
void gpu_update_spans(const struct rank *rank, struct span *spans);
/* Makes the update round by chance: which elements of the weight these are, from element `first` of the flattened block
 * on. */
void gpu_update_by_chance(struct gpu_update *update, const struct weight *weight, const struct block *block,
                          int64_t first);
/* Numbers the chunks of updates of one launch; returns how many there are. */
int64_t gpu_update_chunks(struct gpu_update *updates, int count);
/* Tells whether the rank's program moves data between ranks. */
bool gpu_exchanges(const struct rank *rank);
/* Steps without the host's time in their spans: executor/gpu/hold.c. begin: when only the step's origin, and what
 * its updates multiply by, were queued. next: before an instruction is. end: after all were; also where the step fails.
 */
bool gpu_hold_open(struct rank *rank, struct error *err);
void gpu_hold_close(struct gpu_rank *g);
bool gpu_hold_begin(struct rank *rank, struct error *err);
bool gpu_hold_next(struct rank *rank, const struct instr *instr, struct error *err);
void gpu_hold_end(struct gpu_rank *g);
/* Steps as graphs: executor/gpu/replay.c. begin: after the origin was recorded. */
bool gpu_replay_open(struct rank *rank, struct error *err);
void gpu_replay_close(struct gpu_rank *g);
/* Ends what a step that failed began to keep. */
void gpu_replay_stop(struct gpu_rank *g);
/* Gives the graph up, which may be running; from any thread, of the struct rank. */
void gpu_replay_let_go(void *rank);
enum gpu_step_mode gpu_replay_mode(const struct rank *rank); /* of the step that begins */
bool gpu_replay_begin(struct rank *rank, struct error *err);
bool gpu_replay_finish(struct rank *rank, struct error *err);
/* Round what a lane queues for one instruction: lanes are threads, and a graph takes nodes from one at a time. */
void gpu_replay_enter(struct gpu_rank *g);
void gpu_replay_leave(struct gpu_rank *g);
/* Gives each instruction the whole step as its span, where the step has no times by instruction. */
void gpu_replay_spans(const struct rank *rank, struct span *spans);
/* What really ran in the last step, whose times are told: executor/gpu/watch.c. Where there are no records the run goes
 * on, and a note says why. open: whether there will be some. end: when all that was queued has ended and the spans are
 * those of events; fills rank->activity. */
void gpu_watch_open(struct rank *rank);
void gpu_watch_begin(struct rank *rank);
void gpu_watch_end(struct rank *rank, const struct span *spans);
void gpu_watch_close(struct rank *rank);
/* Fills what stands beside each instruction for fusing: its partner, the next one, what is unread. */
bool gpu_fuse_open(struct rank *rank, struct error *err);
void gpu_fuse_close(struct gpu_rank *g);
/* Runs all instructions that move nothing between ranks once, on zeros, as are what others would send, so that whatever
 * libraries load or choose when it is first used is there: a kernel that has to be loaded may wait for those of a
 * transfer that wait for it. What lies in the arena means nothing before, and nothing afterwards. */
bool gpu_device_warm_up(struct rank *rank, struct error *err);
/* Queues one kernel or copy of a transfer. */
struct local_move;
bool gpu_queue_piece(const struct rank *rank, enum lane lane, const struct local_move *move, struct error *err);
/* SLICE and ADD. */
bool gpu_queue_local(struct rank *rank, const struct instr *instr, struct error *err);
#endif
