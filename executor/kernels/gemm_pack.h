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
 * missing are 0. tile is TILE_ROWS or TILE_COLUMNS. */
#define pack_lines ISA(pack_lines)
void pack_lines(real *out, const struct lines *lines, int tile);

/* Cache lines that a tile's product calls into the second-level cache on its way: every CACHE_LINE steps of k `rows`
 * rows of `width` elements. All at once they would keep the tile's own loads waiting. */
struct touches {
    uintptr_t at; /* runs past the lines' end, so it is no pointer */
    int64_t rows, width, row_bytes, step_bytes;
};
/* The share that the tile-th of tile_count tiles, each of lines->k steps, takes of the lines. */
static inline struct touches touches_of(const struct lines *lines, int64_t tile, int64_t tile_count)
{
    struct touches t = { .at = (uintptr_t)lines->data, .rows = lines->count, .width = 1 };
    int64_t bytes = (int64_t)sizeof(real), stops = ceil_div(lines->k, CACHE_LINE);
    if (lines->stride == 1) {
        t.rows = ceil_div(lines->k, tile_count * stops);
        t.width = lines->count;
        t.row_bytes = lines->k_stride * bytes;
        t.step_bytes = t.rows * t.row_bytes;
        t.at += (uintptr_t)(tile * stops * t.step_bytes);
        if (tile * stops * t.rows >= lines->k)
            t.rows = 0;
    } else {
        int64_t share = ceil_div(lines->count, tile_count), first = tile * share;
        t.rows = max_i64(0, min_i64(share, lines->count - first));
        t.row_bytes = lines->stride * bytes;
        t.step_bytes = CACHE_LINE * bytes;
        t.at += (uintptr_t)(first * t.row_bytes);
    }
    return t;
}

static inline __attribute__((always_inline)) void touch(const struct touches *t, int64_t stop)
{
    for (int64_t row = 0; row < t->rows; row++)
        for (int64_t i = 0; i < t->width; i += CACHE_LINE)
            __builtin_prefetch((const void *)(t->at + (uintptr_t)(stop * t->step_bytes + row * t->row_bytes +
                                                                  i * (int64_t)sizeof(real))),
                               0, 2);
}
#endif
