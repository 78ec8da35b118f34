#include "executor/stream.h"
#include "executor/kernel.h"
#include <math.h>
#include <string.h>

struct cursor cursor_linear(void *data, size_t bytes)
{
    return (struct cursor){ .at = data, .run_bytes = bytes, .run_left = bytes, .left = bytes };
}

struct cursor cursor_over(void *data, size_t element_bytes, const struct block *block, const struct block *part)
{
    struct cursor c = { .at = data };
    int64_t stride = (int64_t)element_bytes, run = (int64_t)element_bytes;
    bool whole = true; /* all inner dims are covered: the run goes on */
    for (int d = block->dim_count - 1; d >= 0; d--) {
        c.at += (part->low[d] - block->low[d]) * stride;
        if (whole) {
            run *= part->count[d];
        } else {
            c.count[c.outer_count] = part->count[d];
            c.stride[c.outer_count++] = stride; /* inner dims first */
        }
        whole = whole && part->count[d] == block->count[d];
        stride *= block->count[d];
    }
    c.run_bytes = c.run_left = (size_t)run;
    c.left = (size_t)(block_elements(part) * (int64_t)element_bytes);
    return c;
}

static void next_run(struct cursor *c)
{
    c->at -= c->run_bytes;
    for (int d = 0; d < c->outer_count; d++) {
        c->at += c->stride[d];
        if (++c->index[d] < c->count[d])
            break;
        c->at -= c->stride[d] * c->count[d];
        c->index[d] = 0;
    }
    c->run_left = c->run_bytes;
}

size_t cursor_take(struct cursor *c, size_t max, unsigned char **out)
{
    if (c->left == 0)
        return 0;
    if (c->run_left == 0)
        next_run(c);
    size_t bytes = c->run_left < max ? c->run_left : max;
    *out = c->at;
    c->at += bytes;
    c->run_left -= bytes;
    c->left -= bytes;
    return bytes;
}

void combine_bytes(unsigned char *destination, const unsigned char *source, size_t bytes, size_t element_bytes,
                   enum combine combine)
{
    int64_t count = (int64_t)(bytes / sizeof(real));
    if (combine == COMBINE_ADD && element_bytes == sizeof(uint16_t))
        kernel_add_bf16((uint16_t *)(void *)destination, (const uint16_t *)(const void *)source,
                        (int64_t)(bytes / sizeof(uint16_t)));
    else if (combine == COMBINE_COPY || element_bytes != sizeof(real))
        memcpy(destination, source, bytes);
    else if (combine == COMBINE_ADD)
        kernel_add((real *)(void *)destination, (const real *)(const void *)source, count);
    else
        kernel_maximum((real *)(void *)destination, (const real *)(const void *)source, count);
}

void combine_cursors(struct cursor *destination, struct cursor *source, size_t element_bytes, enum combine combine)
{
    unsigned char *to, *from;
    size_t want;
    while ((want = cursor_take(destination, destination->left, &to)) > 0)
        for (size_t done = 0; done < want;) {
            size_t got = cursor_take(source, want - done, &from);
            if (got == 0)
                return;
            combine_bytes(to + done, from, got, element_bytes, combine);
            done += got;
        }
}

void combine_start(unsigned char *destination, size_t bytes, size_t element_bytes, enum combine combine)
{
    if (combine != COMBINE_MAXIMUM || element_bytes != sizeof(real)) {
        memset(destination, 0, bytes);
        return;
    }
    real *element = (real *)(void *)destination;
    for (size_t i = 0; i < bytes / sizeof(real); i++)
        element[i] = -(real)INFINITY;
}
