#include "executor/gpu/cuda_workspace.h"
#include <cuda_runtime_api.h>
#include <stdlib.h>

struct cuda_workspace {
    void *stream, *memory;
    int64_t bytes;
    struct cuda_workspace *next;
};

void cuda_workspaces_open(struct cuda_workspaces *out)
{
    *out = (struct cuda_workspaces){ .first = NULL };
    pthread_mutex_init(&out->mutex, NULL);
}

void cuda_workspaces_close(struct cuda_workspaces *workspaces)
{
    while (workspaces->first) {
        struct cuda_workspace *w = workspaces->first;
        workspaces->first = w->next;
        cudaFree(w->memory);
        free(w);
    }
    pthread_mutex_destroy(&workspaces->mutex);
}

/* Under the mutex. */
static struct cuda_workspace *add(struct cuda_workspaces *workspaces, void *stream, int64_t bytes)
{
    struct cuda_workspace *w = malloc(sizeof *w);
    if (!w)
        return NULL;
    *w = (struct cuda_workspace){ .stream = stream, .bytes = bytes, .next = workspaces->first };
    if (cudaMalloc(&w->memory, (size_t)bytes) != cudaSuccess) {
        cudaGetLastError();
        free(w);
        return NULL;
    }
    return workspaces->first = w;
}

void *cuda_workspace_of(struct cuda_workspaces *workspaces, void *stream, int64_t bytes, const char *what,
                        struct error *err)
{
    pthread_mutex_lock(&workspaces->mutex);
    struct cuda_workspace *w = workspaces->first;
    while (w && (w->stream != stream || w->bytes < bytes))
        w = w->next;
    for (struct cuda_workspace *left = workspaces->first; left && !w; left = left->next)
        if (!left->stream && left->bytes >= bytes)
            w = left, w->stream = stream;
    if (!w && !(w = add(workspaces, stream, bytes)))
        fail_kind(err, ERROR_ENVIRONMENT, "CUDA: no memory for a workspace of %lld bytes for %s", (long long)bytes,
                  what);
    pthread_mutex_unlock(&workspaces->mutex);
    return w ? w->memory : NULL;
}

void cuda_workspace_leave(struct cuda_workspaces *workspaces, const void *stream)
{
    pthread_mutex_lock(&workspaces->mutex);
    for (struct cuda_workspace *w = workspaces->first; w; w = w->next)
        if (w->stream == stream)
            w->stream = NULL;
    pthread_mutex_unlock(&workspaces->mutex);
}

int64_t cuda_workspaces_bytes(struct cuda_workspaces *workspaces)
{
    int64_t bytes = 0;
    pthread_mutex_lock(&workspaces->mutex);
    for (const struct cuda_workspace *w = workspaces->first; w; w = w->next)
        bytes += w->bytes;
    pthread_mutex_unlock(&workspaces->mutex);
    return bytes;
}
