/* lines (count, k), any strides, become panels (count / tile, k, tile), rounded up; missing lines are 0. */
#include "executor/kernels/gemm_pack.h"

#if defined(__has_builtin)
#if __has_builtin(__builtin_shufflevector)
#define HAVE_SHUFFLE
#endif
#endif

#ifdef HAVE_SHUFFLE
#if defined(__AVX512F__) && !defined(CLEAVE_REAL_DOUBLE)
#define LOW 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23
#define HIGH 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31
#elif defined(__AVX512F__) || (defined(__AVX__) && !defined(CLEAVE_REAL_DOUBLE))
#define LOW 0, 8, 1, 9, 2, 10, 3, 11
#define HIGH 4, 12, 5, 13, 6, 14, 7, 15
#elif defined(__AVX__) || !defined(CLEAVE_REAL_DOUBLE)
#define LOW 0, 4, 1, 5
#define HIGH 2, 6, 3, 7
#else
#define LOW 0, 2
#define HIGH 1, 3
#endif

/* A square of LANES x LANES in registers: log2(LANES) perfect shuffles of all its elements make the transpose. */
static inline void transpose(vector square[LANES])
{
#pragma GCC unroll 4
    for (int stage = 1; stage < LANES; stage *= 2) {
        vector next[LANES];
#pragma GCC unroll 8
        for (int i = 0; i < LANES / 2; i++) {
            next[2 * i] = __builtin_shufflevector(square[i], square[i + LANES / 2], LOW);
            next[2 * i + 1] = __builtin_shufflevector(square[i], square[i + LANES / 2], HIGH);
        }
#pragma GCC unroll 16
        for (int i = 0; i < LANES; i++)
            square[i] = next[i];
    }
}

/* LANES steps of k of up to LANES lines, each contiguous along k; `width` of them are written per step. */
static inline __attribute__((always_inline)) void pack_square(real *out, const real *from, int64_t stride, int64_t have,
                                                              int64_t tile, const int width)
{
    vector square[LANES];
    if (have >= width) {
#pragma GCC unroll 16
        for (int i = 0; i < LANES; i++)
            square[i] = i < width ? load_vector(from + i * stride) : (vector){ 0 };
    } else {
        for (int i = 0; i < LANES; i++)
            square[i] = i < have ? load_vector(from + i * stride) : (vector){ 0 };
    }
    transpose(square);
#pragma GCC unroll 16
    for (int i = 0; i < LANES; i++)
        memcpy(out + i * tile, &square[i], (size_t)width * sizeof(real));
}
#endif

/* The plain way: any strides. */
static void pack_slowly(real *restrict out, const struct lines *lines, int64_t line, int64_t have, int64_t low,
                        int64_t high, int64_t tile)
{
    for (int64_t i = low; i < high; i++) {
        const real *from = lines->data + line * lines->stride + i * lines->k_stride;
        for (int64_t j = 0; j < have; j++)
            out[i * tile + j] = from[j * lines->stride];
        for (int64_t j = have; j < tile; j++)
            out[i * tile + j] = 0;
    }
}

/* Lines side by side in memory already: `tiles` tiles of `tile` elements in a row, rows far from each other. What comes
 * after narrow tiles is called in, which the processor does not do by itself. */
static inline __attribute__((always_inline)) void pack_rows(real *restrict out, const struct lines *lines, int64_t line,
                                                            const int tile, const int tiles)
{
    const real *from = lines->data + line;
    const int64_t k = lines->k, k_stride = lines->k_stride;
    for (int64_t i = 0; i < k; i++, from += k_stride) {
        for (int j = 0; tile == TILE_ROWS && j < tile * tiles; j += CACHE_LINE)
            __builtin_prefetch((const void *)((uintptr_t)from + (size_t)(tile * tiles + j) * sizeof(real)), 0, 2);
#pragma GCC unroll 4
        for (int t = 0; t < tiles; t++)
            memcpy(out + (t * k + i) * tile, from + t * tile, (size_t)tile * sizeof(real));
    }
}

/* Lines contiguous along k: squares are transposed; what is left of k goes the plain way. Returns the steps done. */
static int64_t pack_squares(real *out, const struct lines *lines, int64_t line, int64_t have, int tile)
{
    int64_t done = 0;
#ifdef HAVE_SHUFFLE
    enum { REST = TILE_ROWS % LANES ? TILE_ROWS % LANES : LANES };
    for (; done + LANES <= lines->k; done += LANES)
        for (int group = 0; group < tile; group += LANES) {
            const real *from = lines->data + (line + group) * lines->stride + done;
            if (tile - group >= LANES)
                pack_square(out + done * tile + group, from, lines->stride, have - group, tile, LANES);
            else
                pack_square(out + done * tile + group, from, lines->stride, have - group, tile, REST);
        }
#else
    (void)out, (void)lines, (void)line, (void)have, (void)tile;
#endif
    return done;
}

/* Four narrow tiles are whole cache lines of each row. Returns the lines done. */
static int64_t pack_rows_together(real *out, const struct lines *lines, int tile)
{
    enum { TOGETHER = 4 };
    int64_t line = 0;
    if (lines->stride == 1 && tile == TILE_ROWS)
        for (; line + TOGETHER * TILE_ROWS <= lines->count; line += TOGETHER * TILE_ROWS)
            pack_rows(out + line * lines->k, lines, line, TILE_ROWS, TOGETHER);
    return line;
}

void pack_lines(real *out, const struct lines *lines, int tile)
{
    for (int64_t line = pack_rows_together(out, lines, tile); line < lines->count; line += tile) {
        int64_t have = min_i64(tile, lines->count - line), done = 0;
        real *to = out + line * lines->k;
        if (lines->stride == 1 && have == tile) {
            if (tile == TILE_ROWS)
                pack_rows(to, lines, line, TILE_ROWS, 1);
            else
                pack_rows(to, lines, line, TILE_COLUMNS, 1);
            done = lines->k;
        } else if (lines->k_stride == 1) {
            done = pack_squares(to, lines, line, have, tile);
        }
        pack_slowly(to, lines, line, have, done, lines->k, tile);
    }
}
