/* Initial weights: a counter-based generator, so that an element's value depends on nothing but seed, name and place.
 * Only IEEE basic operations and square roots are used and the file is compiled without contraction: all builds give
 * the same bits. */
#include "base/num.h"
#include "executor/kernel.h"
#include "planner/program/geometry.h"
#include <math.h>
#include <string.h>

/* LANES: pairs that are made at a time, in loops without calls and branches that the compiler does several of at once.
 */
enum { LANES = 64 };

/* u in (0, 1] as 2^exponent m, m from sqrt(1/2) to sqrt(2). */
static double near_one(double u, double *exponent)
{
    uint64_t bits;
    memcpy(&bits, &u, sizeof bits);
    *exponent = (double)((int)(bits >> 52) - 1022);
    bits = (bits & 0xfffffffffffff) | UINT64_C(1022) << 52;
    double m;
    memcpy(&m, &bits, sizeof m);
    if (m < 0.70710678118654752) {
        m *= 2;
        *exponent -= 1;
    }
    return m;
}

/* sqrt(-2 log(2^exponent m)): log m = 2 atanh((m - 1) / (m + 1)) by its series. */
static void radii(double radius[LANES], const double m[LANES], const double exponent[LANES], int count)
{
#pragma omp simd
    for (int i = 0; i < count; i++) {
        double s = (m[i] - 1) / (m[i] + 1), square = s * s, sum = 0;
        for (int k = 21; k >= 1; k -= 2) /* s < 0.172: the terms left out are below 1e-18 */
            sum = sum * square + 1.0 / k;
        radius[i] = sqrt(-2 * (2 * s * sum + exponent[i] * 0.69314718055994530942));
    }
}

/* Sines and cosines of angles x, |x| <= pi/4, by Taylor series. */
static void turns(double sine[LANES], double cosine[LANES], const double x[LANES], int count)
{
#pragma omp simd
    for (int i = 0; i < count; i++) {
        double square = x[i] * x[i], s = 0, c = 0;
        for (int k = 17; k >= 1; k -= 2)
            s = 1 - s * square / ((k + 1) * (k + 2));
        for (int k = 16; k >= 0; k -= 2)
            c = 1 - c * square / ((k + 1) * (k + 2));
        sine[i] = s * x[i];
        cosine[i] = c;
    }
}

/* Box & Muller 1958: elements 2k and 2k + 1 share a radius. Angles are eighths of a turn beside a quarter, the rest is
 * symmetry. */
static void normal_pairs(double out[2 * LANES], uint64_t key, uint64_t first, int count)
{
    double m[LANES], exponent[LANES], x[LANES], radius[LANES], sine[LANES], cosine[LANES];
    int quarter[LANES];
    for (int i = 0; i < count; i++) {
        uint64_t pair = first + (uint64_t)i, a = mix64(key ^ mix64(2 * pair + 1)), b = mix64(key ^ mix64(2 * pair + 2));
        double turn = (double)(b >> 11) * 0x1p-53;
        m[i] = near_one(((double)(a >> 11) + 1) * 0x1p-53, &exponent[i]);
        quarter[i] = (int)(turn * 4 + 0.5);
        x[i] = (turn - quarter[i] * 0.25) * 6.28318530717958647693;
    }
    radii(radius, m, exponent, count);
    turns(sine, cosine, x, count);
    for (int i = 0; i < count; i++) {
        bool odd = quarter[i] & 1;
        double along = odd ? sine[i] : cosine[i], across = odd ? cosine[i] : sine[i];
        out[2 * i] = radius[i] * ((quarter[i] + 1) & 2 ? -along : along);
        out[2 * i + 1] = radius[i] * (quarter[i] & 2 ? -across : across);
    }
}

int64_t kernel_global_element(const struct weight *weight, const struct block *block, int64_t element, int64_t *row)
{
    int64_t global = 0, stride = 1;
    *row = 0;
    for (int dim = weight->dim_count - 1; dim >= 0; dim--) {
        int64_t at = block->low[dim] + element % block->count[dim];
        element /= block->count[dim];
        global += at * stride;
        stride *= weight->size[dim];
        *row = at;
    }
    return global;
}

uint64_t kernel_rounding_key(uint64_t seed, const struct weight *weight, int64_t step)
{
    return mix64(hash_i64(hash_i64(hash_string(HASH_START, weight->name), (int64_t)seed), step));
}

static void fill_normal(real *out, const struct weight *weight, uint64_t key, int64_t global, int64_t count)
{
    double values[2 * LANES];
    for (int64_t i = 0; i < count;) {
        int64_t from = (global + i) % 2, end = min_i64(2 * LANES, from + count - i);
        normal_pairs(values, key, (uint64_t)(global + i) / 2, (int)ceil_div(end, 2));
        for (int64_t j = from; j < end; j++, i++)
            out[i] = (real)(weight->init_std * values[j]);
    }
}

/* Evenly over +- sqrt(3) deviations. */
static void fill_evenly(real *out, const struct weight *weight, uint64_t key, int64_t global, int64_t count)
{
    const double step = weight->init_std * 1.7320508075688772 * 0x1p-31;
    for (int64_t i = 0; i < count; i++)
        out[i] = (real)(step * (double)(int32_t)(mix64(key + (uint64_t)(global + i)) >> 32));
}

typedef void normals(real *out, const struct weight *weight, uint64_t key, int64_t global, int64_t count);

static void fill(real *out, const struct weight *weight, uint64_t key, int64_t global, int64_t count, normals *make)
{
    switch (weight->init) {
    case INIT_ZERO:
    case INIT_ONE:
        for (int64_t i = 0; i < count; i++)
            out[i] = weight->init == INIT_ONE;
        return;
    case INIT_NORMAL:
        make(out, weight, key, global, count);
        return;
    }
}

/* Padding lies at the end of dim 0, so the row-major place of a real element does not depend on it. */
static void initialise(real *out, const struct weight *weight, const struct block *block, int64_t first_element,
                       int64_t element_count, uint64_t seed, normals *make)
{
    const uint64_t key = mix64(hash_string(HASH_START, weight->name) ^ mix64(seed));
    const int64_t inside = block_elements(block), line = weight->dim_count ? block->count[weight->dim_count - 1] : 1;
    for (int64_t i = 0; i < element_count;) {
        int64_t element = first_element + i,
                run = min_i64(line - (element < inside ? element % line : 0), element_count - i), row;
        if (element >= inside) { /* the padding of a flat piece */
            out[i++] = 0;
            continue;
        }
        int64_t global = kernel_global_element(weight, block, element, &row);
        if (weight->dim_count == 1) /* the only dim is the rows */
            run = min_i64(run, max_i64(weight->valid_rows - row, 0) ? weight->valid_rows - row : run);
        if (row < weight->valid_rows)
            fill(out + i, weight, key, global, run, make);
        for (int64_t j = 0; row >= weight->valid_rows && j < run; j++)
            out[i + j] = 0;
        i += run;
    }
}

void kernel_initialise(real *out, const struct weight *weight, const struct block *block, int64_t first_element,
                       int64_t element_count, uint64_t seed)
{
    initialise(out, weight, block, first_element, element_count, seed, fill_normal);
}

void kernel_initialise_roughly(real *out, const struct weight *weight, const struct block *block, int64_t first_element,
                               int64_t element_count, uint64_t seed)
{
    initialise(out, weight, block, first_element, element_count, seed, fill_evenly);
}
