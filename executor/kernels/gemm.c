/* Matrix product with any strides: BLAS where its strides suffice and the build has it, else a packed product after
 * Goto & van de Geijn 2008: blocks of a and panels of b are copied into the order in which a register tile of c reads
 * them. */
#include "base/num.h"
#include "executor/kernels/gemm_pack.h"
#include <limits.h>
#ifdef HAVE_OPENBLAS
#include <cblas.h>
#endif

/* Blocks live on the stack: kernels do not allocate. A block of a and a panel of b stay in the second-level cache. */
enum { BLOCK_K = 3072 / (int)sizeof(real), BLOCK_ROWS = 264, ROW_STEP = TILE_ROWS / 3 };

/* Writes a finished tile to c. */
static inline void store_tile(const struct gemm *g, const vector (*sum)[2], real *c, int64_t rows, int64_t columns)
{
    if (columns == TILE_COLUMNS && g->c_n == 1) {
        for (int64_t r = 0; r < rows; r++)
            for (int j = 0; j < 2; j++) {
                real *to = c + r * g->c_m + j * LANES;
                vector out = g->alpha * sum[r][j];
                if (g->accumulate)
                    out += load_vector(to);
                *(loose_vector *)to = out;
            }
        return;
    }
    for (int64_t r = 0; r < rows; r++) {
        real line[TILE_COLUMNS];
        memcpy(line, sum[r], sizeof line);
        for (int64_t j = 0; j < columns; j++) {
            real *to = c + r * g->c_m + j * g->c_n;
            *to = g->alpha * line[j] + (g->accumulate ? *to : 0);
        }
    }
}

/* `height` is a constant where this is inlined: all sums then live in registers. */
static inline __attribute__((always_inline)) void tile_product(const int height, const struct gemm *g, const real *a,
                                                               const vector *b, int64_t k, real *c, int64_t rows,
                                                               int64_t columns, const struct touches *touches)
{
    vector sum[TILE_ROWS][2] = { { { 0 } } };
    for (int64_t r = 0; r < rows; r++) {
        __builtin_prefetch(c + r * g->c_m, 1);
        __builtin_prefetch(c + r * g->c_m + LANES * g->c_n, 1);
    }
    for (int64_t stop = 0; stop * CACHE_LINE < k; stop++) {
        touch(touches, stop);
        for (int64_t i = min_i64(CACHE_LINE, k - stop * CACHE_LINE); i > 0; i--) {
#pragma GCC unroll 12
            for (int r = 0; r < height; r++) {
                sum[r][0] += b[0] * a[r];
                sum[r][1] += b[1] * a[r];
            }
            a += TILE_ROWS;
            b += 2;
        }
    }
    store_tile(g, (const vector(*)[2])sum, c, rows, columns);
}

/* Kept out of the loops around it: values that they hoist would take the registers of the sums. */
static __attribute__((noinline)) void any_tile_product(const struct gemm *g, const real *a, const vector *b, int64_t k,
                                                       real *c, int64_t rows, int64_t columns,
                                                       const struct touches *touches)
{
    if (rows > 2 * ROW_STEP)
        tile_product(TILE_ROWS, g, a, b, k, c, rows, columns, touches);
    else if (rows > ROW_STEP)
        tile_product(2 * ROW_STEP, g, a, b, k, c, rows, columns, touches);
    else
        tile_product(ROW_STEP, g, a, b, k, c, rows, columns, touches);
}

/* c's rows [row, row + rows) += block of a times b's k range. */
static void block_product(const struct gemm *g, const real *a, real *panel, int64_t row, int64_t rows, int64_t k_low,
                          int64_t k)
{
    for (int64_t column = 0; column < g->n; column += TILE_COLUMNS) {
        int64_t columns = min_i64(TILE_COLUMNS, g->n - column), next = min_i64(TILE_COLUMNS, g->n - column - columns);
        struct lines lines = { g->b + column * g->b_n + k_low * g->b_k, columns, g->b_n, k, g->b_k };
        struct lines ahead = { lines.data + columns * g->b_n, next, g->b_n, k, g->b_k };
        pack_lines(panel, &lines, TILE_COLUMNS);
        for (int64_t i = 0; i < rows; i += TILE_ROWS) {
            struct touches touches = touches_of(&ahead, i / TILE_ROWS, ceil_div(rows, TILE_ROWS));
            any_tile_product(g, a + i * k, (const vector *)(void *)panel, k,
                             g->c + (row + i) * g->c_m + column * g->c_n, min_i64(TILE_ROWS, rows - i), columns,
                             &touches);
        }
    }
}

static int64_t even_part(int64_t whole, int64_t limit)
{
    return ceil_div(whole, ceil_div(whole, limit));
}

static void packed_product(const struct gemm *gemm)
{
    _Alignas(64) real a[BLOCK_ROWS * BLOCK_K];
    _Alignas(64) real panel[TILE_COLUMNS * BLOCK_K];
    struct gemm g = *gemm;
    if (g.k <= 0) {
        for (int64_t i = 0; !g.accumulate && i < g.m; i++)
            for (int64_t j = 0; j < g.n; j++)
                g.c[i * g.c_m + j * g.c_n] = 0;
        return;
    }
    int64_t row_part = round_up(even_part(g.m, BLOCK_ROWS), ROW_STEP), k_part = even_part(g.k, BLOCK_K);
    for (int64_t k_low = 0; k_low < g.k; k_low += k_part) {
        int64_t k = min_i64(k_part, g.k - k_low);
        g.accumulate = gemm->accumulate || k_low > 0;
        for (int64_t row = 0; row < g.m; row += row_part) {
            int64_t rows = min_i64(row_part, g.m - row);
            struct lines lines = { g.a + row * g.a_m + k_low * g.a_k, rows, g.a_m, k, g.a_k };
            pack_lines(a, &lines, TILE_ROWS);
            block_product(&g, a, panel, row, rows, k_low, k);
        }
    }
}

#ifdef HAVE_OPENBLAS
static bool lead(int64_t lines, int64_t line_stride, int64_t width, int64_t width_stride, int *out)
{
    int64_t stride;
    if (!matrix_lead(lines, line_stride, width, width_stride, &stride) || stride > INT_MAX)
        return false;
    *out = (int)stride;
    return true;
}

static bool blas_product(const struct gemm *g)
{
    int lda, ldb, ldc;
    if (g->m > INT_MAX || g->n > INT_MAX || g->k > INT_MAX || !lead(g->m, g->c_m, g->n, g->c_n, &ldc))
        return false;
    bool a_plain = lead(g->m, g->a_m, g->k, g->a_k, &lda);
    if (!a_plain && !lead(g->k, g->a_k, g->m, g->a_m, &lda))
        return false;
    bool b_plain = lead(g->k, g->b_k, g->n, g->b_n, &ldb);
    if (!b_plain && !lead(g->n, g->b_n, g->k, g->b_k, &ldb))
        return false;
#ifdef CLEAVE_REAL_DOUBLE
    cblas_dgemm
#else
    cblas_sgemm
#endif
        (CblasRowMajor, a_plain ? CblasNoTrans : CblasTrans, b_plain ? CblasNoTrans : CblasTrans, (int)g->m, (int)g->n,
         (int)g->k, g->alpha, g->a, lda, g->b, ldb, g->accumulate ? 1 : 0, g->c, ldc);
    return true;
}
#endif

#ifdef HAVE_OPENBLAS
/* A large b that one block of a meets: OpenBLAS copies b whole before it begins, which few rows do not repay; here its
 * panels come and go. (Its kernels for smaller registers were not compared.) */
static bool packing_pays(const struct gemm *g)
{
    enum { LARGE_BYTES = 1 << 20 };
    return VECTOR_BYTES == 64 && g->m <= BLOCK_ROWS && g->k > 0 && g->n >= LARGE_BYTES / (int)sizeof(real) / g->k;
}
#endif

void gemm_run(const struct gemm *gemm)
{
    struct gemm g = *gemm;
    if (g.m <= 0 || g.n <= 0)
        return;
    if (g.c_n != 1 && g.n > 1) /* c by columns: the transposed product has it by rows */
        g = (struct gemm){
            g.n, g.m, g.k, g.b, g.b_n, g.b_k, g.a, g.a_k, g.a_m, g.c, g.c_n, g.c_m, g.alpha, g.accumulate
        };
#ifdef HAVE_OPENBLAS
    if (g.k > 0 && !packing_pays(&g) && blas_product(&g))
        return;
#endif
    packed_product(&g);
}
