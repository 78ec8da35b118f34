#include "executor/gpu/cuda_libraries.h"
#include "executor/gpu/cuda.h"
#include <pthread.h>
#include <stdlib.h>

/* Mutable state of the module: as a device's context, what belongs to the device and the process has no other place. */
static struct {
    pthread_mutex_t mutex;
    struct cuda_libraries *first;
} opened = { .mutex = PTHREAD_MUTEX_INITIALIZER };

/* Under the mutex. */
static struct cuda_libraries *open_libraries(int device, struct error *err)
{
    struct cuda_libraries *l = calloc(1, sizeof *l);
    if (!l) {
        fail_kind(err, ERROR_ENVIRONMENT, "no memory for the libraries of device %d", device);
        return NULL;
    }
    *l = (struct cuda_libraries){ .device = device, .next = opened.first };
    if (!cuda_matmuls_new(&l->matmuls, err) || !cuda_attention_new(&l->attention, &l->no_attention, err)) {
        cuda_matmuls_free(l->matmuls);
        free(l);
        return NULL;
    }
    return opened.first = l;
}

const struct cuda_libraries *cuda_libraries_of(int device, struct error *err)
{
    pthread_mutex_lock(&opened.mutex);
    struct cuda_libraries *l = opened.first;
    while (l && l->device != device)
        l = l->next;
    if (!l)
        l = open_libraries(device, err);
    pthread_mutex_unlock(&opened.mutex);
    return l;
}
