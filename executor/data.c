#define _POSIX_C_SOURCE 200809L
#include "executor/data.h"
#include "base/num.h"
#include "host/file.h"
#include <stdlib.h>
#include <string.h>

enum { SYNTHETIC_BYTES = 64 * 1024, CHAIN_SUCCESSORS = 3 };

/* Takes over bytes, also when it fails. */
static bool adopt(struct data *out, const char *name, unsigned char *bytes, size_t size, int64_t sequence,
                  int64_t vocab_size, uint64_t seed, struct error *err)
{
    size_t bad = 0;
    while (bad < size && bytes[bad] < vocab_size)
        bad++;
    if (bad == size && (int64_t)size > sequence) {
        *out = (struct data){ .bytes = bytes, .size = size, .sequence = sequence, .seed = seed };
        return true;
    }
    unsigned value = bad < size ? bytes[bad] : 0;
    free(bytes);
    if (bad < size)
        return fail_kind(err, ERROR_INPUT,
                         "%s: byte %zu: expected a token below the model's vocabulary (%lld), found %u", name, bad,
                         (long long)vocab_size, value);
    return fail_kind(err, ERROR_INPUT, "%s: expected at least %lld bytes (a sequence and its next token), found %zu",
                     name, (long long)sequence + 1, size);
}

bool data_from_bytes(struct data *out, const char *name, const unsigned char *bytes, size_t size, int64_t sequence,
                     int64_t vocab_size, uint64_t seed, struct error *err)
{
    unsigned char *copy = malloc(size > 0 ? size : 1);
    if (!copy)
        return fail_kind(err, ERROR_ENVIRONMENT, "%s: no memory for %zu bytes of data", name, size);
    memcpy(copy, bytes, size);
    return adopt(out, name, copy, size, sequence, vocab_size, seed, err);
}

bool data_from_file(struct data *out, const char *path, int64_t sequence, int64_t vocab_size, uint64_t seed,
                    struct error *err)
{
    char *text;
    size_t size;
    if (!file_read(&text, &size, path, err))
        return false;
    return adopt(out, path, (unsigned char *)text, size, sequence, vocab_size, seed, err);
}

bool data_synthetic(struct data *out, int64_t sequence, int64_t vocab_size, uint64_t seed, struct error *err)
{
    size_t size = SYNTHETIC_BYTES > 2 * (sequence + 1) ? SYNTHETIC_BYTES : (size_t)(2 * (sequence + 1));
    uint64_t tokens = (uint64_t)min_i64(vocab_size, 256);
    unsigned char *bytes = malloc(size);
    if (!bytes)
        return fail_kind(err, ERROR_ENVIRONMENT, "no memory for %zu bytes of synthetic data", size);
    uint64_t before = 0;
    for (size_t i = 0; i < size; i++) {
        uint64_t choice = mix64(seed + 2 * i) % CHAIN_SUCCESSORS; /* each token has few successors */
        before = mix64(mix64(seed ^ before) + choice) % tokens;
        bytes[i] = (unsigned char)before;
    }
    return adopt(out, "synthetic data", bytes, size, sequence, vocab_size, seed, err);
}

void data_free(struct data *data)
{
    free(data->bytes);
    *data = (struct data){ 0 };
}

void data_fill(const struct data *data, enum data_kind kind, int64_t step, int64_t sample, int64_t first, int64_t count,
               int32_t *out)
{
    uint64_t key = mix64(mix64(mix64(data->seed) + (uint64_t)step) + (uint64_t)sample);
    size_t start = (size_t)(key % (uint64_t)((int64_t)data->size - data->sequence));
    if (kind == DATA_SOURCE) {
        size_t place = (start + data->size - (size_t)data->sequence + (size_t)first) % data->size;
        for (int64_t i = 0; i < count; i++)
            out[i] = data->bytes[(place + (size_t)i) % data->size];
        return;
    }
    const unsigned char *window = data->bytes + start + first + (kind == DATA_LABELS ? 1 : 0);
    for (int64_t i = 0; i < count; i++)
        out[i] = window[i];
}

int64_t data_target_count(const struct data *data, int64_t batch)
{
    return batch * data->sequence;
}
