#include "base/num.h"
#include <stdlib.h>
#include <string.h>

int compare_i64(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

int compare_doubles(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

double median_of(double *values, int count)
{
    qsort(values, (size_t)count, sizeof *values, compare_doubles);
    return (values[(count - 1) / 2] + values[count / 2]) / 2;
}

int64_t round_up(int64_t a, int64_t multiple)
{
    int64_t rounded;
    return mul_i64(&rounded, ceil_div(a, multiple), multiple) ? rounded : INT64_MAX;
}

uint64_t hash_bytes(uint64_t hash, const void *bytes, size_t count)
{
    const unsigned char *byte = bytes;
    for (size_t i = 0; i < count; i++)
        hash = (hash ^ byte[i]) * UINT64_C(1099511628211);
    return hash;
}

uint64_t hash_words(uint64_t hash, const int64_t *words, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        hash = (hash ^ (uint64_t)words[i]) * UINT64_C(1099511628211);
        hash ^= hash >> 32;
    }
    return hash;
}

uint64_t hash_string(uint64_t hash, const char *text)
{
    return hash_bytes(hash, text, strlen(text) + 1);
}

/* Little-endian by hand: the same hash on every machine. */
uint64_t hash_i64(uint64_t hash, int64_t value)
{
    unsigned char bytes[8];
    for (int i = 0; i < 8; i++)
        bytes[i] = (unsigned char)((uint64_t)value >> (8 * i));
    return hash_bytes(hash, bytes, sizeof bytes);
}

bool pairs_equal(const int64_t (*pairs)[2], size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (pairs[i][0] != pairs[i][1])
            return false;
    return true;
}

uint64_t mix64(uint64_t x)
{
    x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
    return x ^ (x >> 31);
}
