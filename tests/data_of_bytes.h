/* Training data out of bytes that stay the test's own. */
#ifndef CLEAVE_TESTS_DATA_OF_BYTES_H
#define CLEAVE_TESTS_DATA_OF_BYTES_H
#include "executor/data.h"
#include <stdlib.h>
#include <string.h>

static inline bool data_of_bytes(struct data *out, const char *name, const unsigned char *bytes, size_t size,
                                 struct sample_shape shape, uint64_t seed, struct error *err)
{
    unsigned char *copy = malloc(size > 0 ? size : 1);
    if (!copy)
        abort();
    memcpy(copy, bytes, size);
    return data_adopt(out, name, copy, size, shape, seed, err);
}
#endif
