/* What a run's loss reads, as a file: to hold the model against another implementation of it. */
#ifndef CLEAVE_CLI_LOGITS_H
#define CLEAVE_CLI_LOGITS_H
#include "cli/verb.h"
#include "executor/run_options.h"
#include "models/graph.h"
#include <pthread.h>

struct logits {
    int64_t batch, sequence, vocab; /* without padding */
    float *values;                  /* (batch, sequence, vocab) of the latest step */
    pthread_mutex_t mutex;
};
/* Fails where all logits of a step are not in memory that this process has. */
bool logits_open(struct logits *out, const struct graph *graph, struct error *err);
/* For run_options.on_logits. */
void logits_take(struct logits *logits, const struct block *block, int64_t token_parts, const void *data);
/* A safetensors file with one tensor, "logits". */
bool logits_write(const struct logits *logits, const char *path, struct error *err);
void logits_close(struct logits *logits);
#endif
