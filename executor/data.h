/* Training data: bytes that are tokens, or records of a label and an image. Which window or record a sample sees
 * depends on (seed, step, sample) alone, never on the plan. */
#ifndef CLEAVE_EXECUTOR_DATA_H
#define CLEAVE_EXECUTOR_DATA_H
#include "base/error.h"
#include "executor/real.h"
#include "models/graph.h"
#include <stddef.h>
#include <stdint.h>

/* What a model reads of a sample. */
struct sample_shape {
    int64_t sequence, vocab_size; /* of an image 1 and the number of classes */
    int64_t pixels, channels;     /* of an image; 0: tokens */
};
struct sample_shape sample_shape_of(const struct graph *graph);

struct data {
    unsigned char *bytes; /* owned */
    size_t size;
    struct sample_shape shape;
    uint64_t seed;
    int32_t ignored; /* nobody learns to say this token: as a label it is -1 and does not count; -1: all count */
};
/* Takes over the bytes, which malloc() gave, also when it fails. Tokens: a byte is one; fails when there are fewer than
 * sequence + 1 or one is not below vocab_size. Images: records as in CIFAR-10's binary files (Krizhevsky 2009), a byte
 * that is the label, then a plane of pixels per channel, row by row; fails when there is no record, one is cut off, or
 * a label is not below vocab_size. */
bool data_adopt(struct data *out, const char *name, unsigned char *bytes, size_t size, struct sample_shape shape,
                uint64_t seed, struct error *err);
/* Reads the same from a file. */
bool data_from_file(struct data *out, const char *path, struct sample_shape shape, uint64_t seed, struct error *err);
/* Draws data for runs without a file from the seed; they are learnable. Tokens: 64 KiB of a second-order chain over
 * min(256, vocab_size) of them. Images: about as many bytes, at least 16 images, each the pattern of its class with
 * noise, of at most 10 classes. */
bool data_synthetic(struct data *out, struct sample_shape shape, uint64_t seed, struct error *err);
void data_free(struct data *data);

/* A label is the token that follows, or the image's class. The source is the stretch of one sequence that comes before
 * the window, the data taken as a circle: what an encoder may see of what its decoder continues. */
enum data_kind { DATA_TOKENS, DATA_LABELS, DATA_SOURCE };
/* Positions [first, first + count) of the sample's window in this step; of an image only its label, at 0. */
void data_fill(const struct data *data, enum data_kind kind, int64_t step, int64_t sample, int64_t first, int64_t count,
               int32_t *out);
/* Pixels [first, first + count) of the sample's image, each with channels [low, low + channels), from -1 to 1. */
void data_fill_image(const struct data *data, int64_t step, int64_t sample, int64_t first, int64_t count, int64_t low,
                     int64_t channels, real *out);
/* Targets of the step's samples, `batch` of them: the loss is their mean, however many of them a rank or a micro-batch
 * has. */
int64_t data_target_count(const struct data *data, int64_t step, int64_t batch);
/* Sets what is ignored; fails on images, and where no token of the data has that number. */
bool data_ignore(struct data *data, int64_t token, struct error *err);
#endif
