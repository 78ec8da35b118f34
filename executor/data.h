/* Training data: bytes are tokens. Which window a sample sees depends on (seed, step, sample) alone, never on the plan.
 */
#ifndef CLEAVE_EXECUTOR_DATA_H
#define CLEAVE_EXECUTOR_DATA_H
#include "base/error.h"
#include <stddef.h>
#include <stdint.h>

struct data {
    unsigned char *bytes; /* owned */
    size_t size;
    int64_t sequence;
    uint64_t seed;
};
/* Copies the bytes. Fails when there are fewer than sequence + 1 or one is not below vocab_size: a byte is a token. */
bool data_from_bytes(struct data *out, const char *name, const unsigned char *bytes, size_t size, int64_t sequence,
                     int64_t vocab_size, uint64_t seed, struct error *err);
/* The same from a file. */
bool data_from_file(struct data *out, const char *path, int64_t sequence, int64_t vocab_size, uint64_t seed,
                    struct error *err);
/* For runs without a file: 64 KiB of a second-order chain over min(256, vocab_size) tokens drawn from the seed;
 * learnable. */
bool data_synthetic(struct data *out, int64_t sequence, int64_t vocab_size, uint64_t seed, struct error *err);
void data_free(struct data *data);

/* A label is the token that follows. The source is the stretch of one sequence that comes before the window, the data
 * taken as a circle: what an encoder may see of what its decoder continues. */
enum data_kind { DATA_TOKENS, DATA_LABELS, DATA_SOURCE };
/* Positions [first, first + count) of the sample's window in this step. */
void data_fill(const struct data *data, enum data_kind kind, int64_t step, int64_t sample, int64_t first, int64_t count,
               int32_t *out);
/* Target tokens of a step of `batch` samples: the loss is their mean. */
int64_t data_target_count(const struct data *data, int64_t batch);
#endif
