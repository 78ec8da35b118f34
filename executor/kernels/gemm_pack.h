/* Copies of matrix blocks in the order in which gemm.c's register tile reads them, and the vector type of that tile. */
#ifndef CLEAVE_EXECUTOR_KERNELS_GEMM_PACK_H
#define CLEAVE_EXECUTOR_KERNELS_GEMM_PACK_H
#include "base/num.h"
#include "executor/kernels/primitives.h"
#include <stdint.h>
#include <string.h>

#if defined(__AVX512F__)
enum { VECTOR_BYTES = 64, TILE_ROWS = 12 };
#elif defined(__AVX__)
enum { VECTOR_BYTES = 32, TILE_ROWS = 6 };
#else
enum { VECTOR_BYTES = 16, TILE_ROWS = 6 };
#endif
typedef real vector __attribute__((vector_size(VECTOR_BYTES)));
typedef real loose_vector
    __attribute__((vector_size(VECTOR_BYTES), aligned(sizeof(real)), may_alias)); /* anywhere in memory */
enum { LANES = VECTOR_BYTES / (int)sizeof(real), TILE_COLUMNS = 2 * LANES, CACHE_LINE = 64 / (int)sizeof(real) };

static inline vector load_vector(const real *from)
{
    return *(const loose_vector *)from;
}

/* `count` lines of k elements. */
struct lines {
    const real *data;
    int64_t count, stride;
    int64_t k, k_stride;
};

/* Panels of `tile` lines, one after another: in each, the k-th elements of its lines side by side; lines that are
 * missing are 0. tile is TILE_ROWS, TILE_COLUMNS or, for lines contiguous along k, any multiple of LANES. */
#define pack_lines ISA(pack_lines)
void pack_lines(real *out, const struct lines *lines, int tile);

/* The lines' steps [low, low + count) of k, as far as they have them. */
static inline struct lines lines_part(const struct lines *lines, int64_t low, int64_t count)
{
    struct lines part = *lines;
    part.data += low * lines->k_stride;
    part.k = max_i64(0, min_i64(count, lines->k - low));
    return part;
}

/* Rows of cache lines that a tile's product calls into the caches on its way, some every CACHE_LINE steps of k: all at
 * once they would keep the tile's own loads waiting. */
struct walk {
    uintptr_t at; /* may run past the data's end, so it is no pointer */
    int64_t rows, row_bytes, width_bytes;
};

static inline struct walk walk_of(const struct lines *lines)
{
    int64_t bytes = (int64_t)sizeof(real);
    uintptr_t at = (uintptr_t)lines->data;
    if (lines->stride == 1)
        return (struct walk){ at, lines->count ? lines->k : 0, lines->k_stride * bytes, lines->count * bytes };
    return (struct walk){ at, lines->k ? lines->count : 0, lines->stride * bytes, lines->k * bytes };
}

/* Goes on by `rows` rows. `write` is 1 for what will be written, else 0: a constant. */
static inline __attribute__((always_inline)) void walk_on(struct walk *w, int64_t rows, const int write)
{
    for (; rows > 0 && w->rows > 0; rows--, w->rows--, w->at += (uintptr_t)w->row_bytes)
        for (int64_t i = 0; i < w->width_bytes; i += CACHE_LINE * (int64_t)sizeof(real))
            write ? __builtin_prefetch((const void *)(w->at + (uintptr_t)i), 1, 3)
                  : __builtin_prefetch((const void *)(w->at + (uintptr_t)i), 0, 3);
}

/* Rows of TILE_COLUMNS elements that pack_lines would copy as they are, some at a time. */
struct copy {
    const real *from;
    real *to;
    int64_t rows, stride;
};

/* Without rows where only pack_lines can copy these lines. */
static inline struct copy copy_of(const struct lines *lines, real *to)
{
    bool plain = lines->stride == 1 && lines->count == TILE_COLUMNS;
    return (struct copy){ lines->data, to, plain ? lines->k : 0, lines->k_stride };
}

/* Vectors are copied one by one: a memcpy might be of anything, the sums of the loop around it included, which then
 * leave their registers. */
static inline __attribute__((always_inline)) void copy_on(struct copy *c, int64_t rows)
{
    for (; rows > 0 && c->rows > 0; rows--, c->rows--, c->from += c->stride, c->to += TILE_COLUMNS)
        for (int i = 0; i < TILE_COLUMNS; i += LANES)
            *(loose_vector *)(c->to + i) = load_vector(c->from + i);
}
#endif
