#include "host/crc32c.h"
#include <string.h>

/* Remainders of the sixteen values of half a byte; the polynomial, its bits in reverse, is 82f63b78. */
static const uint32_t halves[16] = { 0x00000000, 0x105ec76f, 0x20bd8ede, 0x30e349b1, 0x417b1dbc, 0x5125dad3,
                                     0x61c69362, 0x7198540d, 0x82f63b78, 0x92a8fc17, 0xa24bb5a6, 0xb21572c9,
                                     0xc38d26c4, 0xd3d3e1ab, 0xe330a81a, 0xf36e6f75 };

uint32_t crc32c_by_table(uint32_t crc, const void *bytes, size_t count)
{
    const unsigned char *at = bytes;
    crc = ~crc;
    for (size_t i = 0; i < count; i++) {
        crc ^= at[i];
        crc = crc >> 4 ^ halves[crc & 15];
        crc = crc >> 4 ^ halves[crc & 15];
    }
    return ~crc;
}

#if defined(__x86_64__)
__attribute__((target("sse4.2"))) static uint32_t by_instruction(uint32_t crc, const unsigned char *at, size_t count)
{
    uint64_t wide = ~crc, word;
    for (; count >= sizeof word; at += sizeof word, count -= sizeof word) {
        memcpy(&word, at, sizeof word);
        wide = __builtin_ia32_crc32di(wide, word);
    }
    crc = (uint32_t)wide;
    for (; count > 0; count--)
        crc = __builtin_ia32_crc32qi(crc, *at++);
    return ~crc;
}

uint32_t crc32c(uint32_t crc, const void *bytes, size_t count)
{
    return __builtin_cpu_supports("sse4.2") ? by_instruction(crc, bytes, count) : crc32c_by_table(crc, bytes, count);
}
#else
uint32_t crc32c(uint32_t crc, const void *bytes, size_t count)
{
    return crc32c_by_table(crc, bytes, count);
}
#endif
