/* Checked integer arithmetic, hashing, small number theory. */
#ifndef CLEAVE_BASE_NUM_H
#define CLEAVE_BASE_NUM_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* False on overflow of int64; *out is then unchanged. */
static inline bool mul_i64(int64_t *out, int64_t a, int64_t b)
{
    int64_t product;
    if (__builtin_mul_overflow(a, b, &product))
        return false;
    *out = product;
    return true;
}
static inline bool add_i64(int64_t *out, int64_t a, int64_t b)
{
    int64_t sum;
    if (__builtin_add_overflow(a, b, &sum))
        return false;
    *out = sum;
    return true;
}

/* a b / c towards zero, of a product of up to 127 bits, c > 0; no more than `most` and no less than -most. */
static inline int64_t mul_div_i64(int64_t a, int64_t b, int64_t c, int64_t most)
{
    __extension__ __int128 quotient = (__int128)a * b / c;
    return quotient > most ? most : quotient < -most ? -most : (int64_t)quotient;
}

/* a >= 0, b > 0. round_up gives INT64_MAX where the next multiple does not fit. */
static inline int64_t ceil_div(int64_t a, int64_t b)
{
    return a / b + (a % b != 0);
}
int64_t round_up(int64_t a, int64_t multiple);
static inline int64_t min_i64(int64_t a, int64_t b)
{
    return a < b ? a : b;
}
static inline int64_t max_i64(int64_t a, int64_t b)
{
    return a > b ? a : b;
}
static inline int min_int(int a, int b)
{
    return a < b ? a : b;
}
static inline int max_int(int a, int b)
{
    return a > b ? a : b;
}
/* 0 <= index < count. */
static inline bool is_index(int64_t index, int64_t count)
{
    return index >= 0 && index < count;
}
/* Sets `first` to the least `at` below count of which `before` is false, or to count; before it all are true. */
#define BISECT(first, count, at, before)                                                                               \
    do {                                                                                                               \
        (first) = 0;                                                                                                   \
        for (int at##_end = (count); (first) < at##_end;) {                                                            \
            int at = (first) + (at##_end - (first)) / 2;                                                               \
            if (before)                                                                                                \
                (first) = at + 1;                                                                                      \
            else                                                                                                       \
                at##_end = at;                                                                                         \
        }                                                                                                              \
    } while (0)
/* Whether the numbers of each pair are equal: what one thing says and what another does. */
bool pairs_equal(const int64_t (*pairs)[2], size_t count);
/* Bits that are set: what a compiler's own does by a call where the processor need not have an instruction for it. */
static inline int count_bits(uint32_t bits)
{
    bits -= bits >> 1 & 0x55555555;
    bits = (bits & 0x33333333) + (bits >> 2 & 0x33333333);
    return (int)((((bits + (bits >> 4)) & 0x0f0f0f0f) * 0x01010101) >> 24);
}
/* For qsort(), ascending. */
int compare_i64(const void *a, const void *b);
int compare_doubles(const void *a, const void *b);
/* The middle one, of an even number the mean of the two; count > 0. Sorts them. */
double median_of(double *values, int count);
/* The greatest one; of 0 and b it is b. */
static inline int64_t common_divisor(int64_t a, int64_t b)
{
    while (b) {
        int64_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

/* FNV-1a, 64 bits; start from HASH_START and chain. */
#define HASH_START UINT64_C(14695981039346656037)
uint64_t hash_bytes(uint64_t hash, const void *bytes, size_t count);
uint64_t hash_string(uint64_t hash, const char *text); /* includes the terminating zero, so that "ab","c" != "a","bc" */
uint64_t hash_i64(uint64_t hash, int64_t value);
/* Word by word, for tables: eight times as fast, another hash than that of the bytes, the same on every machine. */
uint64_t hash_words(uint64_t hash, const int64_t *words, size_t count);
/* A bijective mixer (splitmix64's finaliser): the counter-based generator of tests and initial weights. */
uint64_t mix64(uint64_t x);
#endif
