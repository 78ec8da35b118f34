/* A part of a dense row-major block in memory, walked in contiguous runs: what a message is packed from and unpacked
 * into. */
#ifndef CLEAVE_EXECUTOR_STREAM_H
#define CLEAVE_EXECUTOR_STREAM_H
#include "planner/program/geometry.h"
#include <stddef.h>

/* The rest of a region. left counts the bytes that were not taken yet. */
struct cursor {
    unsigned char *at; /* in the current run */
    size_t run_bytes, run_left, left;
    int outer_count; /* dims outside the run */
    int64_t index[MAX_DIMS], count[MAX_DIMS];
    int64_t stride[MAX_DIMS]; /* bytes */
};

/* The part of the block that lies at data; part lies inside block. */
struct cursor cursor_over(void *data, size_t element_bytes, const struct block *block, const struct block *part);
/* `bytes` contiguous bytes. */
struct cursor cursor_linear(void *data, size_t bytes);
/* The next contiguous bytes, at most max, or 0 at the end. */
size_t cursor_take(struct cursor *cursor, size_t max, unsigned char **out);

/* How arriving elements combine with those that are there. */
enum combine { COMBINE_COPY, COMBINE_ADD, COMBINE_MAXIMUM };
/* Elements are `real`, or bf16 where they have two bytes; of another size (devices that only imitate another dtype)
 * they are copied. */
void combine_bytes(unsigned char *destination, const unsigned char *source, size_t bytes, size_t element_bytes,
                   enum combine combine);
/* Both cursors hold equally many bytes. */
void combine_cursors(struct cursor *destination, struct cursor *source, size_t element_bytes, enum combine combine);
/* count elements of 0, or of -infinity where a maximum starts. */
void combine_start(unsigned char *destination, size_t bytes, size_t element_bytes, enum combine combine);
#endif
