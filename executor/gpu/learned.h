/* Algorithms of matrix products that runs of one process found fastest, each beginning with what those before it found:
 * the profiler's, whose profile keeps them. */
#ifndef CLEAVE_EXECUTOR_GPU_LEARNED_H
#define CLEAVE_EXECUTOR_GPU_LEARNED_H
#include "planner/facts/gpu_choice.h"
#include <pthread.h>

struct gpu_learned {
    pthread_mutex_t mutex;
    char device[128]; /* the GPU's description; "": nothing was learned */
    struct gpu_choices choices;
    struct arena arena; /* theirs */
};
void gpu_learned_open(struct gpu_learned *learned);
void gpu_learned_close(struct gpu_learned *learned);
#endif
