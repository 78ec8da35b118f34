/* c (m,n) = alpha a (m,k) b (k,n), + c or + row (n). Packed, a is (m / TILE_ROWS, k, TILE_ROWS) and b (n /
 * TILE_COLUMNS, k, TILE_COLUMNS).
 *
 * Matrix product with any strides: BLAS where its strides suffice and the build has it, else a packed product after
 * Goto & van de Geijn 2008: blocks of a and panels of b are copied into the order in which a register tile of c reads
 * them. */
#include "base/num.h"
#include "executor/kernels/gemm_pack.h"
#include "host/blas.h"
#include <limits.h>

/* Blocks live on the stack: kernels do not allocate. A block of a and a panel of b stay in the second-level cache. */
enum {
    BLOCK_K = 3072 / (int)sizeof(real),
    BLOCK_ROWS = 264,
    ROW_STEP = TILE_ROWS / 3,
    LARGE_BYTES = 1 << 20,
    SMALL_COUNT = 1 << 14
};

/* Writes a finished tile to c. row: of the tile's columns, or NULL. */
static inline void store_tile(const struct gemm *g, const vector (*sum)[2], real *c, const real *row, int64_t rows,
                              int64_t columns)
{
    if (columns == TILE_COLUMNS && g->c_n == 1) {
        for (int64_t r = 0; r < rows; r++)
            for (int j = 0; j < 2; j++) {
                real *to = c + r * g->c_m + j * LANES;
                vector out = g->alpha * sum[r][j];
                if (g->accumulate)
                    out += load_vector(to);
                else if (row)
                    out += load_vector(row + j * LANES);
                *(loose_vector *)to = out;
            }
        return;
    }
    for (int64_t r = 0; r < rows; r++) {
        real line[TILE_COLUMNS];
        memcpy(line, sum[r], sizeof line);
        for (int64_t j = 0; j < columns; j++) {
            real *to = c + r * g->c_m + j * g->c_n;
            *to = g->alpha * line[j] + (g->accumulate ? *to : row ? row[j] : 0);
        }
    }
}

/* Rows in every CACHE_LINE steps of k. */
struct pace {
    int64_t c, next;
};

/* A tile of c: where it lies, and what its product does on its way. It calls c and what the tile after it needs into
 * the caches, and copies rows of the next panel that lie in memory as they are wanted, by ports that the sums leave
 * idle. */
struct tile {
    real *c;
    const real *row; /* see store_tile */
    int64_t rows, columns;
    struct walk ahead;
    struct copy copy;
    struct pace pace;
};

/* `height` and `copies` are constants where this is inlined: all sums then live in registers. */
static inline __attribute__((always_inline)) void tile_product(const int height, const bool copies,
                                                               const struct gemm *g, const real *a, const vector *b,
                                                               int64_t k, const struct tile *t)
{
    vector sum[TILE_ROWS][2] = { { { 0 } } };
    const int64_t bytes = (int64_t)sizeof(real);
    struct walk c = { (uintptr_t)t->c, t->rows, g->c_m * bytes, t->columns * bytes }, ahead = t->ahead;
    struct copy copy = t->copy;
    for (int64_t left = k; left > 0; left -= CACHE_LINE) {
        walk_on(&c, t->pace.c, 1);
        walk_on(&ahead, t->pace.next, 0);
        if (copies)
            copy_on(&copy, t->pace.next);
        for (int64_t i = min_i64(CACHE_LINE, left); i > 0; i--) {
#pragma GCC unroll 12
            for (int r = 0; r < height; r++) {
                sum[r][0] += b[0] * a[r];
                sum[r][1] += b[1] * a[r];
            }
            a += TILE_ROWS;
            b += 2;
        }
    }
    store_tile(g, (const vector(*)[2])sum, t->c, t->row, t->rows, t->columns);
}

static inline __attribute__((always_inline)) void tile_of_rows(const bool copies, const struct gemm *g, const real *a,
                                                               const vector *b, int64_t k, const struct tile *t)
{
    if (t->rows > 2 * ROW_STEP)
        tile_product(TILE_ROWS, copies, g, a, b, k, t);
    else if (t->rows > ROW_STEP)
        tile_product(2 * ROW_STEP, copies, g, a, b, k, t);
    else
        tile_product(ROW_STEP, copies, g, a, b, k, t);
}

/* Kept out of the loops around them: values that those hoist would take the registers of the sums. */
static __attribute__((noinline)) void any_tile_product(const struct gemm *g, const real *a, const vector *b, int64_t k,
                                                       const struct tile *t)
{
    tile_of_rows(false, g, a, b, k, t);
}

static __attribute__((noinline)) void copying_tile_product(const struct gemm *g, const real *a, const vector *b,
                                                           int64_t k, const struct tile *t)
{
    tile_of_rows(true, g, a, b, k, t);
}

/* The panel of b that begins with a column; none from n on. */
static struct lines panel_of(const struct gemm *g, int64_t column, int64_t k_low, int64_t k)
{
    int64_t columns = max_i64(0, min_i64(TILE_COLUMNS, g->n - column));
    return (struct lines){ g->b + column * g->b_n + k_low * g->b_k, columns, g->b_n, k, g->b_k };
}

/* c's rows [row, row + rows) += block of a times b's k range. While a panel of b is multiplied the next one is copied,
 * a share with each tile, and the share after that is called into the caches: it stays there for so short a time that
 * strides which fall into few of their sets do not drive it out. */
static void block_product(const struct gemm *g, const real *a, real *panel, int64_t row, int64_t rows, int64_t k_low,
                          int64_t k)
{
    int64_t tile_count = ceil_div(rows, TILE_ROWS), share = round_up(ceil_div(k, tile_count), LANES);
    int64_t stops = ceil_div(k, CACHE_LINE);
    const struct pace pace = { ceil_div(TILE_ROWS, stops), ceil_div(g->b_n == 1 ? share : TILE_COLUMNS, stops) };
    real *next_panel = panel + TILE_COLUMNS * k;
    struct lines lines = panel_of(g, 0, k_low, k);
    pack_lines(panel, &lines, TILE_COLUMNS);
    for (int64_t column = 0; column < g->n; column += TILE_COLUMNS) {
        struct lines next = panel_of(g, column + TILE_COLUMNS, k_low, k);
        struct lines after = panel_of(g, column + 2 * TILE_COLUMNS, k_low, k);
        for (int64_t i = 0; i < tile_count; i++) {
            real *to = next_panel + i * share * TILE_COLUMNS;
            struct lines now = lines_part(&next, i * share, share);
            struct lines soon =
                i + 1 < tile_count ? lines_part(&next, (i + 1) * share, share) : lines_part(&after, 0, share);
            struct tile tile = { g->c + (row + i * TILE_ROWS) * g->c_m + column * g->c_n,
                                 g->row ? g->row + column : NULL,
                                 min_i64(TILE_ROWS, rows - i * TILE_ROWS),
                                 min_i64(TILE_COLUMNS, g->n - column),
                                 walk_of(&soon),
                                 copy_of(&now, to),
                                 pace };
            const vector *b = (const vector *)(void *)panel;
            if (tile.copy.rows) {
                copying_tile_product(g, a + i * TILE_ROWS * k, b, k, &tile);
            } else {
                any_tile_product(g, a + i * TILE_ROWS * k, b, k, &tile);
                pack_lines(to, &now, TILE_COLUMNS);
            }
        }
        real *done = panel;
        panel = next_panel;
        next_panel = done;
    }
}

static int64_t even_part(int64_t whole, int64_t limit)
{
    return ceil_div(whole, ceil_div(whole, limit));
}

static void packed_product(const struct gemm *gemm)
{
    _Alignas(64) real a[BLOCK_ROWS * BLOCK_K];
    _Alignas(64) real panels[2 * TILE_COLUMNS * BLOCK_K];
    struct gemm g = *gemm;
    if (g.k <= 0) {
        for (int64_t i = 0; !g.accumulate && i < g.m; i++)
            for (int64_t j = 0; j < g.n; j++)
                g.c[i * g.c_m + j * g.c_n] = 0;
        return;
    }
    int64_t k_part = even_part(g.k, BLOCK_K), most_rows = BLOCK_ROWS * BLOCK_K / k_part / TILE_ROWS * TILE_ROWS;
    int64_t row_part = round_up(even_part(g.m, most_rows), ROW_STEP);
    for (int64_t k_low = 0; k_low < g.k; k_low += k_part) {
        int64_t k = min_i64(k_part, g.k - k_low);
        g.accumulate = gemm->accumulate || k_low > 0;
        for (int64_t row = 0; row < g.m; row += row_part) {
            int64_t rows = min_i64(row_part, g.m - row);
            struct lines lines = { g.a + row * g.a_m + k_low * g.a_k, rows, g.a_m, k, g.a_k };
            pack_lines(a, &lines, TILE_ROWS);
            block_product(&g, a, panels, row, rows, k_low, k);
        }
    }
}

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
    const struct blas *blas = blas_open();
    int lda, ldb, ldc;
    if (!blas || g->m > INT_MAX || g->n > INT_MAX || g->k > INT_MAX || !lead(g->m, g->c_m, g->n, g->c_n, &ldc))
        return false;
    bool a_plain = lead(g->m, g->a_m, g->k, g->a_k, &lda);
    if (!a_plain && !lead(g->k, g->a_k, g->m, g->a_m, &lda))
        return false;
    bool b_plain = lead(g->k, g->b_k, g->n, g->b_n, &ldb);
    if (!b_plain && !lead(g->n, g->b_n, g->k, g->b_k, &ldb))
        return false;
#ifdef CLEAVE_REAL_DOUBLE
    blas->dgemm
#else
    blas->sgemm
#endif
        (BLAS_ROW_MAJOR, a_plain ? BLAS_NO_TRANS : BLAS_TRANS, b_plain ? BLAS_NO_TRANS : BLAS_TRANS, (int)g->m,
         (int)g->n, (int)g->k, g->alpha, g->a, lda, g->b, ldb, g->accumulate ? 1 : 0, g->c, ldc);
    return true;
}

/* A large b that one block of a meets: OpenBLAS copies b whole before it begins, which few rows do not repay; here its
 * panels come and go. */
static bool has_few_rows(const struct gemm *g)
{
    return g->m <= BLOCK_ROWS && g->n >= LARGE_BYTES / (int)sizeof(real) / g->k;
}

/* A large c of few products each, as weights' gradients are: OpenBLAS passes c twice, to zero it and to add to it; here
 * it is written once. Both operands lie as packing wants them, so that packing b anew for each block costs little. */
static bool has_short_sums(const struct gemm *g)
{
    return g->k <= BLOCK_K && g->a_m == 1 && g->b_n == 1 && g->n >= LARGE_BYTES / (int)sizeof(real) / g->m;
}

/* (Kernels for smaller registers were not compared.) */
static bool packing_pays(const struct gemm *g)
{
    return VECTOR_BYTES == 64 && g->k > 0 && (has_few_rows(g) || has_short_sums(g));
}

/* A small b by columns: OpenBLAS takes nearly twice as long for it as for one by rows. */
static bool turning_pays(const struct gemm *g)
{
    enum { SMALL_PRODUCT = 1000000 }; /* up to where OpenBLAS has kernels of their own for small products */
    return VECTOR_BYTES == 64 && g->b_k == 1 && g->b_n != 1 && g->m >= LANES && g->n % LANES == 0 &&
           g->k % LANES == 0 && g->k > 0 && g->k * g->n <= SMALL_COUNT && g->m * g->n * g->k <= SMALL_PRODUCT;
}

static bool turned_product(const struct gemm *g)
{
    _Alignas(64) real b[SMALL_COUNT];
    struct gemm turned = *g;
    const struct lines lines = { g->b, g->n, g->b_n, g->k, g->b_k };
    pack_lines(b, &lines, (int)g->n);
    turned.b = b, turned.b_k = g->n, turned.b_n = 1;
    return blas_product(&turned);
}

/* The row goes in first where the product itself cannot add it. */
static void fill_with_row(struct gemm *g)
{
    for (int64_t i = 0; i < g->m; i++)
        for (int64_t j = 0; j < g->n; j++)
            g->c[i * g->c_m + j * g->c_n] = g->row[j];
    g->row = NULL;
    g->accumulate = true;
}

void gemm_run(const struct gemm *gemm)
{
    struct gemm g = *gemm;
    if (g.m <= 0 || g.n <= 0)
        return;
    if (g.row && (g.c_n != 1 || !packing_pays(&g)))
        fill_with_row(&g);
    if (g.c_n != 1 && g.n > 1) /* c by columns: the transposed product has it by rows */
        g = (struct gemm){ g.n,   g.m, g.k,   g.b,   g.b_n,   g.b_k,        g.a, g.a_k,
                           g.a_m, g.c, g.c_n, g.c_m, g.alpha, g.accumulate, NULL };
    if (turning_pays(&g) && turned_product(&g))
        return;
    if (g.k <= 0 || packing_pays(&g) || !blas_product(&g))
        packed_product(&g);
}
