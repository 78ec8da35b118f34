#define _POSIX_C_SOURCE 200809L
#include "executor/data.h"
#include "base/num.h"
#include "host/file.h"
#include <stdlib.h>
#include <string.h>

enum { SYNTHETIC_BYTES = 64 * 1024, CHAIN_SUCCESSORS = 3, SYNTHETIC_IMAGES = 16, SYNTHETIC_CLASSES = 10 };

struct sample_shape sample_shape_of(const struct graph *graph)
{
    struct sample_shape shape = { .sequence = graph->sequence, .vocab_size = graph->vocab_size };
    if (graph->image_value >= 0) {
        const struct value *image = &graph->values[graph->image_value];
        shape.pixels = image->size[1], shape.channels = image->size[2];
    }
    return shape;
}

static bool is_image(const struct sample_shape *shape)
{
    return shape->pixels > 0;
}

/* Bytes of an image's record. */
static size_t record_bytes(const struct sample_shape *shape)
{
    return 1 + (size_t)(shape->pixels * shape->channels);
}

static bool check_tokens(const char *name, const unsigned char *bytes, size_t size, const struct sample_shape *shape,
                         struct error *err)
{
    size_t bad = 0;
    while (bad < size && bytes[bad] < shape->vocab_size)
        bad++;
    if (bad < size)
        return fail_kind(err, ERROR_INPUT,
                         "%s: byte %zu: expected a token below the model's vocabulary (%lld), found %u", name, bad,
                         (long long)shape->vocab_size, bytes[bad]);
    return (int64_t)size > shape->sequence ||
           fail_kind(err, ERROR_INPUT, "%s: expected at least %lld bytes (a sequence and its next token), found %zu",
                     name, (long long)shape->sequence + 1, size);
}

static bool check_images(const char *name, const unsigned char *bytes, size_t size, const struct sample_shape *shape,
                         struct error *err)
{
    size_t record = record_bytes(shape);
    if (size == 0 || size % record != 0)
        return fail_kind(
            err, ERROR_INPUT,
            "%s: expected records of %zu bytes (a label, then %lld planes of %lld pixels, as in CIFAR-10's "
            "binary files), found %zu bytes",
            name, record, (long long)shape->channels, (long long)shape->pixels, size);
    for (size_t at = 0; at < size; at += record)
        if (bytes[at] >= shape->vocab_size)
            return fail_kind(err, ERROR_INPUT,
                             "%s: byte %zu: expected image %zu's label below the model's classes (%lld), found %u",
                             name, at, at / record, (long long)shape->vocab_size, bytes[at]);
    return true;
}

bool data_adopt(struct data *out, const char *name, unsigned char *bytes, size_t size, struct sample_shape shape,
                uint64_t seed, struct error *err)
{
    if (!(is_image(&shape) ? check_images : check_tokens)(name, bytes, size, &shape, err)) {
        free(bytes);
        return false;
    }
    *out = (struct data){ .bytes = bytes, .size = size, .shape = shape, .seed = seed, .ignored = -1 };
    return true;
}

bool data_from_file(struct data *out, const char *path, struct sample_shape shape, uint64_t seed, struct error *err)
{
    char *text;
    size_t size;
    if (!file_read(&text, &size, path, err))
        return false;
    return data_adopt(out, path, (unsigned char *)text, size, shape, seed, err);
}

/* ---- synthetic data ---- */
static size_t synthetic_bytes(const struct sample_shape *shape)
{
    if (!is_image(shape))
        return (size_t)max_i64(SYNTHETIC_BYTES, 2 * (shape->sequence + 1));
    int64_t record = (int64_t)record_bytes(shape);
    return (size_t)(max_i64(SYNTHETIC_IMAGES, SYNTHETIC_BYTES / record) * record);
}

static void draw_tokens(unsigned char *bytes, size_t size, uint64_t tokens, uint64_t seed)
{
    uint64_t before = 0;
    for (size_t i = 0; i < size; i++) {
        uint64_t choice = mix64(seed + 2 * i) % CHAIN_SUCCESSORS; /* each token has few successors */
        before = mix64(mix64(seed ^ before) + choice) % tokens;
        bytes[i] = (unsigned char)before;
    }
}

/* Half of a byte is its class's pattern, half is noise. The few classes are spread over the labels that there are, so
 * that every part of a split table of them has some. */
static void draw_images(unsigned char *bytes, size_t size, size_t record, uint64_t labels, uint64_t seed)
{
    const uint64_t classes = labels < SYNTHETIC_CLASSES ? labels : SYNTHETIC_CLASSES, apart = labels / classes;
    for (size_t at = 0; at < size; at += record) {
        uint64_t label = mix64(seed + 2 * at) % classes * apart, pattern = mix64(seed ^ label);
        bytes[at] = (unsigned char)label;
        for (size_t i = 1; i < record; i++)
            bytes[at + i] = (unsigned char)(mix64(pattern + i) % 128 + mix64(seed + 2 * (at + i) + 1) % 128);
    }
}

bool data_synthetic(struct data *out, struct sample_shape shape, uint64_t seed, struct error *err)
{
    size_t size = synthetic_bytes(&shape);
    uint64_t symbols = (uint64_t)min_i64(shape.vocab_size, 256);
    unsigned char *bytes = malloc(size);
    if (!bytes)
        return fail_kind(err, ERROR_ENVIRONMENT, "no memory for %zu bytes of synthetic data", size);
    if (is_image(&shape))
        draw_images(bytes, size, record_bytes(&shape), symbols, seed);
    else
        draw_tokens(bytes, size, symbols, seed);
    return data_adopt(out, "synthetic data", bytes, size, shape, seed, err);
}

void data_free(struct data *data)
{
    free(data->bytes);
    *data = (struct data){ 0 };
}

/* ---- samples ---- */
static uint64_t sample_key(const struct data *data, int64_t step, int64_t sample)
{
    return mix64(mix64(mix64(data->seed) + (uint64_t)step) + (uint64_t)sample);
}

/* Returns where the sample's tokens begin. */
static size_t window_start(const struct data *data, int64_t step, int64_t sample)
{
    return (size_t)(sample_key(data, step, sample) % (uint64_t)((int64_t)data->size - data->shape.sequence));
}

static const unsigned char *record_of(const struct data *data, int64_t step, int64_t sample)
{
    size_t record = record_bytes(&data->shape);
    return data->bytes + sample_key(data, step, sample) % (data->size / record) * record;
}

void data_fill(const struct data *data, enum data_kind kind, int64_t step, int64_t sample, int64_t first, int64_t count,
               int32_t *out)
{
    if (is_image(&data->shape)) {
        if (count > 0)
            *out = *record_of(data, step, sample);
        return;
    }
    const int64_t sequence = data->shape.sequence;
    size_t start = window_start(data, step, sample);
    if (kind == DATA_SOURCE) {
        size_t place = (start + data->size - (size_t)sequence + (size_t)first) % data->size;
        for (int64_t i = 0; i < count; i++)
            out[i] = data->bytes[(place + (size_t)i) % data->size];
        return;
    }
    const unsigned char *window = data->bytes + start + first + (kind == DATA_LABELS ? 1 : 0);
    for (int64_t i = 0; i < count; i++)
        out[i] = kind == DATA_LABELS && window[i] == data->ignored ? -1 : window[i];
}

void data_fill_image(const struct data *data, int64_t step, int64_t sample, int64_t first, int64_t count, int64_t low,
                     int64_t channels, real *out)
{
    const unsigned char *planes = record_of(data, step, sample) + 1;
    for (int64_t i = 0; i < count; i++)
        for (int64_t c = 0; c < channels; c++)
            *out++ = (real)planes[(low + c) * data->shape.pixels + first + i] / (real)127.5 - 1;
}

int64_t data_target_count(const struct data *data, int64_t step, int64_t batch)
{
    const int64_t sequence = data->shape.sequence;
    int64_t count = batch * sequence;
    for (int64_t sample = 0; data->ignored >= 0 && sample < batch; sample++) {
        const unsigned char *labels = data->bytes + window_start(data, step, sample) + 1;
        for (int64_t i = 0; i < sequence; i++)
            count -= labels[i] == data->ignored;
    }
    return count;
}

bool data_ignore(struct data *data, int64_t token, struct error *err)
{
    if (is_image(&data->shape))
        return fail_kind(err, ERROR_INPUT, "ignored token %lld: expected a model of tokens, found one of images",
                         (long long)token);
    if (token < 0 || token > UINT8_MAX || !memchr(data->bytes, (int)token, data->size))
        return fail_kind(err, ERROR_INPUT,
                         "ignored token %lld: expected one that occurs in the data (a byte, 0 to 255)",
                         (long long)token);
    data->ignored = (int32_t)token;
    return true;
}
