/* Copies of matrix blocks in the order in which gemm.c's register tile reads them, and the vector type of that tile. */
#ifndef CLEAVE_EXECUTOR_KERNELS_GEMM_PACK_H
#define CLEAVE_EXECUTOR_KERNELS_GEMM_PACK_H
#include "base/num.h"
#include "executor/kernels/primitives.h"
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

/* Calls the share [low, high) of `whole` of the lines into the second-level cache. */
static inline void prefetch_lines(const struct lines *lines, int64_t low, int64_t high, int64_t whole)
{
    if (lines->stride == 1) {
        for (int64_t i = low * lines->k / whole; i < high * lines->k / whole; i++)
            for (int64_t j = 0; j < lines->count; j += CACHE_LINE)
                __builtin_prefetch(lines->data + i * lines->k_stride + j, 0, 2);
    } else {
        for (int64_t line = low * lines->count / whole; line < high * lines->count / whole; line++)
            for (int64_t i = 0; i < lines->k; i += CACHE_LINE)
                __builtin_prefetch(lines->data + line * lines->stride + i * lines->k_stride, 0, 2);
    }
}
#endif
