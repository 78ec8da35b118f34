/* Device memory that a library works in, by stream: calls of one stream follow each other and may share it. */
#ifndef CLEAVE_EXECUTOR_GPU_CUDA_WORKSPACE_H
#define CLEAVE_EXECUTOR_GPU_CUDA_WORKSPACE_H
#include "base/error.h"
#include <pthread.h>
#include <stdint.h>

struct cuda_workspace;
struct cuda_workspaces {
    pthread_mutex_t mutex;
    struct cuda_workspace *first;
};
void cuda_workspaces_open(struct cuda_workspaces *out);
void cuda_workspaces_close(struct cuda_workspaces *workspaces);
/* Memory of the calling thread's device; what: who works there, for the message. What was too small is given back at
 * the end alone: to free memory waits for all that runs on the device, as for a transfer that waits for this rank. */
void *cuda_workspace_of(struct cuda_workspaces *workspaces, void *stream, int64_t bytes, const char *what,
                        struct error *err);
/* The stream is closed: what worked for it serves the next one. */
void cuda_workspace_leave(struct cuda_workspaces *workspaces, const void *stream);
int64_t cuda_workspaces_bytes(struct cuda_workspaces *workspaces);
#endif
