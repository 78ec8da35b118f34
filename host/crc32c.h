/* CRC-32C (Castagnoli), as iSCSI and many file formats have it: it finds any burst of up to 32 bits. */
#ifndef CLEAVE_HOST_CRC32C_H
#define CLEAVE_HOST_CRC32C_H
#include <stddef.h>
#include <stdint.h>

/* Start from 0 and chain. By the processor's own instruction where it has one. */
uint32_t crc32c(uint32_t crc, const void *bytes, size_t count);
/* The same by a table alone, for comparison. */
uint32_t crc32c_by_table(uint32_t crc, const void *bytes, size_t count);
#endif
