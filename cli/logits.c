#include "cli/logits.h"
#include "base/num.h"
#include "executor/kernels/token_order.h"
#include "executor/real.h"
#include "executor/safetensors.h"
#include "host/file.h"
#include "planner/program/geometry.h"
#include <stdlib.h>
#include <string.h>

bool logits_open(struct logits *out, const struct graph *graph, struct error *err)
{
    int64_t count, bytes;
    *out = (struct logits){ .batch = graph->batch, .sequence = graph->sequence, .vocab = graph->vocab_size };
    if (!mul_i64(&count, out->batch, out->sequence) || !mul_i64(&count, count, out->vocab) ||
        !mul_i64(&bytes, count, (int64_t)sizeof *out->values) || !(out->values = calloc((size_t)count, sizeof(float))))
        return fail_kind(err, ERROR_ENVIRONMENT,
                         "--logits: no memory for %lld sequences of %lld tokens, %lld logits each: plan for a smaller "
                         "batch",
                         (long long)out->batch, (long long)out->sequence, (long long)out->vocab);
    pthread_mutex_init(&out->mutex, NULL);
    return true;
}

void logits_take(struct logits *l, const struct block *block, int64_t token_parts, const void *data)
{
    const real *from = data;
    const int64_t columns = min_i64(block->count[2], l->vocab - block->low[2]);
    pthread_mutex_lock(&l->mutex); /* ranks may hold copies of the same */
    for (int64_t b = 0; b < block->count[0]; b++)
        for (int64_t t = 0; t < block->count[1]; t++, from += block->count[2]) {
            const int64_t stored = block->low[1] + t,
                          position = token_parts > 1 ? token_position(stored, l->sequence, token_parts) : stored;
            float *to = l->values + ((block->low[0] + b) * l->sequence + position) * l->vocab + block->low[2];
            for (int64_t v = 0; v < columns; v++)
                to[v] = (float)from[v];
        }
    pthread_mutex_unlock(&l->mutex);
}

bool logits_write(const struct logits *l, const char *path, struct error *err)
{
    struct tensor tensor = { .name = "logits",
                             .type = TENSOR_F32,
                             .dim_count = 3,
                             .shape = { l->batch, l->sequence, l->vocab },
                             .bytes = l->batch * l->sequence * l->vocab * (int64_t)sizeof *l->values };
    size_t length;
    char *head = safetensors_write(&tensor, 1, NULL, 0, &length),
         *all = head ? realloc(head, length + (size_t)tensor.bytes) : NULL;
    if (!all) {
        free(head);
        return fail_memory(err);
    }
    memcpy(all + length, l->values, (size_t)tensor.bytes);
    bool ok = file_write(path, all, length + (size_t)tensor.bytes, err);
    free(all);
    return ok;
}

void logits_close(struct logits *l)
{
    if (l->values)
        pthread_mutex_destroy(&l->mutex);
    free(l->values);
    l->values = NULL;
}
