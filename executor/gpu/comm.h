/* What a rank's GPU says to those of other ranks, by NCCL on the streams of the lanes: a communicator for each channel,
 * calls issued in the program's order over all lanes, and a thread that looks after what is under way. */
#ifndef CLEAVE_EXECUTOR_GPU_COMM_H
#define CLEAVE_EXECUTOR_GPU_COMM_H
#include "executor/gpu/nccl.h"
#include "executor/rank.h"

/* All ranks call it at once, after gpu_device_open() with a library. Returns when all communicators stand. */
bool gpu_comm_open(struct rank *rank, struct error *err);
/* Ends what a failed run has left under way, so that streams end which others would keep waiting; the communicators,
 * too, unless the last step ended well. */
void gpu_comm_stop(struct rank *rank);
void gpu_comm_close(struct rank *rank); /* without effect where none is open */
/* Device memory that its lanes pack into, beside the arena; 0 where none is open. */
int64_t gpu_comm_packed_bytes(const struct rank *rank);
void gpu_comm_begin_step(struct rank *rank);
/* The step is kept, and its graph is about to run. False: the communicators have ended meanwhile, and it must not. */
bool gpu_comm_end_capture(struct rank *rank, struct error *err);
/* Queues a transfer on the instruction's lane, when all those before it in the program have been queued. */
bool gpu_comm_transfer(struct rank *rank, const struct instr *instr, bool muted, struct error *err);
/* After the streams have ended: whether they ended well. */
bool gpu_comm_check(struct rank *rank, struct error *err);
#endif
