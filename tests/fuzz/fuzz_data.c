/* Any bytes as training data: refused with a reason, or all that any sample reads of them is in range. */
#include "tests/data_of_bytes.h"
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool holds)
{
    if (!holds)
        abort();
}

static void read_tokens(const struct data *data)
{
    int32_t row[64];
    const int64_t sequence = data->shape.sequence;
    for (int64_t sample = 0; sample < 4; sample++)
        for (int kind = DATA_TOKENS; kind <= DATA_SOURCE; kind++) {
            data_fill(data, (enum data_kind)kind, 1, sample, 0, sequence, row);
            for (int64_t i = 0; i < sequence; i++)
                must(row[i] >= 0 && row[i] < data->shape.vocab_size);
        }
}

static void read_images(const struct data *data)
{
    real pixels[64];
    int32_t label;
    const struct sample_shape *shape = &data->shape;
    for (int64_t sample = 0; sample < 4; sample++) {
        data_fill(data, DATA_LABELS, 1, sample, 0, 1, &label);
        data_fill_image(data, 1, sample, 0, shape->pixels, 0, shape->channels, pixels);
        must(label >= 0 && label < shape->vocab_size);
        for (int64_t i = 0; i < shape->pixels * shape->channels; i++)
            must(pixels[i] >= -1 && pixels[i] <= 1);
    }
}

static void try_shape(const uint8_t *bytes, size_t size, struct sample_shape shape)
{
    struct data data = { 0 };
    struct error err = { 0 };
    if (!data_of_bytes(&data, "fuzz", bytes, size, shape, 3, &err)) {
        must(data.bytes == NULL && err.kind == ERROR_INPUT && strncmp(err.message, "fuzz:", 5) == 0);
        return;
    }
    (shape.pixels > 0 ? read_images : read_tokens)(&data);
    data_free(&data);
}

/* The first two bytes choose the shapes. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 2)
        return 0;
    const int64_t vocab_size = 1 + data[0];
    try_shape(data + 2, size - 2, (struct sample_shape){ .sequence = 1 + data[1] % 64, .vocab_size = vocab_size });
    try_shape(
        data + 2, size - 2,
        (struct sample_shape){
            .sequence = 1, .vocab_size = vocab_size, .pixels = 1 + data[1] % 8, .channels = 1 + data[1] / 8 % 8 });
    /* an image's bytes, whatever there are, with one label */
    try_shape(
        data + 2, size - 2,
        (struct sample_shape){
            .sequence = 1, .vocab_size = 256, .pixels = size > 3 && size < 67 ? (int64_t)size - 3 : 1, .channels = 1 });
    return 0;
}
